// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"skep/internal/uapi"
)

// putOutput is the kernel's side of a console.
func putOutput(l *uapi.SkepLinux, text string) {
	for _, b := range []byte(text) {
		l.OutBytes[l.Out.Put%uapi.SkepLinuxRing] = b
		l.Out.Put++
	}
}

func TestConsoleCarriesBytesAroundTheRing(t *testing.T) {
	l := new(uapi.SkepLinux)
	start := uint32(0xffffffff - 20) // the counters overflow too
	l.Out.Put, l.In.Take = start, start
	c := &console{l: l, took: start, put: start}
	var out, in, got bytes.Buffer
	buffer := make([]byte, 4000)
	for i := range 200 {
		text := strings.Repeat(string(rune('a'+i%26)), 1+i*37%3000)
		out.WriteString(text)
		putOutput(l, text)
		for {
			n, err := c.take(buffer)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			got.Write(buffer[:n])
		}
		if n, err := c.give([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("%d of %d, %v", n, len(text), err)
		}
		for ; l.In.Take != l.In.Put; l.In.Take++ {
			in.WriteByte(l.InBytes[l.In.Take%uapi.SkepLinuxRing])
		}
	}
	if got.String() != out.String() || in.String() != out.String() || l.Out.Take != l.Out.Put {
		t.Errorf("%d and %d bytes of %d came through", got.Len(), in.Len(), out.Len())
	}
}

func TestFullConsoleTakesWhatFits(t *testing.T) {
	l := new(uapi.SkepLinux)
	c := &console{l: l}
	all := make([]byte, uapi.SkepLinuxRing+10)
	if n, err := c.give(all); n != uapi.SkepLinuxRing || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.give(all); n != 0 || err != nil {
		t.Errorf("when full: %d, %v", n, err)
	}
	l.In.Take = 3
	if n, err := c.give(all); n != 3 || err != nil {
		t.Errorf("with room for 3: %d, %v", n, err)
	}
	l.Out.Put = uapi.SkepLinuxRing
	if n, err := c.take(all); n != uapi.SkepLinuxRing || err != nil {
		t.Errorf("output: %d, %v", n, err)
	}
}

func TestSpoiledConsoleEndsTheRun(t *testing.T) {
	l := new(uapi.SkepLinux)
	c := &console{l: l}
	l.Out.Put, l.In.Take = uapi.SkepLinuxRing+1, 1
	if n, err := c.take(make([]byte, 8)); n != 0 || !errors.Is(err, errSpoiled) {
		t.Errorf("output: %d, %v", n, err)
	}
	if n, err := c.give([]byte("x")); n != 0 || !errors.Is(err, errSpoiled) {
		t.Errorf("input: %d, %v", n, err)
	}
	l.In.Take = ^uint32(uapi.SkepLinuxRing)
	if n, err := c.give([]byte("x")); n != 0 || !errors.Is(err, errSpoiled) {
		t.Errorf("input, by one byte: %d, %v", n, err)
	}
	for state, want := range map[uapi.SkepLinuxState]LinuxEnd{
		uapi.LinuxRestart: EndRestart, uapi.LinuxPowerOff: EndPowerOff, uapi.LinuxHalt: EndHalt, uapi.LinuxPanic: EndPanic, uapi.LinuxExit: EndProgram,
	} {
		if end, err := endOf(state, 0, ""); end != want || err != nil {
			t.Errorf("state %d: %q, %v", state, end, err)
		}
	}
	var program *ProgramError
	if _, err := endOf(uapi.LinuxExit, 7, ""); !errors.As(err, &program) || program.Code != 7 {
		t.Errorf("a program that failed: %v", err)
	}
	if _, err := endOf(uapi.LinuxExit, 256, ""); !errors.Is(err, errSpoiled) {
		t.Errorf("a code that is none: %v", err)
	}
	if _, err := endOf(uapi.LinuxExit+1, 0, ""); !errors.Is(err, errSpoiled) {
		t.Errorf("an unknown state: %v", err)
	}
	if _, err := endOf(uapi.LinuxRefused, 0, "no room"); !isRefused(err, "no room") {
		t.Errorf("a refusal: %v", err)
	}
}

func TestReasonEndsWhereItEnds(t *testing.T) {
	l := new(uapi.SkepLinux)
	c := &console{l: l}
	for i := range l.Why {
		l.Why[i] = 'x'
	}
	if why := c.why(); why != strings.Repeat("x", len(l.Why)) {
		t.Errorf("%q", why)
	}
	l.Why[2] = 0
	if why := c.why(); why != "xx" {
		t.Errorf("%q", why)
	}
}

// Any words in the mailbox, and any movement of the counters.
func FuzzConsole(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 0, 0, 0}, uint32(5), uint32(7))
	f.Add([]byte{0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff}, uint32(0), uint32(1))
	f.Fuzz(func(t *testing.T, words []byte, took, put uint32) {
		l := new(uapi.SkepLinux)
		c := &console{l: l, took: took, put: put}
		buffer := make([]byte, 300)
		for ; len(words) >= 8; words = words[8:] {
			l.Out.Put, l.In.Take = binary.LittleEndian.Uint32(words), binary.LittleEndian.Uint32(words[4:])
			have, before := l.Out.Put-c.took, c.took
			n, err := c.take(buffer)
			if (err != nil) != (have > uapi.SkepLinuxRing) || n > len(buffer) || uint32(n) > have || c.took != before+uint32(n) {
				t.Fatalf("%d of %d bytes, %v", n, have, err)
			}
			used := c.put - l.In.Take
			if n, err = c.give(buffer); (err != nil) != (used > uapi.SkepLinuxRing) || err == nil && used+uint32(n) > uapi.SkepLinuxRing {
				t.Fatalf("%d bytes beside %d, %v", n, used, err)
			}
		}
	})
}

// makeKernel returns a kernel file whose header points to a release.
func makeKernel(release string) []byte {
	file := make([]byte, 1024)
	copy(file[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(file[0x20e:], 0x100)
	copy(file[0x300:], release+" (someone) #1")
	return file
}

func TestKernelRelease(t *testing.T) {
	if got, err := KernelRelease(makeKernel("6.1.0-28-amd64")); got != "6.1.0-28-amd64" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for what, spoil := range map[string]func([]byte) []byte{
		"no magic":                 func(b []byte) []byte { b[0x202] = 0; return b },
		"short":                    func(b []byte) []byte { return b[:0x20f] },
		"no release":               func(b []byte) []byte { b[0x20f] = 0; return b },
		"a release outside":        func(b []byte) []byte { return b[:0x300] },
		"a release without an end": func(b []byte) []byte { return b[:0x305] },
		"an empty one":             func(b []byte) []byte { b[0x300] = 0; return b },
	} {
		if got, err := KernelRelease(spoil(makeKernel("6.1.0-28-amd64"))); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got, err := KernelRelease(makeKernel(strings.Repeat("6", 128))); err == nil {
		t.Errorf("a long one: %q", got)
	}
}

func FuzzKernelRelease(f *testing.F) {
	f.Add(makeKernel("6.1.0-28-amd64"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if got, err := KernelRelease(file); (got == "") != (err != nil) || !bytes.Contains(file, []byte(got)) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestArchivesAreAligned(t *testing.T) {
	for n := range 5 {
		got := JoinArchives(bytes.Repeat([]byte("x"), n), Archive(ArchiveFile{"a", 0o100644, []byte("12345")[:n]}))
		at := bytes.Index(got, []byte("070701"))
		if at%4 != 0 || at < n || len(bytes.Trim(got[n:at], "\x00")) != 0 {
			t.Errorf("of %d bytes: the archive is at %d", n, at)
		}
		for rest, names := got[at:], []string{"a\x00", "TRAILER!!!\x00"}; len(names) > 0; names = names[1:] {
			if string(rest[:6]) != "070701" || !bytes.HasPrefix(rest[110:], []byte(names[0])) {
				t.Fatalf("of %d bytes: no entry %q", n, names[0])
			}
			rest = rest[min(len(rest), 110+len(names[0])+3&^3):]
			if names[0] == "a\x00" {
				rest = got[at+112+(n+3)&^3:]
			}
		}
		if len(got)%4 != 0 {
			t.Errorf("of %d bytes: it ends at %d", n, len(got))
		}
	}
	files := GuestFiles([]byte("init"), []byte("module"), nil)
	for _, name := range []string{"skep\x00", "skep/init\x00", "skep/shimos_guest.ko\x00", "000081ed", "TRAILER!!!"} {
		if !bytes.Contains(files, []byte(name)) {
			t.Errorf("no %q", name)
		}
	}
	if bytes.Contains(files, []byte("skep/root")) {
		t.Error("a root that nobody asked for")
	}
	root := Devices{Root: true, Modules: [][]byte{[]byte("one"), []byte("two")}, Transport: []byte("three"), Command: []string{"/bin/a", "b c"}}
	files = GuestFiles([]byte("init"), []byte("module"), &root)
	for _, name := range []string{"skep/init\x00", "skep/0.ko\x00", "skep/1.ko\x00", "skep/shimos_virtio.ko\x00", "three", "skep/root\x00", "skep/words\x00", "/bin/a\x00b c\x00"} {
		if !bytes.Contains(files, []byte(name)) {
			t.Errorf("with a root: no %q", name)
		}
	}
	root.Root = false
	files = GuestFiles([]byte("init"), []byte("module"), &root)
	if !bytes.Contains(files, []byte("skep/shimos_virtio.ko\x00")) || bytes.Contains(files, []byte("skep/root")) || bytes.Contains(files, []byte("skep/words")) {
		t.Error("devices without a root")
	}
}

// A small Terminal takes three bytes at once and has typed more than fits.
type smallTerminal struct {
	out   []byte
	typed []byte
}

func (s *smallTerminal) Room() int { return 3 }
func (s *smallTerminal) Write(p []byte) (int, error) {
	s.out = append(s.out, p...)
	return len(p), nil
}
func (s *smallTerminal) Typed(p []byte) int {
	n := copy(p, s.typed)
	s.typed = s.typed[n:]
	return n
}
func (s *smallTerminal) Size() (rows, columns uint16) { return 24, 80 }

// A kernel waits for its Terminal's room, but not when it has ended.
func TestConsoleWaitsForItsTerminal(t *testing.T) {
	l, up := new(uapi.SkepLinux), 0
	c, small := &console{l: l}, &smallTerminal{typed: bytes.Repeat([]byte("0123456789"), 7000)}
	want := string(small.typed)
	s := newServed(small, func() { up++ })
	step := func(state uapi.SkepLinuxState, moved, ups int) {
		t.Helper()
		if n, err := s.step(c, state); n != moved || err != nil || up != ups {
			t.Fatalf("state %d: %d bytes, %v, up %d", state, n, err, up)
		}
	}
	putOutput(l, "ten bytes!")
	step(uapi.LinuxBooting, 3, 0)
	step(uapi.LinuxRefused, 7, 0)
	putOutput(l, "ten bytes!")
	step(uapi.LinuxUp, 3, 1)
	step(uapi.LinuxHalt, 7, 1)
	if string(small.out) != "ten bytes!ten bytes!" || l.Size != 24<<16|80 {
		t.Errorf("%q, size %#x", small.out, l.Size)
	}
	var got []byte
	for range 1000 {
		step(uapi.LinuxUp, 0, 1)
		for n := 0; n < 4001 && l.In.Take != l.In.Put; n++ {
			got = append(got, l.InBytes[l.In.Take%uapi.SkepLinuxRing])
			l.In.Take++
		}
	}
	if string(got) != want {
		t.Errorf("%d bytes of %d were typed", len(got), len(want))
	}
	step(uapi.LinuxUp, 0, 1)
}
