// SPDX-License-Identifier: MIT

package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
)

// A signature has the format of ssh-keygen -Y sign (PROTOCOL.sshsig of OpenSSH), and
// can be made and verified with that program.
const (
	sigMagic   = "SSHSIG"
	sigVersion = 1
	sigHash    = "sha512"
	sigBegin   = "-----BEGIN SSH SIGNATURE-----\n"
	sigEnd     = "-----END SSH SIGNATURE-----\n"
	sigColumns = 70
)

// A Signature is one of a document.
type Signature struct {
	Public [ed25519.PublicKeySize]byte
	Bytes  [ed25519.SignatureSize]byte
}

// ID returns the identity of the signature's key.
func (s Signature) ID() string { return Key{Public: s.Public}.ID() }

// Signed is a document's text with its signatures, in the order of their keys.
type Signed struct {
	Text       []byte
	Signatures []Signature
}

// Kind returns the first word of the document.
func (s *Signed) Kind() string {
	kind, _, _ := bytes.Cut(s.Text, []byte(" "))
	return string(kind)
}

// covered returns the bytes that a key signs.
func (s *Signed) covered() []byte {
	sum := sha512.Sum512(s.Text)
	return appendStrings([]byte(sigMagic), []byte(s.Kind()), nil, []byte(sigHash), sum[:])
}

// Sign adds a signature, or replaces that of the same key.
func (s *Signed) Sign(with *Signer) {
	sig := Signature{Public: with.Public, Bytes: [ed25519.SignatureSize]byte(ed25519.Sign(with.private, s.covered()))}
	s.put(sig)
}

// put stores a signature in its place.
func (s *Signed) put(sig Signature) {
	s.Signatures = slices.DeleteFunc(s.Signatures, func(o Signature) bool { return o.Public == sig.Public })
	s.Signatures = append(s.Signatures, sig)
	slices.SortFunc(s.Signatures, func(x, y Signature) int { return bytes.Compare(x.Public[:], y.Public[:]) })
}

// valid reports whether a signature is that of its key.
func (s *Signed) valid(sig Signature) bool {
	return ed25519.Verify(sig.Public[:], s.covered(), sig.Bytes[:])
}

// Encode returns the document with its signatures, an empty line between them.
func (s *Signed) Encode() []byte {
	b := append(bytes.Clone(s.Text), '\n')
	for _, sig := range s.Signatures {
		b = append(b, sig.armor(s.Kind())...)
	}
	return b
}

// armor returns a signature as ssh-keygen writes it.
func (sig Signature) armor(namespace string) string {
	blob := binary.BigEndian.AppendUint32([]byte(sigMagic), sigVersion)
	blob = appendStrings(blob, Key{Public: sig.Public}.blob(), []byte(namespace), nil, []byte(sigHash),
		appendStrings(nil, []byte(keyType), sig.Bytes[:]))
	text := base64.StdEncoding.EncodeToString(blob)
	var b strings.Builder
	b.WriteString(sigBegin)
	for len(text) > sigColumns {
		b.WriteString(text[:sigColumns] + "\n")
		text = text[sigColumns:]
	}
	b.WriteString(text + "\n" + sigEnd)
	return b.String()
}

// parseArmor reads a signature. Only the bytes that armor writes are accepted.
func parseArmor(text, namespace string) (sig Signature, ok bool) {
	body := strings.TrimSuffix(strings.TrimPrefix(text, sigBegin), sigEnd)
	blob, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(body, "\n", ""))
	key := len(sigMagic) + 4 + 4 + 4 + len(keyType) + 4
	if err != nil || len(blob) < key+len(sig.Public)+len(sig.Bytes) {
		return sig, false
	}
	copy(sig.Public[:], blob[key:])
	copy(sig.Bytes[:], blob[len(blob)-len(sig.Bytes):])
	return sig, sig.armor(namespace) == text
}

// ParseSigned reads a document with its signatures. It verifies neither them nor the text.
func ParseSigned(b []byte) (*Signed, error) {
	text, rest, found := bytes.Cut(b, []byte("\n\n"))
	if len(b) > MaxDocument || !found {
		return nil, refusef(Malformed, "it is not a signed document: text, an empty line and signatures, at most %d bytes", MaxDocument)
	}
	s := &Signed{Text: append(bytes.Clone(text), '\n')}
	for left := string(rest); left != ""; {
		n := strings.Index(left, sigEnd) + len(sigEnd)
		sig, ok := Signature{}, false
		if n >= len(sigEnd) {
			sig, ok = parseArmor(left[:n], s.Kind())
		}
		if !ok || len(s.Signatures) == maxKeys {
			return nil, refusef(Malformed, "signature %d is not one of ssh-keygen for %.40q by a key of type %s", len(s.Signatures)+1, s.Kind(), keyType)
		}
		if last := len(s.Signatures) - 1; last >= 0 && bytes.Compare(s.Signatures[last].Public[:], sig.Public[:]) >= 0 {
			return nil, refusef(Malformed, "the signatures are not in the order of their keys, or one key signed twice")
		}
		s.Signatures = append(s.Signatures, sig)
		left = left[n:]
	}
	return s, nil
}

// Add adds a signature that ssh-keygen -Y sign wrote, and returns the key's identity.
func (s *Signed) Add(armor []byte) (id string, err error) {
	sig, ok := parseArmor(string(armor), s.Kind())
	if !ok {
		return "", refusef(Malformed, "it is not a signature of ssh-keygen -Y sign -n %s by a key of type %s", s.Kind(), keyType)
	}
	if !s.valid(sig) {
		return "", refusef(Threshold, "the signature of %s is not valid for this text: it signed other bytes", sig.ID())
	}
	s.put(sig)
	return sig.ID(), nil
}
