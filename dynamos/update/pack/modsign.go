// SPDX-License-Identifier: MIT

package pack

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	_ "crypto/sha256" // the digests of ModuleSigner
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// ModuleMagic ends a signed module.
const ModuleMagic = "~Module signature appended~\n"

// A ModuleSigner signs modules in the format of the kernel's scripts/sign-file: the
// module, a CMS SignedData without attributes and certificates, struct
// module_signature, and ModuleMagic.
type ModuleSigner struct {
	Subject     string // of the certificate
	key         *rsa.PrivateKey
	certificate *x509.Certificate
	hash        crypto.Hash
	hashID      asn1.ObjectIdentifier
}

// moduleHashes are digests that Debian's kernels verify modules with.
var moduleHashes = map[string]struct {
	hash crypto.Hash
	id   asn1.ObjectIdentifier
}{
	"sha256": {crypto.SHA256, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}},
	"sha384": {crypto.SHA384, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}},
	"sha512": {crypto.SHA512, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}},
}

// NewModuleSigner reads a private key (PEM) and its certificate (PEM or DER).
func NewModuleSigner(key, certificate []byte, hash string) (*ModuleSigner, error) {
	h, ok := moduleHashes[hash]
	if !ok {
		return nil, fmt.Errorf("%.40q is not sha256, sha384 or sha512", hash)
	}
	private, err := parseModuleKey(key)
	if err != nil {
		return nil, err
	}
	der := certificate
	for rest := certificate; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			der = block.Bytes
			break
		}
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("it has no certificate: %w", err)
	}
	if public, ok := c.PublicKey.(*rsa.PublicKey); !ok || !public.Equal(private.Public()) {
		return nil, errors.New("the certificate is that of another key")
	}
	return &ModuleSigner{Subject: c.Subject.String(), key: private, certificate: c, hash: h.hash, hashID: h.id}, nil
}

func parseModuleKey(text []byte) (*rsa.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("it has no private key in PEM")
		}
		switch block.Type {
		case "RSA PRIVATE KEY":
			if block.Headers["DEK-Info"] == "" {
				return x509.ParsePKCS1PrivateKey(block.Bytes)
			}
			return nil, errors.New("the key is encrypted: 'openssl pkey' decrypts it")
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the key is encrypted: 'openssl pkey' decrypts it")
		case "PRIVATE KEY":
			k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			if private, ok := k.(*rsa.PrivateKey); ok {
				return private, nil
			}
			return nil, errors.New("the key is not an RSA key")
		}
	}
}

// Types of RFC 5652 (Cryptographic Message Syntax).
type (
	cmsAlgorithm struct {
		ID         asn1.ObjectIdentifier
		Parameters asn1.RawValue `asn1:"optional"`
	}
	cmsSigner struct {
		Version int
		Sid     struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest, Algorithm cmsAlgorithm
		Signature         []byte
	}
	cmsSigned struct {
		Version int
		Digests []cmsAlgorithm `asn1:"set"`
		Content struct{ Type asn1.ObjectIdentifier }
		Signers []cmsSigner `asn1:"set"`
	}
	cmsInfo struct {
		Type    asn1.ObjectIdentifier
		Content cmsSigned `asn1:"explicit,tag:0"`
	}
)

var (
	cmsData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	cmsSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	rsaEncryption = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
)

// message returns the detached signature of data.
func (s *ModuleSigner) message(data []byte) ([]byte, error) {
	h := s.hash.New()
	h.Write(data)
	signature, err := rsa.SignPKCS1v15(nil, s.key, s.hash, h.Sum(nil))
	if err != nil {
		return nil, err
	}
	digest := cmsAlgorithm{ID: s.hashID}
	signer := cmsSigner{Version: 1, Digest: digest, Algorithm: cmsAlgorithm{rsaEncryption, asn1.NullRawValue}, Signature: signature}
	signer.Sid.Issuer, signer.Sid.Serial = asn1.RawValue{FullBytes: s.certificate.RawIssuer}, s.certificate.SerialNumber
	info := cmsInfo{Type: cmsSignedData, Content: cmsSigned{Version: 1, Digests: []cmsAlgorithm{digest}, Signers: []cmsSigner{signer}}}
	info.Content.Content.Type = cmsData
	return asn1.Marshal(info)
}

// Sign returns a module with a signature. A module that has one is refused, because the
// kernel looks only at the last.
func (s *ModuleSigner) Sign(module []byte) ([]byte, error) {
	if bytes.HasSuffix(module, []byte(ModuleMagic)) {
		return nil, errors.New("it is signed already")
	}
	message, err := s.message(module)
	if err != nil {
		return nil, err
	}
	// struct module_signature: algo, hash, id_type, signer_len, key_id_len, three bytes of padding, sig_len.
	const pkcs7 = 2
	trailer := binary.BigEndian.AppendUint32([]byte{0, 0, pkcs7, 0, 0, 0, 0, 0}, uint32(len(message)))
	return bytes.Join([][]byte{module, message, trailer, []byte(ModuleMagic)}, nil), nil
}
