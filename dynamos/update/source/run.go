// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A toolError has the error output of a program.
type toolError struct {
	tool string
	err  error
	text string
}

// Error returns the end of it.
func (e *toolError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.tool, e.err, e.text[max(0, len(e.text)-1500):])
}

func (e *toolError) Unwrap() error { return e.err }

// runOutput runs a program in dir and gives what it printed; an error has the end of its error output. Its child processes end with it.
func runOutput(ctx context.Context, dir string, in io.Reader, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = dir, in
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"KBUILD_BUILD_USER=skep", "KBUILD_BUILD_HOST=skep", "KBUILD_BUILD_TIMESTAMP=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text := strings.TrimSpace(complaint.String())
		if text == "" {
			text = strings.TrimSpace(out.String())
		}
		return nil, &toolError{name, err, text}
	}
	return out.Bytes(), nil
}
