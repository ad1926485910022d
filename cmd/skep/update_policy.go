// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
	"skep/internal/uapi"
	lent "skep/shimos/part"
)

// whom holds the options of a policy. All terms of a rule must hold. --or and --except
// begin another rule.
type whom struct {
	update.Policy
	nobody bool
}

func (w *whom) options(f *cli.Flags) {
	term := func(name, help string, read func(string) (uint32, func(*uapi.DynamosRule), error)) {
		f.Func(name, help, func(text string) error {
			bit, set, err := read(text)
			if err != nil {
				return err
			}
			return w.Add(bit, set)
		})
	}
	term("pid", "the thread with this `NUMBER`", readPID)
	term("tgid", "the process with this `NUMBER`", readTGID)
	term("comm", "processes with this `NAME`", readComm)
	term("uid", "effective user: a `NAME` or number", readUID)
	term("gid", "effective group: a `NAME` or number", readGID)
	term("cgroup", "a `CGROUP` and those below it: its folder, its path, or its name", readCgroup)
	term("cpus", "calls on these CPUs, as `0-3,8`", readCPUs)
	term("share", "this `PERCENT` of all processes, as 10%; each keeps its version", readShare)
	term("window", "a `TIME` from now on, as 10m; 5m..15m begins later", readWindow)
	term("program", "calls for which the BPF program pinned at this `FILE` does not return 0", readPinned)
	f.BoolFunc("or", "begin another rule: tasks that match it get the update too", flagOf(w.Or))
	f.BoolFunc("except", "begin a rule for tasks that do not get the update", flagOf(w.Except))
	f.BoolFunc("all", "all tasks that no --except rule matches", flagOf(func() error { w.All(); return nil }))
}

func flagOf(do func() error) func(string) error {
	return func(text string) error {
		if text != "true" {
			return errors.New("it takes no value")
		}
		return do()
	}
}

func readNumber(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, errors.New("want a number above 0")
	}
	return int32(n), nil
}

func readPID(text string) (uint32, func(*uapi.DynamosRule), error) {
	n, err := readNumber(text)
	return uapi.DynamosPID, func(r *uapi.DynamosRule) { r.PID = n }, err
}

func readTGID(text string) (uint32, func(*uapi.DynamosRule), error) {
	n, err := readNumber(text)
	return uapi.DynamosTGID, func(r *uapi.DynamosRule) { r.TGID = n }, err
}

func readComm(text string) (uint32, func(*uapi.DynamosRule), error) {
	var name [16]byte
	if text == "" || len(text) >= len(name) || strings.ContainsRune(text, 0) {
		return 0, nil, fmt.Errorf("a name has 1 to %d bytes: see /proc/PID/comm", len(name)-1)
	}
	copy(name[:], text)
	return uapi.DynamosComm, func(r *uapi.DynamosRule) { r.Comm = name }, nil
}

func readUID(text string) (uint32, func(*uapi.DynamosRule), error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		u, e := user.Lookup(text)
		if e != nil {
			return 0, nil, errors.New("there is no such user")
		}
		id, err = strconv.ParseUint(u.Uid, 10, 32)
	}
	return uapi.DynamosUID, func(r *uapi.DynamosRule) { r.UID = uint32(id) }, err
}

func readGID(text string) (uint32, func(*uapi.DynamosRule), error) {
	id, err := groupNumber(text)
	return uapi.DynamosGID, func(r *uapi.DynamosRule) { r.GID = id }, err
}

func readCgroup(text string) (uint32, func(*uapi.DynamosRule), error) {
	id, err := update.CgroupID(text)
	return uapi.DynamosCgroup, func(r *uapi.DynamosRule) { r.Cgroup = id }, err
}

func readCPUs(text string) (uint32, func(*uapi.DynamosRule), error) {
	c, err := lent.ParseCPUs(text)
	return uapi.DynamosCPUSet, func(r *uapi.DynamosRule) { r.CPUs = c }, err
}

func readShare(text string) (uint32, func(*uapi.DynamosRule), error) {
	text, per := trust.CutPer(text)
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	share := math.Round(v / 100 * uapi.DynamosShareMax)
	if err != nil || !percent || !(share >= 1 && share <= uapi.DynamosShareMax) {
		return 0, nil, errors.New("want a percentage above 0 and up to 100%, as 10%, 10%:uid or 10%:cgroup")
	}
	return uapi.DynamosShare, func(r *uapi.DynamosRule) { r.Share, r.Per = uint32(share), per }, nil
}

func readWindow(text string) (uint32, func(*uapi.DynamosRule), error) {
	first, last, both := strings.Cut(text, "..")
	if !both {
		first, last = "0s", first
	}
	from, err := time.ParseDuration(first)
	until, err2 := time.ParseDuration(last)
	if err != nil || err2 != nil || from < 0 || until <= from {
		return 0, nil, errors.New("want a time from now on, as 10m, or two, as 5m..15m")
	}
	now := update.Boottime()
	return uapi.DynamosWindow, func(r *uapi.DynamosRule) {
		r.From, r.Until = now+uint64(from), now+uint64(until)
	}, nil
}

func readPinned(text string) (uint32, func(*uapi.DynamosRule), error) {
	id, err := update.PinnedProgram(text)
	return uapi.DynamosProgram, func(r *uapi.DynamosRule) { r.PID = int32(id) }, err
}

// encode returns the policy, or an error if the options are invalid or name a task that does not exist. proc is where /proc is.
func (w *whom) encode(f *cli.Flags, proc string) (uapi.DynamosPolicy, error) {
	if w.nobody == w.Given() {
		return uapi.DynamosPolicy{}, f.Usagef("name the tasks that use it: processes, users, cgroups..., or say --all")
	}
	p, err := w.Encode()
	if err == nil {
		err = checkTasks(&p, proc)
	}
	if err != nil {
		return p, f.Usagef("%v", err)
	}
	return p, nil
}

// checkTasks refuses a policy for a process or thread that does not exist, because its
// number may be reused. proc is the path of /proc.
func checkTasks(p *uapi.DynamosPolicy, proc string) error {
	for i := range p.Rules {
		r := &p.Rule[i]
		if r.Terms&uapi.DynamosPID != 0 {
			if _, err := os.Stat(filepath.Join(proc, strconv.Itoa(int(r.PID)))); err != nil {
				return fmt.Errorf("there is no thread %d: 'ps -eL' lists them", r.PID)
			}
		}
		if r.Terms&uapi.DynamosTGID == 0 {
			continue
		}
		status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(int(r.TGID)), "status"))
		if err != nil {
			return fmt.Errorf("there is no process %d: 'ps -e' lists them", r.TGID)
		}
		_, rest, _ := strings.Cut(string(status), "\nTgid:")
		if line, _, _ := strings.Cut(rest, "\n"); strings.TrimSpace(line) != strconv.Itoa(int(r.TGID)) {
			return fmt.Errorf("%d is a thread of process %s: give --tgid with that number, or --pid %d", r.TGID, strings.TrimSpace(line), r.TGID)
		}
	}
	return nil
}

type updatePolicy struct{ whom }

func (u *updatePolicy) options(f *cli.Flags) {
	u.whom.options(f)
	f.BoolVar(&u.nobody, "nobody", false, "new calls take the older version; the update stays applied")
}

func (u *updatePolicy) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := oneUpdate(f, words)
	if err != nil {
		return err
	}
	p, err := u.encode(f, "/proc")
	if err != nil {
		return err
	}
	return withDevice(func(d *update.Device) error {
		if !u.nobody {
			if err := approvePolicy(name, &p); err != nil {
				return err
			}
		}
		if err := d.SetPolicy(name, p); err != nil {
			return err
		}
		if _, err := fmt.Printf("%s: for %s\n", name, update.DescribePolicy(&p, updateNames())); err != nil || !isKept(name) {
			return err
		}
		return keepUpdate(d, name)
	})
}
