// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"skep/grid/proto"
	lent "skep/shimos/part"
)

// What a node says of its kernel is what /proc/modules says, and of a module that is only
// loaded it says nothing.
func TestKernelFacts(t *testing.T) {
	two := func() ([]lent.Info, error) { return []lent.Info{{CPUs: "2-3"}, {CPUs: "5"}}, nil }
	fails := func() ([]lent.Info, error) { return nil, errors.New("no") }
	for _, test := range []struct {
		text  string
		parts func() ([]lent.Info, error)
		want  proto.Kernel
		shown string
	}{
		{"", nil, proto.Kernel{}, "-"},
		{"ext4 1 1 - Live 0x0\n", nil, proto.Kernel{}, "-"},
		{"dynamos 9 0 - Live 0x0\n", nil, proto.Kernel{}, "-"},
		{"links 9 1 - Live 0x0\narp 9 2 - Live 0x0\nold 9 0 - Live 0x0\ndynamos 9 3 links,arp,old, Live 0x0 (OE)\n", nil, proto.Kernel{Updates: []string{"arp", "links"}}, "updates arp, links"},
		{"o2g 9 0 - Live 0x0\nshimos 9 0 - Live 0x0\nbad\nx y z w\n", two, proto.Kernel{O2G: true, Lent: []string{"2-3", "5"}}, "O2G; lends 2-3, 5"},
		{"shimos 9 0 - Live 0x0\n", fails, proto.Kernel{Lent: []string{"unknown"}}, "lends unknown"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "modules"), []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := kernelFacts(dir, test.parts)
		if !reflect.DeepEqual(got, test.want) || kernelText(&got) != test.shown {
			t.Errorf("%q: %+v, shown %q", test.text, got, kernelText(&got))
		}
	}
	if got := kernelFacts(t.TempDir(), nil); !reflect.DeepEqual(got, proto.Kernel{}) {
		t.Errorf("without /proc: %+v", got)
	}
}
