// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"skep/tests/watch"
)

// compareMemory runs a program and compares its text and stubs in memory with
// the image that is scanned.
func compareMemory(o options, dir string) error {
	img, err := finalImage(o, o.bee, dir, o.memory, nil)
	if err != nil {
		return err
	}
	const nonce = "5ca4000000000001"
	words := append(strings.Fields(o.bee), "--nonce", nonce, o.memory, "cat")
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = bareEnvironment(o)
	var output watch.Text
	cmd.Stdout, cmd.Stderr = &output, &output
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	p, err := watch.Start(cmd)
	if err != nil {
		return err
	}
	defer p.Kill()
	defer input.Close() // ends cat and the processes that serve it
	if _, err := io.WriteString(input, "ready\n"); err != nil {
		return err
	}
	err = watch.Poll(30*time.Second, func() error {
		if !strings.Contains(output.String(), "ready") {
			return fmt.Errorf("the program did not answer: %s", output.String())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := compareProcesses(img, nonce); err != nil {
		return err
	}
	img.texts[0].bytes[len(img.texts[0].bytes)/2] ^= 1
	if compareProcesses(img, nonce) == nil {
		return errors.New("a byte that differs is not noticed")
	}
	return errors.Join(input.Close(), awaitEnd(p))
}

func awaitEnd(p *watch.Process) error {
	if !watch.Ends(p.Done, 30*time.Second) {
		return errors.New("the program did not end")
	}
	return nil
}

// compareProcesses checks that one of the processes with the nonce on their command lines has
// the program in memory, and that its text equals the image.
func compareProcesses(img *image, nonce string) error {
	var why []error
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if words, _ := os.ReadFile(line); !bytes.Contains(words, []byte(nonce)) {
			continue
		}
		err := compareProcess(img, filepath.Dir(line))
		if err == nil {
			return nil
		}
		why = append(why, fmt.Errorf("%s: %w", line, err))
	}
	return fmt.Errorf("no process holds the program: %w", errors.Join(why...))
}

func compareProcess(img *image, proc string) error {
	mem, err := os.Open(filepath.Join(proc, "mem"))
	if err != nil {
		return err
	}
	defer mem.Close()
	for _, s := range append(img.texts, img.stubs) {
		have := make([]byte, len(s.bytes))
		if _, err := mem.ReadAt(have, int64(s.addr)); err != nil {
			return err
		}
		for i := range have {
			if have[i] != s.bytes[i] {
				return fmt.Errorf("memory differs at %#x", s.addr+uint64(i))
			}
		}
	}
	return nil
}
