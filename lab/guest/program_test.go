// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/lab/wire"
)

// A program's terminal has the requested size and passes its lines on.
func TestTerminalOfAProgram(t *testing.T) {
	f := &files{}
	defer f.close()
	defer f.closeTheirs()
	if err := f.openTerminal(wire.Size{Rows: 31, Columns: 99}); err != nil {
		t.Fatal(err)
	}
	if len(f.theirs) != 3 {
		t.Fatalf("a program has %d files", len(f.theirs))
	}
	w, err := unix.IoctlGetWinsize(int(f.theirs[0].Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Row != 31 || w.Col != 99 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := f.in.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	if n, err := f.theirs[0].Read(got); err != nil || string(got[:n]) != "typed\n" {
		t.Errorf("%q, %v", got[:n], err)
	}
}

// The results port changes no byte: 8 bits, no flow control, no modem control.
func TestResultsLineChangesNothing(t *testing.T) {
	text := unix.Termios{Iflag: unix.ICRNL | unix.IXON, Oflag: unix.OPOST | unix.ONLCR, Lflag: unix.ECHO | unix.ICANON,
		Cflag: unix.CS5 | unix.PARENB | unix.HUPCL | unix.B9600}
	setRaw(&text)
	if text.Iflag|text.Oflag|text.Lflag != 0 {
		t.Errorf("it changes bytes: %+v", text)
	}
	if c := text.Cflag; c&unix.CSIZE != unix.CS8 || c&unix.CREAD == 0 || c&unix.CLOCAL == 0 || c&unix.CBAUD != unix.B115200 || c&unix.PARENB != 0 {
		t.Errorf("%#x", c)
	}
}

// A terminal in raw mode passes each byte on as it is, and only terminals have such a mode.
func TestRawModePassesAllBytes(t *testing.T) {
	f := &files{}
	defer f.close()
	defer f.closeTheirs()
	if err := f.openTerminal(wire.Size{Rows: 1, Columns: 1}); err != nil {
		t.Fatal(err)
	}
	if err := setRawMode(int(f.theirs[0].Fd())); err != nil {
		t.Fatal(err)
	}
	want := "a\nb\r\x03\x04\xff"
	if _, err := f.theirs[0].WriteString(want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(f.out, got); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := setRawMode(int(null.Fd())); err != unix.ENOTTY {
		t.Errorf("/dev/null: %v", err)
	}
}

// A SIGNAL frame of one byte reaches the program; other lengths are refused.
func TestJob_signals(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "trap 'exit 5' TERM; echo; while :; do sleep 0.1; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	out.Read(make([]byte, 1)) // now it catches signals
	j := &job{pid: cmd.Process.Pid, files: &files{}}
	for _, p := range [][]byte{nil, {9, 0}, {byte(syscall.SIGTERM)}} {
		if err := j.handleFrame(proto.ExecSignal, p); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("the program ended with %v", cmd.ProcessState)
	}
}

// The output that an ended program left is read without waiting for end of file.
func TestReadNowNeverWaits(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close() // stands for a process that still has it open
	read := make(chan string, 2)
	go func() {
		buf := make([]byte, 100)
		in.WriteString("left")
		read <- string(buf[:max(0, readNow(out, buf))])
		read <- string(buf[:max(0, readNow(out, buf))])
	}()
	for _, want := range []string{"left", ""} {
		select {
		case got := <-read:
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("an empty pipe is waited for")
		}
	}
}

func TestMemoryOfANode(t *testing.T) {
	dir := t.TempDir()
	if got := nodeMemory(dir); got != 0 {
		t.Errorf("a node that says nothing has %d MiB", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "meminfo"), []byte("Node 0 MemTotal:  2097152 kB\nNode 0 MemFree: 7 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := nodeMemory(dir); got != 2048 {
		t.Errorf("2 GiB are %d MiB", got)
	}
}
