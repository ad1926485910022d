// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

// A bootAnswer is what the process that holds a console says to the one that started it.
type bootAnswer struct {
	Held *lent.Held `json:"held,omitempty"` // the kernel has a console
	End  *lent.End  `json:"end,omitempty"`  // or it has none
}

// startHolder starts a process that boots the kernel, and returns when there is a console.
// Until then the kernel ends with this process.
func (p *partBoot) startHolder(ctx context.Context) error {
	for _, path := range []*string{&p.Root, &p.Disk} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = whole
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "part", "hold")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	tie, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := progressOf("booting the kernel")
	a, err := p.order(ctx, tie, out)
	done()
	if err != nil {
		return errors.Join(err, tie.Close(), cmd.Wait())
	}
	if a.Held == nil {
		cmd.Wait() // its answer is better than its code
		if a.End.Note != "" {
			fmt.Fprintln(os.Stderr, "skep: "+a.End.Note)
		}
		return endError(*a.End)
	}
	fmt.Fprintf(os.Stderr, "skep: the kernel goes on; 'skep part console %d' shows its console, 'kill %d' stops it\n", a.Held.ID, a.Held.PID)
	_, err = fmt.Println(a.Held.ID)
	return err
}

// order gives the order and reads the answer. When ctx ends, so does the kernel.
func (p *partBoot) order(ctx context.Context, tie io.WriteCloser, out io.Reader) (a bootAnswer, err error) {
	defer context.AfterFunc(ctx, func() { tie.Close() })()
	if err := json.NewEncoder(tie).Encode(p.bootOrder); err != nil {
		return a, err
	}
	if err := json.NewDecoder(out).Decode(&a); err != nil || a.Held == nil && a.End == nil {
		return a, fmt.Errorf("the process that holds the console ended without a message: %v", err)
	}
	return a, nil
}

// partHold boots a kernel for part linux --detach, which gives the order on its standard
// input, and holds the console.
type partHold struct {
	order  bootOrder
	holder *lent.Holder
	up     atomic.Bool // from then on the kernel outlives the command
}

func (h *partHold) options(*cli.Flags) {}

func (h *partHold) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := beginHolder(f, words); err != nil {
		return err
	}
	d := json.NewDecoder(os.Stdin)
	if err := d.Decode(&h.order); err != nil {
		return f.Usagef("skep starts this command itself: %v", err)
	}
	started, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var end any
		if d.Decode(&end); !h.up.Load() {
			stop()
		}
	}()
	return h.hold(started)
}

// farewell is how long a console has to show the end of a kernel that a signal stopped.
const farewell = 5 * time.Second

// hold boots the kernel and, if it had a console, waits until somebody knows its end.
func (h *partHold) hold(ctx context.Context) error {
	note, err := h.boot(ctx)
	end := lent.End{Note: note}
	end.Code, end.Text = cli.ExitCode(err)
	if h.holder != nil {
		defer h.holder.Close()
	}
	if !h.up.Load() {
		return json.NewEncoder(os.Stdout).Encode(bootAnswer{End: &end})
	}
	h.holder.Finish(end)
	if ctx.Err() == nil {
		h.holder.Wait(ctx)
	}
	if ctx.Err() != nil && h.holder.Attached() {
		soon, stop := context.WithTimeout(context.Background(), farewell)
		defer stop()
		h.holder.Wait(soon)
	}
	return nil
}

// boot runs the kernel until its end, and gives back what it had.
func (h *partHold) boot(ctx context.Context) (note string, err error) {
	boot, err := h.order.readFiles()
	if err != nil {
		return "", err
	}
	lender, err := lent.NewLender()
	if err != nil {
		return "", partError(err)
	}
	end, lost, err := h.runKernel(ctx, lender, boot)
	note, err = bootEnd(end, err, lender.Close())
	return joinNotes(note, lost), err
}

func (h *partHold) runKernel(ctx context.Context, l *lent.Lender, b lent.Boot) (end lent.LinuxEnd, lost string, err error) {
	i, err := h.order.partition(l)
	if err != nil {
		return "", "", err
	}
	if h.holder, err = lent.Hold(lent.HeldFolder, i.ID, i.Name); err != nil {
		return "", "", err
	}
	b.Up = h.leave
	return h.order.runLinked(ctx, l, i.ID, b, h.holder)
}

// leave answers the command, and keeps nothing of the place where it ran.
func (h *partHold) leave() {
	h.up.Store(true)
	held := h.holder.Held()
	json.NewEncoder(os.Stdout).Encode(bootAnswer{Held: &held}) // the command may be gone
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		unix.Dup2(int(null.Fd()), 1)
		unix.Dup2(int(null.Fd()), 2)
		null.Close()
	}
	os.Chdir("/") // a folder that can't be left stays busy
}
