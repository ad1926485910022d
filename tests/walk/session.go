// SPDX-License-Identifier: MIT

package walk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
)

const (
	commandTime = 40 * time.Second
	tick        = 20 * time.Millisecond
)

// stays matches commands that stay in the foreground of a terminal of their own.
var stays = regexp.MustCompile(`^(skep|build/bin/skep) (up|join)\b`)

// A Session is a shell in a folder that looks like a built source tree, in its own network
// namespace with the address 192.0.2.7 and no other network.
type Session struct {
	t     *testing.T
	dir   string // of the tree
	notes string // of this program
	shell *exec.Cmd
	stdin io.WriteCloser
	count int
	pids  []int    // of commands that stay
	Wine  []string // the environment of Wine, and its command
	skip  []string
}

// Start starts a session. links maps further paths in the tree to their targets.
func Start(t *testing.T, build string, links map[string]string) *Session {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network of its own needs root")
	}
	dir, err := os.MkdirTemp("", "skep-walk-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{t: t, dir: filepath.Join(dir, "tree"), notes: filepath.Join(dir, "notes")}
	t.Cleanup(func() { s.stopAll(); os.RemoveAll(dir) })
	s.linkTree("build/bin", filepath.Join(build, "bin"))
	s.linkTree("build/lib", filepath.Join(build, "lib"))
	for name, to := range links {
		s.linkTree(name, to)
	}
	if err := os.MkdirAll(s.notes, 0o700); err != nil {
		t.Fatal(err)
	}
	s.shell = exec.Command("/bin/sh")
	s.shell.Dir = s.dir
	s.shell.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=",
		"PATH="+filepath.Join(build, "bin")+":"+os.Getenv("PATH"))
	s.shell.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true}
	if s.stdin, err = s.shell.StdinPipe(); err == nil {
		err = s.shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.runGood("ip link set lo up && ip link add eth0 type veth peer name far && ip link set far up && ip addr add 192.0.2.7/24 dev eth0 && ip link set eth0 up")
	return s
}

func (s *Session) linkTree(name, to string) {
	s.t.Helper()
	at := filepath.Join(s.dir, name)
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.Symlink(to, at)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// stopAll stops the commands that stay, like Ctrl-C, and then all other processes.
func (s *Session) stopAll() {
	if s.shell == nil || s.shell.Process == nil {
		return
	}
	for i := len(s.pids) - 1; i >= 0; i-- {
		syscall.Kill(s.pids[i], syscall.SIGTERM)
	}
	if len(s.Wine) > 0 {
		s.beginCommand(strings.Join(s.Wine[:len(s.Wine)-1], " ") + " wineserver -k")
	}
	s.stdin.Write([]byte("wait\n"))
	s.stdin.Close()
	late := time.AfterFunc(20*time.Second, func() { syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL) })
	s.shell.Wait()
	late.Stop()
}

// beginCommand types a command and returns the number of its files.
func (s *Session) beginCommand(text string) int {
	s.count++
	fmt.Fprintf(s.stdin, "{ %s\n} </dev/null >%s 2>&1; echo $? >%s.part; mv %[3]s.part %[3]s\n", text, s.notePath("out"), s.notePath("code"))
	return s.count
}

func (s *Session) notePath(kind string) string {
	return filepath.Join(s.notes, fmt.Sprintf("%d.%s", s.count, kind))
}

func (s *Session) runGood(text string) (printed string) {
	s.t.Helper()
	s.beginCommand(text)
	code := strings.TrimSpace(s.awaitFile(s.notePath("code"), text, func(string) error { return nil }))
	out, err := os.ReadFile(s.notePath("out"))
	if err != nil || code != "0" {
		s.t.Fatalf("%s\nended with %s, %v:\n%s", text, code, err, out)
	}
	return string(out)
}

// awaitFile reads a file until its text is right.
func (s *Session) awaitFile(file, what string, right func(text string) error) string {
	s.t.Helper()
	late := load.NewTimer(commandTime, load.Scale)
	defer late.Stop()
	for clock := time.Tick(tick); ; {
		text, err := os.ReadFile(file)
		if err == nil {
			err = right(string(text))
		}
		if err == nil {
			return string(text)
		}
		select {
		case <-late.C:
			s.t.Fatalf("%s: %v", what, err)
		case <-clock:
		}
	}
}

// Type types a command and compares its output with the page.
func (s *Session) Type(c Command) {
	s.t.Helper()
	text := c.Text
	if c.Prompt == `C:\>` {
		text = s.wineCommand(text)
	}
	if stays.MatchString(c.Text) {
		s.keepRunning(c, text)
		return
	}
	if err := Match(c.Output, splitLines(s.runGood(text))); err != nil && c.Prompt != "" {
		s.t.Errorf("%v: %v", c, err)
	}
}

func splitLines(text string) []string {
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
}

// keepRunning starts a command that stays, and waits until it has printed the page's output.
func (s *Session) keepRunning(c Command, text string) {
	s.t.Helper()
	s.count++
	fmt.Fprintf(s.stdin, "exec 9>&1; </dev/null %s >%s 2>&1 & echo $! >%s.part; mv %[3]s.part %[3]s\n", text, s.notePath("out"), s.notePath("pid"))
	var pid int
	fmt.Sscan(s.awaitFile(s.notePath("pid"), c.Text, func(text string) error {
		if text == "" {
			return errors.New("no process")
		}
		return nil
	}), &pid)
	s.pids = append(s.pids, pid)
	s.awaitFile(s.notePath("out"), c.String(), func(text string) error {
		return Match(append(append([]string{}, c.Output...), "…"), splitLines(text))
	})
}

// wineCommand returns the command for Wine that stands for one typed on a Windows PC.
func (s *Session) wineCommand(text string) string {
	s.t.Helper()
	rest, ok := strings.CutPrefix(text, "skep ")
	if !ok || len(s.Wine) == 0 {
		s.t.Fatalf("%q can't be typed on a PC", text)
	}
	name := cmp.Or(regexp.MustCompile(`--name (\S+)`).FindString(rest), "--name pc")
	state := filepath.Join(s.notes, strings.Fields(name)[1])
	return fmt.Sprintf("env %s build/bin/skep.exe %s --state 'Z:%s'", strings.Join(s.Wine, " "), rest, strings.ReplaceAll(state, "/", `\`))
}

// Skip skips commands that begin so, because they need something that this computer lacks.
func (s *Session) Skip(begin ...string) { s.skip = append(s.skip, begin...) }

// Lines types the commands of a page that begin with one of these texts.
func (s *Session) Lines(root, name string, begin ...string) {
	s.t.Helper()
	list, err := Read(filepath.Join(root, name), name)
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if slices.ContainsFunc(begin, func(b string) bool { return strings.HasPrefix(c.Text, b) }) {
			s.Type(c)
			n++
		}
	}
	if n < len(begin) {
		s.t.Errorf("%s has %d commands that begin with one of %q", name, n, begin)
	}
}

// Page types all commands of a page, in order.
func (s *Session) Page(root, name string) {
	s.t.Helper()
	list, err := Read(filepath.Join(root, name), name)
	if err != nil || len(list) == 0 {
		s.t.Fatalf("%s: %d commands, %v", name, len(list), err)
	}
	for _, c := range list {
		if !slices.ContainsFunc(s.skip, func(begin string) bool { return strings.HasPrefix(c.Text, begin) }) {
			s.Type(c)
		}
	}
}
