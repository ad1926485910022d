// SPDX-License-Identifier: MIT

package lab

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const goodCounts = `skep-count 1
0 lost 0
0 3 times 2
0 3 open 0
0 3 user 6
0 3 kernel 2
0 3 restarts 1
0 3 entries 3
0 3 entry:ffffffff81a00000 2
0 3 entry:other 1
0 3 range:libc 4
0 3 restarts:libc 1
0 3 at:400000 2
1 lost 0
1 3 times 1
1 3 open 0
1 3 user 10
1 3 kernel 0
1 3 restarts 0
1 3 entries 0
1 3 entry:other 0
1 3 range:libc 1
1 3 restarts:libc 0
1 3 at:400000 0
end
`

func TestCountsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	if err := os.WriteFile(path, []byte(goodCounts), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCounts(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Of(3)
	want := Figures{Times: 3, User: 16, Kernel: 2, Restarts: 1, Entries: 3, EntryOther: 1,
		Entry: map[uint64]uint64{0xffffffff81a00000: 2}, Range: map[string]uint64{"libc": 5}, Again: map[string]uint64{"libc": 1}, At: map[uint64]uint64{0x400000: 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Of(3) = %+v, %v; want %+v", got, err, want)
	}
	if _, err := c.Of(4); err == nil {
		t.Error("an interval that never was has figures")
	}
	if _, err := ReadCounts(path + ".none"); err == nil {
		t.Error("no file, no error")
	}
}

func TestFiguresThatLackAPartAreRefused(t *testing.T) {
	for _, change := range [][2]string{
		{"1 3 open 0", "1 3 open 1"},
		{"1 lost 0", "1 lost 2"},
	} {
		c, err := parseCounts(strings.Replace(goodCounts, change[0], change[1], 1))
		if err != nil {
			t.Fatalf("%s: %v", change[1], err)
		}
		if _, err := c.Of(3); err == nil {
			t.Errorf("%s: figures all the same", change[1])
		}
	}
}

func TestDamagedCountsAreRefused(t *testing.T) {
	if _, err := parseCounts("skep-count 1\nend\n"); err != nil {
		t.Errorf("counts of a guest without marks: %v", err)
	}
	bad := []string{"", "skep-count 1\n", "skep-count 2\nend\n", "skep-count 1\nend", "skep-count 1\n\nend\n",
		strings.TrimSuffix(goodCounts, "end\n"), goodCounts + "end\n", "skep-count 1\n0 lost 0end\n"}
	for _, line := range strings.SplitAfter(goodCounts, "\n") {
		if line != "" && !strings.Contains(line, "at:") {
			bad = append(bad, strings.Replace(goodCounts, line, "", 1))
		}
	}
	for _, change := range [][2]string{
		{"user 6", "user -6"}, {"user 6", "user 06"}, {"user 6", "user 18446744073709551616"},
		{"user 6", "user  6"}, {"user 6", "sleep 6"}, {"0 3 user 6", "0 16 user 6"},
		{"open 0", "open 2"}, {"entry:other 1", "entry:other 2"}, {"range:libc", "range:"},
		{"restarts:libc 1", "restarts:libc 2"}, {"restarts:libc 0", "restarts:libm 0"}, {"restarts:libc", "restarts:"},
		{"at:400000", "at:0x400000"}, {"at:400000", "up:400000"}, {"entry:ffffffff81a00000", "entry:FFFFFFFF81A00000"},
		{"0 lost 0", "0 lost 0\n0 lost 0"}, {"0 lost 0", "0 found 0"},
	} {
		bad = append(bad, strings.Replace(goodCounts, change[0], change[1], 1))
	}
	for _, text := range bad {
		if c, err := parseCounts(text); err == nil {
			t.Errorf("%q was taken as %+v", text, c)
		}
	}
}

func TestCountArguments(t *testing.T) {
	build := t.TempDir()
	t.Setenv("SKEP_BUILD", build)
	c := Count{Ranges: []Range{{"sms", 0x1000, 0x2000}}, At: []uint64{0xffffffff81000000}}
	if _, err := c.qemuArgs("/tmp/a,b"); err == nil {
		t.Error("no error without the plugin")
	}
	plugin := filepath.Join(build, "lib", "skep-count.so")
	if err := os.MkdirAll(filepath.Dir(plugin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plugin, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := c.qemuArgs("/tmp/a,b")
	want := []string{"-plugin", "file=" + plugin + ",out=/tmp/a,,b,range=sms:1000:2000,at=ffffffff81000000"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("args = %q, %v; want %q", got, err, want)
	}
	c.Steady = true
	if got, err = c.qemuArgs("/tmp/a,b"); err != nil || !reflect.DeepEqual(got, append(want, "-icount", "shift=0")) {
		t.Errorf("steady: args = %q, %v", got, err)
	}
	for _, c := range []Count{
		{Ranges: make([]Range, 17)}, {At: make([]uint64, 33)}, {At: []uint64{1, 1}},
		{Ranges: []Range{{"", 1, 2}}}, {Ranges: []Range{{"a", 2, 2}}}, {Ranges: []Range{{"a:b", 1, 2}}},
		{Ranges: []Range{{"a", 1, 2}, {"a", 3, 4}}},
	} {
		if args, err := c.qemuArgs("out"); err == nil {
			t.Errorf("%+v gave %q", c, args)
		}
	}
}

const someSymbols = `0000000000000000 A fixed_percpu_data
ffffffff81a00000 D __entry_text_start
ffffffff81a00000 T entry_SYSCALL_64
ffffffff81a00100 t common
ffffffff81b00000 t common
ffffffffc0000000 t init_module	[trivial]
`

func TestSymbolsNameAddresses(t *testing.T) {
	s, err := ReadSymbols(strings.NewReader(someSymbols))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Address("entry_SYSCALL_64"); err != nil || a != 0xffffffff81a00000 {
		t.Errorf("entry_SYSCALL_64 at %#x, %v", a, err)
	}
	for _, name := range []string{"common", "nowhere"} {
		if a, err := s.Address(name); err == nil {
			t.Errorf("%s at %#x", name, a)
		}
	}
	for address, want := range map[uint64]string{
		0xffffffff81a00000: "entry_SYSCALL_64", 0xffffffff81a00010: "entry_SYSCALL_64+0x10", 0xffffffffc0000000: "init_module",
	} {
		if got := s.Name(address); got != want {
			t.Errorf("Name(%#x) = %s, want %s", address, got, want)
		}
	}
}

func TestBadSymbolsAreRefused(t *testing.T) {
	for _, text := range []string{"", "0000000000000000 T entry_SYSCALL_64\n", "ffffffff81a00000 T\n", "hello world of symbols\n",
		"ffffffff81a0000g T x\n", "ffffffff81a00000 TT x\n", "ffffffff81a00000 T a b c\n", "FFFFFFFF81A00000 T x\n"} {
		if s, err := ReadSymbols(strings.NewReader(text)); err == nil {
			t.Errorf("%q was taken as %d symbols", text, len(s.list))
		}
	}
}

func FuzzCounts(f *testing.F) {
	f.Add(goodCounts)
	f.Add("skep-count 1\nend\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCounts(text)
		if err != nil {
			return
		}
		for i := range c.Figures {
			if i.Number < 0 || i.Number >= markIntervals {
				t.Errorf("interval %d", i.Number)
			}
		}
	})
}

func FuzzSymbols(f *testing.F) {
	f.Add(someSymbols, uint64(0xffffffff81a00010))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		if s, err := ReadSymbols(strings.NewReader(text)); err == nil {
			s.Name(address)
		}
	})
}
