// SPDX-License-Identifier: MIT

package pack

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	"skep/internal/atomicfile"
)

// A Package is a manifest and its files.
type Package struct {
	Manifest
	Patch      []byte
	Modules    map[string][]byte // by build-id
	Signatures []byte            // the operators' signed statement; nil: nobody signed it

	text []byte // the bytes of the manifest that was read
}

const (
	manifestName   = "manifest.json"
	patchName      = "source.patch"
	signaturesName = "signatures"
)

// Open reads the package in a file.
func Open(path string) (*Package, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s is not a usable package: %w", path, err)
	}
	return p, nil
}

// Read parses a package. The result has passed Check, and each module has the digest of the manifest.
func Read(r io.Reader) (*Package, error) {
	t := tar.NewReader(r)
	text, err := readMember(t, manifestName, MaxManifest)
	if err != nil {
		return nil, err
	}
	m, err := decode(text)
	if err != nil {
		return nil, err
	}
	p := &Package{Manifest: m, Modules: map[string][]byte{}, text: text}
	if p.Patch, err = readMember(t, patchName, MaxPatch); err != nil {
		return nil, err
	}
	for _, k := range p.Kernels {
		module, err := readMember(t, k.File, MaxModule)
		if err != nil {
			return nil, err
		}
		if digestOf(module) != k.SHA256 {
			return nil, fmt.Errorf("%s does not match the manifest: the file was changed or damaged", k.File)
		}
		p.Modules[k.BuildID] = module
	}
	h, err := t.Next()
	if err == nil && h.Name == signaturesName {
		if p.Signatures, err = readBody(t, h, signaturesName, MaxSignatures); err != nil {
			return nil, err
		}
		h, err = t.Next()
	}
	if err == nil {
		return nil, fmt.Errorf("it also holds %.80q", h.Name)
	}
	if err != io.EOF {
		return nil, fmt.Errorf("it does not end as it should: %w", err)
	}
	return p, nil
}

// readMember reads the next file, which must be this one.
func readMember(t *tar.Reader, name string, limit int64) ([]byte, error) {
	h, err := t.Next()
	if err == io.EOF {
		return nil, fmt.Errorf("it ends before %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a tar file: %w", err)
	}
	return readBody(t, h, name, limit)
}

func readBody(t *tar.Reader, h *tar.Header, name string, limit int64) ([]byte, error) {
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("it holds %.80q where the file %s belongs", h.Name, name)
	}
	if h.Size > limit {
		return nil, fmt.Errorf("its %s has %d bytes, more than %d", name, h.Size, limit)
	}
	// ReadAll grows with what is there, not with what the header claims.
	data, err := io.ReadAll(io.LimitReader(t, limit))
	if err != nil {
		return nil, fmt.Errorf("its %s breaks off: %w", name, err)
	}
	return data, nil
}

// Content returns the digest of what a package contains, without its signatures: the
// SHA-256 of the lines that sha256sum prints for its files, in their order.
func (p *Package) Content() (string, error) {
	text, err := p.manifestText()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	line := func(name string, data []byte) { fmt.Fprintf(&b, "%s  %s\n", digestOf(data), name) }
	line(manifestName, text)
	line(patchName, p.Patch)
	for _, k := range p.Kernels {
		line(k.BuildID+".ko", p.Modules[k.BuildID])
	}
	return digestOf(b.Bytes()), nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Write puts a package together: file names and digests of modules it fills in
// itself. The same package always gives the same bytes.
func Write(w io.Writer, p *Package) error {
	text, err := p.manifestText()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := add(t, manifestName, text, MaxManifest); err != nil {
		return err
	}
	if err := add(t, patchName, p.Patch, MaxPatch); err != nil {
		return err
	}
	for _, k := range p.Kernels {
		if err := add(t, k.BuildID+".ko", p.Modules[k.BuildID], MaxModule); err != nil {
			return err
		}
	}
	if p.Signatures != nil {
		if err := add(t, signaturesName, p.Signatures, MaxSignatures); err != nil {
			return err
		}
	}
	return t.Close()
}

// manifestText returns the bytes of the manifest, with the files' names and digests. The
// bytes of a manifest that was read and not changed stay as they were, because operators
// may have signed them.
func (p *Package) manifestText() ([]byte, error) {
	m := p.Manifest
	m.Revision = Revision
	m.Kernels = append([]Kernel(nil), m.Kernels...)
	for i := range m.Kernels {
		k := &m.Kernels[i]
		module, ok := p.Modules[k.BuildID]
		if !ok {
			return nil, fmt.Errorf("there is no module for kernel %s", k.BuildID)
		}
		k.File, k.SHA256 = k.BuildID+".ko", digestOf(module)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	if p.text != nil {
		if old, err := decode(p.text); err == nil && reflect.DeepEqual(old, m) {
			return p.text, nil
		}
	}
	text, err := json.MarshalIndent(&m, "", "\t")
	return append(text, '\n'), err
}

func add(t *tar.Writer, name string, data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("%s has %d bytes, more than %d", name, len(data), limit)
	}
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// WriteFile writes a package to a file, whole or not at all.
func WriteFile(path string, p *Package) error {
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		return err
	}
	return atomicfile.Write(path, b.Bytes(), 0o644)
}
