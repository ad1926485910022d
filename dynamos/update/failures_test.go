// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// isRefused reports whether an error is a refusal that says this.
func isRefused(err error, why string) bool {
	var r *RefusedError
	return errors.As(err, &r) && strings.Contains(r.Why, why)
}

// Modules are loaded only from a folder that root alone may change.
func TestFolderOfKeptUpdates(t *testing.T) {
	top := t.TempDir()
	path := func(name string) string { return filepath.Join(top, name) }
	if on, err := (&Keep{Dir: path("none")}).IsOn(); on || err != nil {
		t.Errorf("no folder: %v, %v", on, err)
	}
	for name, mode := range map[string]os.FileMode{"private": 0o700, "readable": 0o755, "group": 0o720, "others": 0o702} {
		if err := errors.Join(os.Mkdir(path(name), 0o700), os.Chmod(path(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("private", path("link")), os.WriteFile(path("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"private": true, "readable": true, "group": false, "others": false, "link": false, "file": false} {
		if on, err := (&Keep{Dir: path(name)}).IsOn(); on != want || want != (err == nil) || err != nil && !isRefused(err, "its owner alone may change") {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	if on, err := (&Keep{Dir: path("file/below")}).IsOn(); on || err == nil {
		t.Errorf("a file where a folder belongs: %v, %v", on, err)
	}
	if os.Geteuid() == 0 && os.Chown(path("private"), 12345, -1) == nil {
		if on, err := (&Keep{Dir: path("private")}).IsOn(); on || !isRefused(err, "its owner alone") {
			t.Errorf("a folder of somebody else: %v, %v", on, err)
		}
	}
}

// What cannot come back after a boot is not stored, and the reason is told.
func TestUpdatesThatAreNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		policy  func(p *uapi.DynamosPolicy)
		forget  bool // the package was not applied from a file
		refused string
	}{
		"all tasks": {func(*uapi.DynamosPolicy) {}, false, ""},
		"a user":    {func(p *uapi.DynamosPolicy) { p.Rules, p.Rule[0].Terms = 1, uapi.DynamosUID }, false, ""},
		"a process": {func(p *uapi.DynamosPolicy) { p.Rules, p.Rule[0].Terms = 1, uapi.DynamosTGID }, false, "processes, times or programs of this boot"},
		"a user or a process": {func(p *uapi.DynamosPolicy) {
			p.Rules, p.Rule[0].Terms, p.Rule[1].Terms = 2, uapi.DynamosUID, uapi.DynamosPID
		}, false, "processes, times or programs"},
		"a rule behind them": {func(p *uapi.DynamosPolicy) {
			p.Rules, p.Rule[0].Terms, p.Rule[1].Terms = 1, uapi.DynamosUID, uapi.DynamosPID
		}, false, ""},
		"the last rule": {func(p *uapi.DynamosPolicy) {
			p.Rules, p.Rule[uapi.DynamosRules-1].Terms = uapi.DynamosRules+9, uapi.DynamosWindow
		}, false, "processes, times or programs"},
		"a cgroup that is gone": {func(p *uapi.DynamosPolicy) {
			p.Rules, p.Rule[0].Terms, p.Rule[0].Cgroup = 1, uapi.DynamosCgroup, 1<<63
		}, false, "a cgroup that no longer exists"},
		"no file": {func(*uapi.DynamosPolicy) {}, true, "was not applied from a file"},
	} {
		keep := newKept(t)
		if err := keep.Forget("fix"); err != nil {
			t.Fatal(err)
		}
		s := oneUpdate()
		c.policy(&s.infos[0].Policy)
		if c.forget {
			if err := os.RemoveAll(keep.Run); err != nil {
				t.Fatal(err)
			}
		}
		refused, err := keep.Save(s, "fix", keptBuildID)
		if err != nil || (refused == "") != (c.refused == "") || !strings.Contains(refused, c.refused) {
			t.Errorf("%s: %q, %v, want %q", name, refused, err, c.refused)
		}
		list, err := keep.List()
		if err != nil || (len(list) == 1) != (c.refused == "") {
			t.Errorf("%s: stored %v, %v", name, list, err)
		}
	}
	keep := newKept(t)
	if refused, err := keep.Save(oneUpdate(), "fax", keptBuildID); refused != "" || !isRefused(err, `no update "fax" is loaded`) {
		t.Errorf("an update that is not loaded: %q, %v", refused, err)
	}
	if _, err := keep.Remembered("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a package that is not there: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(keep.Run, "fix"+pack.Suffix)), os.Mkdir(filepath.Join(keep.Run, "fix"+pack.Suffix), 0o700)); err != nil {
		t.Fatal(err)
	}
	if refused, err := keep.Save(oneUpdate(), "fix", keptBuildID); refused != "" || err == nil {
		t.Errorf("a package that cannot be read: %q, %v", refused, err)
	}
}

func TestForgettingAnUpdate(t *testing.T) {
	keep := newKept(t)
	for _, what := range []string{"one that is stored", "one that is not"} {
		if err := keep.Forget("fix"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := filepath.Glob(filepath.Join(keep.Dir, "*")); len(list) != 0 || err != nil {
		t.Errorf("left: %v, %v", list, err)
	}
	for _, kind := range []string{".json", pack.Suffix} {
		if err := os.MkdirAll(filepath.Join(keep.Dir, "fix"+kind, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := keep.Forget("fix"); err == nil {
			t.Errorf("%s cannot be removed, and nobody says so", kind)
		}
		if err := os.RemoveAll(filepath.Join(keep.Dir, "fix"+kind)); err != nil {
			t.Fatal(err)
		}
	}
}

// A stored package is the one that was committed, of this update and this kernel.
func TestPackageOfAStoredUpdate(t *testing.T) {
	keep := newKept(t)
	list, err := keep.List()
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if _, module, err := keep.open(&list[0]); err != nil || string(module) != "\x7fELF and more" {
		t.Errorf("%q, %v", module, err)
	}
	other := list[0]
	other.BuildID = strings.Repeat("f", 40)
	if _, _, err := keep.open(&other); !isRefused(err, "of another update or kernel") {
		t.Errorf("of another kernel: %v", err)
	}
	text, err := os.ReadFile(keep.path("fix", pack.Suffix))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keep.path("fax", pack.Suffix), text, 0o600); err != nil {
		t.Fatal(err)
	}
	other = list[0]
	other.Name = "fax"
	if _, _, err := keep.open(&other); !isRefused(err, "of another update or kernel") {
		t.Errorf("under another name: %v", err)
	}
	if err := os.WriteFile(keep.path("fix", pack.Suffix), text[:600], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keep.open(&list[0]); !isRefused(err, "not the one that was committed") {
		t.Errorf("damaged: %v", err)
	}
	list[0].Digest = digestOf(text[:600])
	if _, _, err := keep.open(&list[0]); err == nil {
		t.Error("what is no package is opened")
	}
	other.Name = "none"
	if _, _, err := keep.open(&other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}

// Rules are numbered from 0; their numbers in a stored file may be any.
func TestCgroupsOfAStoredPolicy(t *testing.T) {
	number := func(path string) (uint64, error) {
		if path == "" {
			return 0, errors.New("gone")
		}
		return uint64(len(path)), nil
	}
	for rule, want := range map[int]string{-1: "is damaged", 0: "", uapi.DynamosRules - 1: "", uapi.DynamosRules: "is damaged"} {
		k := Kept{Name: "fix", Cgroups: map[int]string{rule: "/job"}}
		err := k.numberCgroups(number)
		if (err == nil) != (want == "") || err != nil && !isRefused(err, want) {
			t.Errorf("rule %d: %v", rule, err)
		}
		if want == "" && k.Policy.Rule[rule].Cgroup != 4 {
			t.Errorf("rule %d: %+v", rule, k.Policy.Rule[rule])
		}
	}
	k := Kept{Cgroups: map[int]string{0: ""}}
	if err := k.numberCgroups(number); err == nil || err.Error() != "gone" {
		t.Errorf("a cgroup that is gone: %v", err)
	}
}

// runRestore restores with a kernel and gives what was said.
func runRestore(t *testing.T, keep *Keep, kernel Kernel, retry bool) (said string, ready int, err error) {
	t.Helper()
	var text strings.Builder
	r := &Restore{Keep: keep, Kernel: kernel, BootID: "b1", Settle: time.Millisecond, Retry: retry,
		Says: func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }, Ready: func() { ready++ }}
	err = r.Run(t.Context())
	return text.String(), ready, err
}

// A faultyKernel fails at one step.
type faultyKernel struct {
	*fakeKernel
	fails string
}

var errFault = errors.New("a fault")

func (k *faultyKernel) step(name string) error {
	if k.fails == name {
		return errFault
	}
	return nil
}

func (k *faultyKernel) BuildID() (string, error) { return k.build, k.step("build-id") }

func (k *faultyKernel) Load(name string, module []byte) (bool, error) {
	fresh, err := k.fakeKernel.Load(name, module)
	return fresh, errors.Join(err, k.step("load"))
}

func (k *faultyKernel) Apply(ctx context.Context, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	i, err := k.fakeKernel.Apply(ctx, name, a)
	return i, errors.Join(err, k.step("apply"))
}

func (k *faultyKernel) Commit(name string) error {
	return errors.Join(k.fakeKernel.Commit(name), k.step("commit"))
}

// Whatever fails, the service is ready once and the reason is told.
func TestRestoreTellsWhatFails(t *testing.T) {
	for step, did := range map[string][]string{"": {"load fix", "apply fix", "commit fix"}, "load": {"load fix"},
		"apply": {"load fix", "apply fix"}, "commit": {"load fix", "apply fix", "commit fix"}} {
		keep, kernel := newKept(t), &faultyKernel{freshKernel(), step}
		said, ready, err := runRestore(t, keep, kernel, false)
		if (step == "") != (err == nil) || step != "" && !errors.Is(err, errFault) || ready != 1 || !slices.Equal(kernel.did, did) {
			t.Errorf("%s fails: did %v, %v, ready %d times", step, kernel.did, err, ready)
		}
		if step != "" && step != "commit" && !strings.Contains(err.Error(), "fix does not come back: ") {
			t.Errorf("%s fails: %v", step, err)
		}
		if trial, committed := strings.Contains(said, "fix: on trial for 1ms"), strings.Contains(said, "fix: committed"); trial != slices.Contains([]string{"", "commit"}, step) || committed != (step == "") {
			t.Errorf("%s fails: said %q", step, said)
		}
		if list, err := keep.List(); len(list) != 1 || err != nil {
			t.Errorf("%s fails: kept %v, %v", step, list, err)
		}
	}
}

func TestRestoreOfNothing(t *testing.T) {
	keep := newKept(t)
	if err := keep.Forget("fix"); err != nil {
		t.Fatal(err)
	}
	if said, ready, err := runRestore(t, keep, freshKernel(), false); said != "" || ready != 1 || err != nil {
		t.Errorf("said %q, ready %d times, %v", said, ready, err)
	}
	if err := os.WriteFile(keep.path("bad", ".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, ready, err := runRestore(t, keep, freshKernel(), false); !strings.Contains(said, "left out: ") || ready != 1 || err == nil {
		t.Errorf("a damaged one: said %q, ready %d times, %v", said, ready, err)
	}
	keep = newKept(t)
	if err := os.MkdirAll(filepath.Join(keep.Dir, bootFile, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, retry := range []bool{false, true} {
		kernel := freshKernel()
		if _, ready, err := runRestore(t, keep, kernel, retry); err == nil || ready != 1 || len(kernel.did) != 0 {
			t.Errorf("a boot that cannot be marked (retry %v): did %v, ready %d times, %v", retry, kernel.did, ready, err)
		}
	}
}

// An update that an earlier run applied is left as it is, and committed if it is on trial.
func TestRestoreOfAnAppliedUpdate(t *testing.T) {
	for state, want := range map[uapi.DynamosState][]string{uapi.DynamosTrial: {"commit fix"}, uapi.DynamosCommitted: nil,
		uapi.DynamosLoaded: {"load fix", "apply fix"}} {
		keep, kernel := newKept(t), freshKernel()
		i := uapi.DynamosInfo{State: state}
		copy(i.Name[:], "fix")
		kernel.infos = []uapi.DynamosInfo{i}
		_, _, err := runRestore(t, keep, kernel, false)
		if !slices.Equal(kernel.did, want) || (err == nil) != (state != uapi.DynamosLoaded) {
			t.Errorf("%v: did %v, %v", state, kernel.did, err)
		}
		if list, _ := keep.List(); (len(list) == 1) != (state != uapi.DynamosLoaded) {
			t.Errorf("%v: kept %v", state, list)
		}
	}
}

// Waiting ends with the state, with the time, with the caller and with the update.
func TestEndsOfWaiting(t *testing.T) {
	s := oneUpdate()
	never := func(*uapi.DynamosInfo) bool { return false }
	if i, done, err := waitUntil(t.Context(), s, "fix", time.Nanosecond, never); done || err != nil || i.ConfirmMS != 9000 {
		t.Errorf("the time is over: %+v, %v, %v", i, done, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, done, err := waitUntil(ctx, s, "fix", time.Hour, never); done || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller ends it: %v, %v", done, err)
	}
	if _, done, err := waitUntil(ctx, s, "fax", time.Hour, never); done || !isRefused(err, `no update "fax"`) {
		t.Errorf("no update: %v, %v", done, err)
	}
	if _, done, err := waitUntil(ctx, s, "fix", time.Hour, func(i *uapi.DynamosInfo) bool { return i.ConfirmMS == 9000 }); !done || err != nil {
		t.Errorf("at once: %v, %v", done, err)
	}
}

// A message of the kernel is the last one of this module or of the engine.
func TestLastMessageAboutAModule(t *testing.T) {
	for want, lines := range map[string][]string{
		"":                {"6,1,2,-;other: text\n", "6,1,2,-;fixed: text\n", "6,1,2,-;a fix: text\n"},
		"it is too old":   {"6,1,2,-;fix: it is new\n", "3,2,3,-;fix: it is too old\n SUBSYSTEM=x\n"},
		"refused":         {"6,1,2,-;dynamos: fix: refused\n"},
		"of the engine":   {"6,1,2,-;dynamos: of the engine\n", "6,1,2,-;usb: text\n"},
		"of livepatch":    {"6,1,2,-;livepatch: of livepatch\n"},
		"a comma is used": {"6,1,2,-;fix, a comma is used\n"},
	} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if _, err := unix.Write(fds[1], []byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		l := &kernelLog{fds[0]}
		if got := l.lastLine("fix"); got != want {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
		l.close()
		unix.Close(fds[1])
		if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the log is still open: %v", err)
		}
	}
}

func TestNamesOfUpdatesHaveALength(t *testing.T) {
	var to [uapi.DynamosName]byte
	for n, ok := range map[int]bool{0: false, 1: true, uapi.DynamosName - 1: true, uapi.DynamosName: false} {
		if err := putName(&to, strings.Repeat("n", n)); (err == nil) != ok || err != nil && !isRefused(err, "it has 1 to 63 bytes") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	d := pipeDevice(t, nil)
	_, count := d.Count("", 0, 0)
	for what, err := range map[string]error{"policy": d.SetPolicy("", uapi.DynamosPolicy{}), "commit": d.Commit(""), "revert": d.Revert("", true), "count": count} {
		if !isRefused(err, "is not the name of an update") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Apply(t.Context(), d, "", &uapi.DynamosApply{}); !isRefused(err, "is not the name of an update") {
		t.Errorf("apply: %v", err)
	}
	if _, err := Apply(t.Context(), d, "fix", &uapi.DynamosApply{}); !isRefused(err, "of another version than this skep") {
		t.Errorf("apply by another device: %v", err)
	}
}
