// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/pack"
	"skep/internal/cgroup"
	"skep/internal/uapi"
)

func TestCgroupsOfATree(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/job", "b/job", "b/other", "c"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "c", "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var s unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "b/other"), &s); err != nil {
		t.Fatal(err)
	}
	if id, err := findCgroup(root, "other"); err != nil || id != s.Ino {
		t.Errorf("one name: %d, %v, want %d", id, err, s.Ino)
	}
	for word, why := range map[string]string{"job": "several cgroups are named \"job\": say " + root + "/a/job or " + root + "/b/job",
		"none": "there is no cgroup \"none\" below " + root, "cgroup.procs": "there is no cgroup"} {
		if id, err := findCgroup(root, word); id != 0 || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %d, %v", word, id, err)
		}
	}
	var seen []string
	if err := eachCgroup(root, func(path string, ino uint64) bool {
		rel, _ := filepath.Rel(root, path)
		seen = append(seen, rel)
		return rel != "b"
	}); err != nil || !slices.Equal(seen, []string{".", "a", "a/job", "b"}) {
		t.Errorf("visited %q, %v", seen, err)
	}
	if _, err := inodeOf(filepath.Join(root, "c/cgroup.procs")); err == nil || !strings.Contains(err.Error(), "is not a cgroup: name its folder") {
		t.Errorf("a file: %v", err)
	}
	if _, err := inodeOf(filepath.Join(root, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

// A path and a number of this computer's hierarchy lead to each other.
func TestCgroupsOfThisComputer(t *testing.T) {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		t.Skip(err)
	}
	for _, word := range []string{root, "/", "."} {
		if id, err := CgroupID(word); err != nil || CgroupPath(id) != "/" {
			t.Errorf("%s: %d, %v, path %q", word, id, err, CgroupPath(id))
		}
	}
	if _, err := CgroupID("no such cgroup"); err == nil {
		t.Error("a cgroup that is not there has a number")
	}
	if path := CgroupPath(1 << 63); path != "" {
		t.Errorf("a number that is not there is %s", path)
	}
	if now := Boottime(); now == 0 || Boottime() < now {
		t.Error("the clock stands or goes back")
	}
}

func TestPolicyTextAtItsBounds(t *testing.T) {
	for want, cpus := range map[string][]int{"": nil, "0": {0}, "0-1": {0, 1}, "0,2": {0, 2}, "62-65": {62, 63, 64, 65}, "4095": {4095}, "4094-4095": {4094, 4095}} {
		var words [uapi.DynamosCPUs / 64]uint64
		for _, c := range cpus {
			words[c/64] |= 1 << (c % 64)
		}
		if got := describeCPUs(&words); got != want {
			t.Errorf("cpus %v: %q, want %q", cpus, got, want)
		}
	}
	for now, want := range map[uint64]string{9e9: "from 1s on for 10s", 10e9 - 1: "from 0s on for 10s", 10e9: "for 10s more", 20e9 - 1: "for 0s more", 20e9: "a time that is over"} {
		if got := describeWindow(&uapi.DynamosRule{From: 10e9, Until: 20e9}, now); got != want {
			t.Errorf("at %d: %q, want %q", now, got, want)
		}
	}
	for share, want := range map[uint32]string{0: "0%", 65536: "100%", 32768: "50%", 1: "0.00153%"} {
		if got := describeShare(share, 0); got != want {
			t.Errorf("share %d: %q, want %q", share, got, want)
		}
	}
	names := Names{Group: func(id uint32) string { return fmt.Sprintf("g%d", id) }, Cgroup: func(id uint64) string { return "" }}
	r := uapi.DynamosRule{Choice: 1, Terms: uapi.DynamosPID | uapi.DynamosComm | uapi.DynamosGID | uapi.DynamosCgroup, PID: 3, GID: 4, Cgroup: 1 << 40}
	copy(r.Comm[:], "sh")
	if got, want := describeRule(&r, names), "pid 3 and comm sh and gid g4 and cgroup 1099511627776"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := describeRule(&uapi.DynamosRule{}, names); got != "anybody" {
		t.Errorf("a rule without terms: %q", got)
	}
	p := uapi.DynamosPolicy{Rules: uapi.DynamosRules + 5} // more than there are
	if got := DescribePolicy(&p, Names{}); strings.Count(got, "anybody") != uapi.DynamosRules {
		t.Errorf("%q", got)
	}
}

// The most rules, and what the kernel gets of them.
func TestPolicyAsTheKernelGetsIt(t *testing.T) {
	var p Policy
	if p.Given() {
		t.Error("a policy of nothing is given")
	}
	for i := range uapi.DynamosRules {
		if i > 0 {
			if err := p.Or(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Add(uapi.DynamosUID, ruleUID(uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Or(); err == nil || !p.Given() {
		t.Errorf("one rule more: %v, given %v", err, p.Given())
	}
	out, err := p.Encode()
	if err != nil || out.Rules != uapi.DynamosRules || out.Rule[15].UID != 15 || out.Rule[15].Choice != 1 || out.Otherwise != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	var all Policy
	all.All()
	if out, err := all.Encode(); err != nil || out.Otherwise != 1 || out.Rules != 0 || !all.Given() {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := (&Policy{}).Encode(); err != nil || out.Otherwise != 0 || out.Rules != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestPercentiles(t *testing.T) {
	for _, c := range []struct {
		buckets map[int]uint64
		part    float64
		want    uint64
	}{{nil, 0.5, 0}, {map[int]uint64{0: 1}, 1, 2}, {map[int]uint64{3: 2}, 0.5, 12}, {map[int]uint64{3: 1, 5: 1}, 0.5, 16}, {map[int]uint64{3: 1, 5: 1}, 0.75, 48},
		{map[int]uint64{3: 1, 5: 1}, 1, 64}, {map[int]uint64{39: 4}, 0, 1 << 39}} {
		var all [uapi.DynamosBuckets]uint64
		for i, n := range c.buckets {
			all[i] = n
		}
		if got := percentile(&all, c.part); got != c.want {
			t.Errorf("%v of %v is %d, want %d", c.part, c.buckets, got, c.want)
		}
	}
	for _, c := range []struct{ in, out, lost, inside uint64 }{{5, 3, 1, 1}, {5, 4, 1, 0}, {5, 5, 1, 0}, {0, 0, 0, 0}} {
		if got := versionOf(&uapi.DynamosCount{In: c.in, Out: c.out, Lost: c.lost, Errors: 2, Outside: 3}); got.Inside != c.inside || got.Calls != c.in ||
			got.Returned != c.out || got.Lost != c.lost || got.Errors != 2 || got.Outside != 3 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	s := span{0x1000, 0x10}
	for at, want := range map[uint64]bool{0xfff: false, 0x1000: true, 0x100f: true, 0x1010: false} {
		if s.contains(at) != want || (span{at, 0}).contains(at) {
			t.Errorf("%#x", at)
		}
	}
}

// A failingEngine fails at a question.
type failingEngine struct {
	*fakeEngine
	info           uint32 // from this update on
	count, version uint32 // of this function and version
	err            error
}

func (s *failingEngine) Info(index uint32) (uapi.DynamosInfo, error) {
	if index >= s.info {
		return uapi.DynamosInfo{}, s.err
	}
	return s.fakeEngine.Info(index)
}

func (s *failingEngine) Count(name string, function, version uint32) (uapi.DynamosCount, error) {
	if function == s.count && version == s.version {
		return uapi.DynamosCount{}, s.err
	}
	return s.fakeEngine.Count(name, function, version)
}

func TestListOfUpdatesFails(t *testing.T) {
	for name, s := range map[string]*failingEngine{"the first update": {oneUpdate(), 0, 9, 0, errFault}, "the second update": {oneUpdate(), 1, 9, 0, errFault},
		"the older version's figures": {oneUpdate(), 9, 0, 0, errFault}, "the new version's figures": {oneUpdate(), 9, 0, 1, errFault}} {
		list, err := List(s, Names{})
		if list != nil || !errors.Is(err, errFault) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		if _, err := FindStatus(s, "fix", Names{}); !errors.Is(err, errFault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := oneUpdate()
	many.infos[0].Functions = uapi.DynamosFunctions + 1
	for range uapi.DynamosFunctions {
		many.counts["fix"] = append(many.counts["fix"], many.counts["fix"][0])
	}
	if u, err := FindStatus(many, "fix", Names{}); err != nil || len(u.Functions) != uapi.DynamosFunctions {
		t.Errorf("%d functions, %v", len(u.Functions), err)
	}
}

func TestPackageForThisKernel(t *testing.T) {
	running, err := RunningBuildID("/sys")
	if err != nil {
		t.Skip(err)
	}
	p := &pack.Package{Manifest: pack.Manifest{Kernels: []pack.Kernel{{BuildID: "0", Release: "6.1.0", Version: "6.1.9-1"}}}, Modules: map[string][]byte{running: []byte("module")}}
	if m, err := ModuleFor(p); m != nil || !isRefused(err, "build-id is "+running+"; it is for 6.1.0 (6.1.9-1)") {
		t.Errorf("of another: %q, %v", m, err)
	}
	p.Kernels = append(p.Kernels, pack.Kernel{BuildID: running})
	if m, err := ModuleFor(p); string(m) != "module" || err != nil {
		t.Errorf("of this: %q, %v", m, err)
	}
}

// elfNote is one note with its padding.
func elfNote(kind uint32, name, text string) string {
	pad := func(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return string(binary.LittleEndian.AppendUint32(b, kind)) + pad(name) + pad(text)
}

func TestBuildIDsOfNotes(t *testing.T) {
	id := elfNote(3, "GNU\x00", "\xab\xcd\xef")
	for name, c := range map[string]struct{ notes, want string }{
		"the first":            {id, "abcdef"},
		"behind another kind":  {elfNote(1, "GNU\x00", "x") + id, "abcdef"},
		"behind another name":  {elfNote(3, "Xen\x00", "x") + id, "abcdef"},
		"behind a longer name": {elfNote(3, "GNU\x00\x00", "x") + id, "abcdef"},
		"no more than a head":  {elfNote(3, "GNU\x00", "")[:12], ""},
		"cut in its padding":   {id[:len(id)-1], ""},
		"nothing":              {"", ""},
	} {
		if got := findBuildID([]byte(c.notes)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	sys := t.TempDir()
	for path, text := range map[string]string{"kernel/notes": id, "module/fix/notes/.note.gnu.build-id": id, "module/fax/notes/.note.gnu.build-id": "x"} {
		path = filepath.Join(sys, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := RunningBuildID(sys); got != "abcdef" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for more, want := range map[int]string{0: "abcdef", 4: ""} { // notes are read up to a size
		filler := elfNote(1, "GNU\x00", strings.Repeat("x", 1<<20-len(id)-16+more))
		if err := os.WriteFile(filepath.Join(sys, "kernel/notes"), []byte(filler+id), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := RunningBuildID(sys); got != want || (err == nil) != (want != "") {
			t.Errorf("%d bytes too much: %q, %v", more, got, err)
		}
	}
	for name, want := range map[string]string{"fix": "abcdef", "none": "", "fax": "error"} {
		got, err := loadedBuildID(sys, name)
		if (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := os.Mkdir(filepath.Join(sys, "module/bare"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := loadedBuildID(sys, "bare"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a module without notes: %v", err)
	}
	if got := moduleBuildID([]byte("no module")); got != "" {
		t.Errorf("what is not a module has the build-id %q", got)
	}
}

// Tasks are listed by number, as many as are told for each update.
func TestManyTasksInside(t *testing.T) {
	stacks := map[string]string{}
	for i := range insideMax + 10 {
		stacks[fmt.Sprintf("%d/task/%d", 1000+i, 1000+i)] = "[<0>] pipe_read+0x1/0x2 [pipe]\n[<0>] ksys_read+0x45/0x100 [fix]\n[<0>] slot_0+0x60/0x90 [dynamos]\n"
	}
	stacks["9/task/9"] = ""
	list, err := List(oneUpdate(), Names{})
	if err != nil {
		t.Fatal(err)
	}
	proc := fakeProc(t, symbols, stacks)
	if err := FillInside(proc, list); err != nil || len(list[0].Inside) != insideMax {
		t.Fatalf("%d tasks, %v", len(list[0].Inside), err)
	}
	if !slices.IsSortedFunc(list[0].Inside, func(a, b Task) int { return a.TID - b.TID }) || list[0].Inside[0].Frame != "pipe_read [pipe]" {
		t.Errorf("%+v", list[0].Inside[:3])
	}
	if err := FillInside(filepath.Join(proc, "none"), list); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc: %v", err)
	}
	both := oneUpdate()
	for v := range 2 {
		both.counts["fix"][0][v].Out, both.counts["fix"][0][v].Lost = both.counts["fix"][0][v].In-2, 0
	}
	if list, err = List(both, Names{}); err != nil || FillInside(proc, list) != nil || len(list[0].Inside) != insideMax {
		t.Errorf("as many inside of both versions: %d tasks, %v", len(list[0].Inside), err)
	}
	quiet := oneUpdate()
	for v := range 2 {
		quiet.counts["fix"][0][v].Out = quiet.counts["fix"][0][v].In
	}
	if list, err = List(quiet, Names{}); err != nil || FillInside(filepath.Join(proc, "none"), list) != nil {
		t.Errorf("nobody is inside, and somebody is looked for: %v", err)
	}
}

// A stack's outermost function of the update counts, and the frame above its wrapper
// tells the version.
func TestFramesOfATask(t *testing.T) {
	u := &Status{Name: "fix", Functions: []Function{{Symbol: "f"}, {Symbol: "g"}}}
	wrapper := func(n int) spot { return spot{true, map[string]int{"fix": n}} }
	text := func(n int) spot { return spot{false, map[string]int{"fix": n}} }
	places := placesOf{{"slot_f", engine}: wrapper(0), {"slot_g", engine}: wrapper(1), {"f", "fix"}: text(0), {"g", "fix"}: text(1)}
	for _, c := range []struct{ stack, want string }{
		{"", ""}, {"read", ""}, {"slot_f [dynamos]", "f -"}, {"f\nslot_f [dynamos]", "f old"}, {"f [fix]\nslot_f [dynamos]", "f new"},
		{"g\nslot_f [dynamos]", "f -"}, {"helper [fix]\nslot_f [dynamos]", "f new"}, {"f\nslot_f [dynamos]\ng [fix]\nslot_g [dynamos]", "g new"}, {"f [fix]", "f new"},
		{"g [fix]\nf [other]", "g new"}, {"f [other]\nslot_f [dynamos]", "f -"},
	} {
		var lines strings.Builder
		for line := range strings.SplitSeq(c.stack, "\n") {
			name, module, _ := strings.Cut(line, " ")
			fmt.Fprintf(&lines, "[<0>] %s+0x1/0x2 %s\n", name, module)
		}
		task, ok := places.find(u, parseStack(lines.String()))
		got := ""
		if ok {
			got = task.Symbol + " " + task.Version
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.stack, got, c.want)
		}
	}
}
