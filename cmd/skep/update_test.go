// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/internal/cli"
	"skep/internal/uapi"
)

func TestUpdateOptionsBecomeAPolicy(t *testing.T) {
	proc := plantProc(t, map[string]string{"5": "5", "7": "5"})
	for line, want := range map[string]string{
		"--all":                                 "all",
		"--tgid 5 --uid 4000000 --or --comm sh": "tgid 5 and uid 4000000, or comm sh",
		"--except --uid 4000000 --all":          "except uid 4000000, all others",
		"--share 10% --cpus 0-2,5":              "cpus 0-2,5 and share 10%",
		"--share 100%":                          "share 100%",
		"--pid 7 --gid 4000001 --window 1h..2h": "pid 7 and gid 4000001 and from 1h0m0s on for 1h0m0s",
		"--except --comm a --or --comm b --or --except=true --comm c": "",
	} {
		u := &updateApply{}
		f := cli.NewFlags("update apply", "update apply")
		u.options(f)
		_, err := f.Parse(append([]string{"fix"}, strings.Fields(line)...))
		var a uapi.DynamosApply
		if err == nil {
			a, err = u.apply(f, proc)
		}
		if want == "" {
			if err == nil {
				t.Errorf("%s: taken", line)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := update.DescribePolicy(&a.Policy, update.Names{Now: update.Boottime()}); got != want {
			t.Errorf("%s: %q, not %q", line, got, want)
		}
		if a.ConfirmMS != 300000 || a.EnterMS != 30000 || a.Flags != 0 || a.Health != (uapi.DynamosHealth{Least: 1000}) {
			t.Errorf("%s: %+v", line, a)
		}
	}
}

// The kernel takes a median limit in percent of the older version's median; the option
// takes the increase.
func TestLatencyLimits(t *testing.T) {
	proc := t.TempDir()
	u := &updateApply{}
	f := cli.NewFlags("update apply", "update apply")
	u.options(f)
	if _, err := f.Parse(strings.Fields("fix --all --max-latency 50 --max-errors 20 --stuck 3s")); err != nil {
		t.Fatal(err)
	}
	if a, err := u.apply(f, proc); err != nil || a.Health != (uapi.DynamosHealth{Least: 1000, Errors: 20, Latency: 150, Stuck: 3e9}) {
		t.Errorf("%+v, %v", a.Health, err)
	}
}

func TestUpdateOptionsThatAreRefused(t *testing.T) {
	proc := plantProc(t, map[string]string{"1": "1"})
	for _, line := range []string{
		"", "--nobody", "--tgid 0", "--tgid -1", "--pid x", "--comm 1234567890123456", "--uid no-such-user-here",
		"--share 0%", "--share 101%", "--share 10", "--share NaN%", "--cpus 5-1", "--cpus 4096", "--window 5m..1m", "--window -1s",
		"--tgid 2", "--or --tgid 1", "--tgid 1 --tgid 2", "--tgid 1 --or", "--tgid 1 --all", "--except --tgid 1",
		"--all --confirm -1s", "--all --confirm 1ns", "--all --confirm 1200h", "--all --enter 0", "--all --max-errors 1001",
		"--all --stuck -1s", "--all --max-latency 99999999999", "--all=false", "--cgroup no-such-cgroup-here", "--program /no-such-program-here", "--program /dev/null", "--program a\x00b",
	} {
		u := &updateApply{}
		f := cli.NewFlags("update apply", "update apply")
		u.options(f)
		_, err := f.Parse(strings.Fields(line))
		if err == nil {
			_, err = u.apply(f, proc)
		}
		if code, _ := cli.ExitCode(err); code != cli.Usage {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestUpdateStatusText(t *testing.T) {
	u := update.Status{Name: "fix", Class: "any", State: "trial", Policy: "tgid 5", ConfirmMS: 57200, Advised: true,
		Health:    update.Health{Least: 100, Errors: 20, Latency: 50, StuckNS: 10e9},
		Functions: []update.Function{{Symbol: "f", Installer: "direct", Old: update.Version{Calls: 9, Errors: 1}, New: update.Version{Calls: 3, Inside: 1, Sampled: 2, P50: 1234, P99: 56789}}},
		Inside:    []update.Task{{PID: 4, TID: 5, Comm: "a\x1b[2J", Symbol: "f", Version: "new", Frame: "pipe_read"}},
		Events:    []update.Event{{TimeNS: 1e9, Cause: "asked", State: "trial", PID: 4, Comm: "skep", Text: "applied"}}}
	var b strings.Builder
	if err := showUpdate(&b, &u, 3e9); err != nil {
		t.Fatal(err)
	}
	want := `fix: class any, trial, reverted in 57s unless committed
REBOOT ADVISED: a task died inside and may have held a lock; nothing more is applied until then
for tgid 5
reverted at 20 errors more per 1000 calls, or a median longer by 50 %, from 100 calls of both versions on
calls longer than 10s are reported

FUNCTION  VERSION  CALLS  INSIDE  LOST  ERRORS  OUTSIDE  P50    P99   BY      ALSO CHANGED BY
f         old      9      0       0     1       0        -      -     direct  -
          new      3      1       0     0       0        1.2µs  57µs

PID  THREAD  COMM   INSIDE  VERSION  SLEEPS IN
4    5       a?[2J  f       new      pipe_read

AGO  EVENT  THEN   PID  COMM  TEXT
2s   asked  trial  4    skep  applied
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := showUpdates(&b, []update.Status{u}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "fix     any    trial (reboot advised)  tgid 5  f         9          3          1       0       direct\n") {
		t.Errorf("got\n%s", b.String())
	}
}

// Figures that nobody counts are not shown as zero.
func TestStatusWithoutCounts(t *testing.T) {
	u := update.Status{Name: "fix", Class: "together", State: "trial", Policy: "all", ConfirmMS: -1,
		Functions: []update.Function{{Symbol: "f", Installer: "livepatch", Uncounted: true}, {Symbol: "g", Installer: "livepatch"}}}
	var one, all strings.Builder
	if err := errors.Join(showUpdate(&one, &u, 0), showUpdates(&all, []update.Status{u})); err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if want := "f both not counted - - - - - - livepatch - g old 0 0 0 0 0 - - livepatch - new 0"; !strings.Contains(squeeze(one.String()), want) {
		t.Errorf("got\n%s", one.String())
	}
	if want := "fix together trial all f not counted not counted - - livepatch g 0 0 0 0 livepatch"; !strings.Contains(squeeze(all.String()), want) {
		t.Errorf("got\n%s", all.String())
	}
}

func TestLatencyText(t *testing.T) {
	for ns, want := range map[uint64]string{0: "0s", 7: "7ns", 999: "1µs", 1234: "1.2µs", 56789: "57µs", 1234567890: "1.2s"} {
		if got := latencyText(1, ns); got != want {
			t.Errorf("%v: %s, not %s", time.Duration(ns), got, want)
		}
	}
}

func TestPackageText(t *testing.T) {
	object := 0
	p := &pack.Package{Manifest: pack.Manifest{Name: "fix", Class: "any", Proposed: "together",
		Reasons: []string{"kfree is called anew"}, Because: "it frees what leaked", State: "no box is there", Files: []string{"a.c"},
		Kernels: []pack.Kernel{{BuildID: "ab", Release: "6.1.0", Version: "6.1.1-1",
			Functions: []pack.Function{{Symbol: pack.Symbol{Name: "f", Position: 2}, File: "a.c", Type: "int f(void)", Result: "int", OldSize: 5, Size: 6, Bare: true, Uncounted: true},
				{Symbol: pack.Symbol{Name: "h"}, Type: "void h(int n)", Result: "void", OldSize: 7, Object: &object, Ends: true}},
			Imports: []pack.Symbol{{Name: "g"}}, Data: []string{"seen"},
			Layouts: []pack.Layout{{Name: "struct box", What: "lid is new", Was: 8, Is: 16, Because: "boxes are made anew"}}, Relies: []string{"f relies on struct box.lid"}, Idle: []string{"setup"}, Held: []string{"late: in f its address is written to memory that others see"}}}}}
	var b strings.Builder
	if err := showPackage(&b, p, "ab"); err != nil {
		t.Fatal(err)
	}
	want := `fix: class any
  together: kfree is called anew
  its author says: it frees what leaked
relies on what older objects lack, see below
  its author says: no box is there
changes a.c

for Linux 6.1.0 of 6.1.1-1, which runs here
  build-id ab

FUNCTION  FILE  BYTES     INSTEAD OF  RESULT  TYPE
f,2       a.c   6         5           int     int f(void)
h         -     as it is  7           void    void h(int n)

calls are not counted, and no limit of errors, latency or time holds for: f,2

its author says: no lock is held across f; the object is argument 0, from 0, of h, whose life a call ends

uses g, not exported to modules

lays struct box out in another way (lid is new; 16 bytes, was 8)
  its author says: boxes are made anew

objects that are there when it is applied or reverted lack something
  f relies on struct box.lid

without effect, because they run only while the kernel starts: setup

once applied it stays loaded until the next boot: it can be reverted and never removed, because
  late: in f its address is written to memory that others see

has new data of its own: seen
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestNameOfAPatch(t *testing.T) {
	for path, want := range map[string]string{
		"a/0001-net-Fix-the-leak.patch": "net_fix_the_leak", "fix.diff": "fix", "x_1": "x_1", "7.patch": "",
	} {
		if got := nameOfPatch(path); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

func TestMissingOrInvalidPackage(t *testing.T) {
	if code, _ := cli.ExitCode(func() error { _, err := openPackage("no/such.skepup"); return err }()); code != cli.Failed {
		t.Errorf("a file that is not there: code %d", code)
	}
	if code, _ := cli.ExitCode(func() error { _, err := openPackage("update_test.go"); return err }()); code != cli.Refused {
		t.Errorf("a file that is no package: code %d", code)
	}
}

func TestStatementsOfAuthors(t *testing.T) {
	u := &updateBuild{}
	f := cli.NewFlags("update build", "update build")
	u.options(f)
	if _, err := f.Parse(strings.Fields("x.patch --object f=1 --ends g=0 --no-locks f --group h --kernel 6.1 --kernel 6.12")); err != nil {
		t.Fatal(err)
	}
	a, b := u.states["f"], u.states["g"]
	if a.Object == nil || *a.Object != 1 || a.Ends || !a.Bare || b.Object == nil || *b.Object != 0 || !b.Ends || b.Bare || a.Group || !u.states["h"].Group || len(u.kernels) != 2 {
		t.Errorf("%+v, %+v, %q", a, b, u.kernels)
	}
	if _, err := f.Parse([]string{"--layout", "struct box=a = b"}); err != nil || u.layouts["struct box"] != "a = b" {
		t.Errorf("%v, %v", err, u.layouts)
	}
	for _, bad := range []string{"struct box", "struct box= ", "=b"} {
		if _, err := f.Parse([]string{"--layout", bad}); err == nil {
			t.Errorf("--layout %s is taken", bad)
		}
	}
	if _, err := f.Parse([]string{"--state", "none is there "}); err != nil || u.state != "none is there" {
		t.Errorf("%v, %q", err, u.state)
	}
	if _, err := f.Parse([]string{"--state", " "}); err == nil {
		t.Error("an empty reason is taken")
	}
	for _, bad := range []string{"f", "f=", "f=6", "f=-1", "=1"} {
		if _, err := f.Parse([]string{"--object", bad}); err == nil {
			t.Errorf("--object %s is taken", bad)
		}
	}
}
