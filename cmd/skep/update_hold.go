// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"skep/dynamos/update"
	"skep/internal/cli"
)

// updateHold puts an update in force for one job of this machine.
type updateHold struct {
	cgroup string
	wait   time.Duration
}

func (u *updateHold) options(f *cli.Flags) {
	f.StringVar(&u.cgroup, "cgroup", "", "for the cgroup at `DIR`, until it is gone; without it, for PROGRAM")
	f.DurationVar(&u.wait, "wait", 0, "wait at most this `TIME` for the cgroup to exist")
}

func (u *updateHold) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("an update is expected")
	}
	if len(words) > 1 && words[1] == "--" {
		words = slices.Delete(words, 1, 2)
	}
	if (u.cgroup == "") == (len(words) == 1) {
		return f.Usagef("give either a program, or --cgroup DIR")
	}
	if u.wait < 0 || u.wait > 0 && u.cgroup == "" {
		return f.Usagef("--wait takes a time, as 1m, and needs --cgroup")
	}
	if u.cgroup != "" {
		return updateError(u.holdCgroup(ctx, words[0]))
	}
	path, err := exec.LookPath(words[1])
	if err != nil {
		return notRun(words[1], err)
	}
	// The connection ends with this program's image; the cgroup has its process then.
	c, err := update.AskHold(ctx, holdSocket, update.HoldRequest{Update: words[0]})
	if err != nil {
		return updateError(err)
	}
	defer c.Close()
	return notRun(words[1], syscall.Exec(path, words[1:], os.Environ()))
}

const cgroupPoll = 200 * time.Millisecond

// holdCgroup holds an update until a cgroup is gone.
func (u *updateHold) holdCgroup(ctx context.Context, name string) error {
	dir, err := filepath.Abs(u.cgroup)
	if err != nil {
		return err
	}
	poll := time.NewTicker(cgroupPoll)
	defer poll.Stop()
	exists := func() bool { _, err := os.Stat(dir); return !errors.Is(err, fs.ErrNotExist) }
	for over := time.After(u.wait); !exists(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("there is no cgroup %s: --wait 1m waits for one", dir)
		case <-poll.C:
		}
	}
	end, err := update.KeepHold(ctx, holdSocket, update.HoldRequest{Update: name, Cgroup: dir}, exists, func(err error) {
		fmt.Fprintf(os.Stderr, "skep: %s is not in force for %s: %s\n", name, dir, cli.CleanText(err.Error()))
	})
	if err != nil {
		return err
	}
	defer end()
	if _, err := fmt.Printf("%s: in force for %s until it is gone\n", name, dir); err != nil {
		return err
	}
	openNotifier(ctx).Ready("in force for " + dir) // for systemd-run
	for exists() {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
	return nil
}
