// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/lab"
)

const (
	snapshotMB    = 200
	snapshotLines = 200 // that the program prints before it is saved, and after
	snapshotWait  = 10 * time.Minute
)

// benchSnapshot saves and restores a running program with bee and with CRIU, in one run: here if
// CRIU can work with this kernel, else in a machine of the lab, and bee here as well.
func (b *bench) benchSnapshot() error {
	if _, err := exec.LookPath("criu"); err != nil {
		return errors.New("criu is not installed: apt-get install criu")
	}
	args := []string{b.build + "/tool/bench", "-build", b.build, "-rounds", strconv.Itoa(b.rounds), "snapshot-here"}
	why, unable := exec.Command("criu", "check").CombinedOutput()
	if unable != nil {
		args = append(args, "bee")
	}
	fmt.Printf("here: %s\n", cpuModel())
	out, err := b.makeCommand(side{}, args...).Output()
	if err == nil {
		err = b.tellSnapshots("here", string(out))
	}
	if err != nil || unable == nil {
		return err
	}
	fmt.Printf("CRIU cannot work here (%s)\n", lastLine(why))
	text, err := b.snapshotInGuest(args[:len(args)-1])
	if err != nil {
		return err
	}
	return b.tellSnapshots("guest", text)
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

func (b *bench) snapshotInGuest(args []string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	m := lab.Machine{Name: "bench-snapshot", Kernel: kernelSeries, Build: b.build, CPUs: 1, Memory: 3072}
	m.Append = "clearcpuid=smap" // QEMU's emulator, see docs/design/lab.md
	g, err := lab.Start(ctx, m)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	if err := tellGuest(ctx, g); err != nil {
		return "", err
	}
	return readOutput(ctx, g, lab.Program{Args: args})
}

// tellSnapshots prints what the lines of snapshot-here say.
func (b *bench) tellSnapshots(where, text string) error {
	all := map[string]map[string][]float64{}
	for line := range strings.Lines(text) {
		var way, key string
		var value float64
		if n, _ := fmt.Sscan(line, &way, &key, &value); n != 3 {
			return fmt.Errorf("no figure: %q", line)
		}
		if all[way] == nil {
			all[way] = map[string][]float64{}
		}
		all[way][key] = append(all[way][key], value)
	}
	fmt.Printf("%-5s %-5s %12s %14s %12s %20s\n", "where", "way", "image", "stands still", "restored in", "processor, each line")
	for _, way := range []string{"bee", "criu"} {
		if all[way] == nil {
			continue
		}
		of := func(key string) float64 { return medianOf(all[way][key]) }
		fmt.Printf("%-5s %-5s %8.1f MiB %11.0f ms %9.0f ms %17.0f us\n", where, way, of("image")/(1<<20), of("pause")/1e6, of("restore")/1e6, of("work")/1e3)
		b.writeRecord("result bench=snapshot where=%s way=%s image_mib=%.1f pause_ms=%.0f restore_ms=%.0f line_us=%.1f", where, way,
			of("image")/(1<<20), of("pause")/1e6, of("restore")/1e6, of("work")/1e3)
	}
	return nil
}

// A saver is a program that saves running programs and restores them.
type saver struct {
	name    string
	words   []string // before the program, when it starts
	save    func(path string, pid int, end bool) []string
	restore func(path string) []string
}

func (b *bench) listSavers(program string) []saver {
	return []saver{
		{name: "bee", words: []string{b.binPath("bee")},
			save: func(path string, pid int, end bool) []string {
				args := []string{b.binPath("bee")}
				if end {
					args = append(args, "--end")
				}
				return append(args, "--snapshot", path+"/image", strconv.Itoa(pid))
			},
			restore: func(path string) []string { return []string{b.binPath("bee"), "--restore", path + "/image", program} }},
		{name: "criu",
			save: func(path string, pid int, end bool) []string {
				args := []string{"criu", "dump", "-D", path, "-o", "../log", "-t", strconv.Itoa(pid)}
				if !end {
					args = append(args, "--leave-running")
				}
				return args
			},
			restore: func(path string) []string { return []string{"criu", "restore", "-D", path, "-o", "../log"} }},
	}
}

// snapshotHere measures on this machine, all ways or the one that is named. Each line has a way, a
// figure's name and its value.
func (b *bench) snapshotHere() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	for range b.rounds {
		for _, s := range b.listSavers(b.build + "/bench/linux/snapshot") {
			if only := flag.Arg(1); only != "" && only != s.name {
				continue
			}
			if err := b.saveOnce(s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// saveOnce starts a program, saves it while it goes on, saves it with its end, and restores it.
func (b *bench) saveOnce(s saver) error {
	folder, err := os.MkdirTemp("", "bench-snapshot")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	l := lines{path: folder + "/lines"}
	program, err := l.start(append(s.words, b.build+"/bench/linux/snapshot", strconv.Itoa(snapshotMB))...)
	if err != nil {
		return err
	}
	defer func() { program.Process.Kill(); program.Wait() }()
	calm, err := l.await(snapshotLines)
	if err != nil {
		return err
	}
	image := folder + "/on"
	if err := runSaver(image, s.save(image, program.Process.Pid, false)); err != nil {
		return err
	}
	saved, err := l.await(len(l.all) + snapshotLines)
	if err != nil {
		return err
	}
	size, err := folderSize(image)
	if err != nil {
		return err
	}
	image = folder + "/end"
	if err := runSaver(image, s.save(image, program.Process.Pid, true)); err != nil {
		return err
	}
	program.Wait()
	took, err := l.restore(s.restore(image), program.Process.Pid)
	if err != nil {
		return err
	}
	work := (calm[len(calm)-1].cpu - calm[0].cpu) / int64(len(calm)-1)
	fmt.Printf("%[1]s image %[2]d\n%[1]s pause %[3]d\n%[1]s restore %[4]d\n%[1]s work %[5]d\n", s.name, size, largestGap(saved[len(calm)-1:]), took, work)
	return nil
}

func runSaver(image string, args []string) error {
	if err := os.Mkdir(image, 0o700); err != nil {
		return err
	}
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func folderSize(path string) (size int64, err error) {
	err = filepath.Walk(path, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// A stamp is one line of tests/bench/c/snapshot.c.
type stamp struct{ number, at, cpu int64 }

// lines are what the program has printed.
type lines struct {
	path string
	all  []stamp
}

// start starts a program that appends to the lines, also its errors, in a session of its own and
// without descriptors of this process, which could not be saved.
func (l *lines) start(args ...string) (*exec.Cmd, error) {
	out, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c, c.Start()
}

// await waits until there are that many lines, and checks that none is missing or doubled.
func (l *lines) await(n int) ([]stamp, error) {
	for end := time.Now().Add(snapshotWait); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(l.path)
		if err != nil {
			return nil, err
		}
		if whole := bytes.Count(text, []byte("\n")); whole >= n {
			return l.parse(text[:bytes.LastIndexByte(text, '\n')+1])
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%d lines have not come in %v", n, snapshotWait)
		}
	}
}

func (l *lines) parse(text []byte) ([]stamp, error) {
	l.all = nil
	for line := range strings.Lines(string(text)) {
		var s stamp
		if n, _ := fmt.Sscan(line, &s.number, &s.at, &s.cpu); n != 3 || s.number != int64(len(l.all)) {
			return nil, fmt.Errorf("line %d of the program is %q", len(l.all), line)
		}
		l.all = append(l.all, s)
	}
	return l.all, nil
}

// restore runs a command that goes on with the program, and ends it: in the command's process, as
// bee does, or in one with the number that it had, as CRIU does. It returns the nanoseconds to the
// first line.
func (l *lines) restore(args []string, number int) (int64, error) {
	before, err := l.await(1)
	if err != nil {
		return 0, err
	}
	began := time.Now().UnixNano()
	program, err := l.start(args...)
	if err != nil {
		return 0, err
	}
	after, err := l.await(len(before) + snapshotLines)
	syscall.Kill(number, syscall.SIGKILL)
	program.Process.Kill()
	program.Wait()
	if err != nil {
		return 0, err
	}
	return after[len(before)].at - began, nil
}

func largestGap(list []stamp) (most int64) {
	for i := 1; i < len(list); i++ {
		most = max(most, list[i].at-list[i-1].at)
	}
	return most
}
