// SPDX-License-Identifier: MIT

package pack

import (
	"bytes"
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
