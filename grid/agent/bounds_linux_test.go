// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The owner reads how programs are confined, and what stays open to them.
func TestConfinedText(t *testing.T) {
	for want, c := range map[string]Confined{
		"programs are confined by landlock":                                         {Kind: ConfinedLandlock},
		"programs are not confined; open to them: a, b":                             {ConfinedNot, []string{"a", "b"}},
		"programs run under bee, which is not a sandbox; open to them: the network": {ConfinedBee, []string{"the network"}},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a confinement leaves open depends on the kernel's Landlock.
func TestWhatStaysOpen(t *testing.T) {
	const files, truncation, signals, sockets = "the names and sizes of files", "truncation", "signals", "abstract sockets"
	for _, c := range []struct {
		bounds bounds
		abi    int
		want   []string
	}{
		{bounds{Kind: ConfinedSpaces}, 0, nil},
		{bounds{Kind: ConfinedSpaces, Network: true}, 5, []string{"the network", sockets}},
		{bounds{Kind: ConfinedSpaces, Network: true}, 6, []string{"the network"}},
		{bounds{Kind: ConfinedLandlock}, 2, []string{files, "priorities", signals, truncation}},
		{bounds{Kind: ConfinedLandlock}, 3, []string{files, "priorities", signals}},
		{bounds{Kind: ConfinedLandlock, Network: true}, 6, []string{"the network", files, "priorities"}},
		{bounds{Kind: ConfinedNot}, 6, []string{"keys of skep"}},
	} {
		got := stayOpen(&c.bounds, c.abi)
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s, Landlock %d: %q, want %q", c.bounds.Kind, c.abi, got, c.want)
		}
	}
}

// This machine's confinement is found without a node, and leaves no folder behind.
func TestFindConfined(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	found, err := FindConfined()
	if err != nil || found.Kind == "" {
		t.Fatalf("%v, %v", found, err)
	}
	a, err := newAgent(Config{State: t.TempDir()}) // without a log too
	if err != nil {
		t.Fatal(err)
	}
	defer a.unlock()
	if got := a.Confined(); got.Kind != found.Kind || !slices.Equal(got.Open, found.Open) {
		t.Errorf("%v, and for a node %v", found, got)
	}
	if list := listFiles(t, os.Getenv("TMPDIR")); len(list) != 0 {
		t.Errorf("left: %q", list)
	}
	t.Setenv("TMPDIR", t.TempDir()+"/none")
	if _, err := FindConfined(); err == nil {
		t.Error("a temporary folder that is not there was used")
	}
}

func listFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// The strongest confinement is tried first. As root programs run as another user if they can.
func TestOrderOfConfinements(t *testing.T) {
	a, _ := newIdleAgent(t)
	text := ""
	for _, c := range a.listConfinements() {
		text += fmt.Sprintf("%s %v %d; ", c.Kind, c.User, c.RunAs)
	}
	want := fmt.Sprintf("%[1]s true 0; %[2]s false 0; %[3]s false 0; ", ConfinedSpaces, ConfinedLandlock, ConfinedNot)
	if os.Geteuid() == 0 {
		want = fmt.Sprintf("%[1]s true %[2]d; %[1]s false %[2]d; ", ConfinedSpaces, nobody) + want
	}
	if text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	a.config.confine = &bounds{Kind: ConfinedLandlock}
	if list := a.listConfinements(); len(list) != 1 || list[0].Kind != ConfinedLandlock {
		t.Errorf("%v instead of the one that was asked for", list)
	}
}

// A guard gets the namespaces of its confinement, and users keep their numbers.
func TestNamespacesOfAGuard(t *testing.T) {
	const spaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	for name, c := range map[string]struct {
		bounds bounds
		want   uintptr
	}{
		"Landlock":       {bounds{Kind: ConfinedLandlock, User: true}, 0},
		"namespaces":     {bounds{Kind: ConfinedSpaces}, spaces | unix.CLONE_NEWNET},
		"network":        {bounds{Kind: ConfinedSpaces, Network: true}, spaces},
		"user namespace": {bounds{Kind: ConfinedSpaces, User: true}, spaces | unix.CLONE_NEWNET | unix.CLONE_NEWUSER},
		"another user":   {bounds{Kind: ConfinedSpaces, User: true, RunAs: nobody}, spaces | unix.CLONE_NEWNET | unix.CLONE_NEWUSER},
	} {
		attr := c.bounds.sysProcAttr()
		maps := c.bounds.Kind == ConfinedSpaces && c.bounds.User
		if attr.Cloneflags != c.want || !attr.Setsid || (attr.UidMappings != nil) != maps || (attr.GidMappings != nil) != maps ||
			attr.GidMappingsEnableSetgroups != (c.bounds.RunAs != 0) || (attr.AmbientCaps != nil) != (maps && os.Geteuid() != 0) {
			t.Errorf("%s: %+v", name, attr)
		}
	}
	one := func(id int) syscall.SysProcIDMap {
		return syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1}
	}
	for _, c := range []struct{ ids, want []int }{{[]int{0, 0}, []int{0}}, {[]int{1000, 0}, []int{1000}}, {[]int{0, nobody}, []int{0, nobody}}} {
		var want []syscall.SysProcIDMap
		for _, id := range c.want {
			want = append(want, one(id))
		}
		if got := idMap(c.ids...); !slices.Equal(got, want) {
			t.Errorf("%v: %v", c.ids, got)
		}
	}
}

// A guard sees from inside whether a bound has no effect. What belongs to the program may be seen.
func TestBoundsWithoutEffect(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "state", "work", "w1")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	hidden := bounds{Kind: ConfinedLandlock, Hide: []string{dir + "/none", dir}}
	checkText(t, "a folder to hide", hidden.verify(), dir+" can be read")
	checkText(t, "no namespace", (&bounds{Kind: ConfinedSpaces}).verify(), "it is not in a PID namespace of its own")
	for _, b := range []bounds{{Kind: ConfinedNot, Hide: []string{dir}}, {Kind: ConfinedLandlock, Hide: []string{dir + "/none"}}} {
		if err := b.verify(); err != nil {
			t.Errorf("%s: %v", b.Kind, err)
		}
	}
	b := bounds{Write: []string{own}, Read: []string{dir + "/program"}}
	for path, want := range map[string]bool{dir + "/state": true, own: true, dir + "/program": true,
		dir + "/sta": false, own + "/below": false, dir + "/state/node": false} {
		if b.leadsToOwn(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// A program that works in a worker's folder, or in the environment has it, is a stray.
func TestStrays(t *testing.T) {
	dir := t.TempDir()
	process := filepath.Join(dir, "process")
	if err := os.Mkdir(process, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cwd, environ string
		want         bool
	}{
		{"/w", "", true}, {"/w/below", "", true}, {"/wide", "", false}, {"/", "A=1\x00", false},
		{"/", "A=1\x00TMPDIR=/w\x00", true}, {"/", "TMPDIR=/w2\x00", false},
	} {
		os.Remove(process + "/cwd")
		if err := os.Symlink(c.cwd, process+"/cwd"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(process+"/environ", []byte(c.environ), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := worksIn(process, "/w"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// In a namespace all processes but the first are the program's; elsewhere those below the guard.
func TestProcessesOfAProgram(t *testing.T) {
	list := allProcesses()
	if slices.Contains(list, os.Getpid()) || !slices.Contains(list, os.Getppid()) {
		t.Errorf("%v without %d, with %d", list, os.Getpid(), os.Getppid())
	}
	spaces := newMeter(guardOrder{Bounds: bounds{Kind: ConfinedSpaces}}).tasks()
	below := newMeter(guardOrder{Bounds: bounds{Kind: ConfinedLandlock}}).tasks()
	if !slices.Contains(spaces, os.Getppid()) || slices.Contains(below, os.Getppid()) {
		t.Errorf("namespaces: %v, without: %v", spaces, below)
	}
}

// Memory of a process that is gone is none.
func TestMemoryOfNoProcess(t *testing.T) {
	if n := sharedOnce([]int{0}) + residentBytes([]int{0}); n != 0 {
		t.Errorf("%d bytes", n)
	}
}
