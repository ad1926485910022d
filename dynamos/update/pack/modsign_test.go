// SPDX-License-Identifier: MIT

package pack

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// opensslIn runs openssl in a folder.
func opensslIn(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	c := exec.Command("openssl", args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
	return out
}

// machineOwnerKey makes a key as an administrator makes it for mokutil.
func machineOwnerKey(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir = t.TempDir()
	opensslIn(t, dir, "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "100", "-subj", "/CN=Machine Owner Key/", "-keyout", "key.pem", "-out", "cert.pem")
	opensslIn(t, dir, "x509", "-in", "cert.pem", "-outform", "DER", "-out", "cert.der")
	return dir
}

func contentsOf(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The signature is byte by byte the one that openssl makes with the options of the
// kernel's sign-file, and its trailer is struct module_signature.
func TestModuleSignatureIsThatOfSignFile(t *testing.T) {
	dir := machineOwnerKey(t)
	module := bytes.Repeat([]byte("\x7fELF module "), 1000)
	if err := os.WriteFile(filepath.Join(dir, "x.ko"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	for hash := range moduleHashes {
		opensslIn(t, dir, "cms", "-sign", "-binary", "-noattr", "-nocerts", "-nosmimecap", "-md", hash,
			"-signer", "cert.pem", "-inkey", "key.pem", "-in", "x.ko", "-outform", "DER", "-out", "want")
		s, err := NewModuleSigner(contentsOf(t, dir, "key.pem"), contentsOf(t, dir, "cert.der"), hash)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Sign(module)
		if err != nil {
			t.Fatal(err)
		}
		want := contentsOf(t, dir, "want")
		tail := append(binary.BigEndian.AppendUint32([]byte{0, 0, 2, 0, 0, 0, 0, 0}, uint32(len(want))), "~Module signature appended~\n"...)
		if !bytes.Equal(got, bytes.Join([][]byte{module, want, tail}, nil)) {
			t.Errorf("%s: the signed module is not what sign-file makes", hash)
		}
		if _, err := s.Sign(got); err == nil {
			t.Error("a module was signed twice")
		}
		if err := os.WriteFile(filepath.Join(dir, "got"), got[len(module):len(got)-len(tail)], 0o600); err != nil {
			t.Fatal(err)
		}
		opensslIn(t, dir, "cms", "-verify", "-binary", "-inform", "DER", "-in", "got", "-content", "x.ko", "-certfile", "cert.pem", "-CAfile", "cert.pem", "-purpose", "any", "-out", "/dev/null")
	}
}

func TestModuleKeysThatAreRefused(t *testing.T) {
	dir, other := machineOwnerKey(t), machineOwnerKey(t)
	opensslIn(t, dir, "rsa", "-in", "key.pem", "-aes128", "-passout", "pass:x", "-out", "locked.pem")
	opensslIn(t, dir, "rsa", "-in", "key.pem", "-aes128", "-passout", "pass:x", "-traditional", "-out", "old.pem")
	opensslIn(t, dir, "rsa", "-in", "key.pem", "-traditional", "-out", "plain.pem")
	opensslIn(t, dir, "genpkey", "-algorithm", "ed25519", "-out", "ed.pem")
	key, cert := contentsOf(t, dir, "key.pem"), contentsOf(t, dir, "cert.pem")
	for want, c := range map[string]struct {
		key, cert []byte
		hash      string
	}{
		"the certificate is that of another key": {key, contentsOf(t, other, "cert.pem"), "sha256"},
		"the key is encrypted":                   {contentsOf(t, dir, "locked.pem"), cert, "sha256"},
		"the key is encrypted: 'openssl pkey'":   {contentsOf(t, dir, "old.pem"), cert, "sha256"},
		"is not an RSA key":                      {contentsOf(t, dir, "ed.pem"), cert, "sha256"},
		"no private key in PEM":                  {cert, cert, "sha256"},
		"it has no certificate":                  {key, key, "sha256"},
		"is not sha256, sha384 or sha512":        {key, cert, "md5"},
	} {
		if _, err := NewModuleSigner(c.key, c.cert, c.hash); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for _, name := range []string{"key.pem", "plain.pem"} {
		if s, err := NewModuleSigner(append(contentsOf(t, dir, name), cert...), append(key, cert...), "sha512"); err != nil || s.Subject != "CN=Machine Owner Key" {
			t.Errorf("%s with its certificate in one file: %v", name, err)
		}
	}
}
