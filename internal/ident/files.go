// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// stateDir makes dir for its owner alone.
func stateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the state directory cannot be made: %w", err)
	}
	return os.Chmod(dir, 0o700)
}

// writeFile replaces a file at once: a crash leaves the old or the new one.
func writeFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, err)
	}
	return nil
}

func writePEM(name, kind string, der []byte) error {
	return writeFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func readPEM(name, kind string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s is damaged: restore it from a backup", name)
	}
	return block.Bytes, nil
}

func writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(name, "PRIVATE KEY", der)
}

func readKey(name string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(name, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if k, ok := key.(*ecdsa.PrivateKey); ok && err == nil {
		return k, nil
	}
	return nil, fmt.Errorf("%s holds no P-256 key: restore it from a backup", name)
}
