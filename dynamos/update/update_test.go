// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
)

func ruleTGID(n int32) func(*uapi.DynamosRule) { return func(r *uapi.DynamosRule) { r.TGID = n } }

func ruleUID(n uint32) func(*uapi.DynamosRule) { return func(r *uapi.DynamosRule) { r.UID = n } }

func TestPolicyText(t *testing.T) {
	names := Names{User: func(id uint32) string {
		if id == 7 {
			return "alice"
		}
		return ""
	}, Now: 100e9}
	for want, make := range map[string]func(p *Policy) []error{
		"nobody": func(*Policy) []error { return nil },
		"all":    func(p *Policy) []error { p.All(); return nil },
		"tgid 5 and uid alice, or uid 8": func(p *Policy) []error {
			return []error{p.Add(uapi.DynamosTGID, ruleTGID(5)), p.Add(uapi.DynamosUID, ruleUID(7)), p.Or(), p.Add(uapi.DynamosUID, ruleUID(8))}
		},
		"except uid 0, all others": func(p *Policy) []error {
			p.All()
			return []error{p.Except(), p.Add(uapi.DynamosUID, ruleUID(0))}
		},
		"except uid 0, or share 10%": func(p *Policy) []error {
			return []error{p.Except(), p.Add(uapi.DynamosUID, ruleUID(0)), p.Or(),
				p.Add(uapi.DynamosShare, func(r *uapi.DynamosRule) { r.Share = 6554 })}
		},
		"share 10% of users, or share 0.00153% of cgroups": func(p *Policy) []error {
			return []error{p.Add(uapi.DynamosShare, func(r *uapi.DynamosRule) { r.Share, r.Per = 6554, uapi.DynamosPerUID }), p.Or(),
				p.Add(uapi.DynamosShare, func(r *uapi.DynamosRule) { r.Share, r.Per = 1, uapi.DynamosPerCgroup })}
		},
		"cpus 0-2,63-64,4095 and for 20s more": func(p *Policy) []error {
			return []error{
				p.Add(uapi.DynamosCPUSet, func(r *uapi.DynamosRule) {
					r.CPUs[0], r.CPUs[1], r.CPUs[63] = 7|1<<63, 1, 1<<63
				}),
				p.Add(uapi.DynamosWindow, func(r *uapi.DynamosRule) { r.From, r.Until = 1, 120e9 })}
		},
	} {
		var p Policy
		if err := errors.Join(make(&p)...); err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		encoded, err := p.Encode()
		if err != nil {
			t.Errorf("%s: %v", want, err)
		} else if got := DescribePolicy(&encoded, names); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestInvalidPolicyIsRefused(t *testing.T) {
	many := func(p *Policy) error {
		for range uapi.DynamosRules + 1 {
			if len(p.rules) > 0 {
				if err := p.Or(); err != nil {
					return err
				}
			}
			if err := p.Add(uapi.DynamosTGID, ruleTGID(1)); err != nil {
				return err
			}
		}
		return nil
	}
	for want, make := range map[string]func(p *Policy) error{
		"at most 16 rules": many,
		"put --or before another rule": func(p *Policy) error {
			return errors.Join(p.Add(uapi.DynamosTGID, ruleTGID(1)), p.Add(uapi.DynamosTGID, ruleTGID(2)))
		},
		"nothing is before it": func(p *Policy) error { return p.Or() },
		"has no terms":         func(p *Policy) error { return errors.Join(p.Except(), p.Or()) },
		"name its terms":       func(p *Policy) error { p.All(); return p.Except() },
		"--all is for everybody": func(p *Policy) error {
			p.All()
			return p.Add(uapi.DynamosUID, ruleUID(1))
		},
		"nobody would take": func(p *Policy) error {
			return errors.Join(p.Except(), p.Add(uapi.DynamosUID, ruleUID(1)))
		},
	} {
		var p Policy
		err := make(&p)
		if err == nil {
			_, err = p.Encode()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// told is a source that says what a test put there.
type fakeEngine struct {
	infos  []uapi.DynamosInfo
	counts map[string][][2]uapi.DynamosCount
	asked  int
	after  func(*fakeEngine) // called at each question for the first update
}

func (s *fakeEngine) Info(index uint32) (uapi.DynamosInfo, error) {
	if index == 0 {
		s.asked++
		if s.after != nil {
			s.after(s)
		}
	}
	if index >= uint32(len(s.infos)) {
		return uapi.DynamosInfo{}, ErrNoMore
	}
	return s.infos[index], nil
}

func (s *fakeEngine) Count(name string, function, version uint32) (uapi.DynamosCount, error) {
	list := s.counts[name]
	if function >= uint32(len(list)) {
		return uapi.DynamosCount{}, ErrNoMore
	}
	return list[function][version], nil
}

const (
	wrapperAt = 0xffffffffc0001000
	versionAt = 0xffffffffc0100040
)

func oneUpdate() *fakeEngine {
	i := uapi.DynamosInfo{Class: uapi.DynamosAny, State: uapi.DynamosTrial, Functions: 1, ConfirmMS: 9000}
	copy(i.Name[:], "fix")
	i.Policy.Otherwise = 1
	older := uapi.DynamosCount{In: 10, Out: 9, Installer: uapi.DynamosDirect, Wrapper: wrapperAt, WrapperLength: 0x90}
	newer := older
	newer.In, newer.Out, newer.Lost, newer.Sampled = 8, 4, 1, 4
	newer.Address, newer.Length = versionAt, 0x100
	newer.Latency[10], newer.Latency[12] = 3, 1
	copy(newer.Symbol[:], "ksys_read")
	return &fakeEngine{infos: []uapi.DynamosInfo{i}, counts: map[string][][2]uapi.DynamosCount{"fix": {{older, newer}}}}
}

func TestStatusOfAnUpdate(t *testing.T) {
	list, err := List(oneUpdate(), Names{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d updates: %v", len(list), err)
	}
	u := list[0]
	if u.Name != "fix" || u.Class != "any" || u.State != "trial" || u.Policy != "all" || u.ConfirmMS != 9000 {
		t.Errorf("%+v", u)
	}
	f := u.Functions[0]
	if f.Symbol != "ksys_read" || f.Installer != "direct" || f.Old.Inside != 1 || f.New.Inside != 3 || f.Old.P50 != 0 {
		t.Errorf("%+v", f)
	}
	// Three of four calls took 1024 to 2048 ns, one 4096 to 8192.
	if f.New.P50 != 1024+2*1024/3 || f.New.P99 < 7900 || f.New.P99 > 8192 {
		t.Errorf("median %d, 99th percentile %d", f.New.P50, f.New.P99)
	}
	if _, err := FindStatus(oneUpdate(), "fax", Names{}); err == nil || !strings.Contains(err.Error(), `no update "fax"`) {
		t.Errorf("an update that is not there: %v", err)
	}
}

func TestStatusOfAFunctionWithoutCounts(t *testing.T) {
	s := oneUpdate()
	for i, by := range []uapi.DynamosInstaller{uapi.DynamosDirect, uapi.DynamosLivepatch, uapi.DynamosLivepatchOnly, uapi.DynamosNone} {
		s.counts["fix"][0][1].Installer = by
		list, err := List(s, Names{})
		if err != nil || list[0].Functions[0].Uncounted != (i == 2) {
			t.Errorf("by %v: %+v, %v", by, list, err)
		}
	}
}

func TestUpdateRemovedWhileListed(t *testing.T) {
	s := oneUpdate()
	s.counts = nil
	if list, err := List(s, Names{}); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// fakeProc is /proc with these stacks, by task.
func fakeProc(t *testing.T, symbols string, stacks map[string]string) string {
	proc := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("kallsyms", symbols)
	for task, stack := range stacks {
		write(task+"/stack", stack)
		write(task+"/comm", "cat\n")
	}
	return proc
}

const symbols = `ffffffff81000000 T ksys_read
ffffffffc0001000 t slot_0	[dynamos]
ffffffffc0001090 t slot_1	[dynamos]
ffffffffc0100040 t ksys_read	[fix]
ffffffffc0100340 t other	[fix]
`

func TestWhoIsInside(t *testing.T) {
	proc := fakeProc(t, symbols, map[string]string{
		"10/task/10": "[<0>] pipe_read+0x1/0x2\n[<0>] ksys_read+0x45/0x100 [fix]\n[<0>] slot_0+0x60/0x90 [dynamos]\n[<0>] do_syscall_64+0x3/0x4\n",
		"10/task/11": "[<0>] pipe_read+0x1/0x2\n[<0>] ksys_read+0x45/0x100\n[<0>] dynamos_call_slow+0x8/0x90 [dynamos]\n[<0>] slot_0+0x60/0x90 [dynamos]\n",
		"12/task/12": "[<0>] pipe_read+0x1/0x2\n[<0>] slot_0+0x60/0x90 [dynamos]\n",
		"13/task/13": "[<0>] pipe_read+0x1/0x2\n[<0>] slot_1+0x60/0x90 [dynamos]\n",
		"14/task/14": "[<0>] other+0x1/0x2 [fix]\n[<0>] slot_0+0x60/0x90 [dynamos]\n",
		"15/task/15": "[<0>] ksys_read+0x45/0x100\n",
		"16/task/16": "\x00rubbish ] \n\n]]]\n",
	})
	list, err := List(oneUpdate(), Names{})
	if err != nil {
		t.Fatal(err)
	}
	if err := FillInside(proc, list); err != nil {
		t.Fatal(err)
	}
	want := []Task{
		{10, 10, "cat", "ksys_read", "new", "pipe_read"},
		{10, 11, "cat", "ksys_read", "old", "pipe_read"},
		{12, 12, "cat", "ksys_read", "-", "pipe_read"},
		{14, 14, "cat", "ksys_read", "new", "other [fix]"},
	}
	if !reflect.DeepEqual(list[0].Inside, want) {
		t.Errorf("%+v, not %+v", list[0].Inside, want)
	}
}

func TestInsideSaysWhenAddressesAreHidden(t *testing.T) {
	list, err := List(oneUpdate(), Names{})
	if err != nil {
		t.Fatal(err)
	}
	proc := fakeProc(t, "0000000000000000 t slot_0\t[dynamos]\n", nil)
	if err := FillInside(proc, list); !errors.Is(err, errHidden) {
		t.Errorf("%v", err)
	}
}

func TestWaitingForTheLastUser(t *testing.T) {
	s := oneUpdate()
	s.infos[0].State = uapi.DynamosLeaving
	s.after = func(s *fakeEngine) {
		if s.asked == 3 {
			s.infos[0].State = uapi.DynamosLoaded
		}
	}
	if left, err := WaitDrained(context.Background(), s, "fix", time.Minute); !left || err != nil {
		t.Errorf("%v, %v", left, err)
	}
	s.infos[0].State = uapi.DynamosLeaving
	if left, err := WaitDrained(context.Background(), s, "fix", 0); left || err != nil {
		t.Errorf("with no time: %v, %v", left, err)
	}
	s.infos = nil
	if left, err := WaitDrained(context.Background(), s, "fix", 0); !left || err != nil {
		t.Errorf("unloaded meanwhile: %v, %v", left, err)
	}
}

func TestBuildIDOfNotes(t *testing.T) {
	note := "\x04\x00\x00\x00\x02\x00\x00\x00\x05\x00\x00\x00GNU\x00xx\x00\x00" +
		"\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00" + strings.Repeat("\xab", 20)
	if got := findBuildID([]byte(note)); got != strings.Repeat("ab", 20) {
		t.Errorf("%q", got)
	}
	for n := range len(note) {
		if got := findBuildID([]byte(note[:n])); got != "" {
			t.Errorf("%d bytes hold %q", n, got)
		}
	}
	if id, err := RunningBuildID("/sys"); err == nil {
		if raw, err := hex.DecodeString(id); err != nil || len(raw) == 0 {
			t.Errorf("this kernel has %q", id)
		}
	}
}

func TestEventsOfAnUpdate(t *testing.T) {
	mine, other := uapi.DynamosEvent{Cause: uapi.DynamosWarned, State: uapi.DynamosLeaving, PID: 3}, uapi.DynamosEvent{Cause: uapi.DynamosAsked}
	copy(mine.Name[:], "fix")
	copy(other.Name[:], "fix2")
	got := EventsOf([]uapi.DynamosEvent{mine, other, {Cause: uapi.DynamosDropped}}, "fix")
	if len(got) != 2 || got[0].Cause != "warned" || got[0].State != "leaving" || got[1].Cause != "dropped" {
		t.Errorf("%+v", got)
	}
}

func TestVersionOfTheRunningPackage(t *testing.T) {
	for text, want := range map[string]string{
		"#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-06)": "6.1.192-2",
		"#1 SMP Debian 6.12.95-1~bpo12+1 (2026-07-01)":         "6.12.95-1~bpo12+1",
		"#1 SMP PREEMPT_DYNAMIC":                               "",
		"#1 SMP Debian ":                                       "",
	} {
		got, err := runningVersion(text)
		if got != want || (err == nil) == (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
