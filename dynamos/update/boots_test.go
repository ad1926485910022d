// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"skep/internal/uapi"
)

// life is how a boot of a machine goes.
type life struct {
	lasts time.Duration // of the service, from the boot on
	shut  bool          // then it is shut down; otherwise it ends
	panic string        // what a record of the kernel says
}

// live lets a machine with the service boot, and returns what came back, and why something
// did not.
func live(t *testing.T, keep *Keep, id string, l life) (did []string, why string) {
	t.Helper()
	kernel := freshKernel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		r := &Restore{Keep: keep, Kernel: kernel, BootID: id, Settle: 2 * time.Minute, Says: t.Logf, Ready: func() {}}
		if err := r.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		dies := &Keep{Dir: filepath.Join(t.TempDir(), "gone")} // a machine that ended writes nothing
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := r.Finish(ctx); err != nil {
				why = err.Error()
			}
			if err := r.Stay(ctx, func() time.Duration { return time.Since(began) }); err != nil && l.shut {
				t.Error(err)
			}
		}()
		<-time.After(l.lasts)
		synctest.Wait()
		if l.panic != "" {
			if err := os.WriteFile(filepath.Join(keep.Panics[0], id), []byte(l.panic), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(keep.Panics[0], id), time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if !l.shut {
			r.Keep = dies
		}
		cancel()
		<-done
	})
	return kernel.did, why
}

const (
	tenMinutes = 10 * time.Minute
	evening    = 9 * time.Hour
)

// An update may end the machine long after the trial of a boot. So a boot counts until an
// orderly shutdown or a day; and what counts is bounded, because a power cut looks the same.
func TestBootsThatEnd(t *testing.T) {
	cut, late, shut, day := life{lasts: time.Minute}, life{lasts: tenMinutes}, life{lasts: evening, shut: true}, life{lasts: 25 * time.Hour}
	brief := life{lasts: time.Minute, shut: true}
	panics := life{lasts: evening, panic: "Panic#1 Part2\n<4>[ 9.1] arp_ioctl+0x1f/0x40 [fix]\n"}
	other := life{lasts: evening, panic: "Panic#1 Part2\n<4>[ 9.1] Modules linked in: fix(O)\n"}
	oops := life{lasts: evening, panic: "Oops#1 Part2\n<4>[ 9.1] arp_ioctl+0x1f/0x40 [fix]\n"}
	for name, c := range map[string]struct {
		lives []life
		off   string // why the update is not restored after them; empty: it is
	}{
		"the machine ends ten minutes after each boot": {[]life{late, late, late}, "3 boots with [fix] ended without a shutdown"},
		"twice":                         {[]life{late, late}, ""},
		"twice, and then it lasts":      {[]life{late, late, day, late, late}, ""},
		"with a shutdown between":       {[]life{late, late, shut, late}, ""},
		"a brief boot shows nothing":    {[]life{late, late, brief, late}, "3 boots with [fix] ended without"},
		"early":                         {[]life{cut, cut}, "2 boots with [fix] ended early or in a panic"},
		"early, and not in a row":       {[]life{cut, shut, cut}, ""},
		"early, with a brief boot":      {[]life{cut, brief, cut}, "2 boots with [fix] ended early"},
		"both":                          {[]life{cut, late, late}, "3 boots with [fix] ended without"},
		"a day each":                    {[]life{day, day, day, day}, ""},
		"in a panic of the update":      {[]life{panics, panics}, "2 boots with [fix] ended early or in a panic; the kernel's record of the last one names a function of an update"},
		"in a panic of something else":  {[]life{other, other, other}, "3 boots with [fix] ended without"},
		"an oops is not a panic":        {[]life{oops, oops}, ""},
		"the machine ends without it":   {[]life{late, late, late, late}, ""},
		"early, and also without it":    {[]life{cut, cut, late, late}, "2 boots with [fix] ended early"},
		"a shutdown without it":         {[]life{late, late, late, shut, shut}, "3 boots with [fix] ended without"},
		"without it the machine lasts":  {[]life{late, late, late, day}, "3 boots with [fix] ended without"},
		"it lasts, and is then cut off": {[]life{late, late, late, day, shut, late}, ""},
		"without it, and then with it":  {[]life{late, late, late, late, late}, ""},
		"early, and in a panic later":   {[]life{cut, {lasts: 25 * time.Hour, panic: panics.panic}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			keep := newKept(t)
			keep.Panics = []string{t.TempDir()}
			for i, l := range c.lives {
				live(t, keep, string(rune('a'+i)), l)
			}
			did, why := live(t, keep, "last", shut)
			if back := slices.Contains(did, "commit fix"); back != (c.off == "") || !strings.Contains(why, c.off) {
				t.Errorf("did %v, %q", did, why)
			}
		})
	}
}

// A panic is evidence if its record is of this boot, complete, and names a function of an
// update that was in force.
func TestPanicOfAnUpdate(t *testing.T) {
	dir, began := t.TempDir(), time.Now()
	const trace = "Panic#1 Part1\n<4>[ 9.1]  arp_ioctl+0x1f/0x40 [fix]\n"
	for name, c := range map[string]struct {
		text  string
		at    time.Duration
		found bool
	}{
		"of the update":      {trace, 0, true},
		"with a build-id":    {"Panic#2 Part1\n<4>[ 9.1]  arp_ioctl+0x1f/0x40 [fix 0123456789abcdef]\n", time.Hour, true},
		"of an earlier boot": {trace, -time.Hour, false},
		"of another update":  {"Panic#1 Part1\n<4>[ 9.1]  arp_ioctl+0x1f/0x40 [fix2]\n", 0, false},
		"of an oops":         {"Oops" + trace[len("Panic"):], 0, false},
		"of endless data":    {trace + strings.Repeat(" ", panicMax), 0, false},
	} {
		file := filepath.Join(dir, "one", "dmesg-efi-1")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(c.text), 0o600), os.Chtimes(file, began.Add(c.at), began.Add(c.at))); err != nil {
			t.Fatal(err)
		}
		if found := panicOf([]string{filepath.Join(dir, "missing"), dir}, []string{"other", "fix"}, began); found != c.found {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

// A damaged mark turns everything off, because nobody knows how many boots failed; root turns
// it on again. A mark that cannot be read or written restores nothing.
func TestMarkThatIsDamaged(t *testing.T) {
	keep := newKept(t)
	if err := os.WriteFile(keep.bootPath(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := boot(t, keep, freshKernel(), "b1", true, false); err == nil || !strings.Contains(err.Error(), "fix does not come back: the mark of the boot before is damaged: 'skep service restore --retry' tries again, 'skep update revert fix' forgets it") {
		t.Error(err)
	}
	if off := keep.WhyOff("fix"); off == nil || off.Harm || keep.WhyOff("other") != nil {
		t.Errorf("off: %+v", off)
	}
	if err := boot(t, keep, freshKernel(), "b2", true, true); err != nil || keep.WhyOff("fix") != nil {
		t.Errorf("with --retry: %v, %+v", err, keep.WhyOff("fix"))
	}
	if err := os.MkdirAll(filepath.Join(keep.bootPath(), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	kernel := freshKernel()
	if err := boot(t, keep, kernel, "b3", true, false); err == nil || !strings.Contains(err.Error(), "this boot cannot be marked") || len(kernel.did) > 0 {
		t.Errorf("did %v, %v", kernel.did, err)
	}
	if err := keep.EndBoot(&Boot{}); err == nil {
		t.Error("a mark that stays is no error")
	}
}

// A panic before this boot says nothing about it.
func TestPanicBeforeABoot(t *testing.T) {
	keep := newKept(t)
	keep.Panics = []string{t.TempDir()}
	now := time.Now()
	file := filepath.Join(keep.Panics[0], "dmesg-efi-1")
	if err := errors.Join(os.WriteFile(file, []byte("Panic#1 Part1\n<4>[ 9.1]  arp_ioctl+0x1f/0x40 [fix]\n"), 0o600), os.Chtimes(file, now.Add(-time.Hour), now.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	b, err := keep.BeginBoot("b1", keptBuildID, now)
	if err == nil {
		err = keep.MarkBoot(&b, keptBuildID, Settled)
	}
	if err != nil {
		t.Fatal(err)
	}
	if b, err = keep.BeginBoot("b2", keptBuildID, now); err != nil || b.Failed != 0 || b.Late != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}

// Only the updates of a boot are turned off by how it ends. Turning all on forgets the boots.
func TestTurnsItsOwnUpdates(t *testing.T) {
	keep := newKept(t)
	list, err := keep.List()
	if err != nil {
		t.Fatal(err)
	}
	other := list[0]
	other.Name = "other"
	if err := keep.write(&other); err != nil {
		t.Fatal(err)
	}
	if err := keep.turn([]string{"fix"}, &Off{Why: "it failed", Harm: true}); err != nil {
		t.Fatal(err)
	}
	if keep.WhyOff("fix") == nil || keep.WhyOff("other") != nil {
		t.Errorf("fix: %+v, other: %+v", keep.WhyOff("fix"), keep.WhyOff("other"))
	}
	if _, err := keep.BeginBoot("b1", keptBuildID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := keep.TurnOn(); err != nil {
		t.Fatal(err)
	}
	if b, err := keep.readBoot(); err != nil || b.ID != "" || keep.WhyOff("fix") != nil {
		t.Errorf("%+v, %v, %+v", b, err, keep.WhyOff("fix"))
	}
}

// withoutRoom calls f while no file may have a byte.
func withoutRoom(t *testing.T, f func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	f()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
}

// A boot whose mark cannot be written restores nothing: nobody would know that it failed. A
// stage that cannot be written is tried again.
func TestMarkThatCannotBeWritten(t *testing.T) {
	keep := newKept(t)
	withoutRoom(t, func() {
		if b, err := keep.BeginBoot("b1", keptBuildID, time.Now()); err == nil {
			t.Errorf("%+v", b)
		}
	})
	b, err := keep.BeginBoot("b1", keptBuildID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	withoutRoom(t, func() {
		if err := keep.MarkBoot(&b, keptBuildID, Settled); err == nil || b.Stage != OnBootTrial {
			t.Errorf("%+v, %v", b, err)
		}
	})
	if err := keep.MarkBoot(&b, keptBuildID, Settled); err != nil {
		t.Error(err)
	}
	if read, err := keep.readBoot(); err != nil || read.Stage != Settled {
		t.Errorf("on disk: %+v, %v", read, err)
	}
}

// Updates that are committed or reverted during a boot change its mark, and a boot of another
// kernel says nothing about them.
func TestMarkFollowsWhatIsInForce(t *testing.T) {
	keep := newKept(t)
	b, err := keep.BeginBoot("b1", strings.Repeat("f", 40), time.Now())
	if _, statErr := os.Stat(keep.bootPath()); err != nil || statErr == nil {
		t.Fatalf("another kernel: %+v, %v", b, err)
	}
	if err := keep.MarkBoot(&b, keptBuildID, Settled); err != nil || !slices.Equal(b.Names, []string{"fix"}) {
		t.Errorf("after a commit: %+v, %v", b, err)
	}
	if read, err := keep.readBoot(); err != nil || read.ID != "b1" || read.Stage != Settled || !slices.Equal(read.Names, b.Names) {
		t.Errorf("on disk: %+v, %v", read, err)
	}
	if again, err := keep.BeginBoot("b1", keptBuildID, time.Now()); err != nil || again.Stage != Settled || again.Late != 0 {
		t.Errorf("the service was started again: %+v, %v", again, err)
	}
	if err := keep.Forget("fix"); err != nil {
		t.Fatal(err)
	}
	if err := keep.MarkBoot(&b, keptBuildID, Settled); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(keep.bootPath()); err == nil {
		t.Error("a boot without updates is marked")
	}
}

// What is committed again is restored again.
func TestCommitTurnsAnUpdateOn(t *testing.T) {
	keep := newKept(t)
	if err := keep.turn([]string{"fix"}, &Off{Why: "it failed", Harm: true}); err != nil {
		t.Fatal(err)
	}
	s := oneUpdate()
	s.infos[0].State = uapi.DynamosCommitted
	if _, err := keep.Save(s, "fix", keptBuildID); err != nil || keep.WhyOff("fix") != nil {
		t.Errorf("%v, %+v", err, keep.WhyOff("fix"))
	}
}
