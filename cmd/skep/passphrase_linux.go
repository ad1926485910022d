// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
)

// A passphrase encrypts an operator's key. It comes from a file or from the terminal,
// never from the command line, which every user can read.
type passphrase struct{ file string }

func (p *passphrase) options(f *cli.Flags) {
	f.StringVar(&p.file, "passphrase-file", "", "read the passphrase of the key from the first line of `FILE`")
}

// ask returns the passphrase of an encrypted key.
func (p *passphrase) ask() ([]byte, error) {
	if p.file != "" {
		return p.read()
	}
	return askTerminal("passphrase of the key: ")
}

// choose returns the passphrase of a new key.
func (p *passphrase) choose() ([]byte, error) {
	if p.file != "" {
		return p.read()
	}
	first, err := askTerminal("passphrase for the new key: ")
	if err != nil {
		return nil, err
	}
	again, err := askTerminal("once more: ")
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(first, again):
		return nil, cli.Errorf(cli.Usage, "the two passphrases differ")
	case len(first) == 0:
		return nil, cli.Errorf(cli.Usage, "an empty passphrase does not encrypt: type one, or give --no-passphrase")
	}
	return first, nil
}

func (p *passphrase) read() ([]byte, error) {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if len(line) == 0 {
		return nil, cli.Errorf(cli.Usage, "the first line of %s is empty", p.file)
	}
	return line, nil
}

// askTerminal reads a line from the terminal without showing it.
func askTerminal(prompt string) (line []byte, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "there is no terminal to ask for a passphrase: give --passphrase-file FILE")
	}
	defer tty.Close()
	fd := int(tty.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	// Without ISIG, Ctrl-C is read here, so the terminal never stays silent.
	silent := *modes
	silent.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	silent.Cc[unix.VMIN], silent.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &silent); err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	defer func() {
		_, e := tty.WriteString("\n") // the user's own line feed was not shown
		err = errors.Join(err, unix.IoctlSetTermios(fd, unix.TCSETS, modes), e)
	}()
	if _, err := tty.WriteString(prompt); err != nil {
		return nil, err
	}
	return readSilent(bufio.NewReader(tty))
}

// readSilent reads the keys that a user types until the end of the line.
func readSilent(in io.ByteReader) (line []byte, err error) {
	const interrupt, end, backspace, del = 0x03, 0x04, 0x08, 0x7f
	for {
		b, err := in.ReadByte()
		switch {
		case err != nil:
			return nil, err
		case b == interrupt:
			return nil, cli.Exit(130)
		case b == '\n' || b == '\r' || b == end:
			return line, nil
		case b == backspace || b == del:
			line = line[:max(0, len(line)-1)]
		default:
			line = append(line, b)
		}
	}
}
