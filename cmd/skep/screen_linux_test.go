// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A glass emulates a terminal of unlimited height. The lock guards it.
type glass struct {
	lock     sync.Mutex
	lines    []string
	row, col int
	escape   string
}

func (g *glass) Write(b []byte) (int, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	for _, c := range string(b) {
		for len(g.lines) <= g.row {
			g.lines = append(g.lines, "")
		}
		switch {
		case c == '\x1b' || g.escape != "":
			g.applyControl(c)
		case c == '\n':
			g.row++
		case c == '\r':
			g.col = 0
		default:
			line := g.lines[g.row]
			line += strings.Repeat(" ", max(0, g.col-len(line)))
			g.lines[g.row] = line[:g.col] + string(c) + line[min(len(line), g.col+1):]
			g.col++
		}
	}
	return len(b), nil
}

func (g *glass) applyControl(c rune) {
	g.escape += string(c)
	switch g.escape {
	case "\x1b[A":
		g.row = max(0, g.row-1)
	case "\x1b[J":
		g.lines = append(g.lines[:g.row], g.lines[g.row][:min(len(g.lines[g.row]), g.col)])
	default:
		return
	}
	g.escape = ""
}

func (g *glass) screenText() string {
	g.lock.Lock()
	defer g.lock.Unlock()
	return strings.Join(append(g.lines, make([]string, max(0, g.row+1-len(g.lines)))...), "\n")
}

func openPair() (ours, program *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	return ours, program, err
}

// onGlass makes an emulated terminal this program's standard output and error.
func onGlass(t *testing.T) *glass {
	t.Helper()
	ours, program, err := openPair()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERM", "xterm")
	g := &glass{}
	done := make(chan struct{})
	go func() { defer close(done); io.Copy(g, ours) }()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = program, program
	t.Cleanup(func() {
		os.Stdout, os.Stderr = stdout, stderr
		program.Close()
		<-done
		ours.Close()
	})
	return g
}

// On a terminal with progress, the program's lines stay above it, and no line of progress
// is left at the end.
func TestProgramAboveProgress(t *testing.T) {
	g := onGlass(t)
	in, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin; in.Close(); answers.Close() }()
	w := newWatch(os.Stderr)
	ended := make(chan error, 1)
	script := `test -t 1 && test -t 2 || exit 7; for i in 1 2 3 4 5 6; do echo RESULT $i; read x; echo ERROR $i >&2; printf 'more? '; read x; echo yes; done`
	go func() {
		ended <- (&run{}).startMaster(t.Context(), "/bin/sh", []string{"sh", "-c", script}, "none", 0, w)
	}()
	want, n := "", 0
	see := func(text string, progress bool) {
		t.Helper()
		want += text
		for end := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
			n++
			line := fmt.Sprintf("node %d", n)
			w.progress.Set([]string{line, "below"})
			shown := g.screenText()
			if !progress && shown == want {
				return
			}
			rest, found := strings.CutPrefix(shown, want+"\nnode ")
			if progress && found && strings.HasSuffix(rest, "\nbelow\n") && strings.Count(rest, "\n") == 2 {
				return
			}
			select {
			case err := <-ended:
				t.Fatalf("the master ended: %v, shown is\n%s", err, shown)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("want\n%s\nshown is\n%s", want, shown)
			}
		}
	}
	for i := range 6 {
		newline := map[bool]string{true: "\n"}[i > 0]
		see(fmt.Sprintf("%sRESULT %d", newline, i+1), true)
		answers.WriteString("\n")
		see(fmt.Sprintf("\nERROR %d\nmore? ", i+1), false)
		answers.WriteString("\n")
		want += "yes"
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.close()
	see("\n", false)
}
