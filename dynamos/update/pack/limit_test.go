// SPDX-License-Identifier: MIT

package pack

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// What Open would refuse, Write does not write.
func TestPackageWithTooLongAPatchIsNotWritten(t *testing.T) {
	p := examplePackage()
	p.Patch = make([]byte, MaxPatch)
	if _, err := Read(bytes.NewReader(bytesOf(t, p))); err != nil {
		t.Errorf("the longest patch: %v", err)
	}
	p.Patch = make([]byte, MaxPatch+1)
	if err := Write(&bytes.Buffer{}, p); err == nil || !strings.Contains(err.Error(), "more than 4194304") {
		t.Errorf("a longer one: %v", err)
	}
}

// A countingWriter counts what would be stored.
type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// Whoever stores packages must take the largest one that Read accepts: signatures and the
// headers of tar count too.
func TestLargestPackage(t *testing.T) {
	c := &countingWriter{}
	w := tar.NewWriter(c)
	put := func(name string, size int64) {
		t.Helper()
		if err := add(w, name, make([]byte, size), int(size)); err != nil {
			t.Fatal(err)
		}
	}
	put(manifestName, MaxManifest)
	put(patchName, MaxPatch)
	for i := range MaxKernels {
		put(fmt.Sprintf("%040x.ko", i), MaxModule)
	}
	put(signaturesName, MaxSignatures)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if c.n != MaxPackage {
		t.Errorf("the largest package has %d bytes, MaxPackage says %d", c.n, MaxPackage)
	}
}
