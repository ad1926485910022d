// SPDX-License-Identifier: MIT

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
)

// skep runs a command to its end.
func (s *scene) skep(args ...string) (out string, code int) {
	s.t.Helper()
	var b strings.Builder
	cmd := s.start(&b, args...)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

var detachedID = regexp.MustCompile(`^[0-9a-f]{8}\n$`)

// detach starts a program detached and returns the run's name.
func (s *scene) detach(args ...string) string {
	s.t.Helper()
	out, code := s.skep(append([]string{"run", "--detach", "--state", s.path("hub")}, args...)...)
	if code != 0 || !detachedID.MatchString(out) {
		s.t.Fatalf("%q, exit code %d", out, code)
	}
	id := strings.TrimSpace(out)
	s.t.Cleanup(func() { s.skep("runs", "--state", s.path("hub"), "--end", id) })
	return id
}

// detachOnTerminal is detach by a shell, whose terminal then goes away.
func (s *scene) detachOnTerminal(args ...string) string {
	s.t.Helper()
	ours, program, err := openPTY()
	if err != nil {
		s.t.Fatal(err)
	}
	defer program.Close()
	name := s.path("id")
	words := append([]string{filepath.Join(s.build, "bin", "skep"), "run", "--detach", "--state", s.path("hub")}, args...)
	shell := exec.Command("sh", "-c", `"$@" >"$0" && mv "$0" "$0.whole" && read forever`, name)
	shell.Args = append(shell.Args, words...)
	shell.Stdin, shell.Stdout, shell.Stderr = program, program, program
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.awaitFile(name + ".whole")
	ours.Close()
	shell.Wait()
	if status := shell.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() && status.ExitStatus() == 0 {
		s.t.Errorf("the shell survived its terminal: %v", shell.ProcessState)
	}
	b, err := os.ReadFile(name + ".whole")
	if err != nil || !detachedID.Match(b) {
		s.t.Fatalf("%q, %v", b, err)
	}
	return strings.TrimSpace(string(b))
}

// openPTY returns both ends of a pseudoterminal.
func openPTY() (ours, program *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	return ours, program, err
}

// endedOf returns the calls that a detached master has said to have ended.
func (s *scene) endedOf(id string) map[int]bool { return s.endedIn("hub", id) }

// endedIn is endedOf for a run of another state directory.
func (s *scene) endedIn(state, id string) map[int]bool {
	s.t.Helper()
	b, err := os.ReadFile(s.path(state + "/detached/" + id + "/output.0"))
	if err != nil {
		s.t.Fatal(err)
	}
	ended := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ended (\d+) $`).FindAllSubmatch(b, -1) {
		number, _ := strconv.Atoi(string(m[1]))
		ended[number] = true
	}
	if len(ended) == 0 {
		s.t.Error("no call had ended")
	}
	return ended
}

// A detached run goes on when its terminal is closed and when the hub is killed: no call that
// had ended is run again, and each ends once. attach shows all that the master wrote, and passes
// on its exit code.
func TestDetachedRun(t *testing.T) {
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	id := s.detachOnTerminal("--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "master"), "600", strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
	s.awaitRuns(100)
	ended := s.endedOf(id)
	killNow(s.hub)
	s.startHub()
	out, code := s.skep("attach", "--state", s.path("hub"), id)
	if n := strings.Count(out, "\nended ") + strings.Count(out[:6], "ended "); code != 0 || n != 600 || !strings.Contains(out, "\n600 right, 0 wrong, 0 failed\n") {
		t.Errorf("exit code %d, %d calls: %.300q", code, n, out)
	}
	for number, runs := range s.runs() {
		most := 1
		if isLarge(number) && !ended[number] {
			most = 2 // its result may have been on its way, and the next hub did not have it
		}
		if runs > most {
			t.Errorf("call %d was run %d times; it had ended before the hub was killed: %v", number, runs, ended[number])
		}
	}
	if out, _ := s.skep("runs", "--state", s.path("hub")); !strings.Contains(out, id+"  exit 0") {
		t.Errorf("the list is %q", out)
	}
	if out, code := s.skep("attach", "--state", s.path("hub")); code != 0 || !strings.Contains(out, "600 right") {
		t.Errorf("the latest run: exit code %d, %.300q", code, out)
	}
	if _, code := s.skep("runs", "--state", s.path("hub"), "--forget", id); code != 0 {
		t.Errorf("forgetting ended with %d", code)
	}
	if _, code := s.skep("attach", "--state", s.path("hub"), id); code != cli.Unreachable {
		t.Errorf("a run that was forgotten: exit code %d", code)
	}
}

// The output of a detached run is bounded, its exit code kept, and its signal.
func TestDetachedOutput(t *testing.T) {
	s := newScene(t)
	s.startHub()
	id := s.detach("--", "/bin/sh", "-c", "echo first; yes 0123456789abcde | head -c 20000000; echo last >&2; exit 7")
	s.await("the end of the run", func() bool {
		out, _ := s.skep("runs", "--state", s.path("hub"))
		return strings.Contains(out, id+"  exit 7")
	})
	out, code := s.skep("attach", "--state", s.path("hub"), id)
	if code != 7 || !strings.HasPrefix(out, "first\n") || !strings.HasSuffix(out, "last\n") || len(out) > 10<<20 || !strings.Contains(out, "bytes were here and are lost)\n") {
		t.Errorf("exit code %d, %d bytes", code, len(out))
	}
	id = s.detach("--", "/bin/sh", "-c", "kill -9 $$")
	if _, code := s.skep("attach", "--state", s.path("hub"), id); code != 128+9 {
		t.Errorf("exit code %d", code)
	}
}

// A detached run ends when it is told to, and when its lease is over. One whose holder was
// killed is lost, and nothing of it remains.
func TestDetachedRunsEnd(t *testing.T) {
	s := newScene(t)
	s.startHub()
	file := s.path("alive")
	forever := []string{"--", "/bin/sh", "-c", fmt.Sprintf("echo $$ >%s; exec sleep 1000", file)}
	ends := map[string]func(id string) []string{
		"told":  func(string) []string { return nil },
		"lease": func(string) []string { return []string{"--lease", "200ms"} },
	}
	for what, options := range ends {
		os.Remove(file)
		id := s.detach(append(options(what), forever...)...)
		if what == "told" {
			s.awaitFile(file)
			if _, code := s.skep("runs", "--state", s.path("hub"), "--end", id); code != 0 {
				t.Errorf("%s: exit code %d", what, code)
			}
		}
		if _, code := s.skep("attach", "--state", s.path("hub"), id); code != 130 {
			t.Errorf("%s: exit code %d", what, code)
		}
		if out, _ := s.skep("runs", "--json", "--state", s.path("hub")); !strings.Contains(out, map[string]string{"told": "it was ended by", "lease": "its lease of 200ms was over"}[what]) {
			t.Errorf("%s: %s", what, out)
		}
		if _, code := s.skep("runs", "--state", s.path("hub"), "--end", id); code != cli.Failed {
			t.Errorf("%s: ending it twice: exit code %d", what, code)
		}
	}
	os.Remove(file)
	id := s.detach(forever...)
	s.awaitFile(file)
	syscall.Kill(s.holderOf(id), syscall.SIGKILL)
	if _, code := s.skep("attach", "--state", s.path("hub"), id); code != cli.Failed {
		t.Errorf("a lost run: exit code %d", code)
	}
	if out, _ := s.skep("runs", "--state", s.path("hub")); !strings.Contains(out, id+"  lost") {
		t.Errorf("the list is %q", out)
	}
	b, _ := os.ReadFile(file)
	s.awaitGone(strings.TrimSpace(string(b)))
}

// What cannot be detached is refused, and nothing is left.
func TestDetachedRunsThatAreRefused(t *testing.T) {
	s := newScene(t)
	if _, code := s.skep("run", "--detach", "--state", s.path("hub"), "--", "/bin/true"); code != cli.Unreachable {
		t.Errorf("without a hub: exit code %d", code)
	}
	s.startHub()
	for line, want := range map[string]int{
		"--detach --slots 2 -- /bin/true":         cli.Usage,
		"--detach --allow /tmp -- /bin/true":      cli.Usage,
		"--lease 1h -- /bin/true":                 cli.Usage,
		"--detach --lease 0s -- /bin/true":        cli.Usage,
		"--detach -- /nonexistent":                127,
		"--detach --modules /nonexistent -- true": cli.Usage,
	} {
		if _, code := s.skep(append([]string{"run", "--state", s.path("hub")}, strings.Fields(line)...)...); code != want {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
	if out, _ := s.skep("runs", "--state", s.path("hub"), "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("%s is left", out)
	}
}
