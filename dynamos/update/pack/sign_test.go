// SPDX-License-Identifier: MIT

package pack

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signedPackage is a package with a member signatures, as it was read.
func signedPackage(t *testing.T, text string) *Package {
	t.Helper()
	p := examplePackage()
	p.Signatures = []byte(text)
	got, err := Read(bytes.NewReader(bytesOf(t, p)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func contentOf(t *testing.T, p *Package) string {
	t.Helper()
	digest, err := p.Content()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// Signatures are last, are read as they are, and are not part of what is signed.
func TestSignaturesAreNotPartOfTheContent(t *testing.T) {
	p := signedPackage(t, "signed by alice\n")
	if string(p.Signatures) != "signed by alice\n" {
		t.Errorf("read %q", p.Signatures)
	}
	if a, b := contentOf(t, p), contentOf(t, examplePackage()); a != b {
		t.Errorf("the content is %s with signatures, %s without", a, b)
	}
	archive := archiveFiles(t, signaturesName, "x")
	whole := bytesOf(t, examplePackage())
	before := append(bytes.Clone(archive[:1024]), whole...)
	after := append(bytes.Clone(bytesOf(t, p)[:len(bytesOf(t, p))-1024]), archive...)
	for name, text := range map[string][]byte{"first": before, "twice": after} {
		if _, err := Read(bytes.NewReader(text)); err == nil {
			t.Errorf("signatures %s: taken", name)
		}
	}
	p.Signatures = make([]byte, MaxSignatures+1)
	if err := Write(&bytes.Buffer{}, p); err == nil {
		t.Error("too long signatures: written")
	}
}

// Any changed byte of any file changes the content.
func TestContentDependsOnEachFile(t *testing.T) {
	want := contentOf(t, examplePackage())
	for name, spoil := range map[string]func(*Package){
		"the patch":    func(p *Package) { p.Patch[0]++ },
		"the module":   func(p *Package) { p.Modules[kernelA] = []byte("\x7fELF and else") },
		"the manifest": func(p *Package) { p.Kernels[0].Release = "6.1.0-51-amd64" },
	} {
		p := examplePackage()
		spoil(p)
		if contentOf(t, p) == want {
			t.Errorf("%s changed, and the content did not", name)
		}
	}
}

// The manifest's own bytes are signed: what another program wrote stays as it is.
func TestManifestThatWasReadKeepsItsBytes(t *testing.T) {
	whole := bytesOf(t, examplePackage())
	at := bytes.Index(whole, []byte("\n\t\"name\""))
	other := bytes.Clone(whole)
	other[at+1] = ' ' // blank in place of a tab: the same values, other bytes
	p, err := Read(bytes.NewReader(other))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, p), other) || contentOf(t, p) == contentOf(t, examplePackage()) {
		t.Error("the manifest was written in another way than it was read")
	}
	p.Patch = []byte("--- b\n")
	p.Name = "other"
	if again, err := Read(bytes.NewReader(bytesOf(t, p))); err != nil || again.Name != "other" {
		t.Errorf("a change after reading was lost: %v", err)
	}
}

// The digest is the one that tar and sha256sum of any Linux give.
func TestContentAsOtherProgramsComputeIt(t *testing.T) {
	dir := t.TempDir()
	p := signedPackage(t, "signed by alice\n")
	if err := os.WriteFile(filepath.Join(dir, "x.skepup"), bytesOf(t, p), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", "tar xf x.skepup && sha256sum manifest.json source.patch *.ko | sha256sum | cut -d' ' -f1")
	c.Dir = dir
	out, err := c.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != contentOf(t, p) {
		t.Errorf("sha256sum says %s, %v; we %s", got, err, contentOf(t, p))
	}
}
