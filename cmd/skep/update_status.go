// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
	"skep/internal/uapi"
)

type updateStatus struct{ json bool }

func (u *updateStatus) options(f *cli.Flags) {
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
}

func (u *updateStatus) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) > 0 {
		if err := f.RefuseArgs(words[1:]); err != nil {
			return err
		}
	}
	return withDevice(func(d *update.Device) error {
		list, err := u.read(d, words)
		if err != nil {
			return err
		}
		switch {
		case u.json:
			return cli.PrintJSON(os.Stdout, list)
		case len(words) > 0:
			return showUpdate(os.Stdout, &list[0], update.Boottime())
		case len(list) == 0:
			_, err = fmt.Println("no update is loaded: 'skep update apply FILE' loads one")
		default:
			err = showUpdates(os.Stdout, list)
		}
		return errors.Join(err, showOff(os.Stdout, newKeep()), showFailed(os.Stdout, newTrust()))
	})
}

// showOff names the stored updates that are turned off, or that this kernel needs no more.
func showOff(w io.Writer, keep *update.Keep) error {
	if on, err := keep.IsOn(); err != nil || !on {
		return nil // another user's, or none
	}
	list, _ := keep.List() // what cannot be read, the service says
	build, _ := update.RunningBuildID("/sys")
	for _, k := range list {
		if c := k.Contained; c != nil && c.BuildID == build {
			if _, err := fmt.Fprintf(w, "%s is included in this kernel, as %s signed\n", k.Name, cli.CleanText(strings.Join(c.Signers, " and "))); err != nil {
				return err
			}
		}
		if k.Off == nil {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s is turned off: %s. 'skep service restore --retry' tries again, 'skep update revert %s' forgets it\n",
			k.Name, cli.CleanText(k.Off.Why), k.Name); err != nil {
			return err
		}
	}
	return nil
}

// showFailed names the latest package of each line that failed on this node. After a panic
// nothing else says here what was loaded.
func showFailed(w io.Writer, from *trust.Store) error {
	s, err := from.Load()
	if errors.Is(err, fs.ErrPermission) {
		return nil // only root may read it
	}
	if err != nil {
		return err
	}
	for _, line := range slices.Sorted(maps.Keys(s.Lines)) {
		m := s.Lines[line]
		why := s.Blocked[m.Content]
		if m.Content == "" || why == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s failed on this node at sequence %d (%s), and no hub applies that package here again: mend the fix, then build and sign it anew\n",
			line, m.Sequence, cli.CleanText(why)); err != nil {
			return err
		}
	}
	return nil
}

// read returns all updates, or the one named.
func (u *updateStatus) read(d updateSource, words []string) (list []update.Status, err error) {
	if len(words) == 0 {
		list, err = update.List(d, updateNames())
	} else {
		list = make([]update.Status, 1)
		list[0], err = update.FindStatus(d, words[0], updateNames())
	}
	if err != nil || len(words) == 0 && !u.json {
		return list, err
	}
	if err := update.FillInside("/proc", list); err != nil {
		return nil, err
	}
	events, err := d.Events()
	for i := range list {
		list[i].Events = update.EventsOf(events, list[i].Name)
	}
	return list, err
}

// notCounted stands for the figures of a function whose calls no wrapper can pass on.
const notCounted = "not counted"

// showUpdates prints a line for each function of each update.
func showUpdates(w io.Writer, list []update.Status) error {
	table := cli.NewTable("UPDATE", "CLASS", "STATE", "FOR", "FUNCTION", "OLD CALLS", "NEW CALLS", "INSIDE", "ERRORS", "BY")
	for _, u := range list {
		state := u.State
		if u.Advised {
			state += " (reboot advised)"
		}
		head := []any{u.Name, u.Class, state, u.Policy}
		for _, f := range u.Functions {
			counts := []any{f.Symbol, f.Old.Calls, f.New.Calls, f.New.Inside, f.New.Errors, f.Installer}
			if f.Uncounted {
				counts = []any{f.Symbol, notCounted, notCounted, "-", "-", f.Installer}
			}
			table.Row(append(head, counts...)...)
			head = []any{"", "", "", ""}
		}
	}
	return table.Write(w)
}

// showUpdate prints all details of one update; now is a time of CLOCK_BOOTTIME.
func showUpdate(w io.Writer, u *update.Status, now uint64) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: class %s, %s%s\n", u.Name, u.Class, u.State, timerText(u))
	if u.Advised {
		b.WriteString("REBOOT ADVISED: a task died inside and may have held a lock; nothing more is applied until then\n")
	}
	fmt.Fprintf(&b, "for %s\n%s", cli.CleanText(u.Policy), healthText(&u.Health))
	if u.Held != "" {
		fmt.Fprintf(&b, "held: once applied it is never unloaded, because %s\n", cli.CleanText(u.Held))
	}
	if u.End != "" {
		fmt.Fprintf(&b, "last reverted because %s\n", cli.CleanText(u.End))
	}
	b.WriteByte('\n')
	functions := cli.NewTable("FUNCTION", "VERSION", "CALLS", "INSIDE", "LOST", "ERRORS", "OUTSIDE", "P50", "P99", "BY", "ALSO CHANGED BY")
	for _, f := range u.Functions {
		if f.Uncounted {
			functions.Row(f.Symbol, "both", notCounted, "-", "-", "-", "-", "-", "-", f.Installer, orDash(f.Owner))
			continue
		}
		functions.Row(f.Symbol, "old", f.Old.Calls, f.Old.Inside, f.Old.Lost, f.Old.Errors, f.Old.Outside,
			latencyText(f.Old.Sampled, f.Old.P50), latencyText(f.Old.Sampled, f.Old.P99), f.Installer, orDash(f.Owner))
		functions.Row("", "new", f.New.Calls, f.New.Inside, f.New.Lost, f.New.Errors, f.New.Outside,
			latencyText(f.New.Sampled, f.New.P50), latencyText(f.New.Sampled, f.New.P99), "", "")
	}
	if err := functions.Write(&b); err != nil {
		return err
	}
	if len(u.Inside) > 0 {
		b.WriteByte('\n')
		if err := insideTable(u.Inside).Write(&b); err != nil {
			return err
		}
	}
	if len(u.Events) > 0 {
		b.WriteByte('\n')
		events := cli.NewTable("AGO", "EVENT", "THEN", "PID", "COMM", "TEXT")
		for _, e := range u.Events {
			events.Row(time.Duration(now-e.TimeNS).Round(100*time.Millisecond), e.Cause, e.State, pidOf(e.PID), orDash(e.Comm), e.Text)
		}
		if err := events.Write(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func insideTable(list []update.Task) *cli.Table {
	table := cli.NewTable("PID", "THREAD", "COMM", "INSIDE", "VERSION", "SLEEPS IN")
	for _, t := range list {
		table.Row(t.PID, t.TID, t.Comm, t.Symbol, t.Version, t.Frame)
	}
	return table
}

func timerText(u *update.Status) string {
	if u.ConfirmMS < 0 || u.State != uapi.DynamosTrial.String() {
		return ""
	}
	left := time.Duration(u.ConfirmMS) * time.Millisecond
	return fmt.Sprintf(", reverted in %v unless committed", left.Round(time.Second))
}

// healthText describes the health checks that revert an update.
func healthText(h *update.Health) string {
	var list []string
	if h.Errors > 0 {
		list = append(list, fmt.Sprintf("%d errors more per 1000 calls", h.Errors))
	}
	if h.Latency > 0 {
		list = append(list, fmt.Sprintf("a median longer by %d %%", h.Latency))
	}
	text := ""
	if len(list) > 0 {
		text = fmt.Sprintf("reverted at %s, from %d calls of both versions on\n", strings.Join(list, ", or "), h.Least)
	}
	if h.StuckNS > 0 {
		text += fmt.Sprintf("calls longer than %v are reported\n", time.Duration(h.StuckNS))
	}
	return text
}
