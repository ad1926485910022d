// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/module"
	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// wantRefusal checks a sentence of this room for a user. "" wants another error: the system's own.
func wantRefusal(t *testing.T, what string, err error, words string) {
	t.Helper()
	var r *RefusedError
	if err == nil || errors.As(err, &r) != (words != "") || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want %q", what, err, words)
	}
}

// Each error of the device says what a user can do; the module's own words go before.
func TestErrorsOfTheDevice(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fs.ErrNotExist, "'skep doctor' prints the command"}, {unix.ENXIO, "skep doctor"}, {unix.ENODEV, "skep doctor"},
		{unix.EACCES, "/dev/dynamos: updates of the kernel are for root only"}, {unix.EPERM, "for root only"}, {unix.EMFILE, ""},
	} {
		wantRefusal(t, "open", openError(c.err), c.want)
	}
	if err := openError(unix.EMFILE); err.Error() != "open /dev/dynamos: too many open files" {
		t.Error(err)
	}
	for _, c := range []struct {
		number uintptr
		e      unix.Errno
		text   string
		want   string
	}{
		{uapi.DynamosIocApply, unix.EALREADY, "fix is applied", "fix is applied: 'skep update policy' changes which tasks use it, 'skep update revert' reverts it"},
		{uapi.DynamosIocRevert, unix.EALREADY, "fix leaves", "fix leaves"},
		{uapi.DynamosIocApply, unix.EPERM, "fix may not", "fix may not"},
		{uapi.DynamosIocApply, unix.EPERM, "", "for root only"},
		{uapi.DynamosIocApply, unix.EPROTO, "", "of another version than this skep"},
		{uapi.DynamosIocApply, unix.ENOTTY, "", "of another version than this skep"},
		{uapi.DynamosIocInfo, unix.ENOENT, "", ""},
	} {
		wantRefusal(t, "a call", callError(c.number, c.e, c.text), c.want)
	}
	if text := callError(uapi.DynamosIocRevert, unix.EALREADY, "fix leaves").Error(); strings.Contains(text, "skep update policy") {
		t.Error(text)
	}
}

// A module that cannot be loaded or removed is refused with the cause.
func TestErrorsOfModules(t *testing.T) {
	locked, enforced := Lockdown{Mode: "integrity"}, Lockdown{Enforces: true}
	for _, c := range []struct {
		e    error
		said string
		l    Lockdown
		want string
	}{
		{unix.EINVAL, "unknown symbol x", locked, "the kernel did not load fix: unknown symbol x"},
		{unix.EPERM, "", locked, "this kernel is locked down (integrity), and does not trust the key that signed the module of fix"},
		{unix.EKEYREJECTED, "", enforced, "this kernel enforces signatures of modules (sig_enforce), and does not trust the key"},
		{unix.EPERM, "", Lockdown{}, "the kernel lets nobody load modules here"},
		{unix.EKEYREJECTED, "", Lockdown{}, "this kernel loads only signed modules: sign fix"},
		{unix.ENOEXEC, "", locked, ""},
	} {
		wantRefusal(t, "load", loadError("fix", c.e, c.said, c.l), c.want)
	}
	for e, want := range map[error]string{unix.ENOENT: "fix is not loaded", unix.EAGAIN: "fix is in use: 'skep update revert fix' first",
		unix.EBUSY: "fix is in use", unix.EPERM: "for root only", unix.EIO: ""} {
		wantRefusal(t, "remove", removeError("fix", e), want)
	}
	if err := removeError("fix", nil); err != nil {
		t.Error(err)
	}
	if id := moduleBuildID([]byte("no module")); id != "" {
		t.Error(id)
	}
	if is, err := IsLoaded("skep_no_module", nil); is || err != nil {
		t.Errorf("%v, %v", is, err)
	}
}

// A package of a loaded update is loaded anew if nothing of it is in force. A module that
// is no update stays.
func TestRoomForAModule(t *testing.T) {
	loaded, held := uapi.DynamosInfo{State: uapi.DynamosLoaded}, uapi.DynamosInfo{State: uapi.DynamosLoaded, Held: uapi.DynamosIsHeld}
	for _, c := range []struct {
		what                string
		i                   uapi.DynamosInfo
		known, same, unload bool
		want                string
	}{
		{"reverted", loaded, true, true, true, ""},
		{"reverted, of another build", loaded, true, false, true, ""},
		{"held", held, true, true, false, ""},
		{"held, of another build", held, true, false, false, "another build of fix is held, and stays loaded until the next boot"},
		{"in force", uapi.DynamosInfo{State: uapi.DynamosTrial}, true, true, false, ""},
		{"in force, of another build", uapi.DynamosInfo{State: uapi.DynamosTrial, Held: uapi.DynamosIsHeld}, true, false, false, "another build of fix is trial: 'skep update revert fix'"},
		{"a driver", loaded, false, true, false, "a module fix is loaded that is no update"},
	} {
		unload, err := makeRoom("fix", c.known, &c.i, c.same)
		if unload != c.unload || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, %v", c.what, unload, err)
		}
		if c.want != "" {
			wantRefusal(t, c.what, err, c.want)
		}
	}
}

// What is held is not removed, and what is not there is not found.
func TestRemoveOfWhatIsHeld(t *testing.T) {
	s := oneUpdate()
	s.infos[0].Held = uapi.DynamosIsHeld
	copy(s.infos[0].WhyHeld[:], "its data may be used")
	wantRefusal(t, "held", Remove(s, "fix"), "fix is held, and stays loaded until the next boot: its data may be used; it can be reverted")
	wantRefusal(t, "another", Remove(s, "fax"), `no update "fax"`)
}

// An update enters within its time, or says why not.
func TestWaitingForTheEntry(t *testing.T) {
	state := func(from, to uapi.DynamosState) *fakeEngine {
		s := oneUpdate()
		s.infos[0].State = from
		copy(s.infos[0].End[:], "a task did not leave")
		s.after = func(s *fakeEngine) {
			if s.asked == 2 {
				s.infos[0].State = to
			}
		}
		return s
	}
	for to, want := range map[uapi.DynamosState]string{uapi.DynamosLoaded: "fix was reverted at once: a task did not leave", uapi.DynamosLeaving: "fix was reverted at once"} {
		_, err := awaitEntered(t.Context(), state(uapi.DynamosEntering, to), "fix", time.Hour)
		wantRefusal(t, "reverted", err, want)
	}
	if i, err := awaitEntered(t.Context(), state(uapi.DynamosEntering, uapi.DynamosTrial), "fix", time.Hour); err != nil || i.State != uapi.DynamosTrial {
		t.Errorf("%d, %v", i.State, err)
	}
	_, err := awaitEntered(t.Context(), state(uapi.DynamosEntering, uapi.DynamosEntering), "fix", 0)
	wantRefusal(t, "too slow", err, "not all tasks have changed over yet")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := awaitEntered(ended, state(uapi.DynamosEntering, uapi.DynamosEntering), "fix", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := awaitEntered(t.Context(), oneUpdate(), "fax", time.Hour); err == nil {
		t.Error("an update that is not there entered")
	}
}

// What the author states of a changed function is stored with it, and with no other.
func TestStatementsAreStored(t *testing.T) {
	arg := 1
	list := []module.Function{}
	for _, name := range []string{"f", "g"} {
		list = append(list, module.NewFunction(pack.Function{Symbol: pack.Symbol{Name: name}, Args: 2}, asm.Function{Name: name, Version: "v"}))
	}
	plan := &Plan{States: map[string]Statement{"g": {Object: &arg, Ends: true, Bare: true}}}
	b := &builder{plan: plan, functions: list}
	if err := b.applyStatements(); err != nil {
		t.Fatal(err)
	}
	f, g := b.functions[0].Function, b.functions[1].Function
	if f.Object != nil || f.Ends || f.Bare || g.Object != &arg || !g.Ends || !g.Bare || len(b.functions) != 2 || len(plan.States) != 1 {
		t.Errorf("%+v, %+v, %d statements are left of the plan's", f, g, len(plan.States))
	}
}
