// SPDX-License-Identifier: MIT

// Record runs a command on a pseudoterminal and draws the session as SVG:
//
//	record -o FILE.svg -typed 'make demo' -words 'what is seen' -- COMMAND...
//
// If the command fails, the older picture stays.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"skep/tests/picture"
)

func main() {
	out := flag.String("o", "", "the picture")
	typed := flag.String("typed", "", "the command that the picture begins with")
	words := flag.String("words", "", "describes the picture")
	columns := flag.Int("columns", 120, "of the terminal")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	s := &picture.Screen{Columns: *columns}
	if *typed != "" {
		fmt.Fprintf(s, "$ %s\r\n", *typed)
	}
	err := record(s, flag.Args())
	if err == nil {
		err = write(s, *out, *words)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "record: %v\n%s\n", err, strings.Join(s.Text(), "\n"))
		os.Exit(1)
	}
}

func write(s *picture.Screen, path, words string) error {
	var b strings.Builder
	if err := s.Draw(&b, words); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// record runs the command and waits for its end.
func record(s *picture.Screen, argv []string) error {
	ours, program, err := openTerminal(s.Columns)
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	program.Close()
	if err != nil {
		return err
	}
	io.Copy(s, ours) // ends with EIO when the last process has closed the terminal
	return cmd.Wait()
}

func openTerminal(columns int) (ours, program *os.File, err error) {
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
	if err != nil {
		return nil, nil, err
	}
	return ours, program, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)})
}
