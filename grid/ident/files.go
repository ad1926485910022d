// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"skep/internal/atomicfile"
)

// StateDir creates a directory with mode 0700.
func StateDir(dir string) error {
	err := atomicfile.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("the state directory cannot be made: %w: give --state a folder of your own", err)
	}
	return nil
}

// writeFile replaces a file that only its owner may read.
func writeFile(name string, b []byte) error { return atomicfile.Write(name, b, 0o600) }

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
