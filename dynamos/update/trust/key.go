// SPDX-License-Identifier: MIT

package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"skep/internal/atomicfile"
)

const keyType = "ssh-ed25519"

// A Key is a public key of an operator, as in a file that ssh-keygen writes.
type Key struct {
	Public [ed25519.PublicKeySize]byte
	Name   string // the comment in the file: for people, not signed by the key
}

// blob returns the key in the format of SSH.
func (k Key) blob() []byte { return appendStrings(nil, []byte(keyType), k.Public[:]) }

// appendStrings appends strings in the format of SSH, each with its length.
func appendStrings(b []byte, list ...[]byte) []byte {
	for _, s := range list {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// ID returns the key's fingerprint, as ssh-keygen -l prints it.
func (k Key) ID() string {
	sum := sha256.Sum256(k.blob())
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// String returns the line of a public key's file.
func (k Key) String() string {
	return strings.TrimSuffix(keyType+" "+base64.StdEncoding.EncodeToString(k.blob())+" "+k.Name, " ")
}

func validID(s string) bool {
	b, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimPrefix(s, "SHA256:"))
	return err == nil && strings.HasPrefix(s, "SHA256:") && len(b) == sha256.Size
}

// ParseKey reads the line of a public key's file.
func ParseKey(line string) (k Key, err error) {
	kind, rest, _ := strings.Cut(line, " ")
	text, name, _ := strings.Cut(rest, " ")
	if kind != keyType {
		return k, fmt.Errorf("%.40q is not a public key of type %s", line, keyType)
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if len(blob) >= len(k.Public) {
		copy(k.Public[:], blob[len(blob)-len(k.Public):])
	}
	k.Name = name
	if err != nil || !bytes.Equal(blob, k.blob()) || k.String() != line {
		return Key{}, errors.New("it is not a public key of type " + keyType)
	}
	if len(name) > maxWord || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Key{}, fmt.Errorf("the name of a key has at most %d printable characters", maxWord)
	}
	return k, nil
}

// ReadKey reads a public key's file.
func ReadKey(path string) (Key, error) {
	text, err := readBounded(path)
	if err != nil {
		return Key{}, err
	}
	k, err := ParseKey(strings.TrimSuffix(string(text), "\n"))
	if err != nil {
		return k, refusef(Malformed, "%s: %v", path, err)
	}
	return k, nil
}

// CreateKey writes a new private key to path, and its public key to path.pub. It does
// not replace a file. Without a passphrase the key is not encrypted.
func CreateKey(path, name string, passphrase []byte) (Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	k := Key{Public: [ed25519.PublicKeySize]byte(public), Name: name}
	if _, err := ParseKey(k.String()); err != nil {
		return Key{}, err
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if len(passphrase) > 0 {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, name, passphrase)
	}
	if err != nil {
		return Key{}, err
	}
	for _, file := range []string{path, path + ".pub"} {
		if _, err := os.Lstat(file); err == nil {
			return Key{}, refusef(Changed, "%s exists: a key is never replaced", file)
		}
	}
	if err := atomicfile.Write(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return Key{}, err
	}
	return k, atomicfile.Write(path+".pub", []byte(k.String()+"\n"), 0o644)
}

// A Signer is a private key.
type Signer struct {
	Key
	private ed25519.PrivateKey
}

// OpenSigner reads a private key's file, which only its owner may read. ask returns the
// passphrase, and is called only for an encrypted key.
func OpenSigner(path string, ask func() ([]byte, error)) (*Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, refusef(Malformed, "%s has mode %04o: a private key must not be accessible to group or others: chmod 600 it, and if someone may have read it, revoke it", path, info.Mode().Perm())
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) {
		passphrase, e := ask()
		if e != nil {
			return nil, e
		}
		if raw, err = ssh.ParseRawPrivateKeyWithPassphrase(text, passphrase); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err) // another one may be right
		}
	}
	if err != nil {
		return nil, refusef(Malformed, "%s: %v", path, err)
	}
	private, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return nil, refusef(Malformed, "%s is not a key of type %s", path, keyType)
	}
	s := &Signer{private: *private}
	copy(s.Public[:], s.private.Public().(ed25519.PublicKey))
	return s, nil
}

// readBounded reads a file of at most MaxDocument bytes.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > MaxDocument {
		err = refusef(Malformed, "%s has %d bytes, more than %d", path, info.Size(), MaxDocument)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
