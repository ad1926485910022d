// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skep/grid/engine"
	"skep/grid/hub"
)

// addUser lets a user submit, with the state directory of its name.
func (s *scene) addUser(name string, options ...string) {
	s.t.Helper()
	line, code := s.skep(append(append([]string{"user", "add"}, options...), "--state", s.path("hub"), name)...)
	if code != 0 {
		s.t.Fatalf("exit code %d", code)
	}
	s.openAccount(name, line)
}

// openAccount types what user add or user token printed; the secret is in a file.
func (s *scene) openAccount(name, line string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name+".line"), []byte(line), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, code := s.skep("user", "join", s.address, "--token-file", s.path(name+".line"), "--state", s.path(name)); code != 0 || !strings.Contains(out, " as "+name+"\n") {
		s.t.Fatalf("exit code %d: %q", code, out)
	}
}

// holdRuns makes the file log/held, in which workers can note nothing until the function that it
// returns is called: their calls have certainly not ended before that.
func (s *scene) holdRuns() (open func()) {
	s.t.Helper()
	name := s.path("log/held")
	if err := unix.Mkfifo(name, 0o666); err != nil {
		s.t.Fatal(err)
	}
	os.Chmod(name, 0o666) // the agent of root runs programs as nobody
	return func() {
		f, err := os.OpenFile(name, os.O_RDWR, 0) // for writing as well: it has no end when no worker has it open
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { f.Close() })
		go io.Copy(io.Discard, f)
	}
}

// Users submit over TLS with their own state directories: programs that nobody of them wrote run
// with the right answers, detached too and when the hub is killed; each sees and ends only its
// own, and an account that was removed is refused by name.
func TestUsersSubmit(t *testing.T) {
	s := newScene(t)
	s.openLog()
	token := s.startHub()
	s.startAgent("--token", token)
	s.awaitNode()
	s.addUser("ada", "--share", "2", "--slots", "16", "--quota", "50G")
	s.addUser("eve")
	program := filepath.Join(s.build, "test", "chaos")
	open := s.holdRuns()
	id := s.detach("--state", s.path("ada"), "--priority", "5", "--modules", program, "--",
		filepath.Join(program, "master"), "200", fmt.Sprint(window), fmt.Sprint(pause), s.path("log/held"))
	s.await("calls of ada", func() bool { return skepJSON[hub.Calls](s, "calls").All > 0 })
	if out, code := s.skep("calls", "--state", s.path("eve")); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("eve sees %d: %q", code, out)
	}
	list := skepJSON[hub.Calls](s, "calls").List
	if len(list) > 0 {
		if _, code := s.skep("cancel", fmt.Sprint(list[0].Call), "--state", s.path("eve")); code == 0 {
			t.Error("eve cancelled a call of ada")
		}
		if _, code := s.skep("cancel", "--session", list[0].Session, "--state", s.path("eve")); code == 0 {
			t.Error("eve cancelled a session of ada")
		}
	}
	for _, words := range []string{"user set --share 9 eve", "token", "backup stolen.tar", "user remove ada"} {
		command, rest, _ := strings.Cut(words, " ")
		if command == "user" {
			var verb string
			verb, rest, _ = strings.Cut(rest, " ")
			command += " " + verb
		}
		line := append(strings.Fields(command), append([]string{"--state", s.path("eve")}, strings.Fields(rest)...)...)
		if _, code := s.skep(line...); code != 4 {
			t.Errorf("%v: exit code %d, want 4", line, code)
		}
	}
	s.hub.Process.Kill()
	s.hub.Wait()
	s.startHub()
	open()
	s.await("the end of the run", func() bool {
		out, _ := s.skep("runs", "--state", s.path("ada"))
		return !strings.Contains(out, id+"  running")
	})
	if out, code := s.skep("attach", "--state", s.path("ada"), id); code != 0 || !strings.Contains(out, "\n200 right, 0 wrong, 0 failed\n") {
		t.Errorf("exit code %d: %.300q", code, out)
	}
	if out, code := s.skep("ledger", "--state", s.path("eve")); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("eve reads %d: %.300q", code, out)
	}
	for _, name := range []string{"eve", "ada"} {
		own := name == "ada"
		if out, code := s.skep("top", "--count", "1", "--json", "--state", s.path(name)); code != 0 || strings.Contains(out, `"user":"ada"`) != own || !strings.Contains(out, `"slots"`) {
			t.Errorf("%s sees %d: %.300q", name, code, out)
		}
		if out, code := s.skep("exec", "--state", s.path(name), "--", "/bin/busybox", "echo", name); code != 0 || out != name+"\n" {
			t.Errorf("a program of %s: %d %q", name, code, out)
		}
	}
	if out, _ := s.skep("logs", "--state", s.path("eve")); out != "" {
		t.Errorf("eve reads output: %.300q", out)
	}
	if all := skepJSON[[]engine.Entry](s, "ledger", "--last", "4"); len(all) != 4 || all[0].User != "eve" || all[3].User != "ada" {
		t.Errorf("the operator reads %+v", all)
	}
	if out, code := s.skep("user", "list", "--state", s.path("hub")); code != 0 || !strings.Contains(out, "ada       2      16     54 GB") || !strings.Contains(out, "operator  1") {
		t.Errorf("exit code %d: %q", code, out)
	}
	s.replaceAccounts()
}

// replaceAccounts removes eve, and gives ada another certificate.
func (s *scene) replaceAccounts() {
	t := s.t
	t.Helper()
	line, code := s.skep("user", "token", "ada", "--state", s.path("hub"))
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, code := s.skep("user", "remove", "eve", "--state", s.path("hub")); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, code := s.skep("nodes", "--state", s.path("eve")); code != 4 || out != "" {
		t.Errorf("a removed account: %d %q", code, out)
	}
	os.RemoveAll(s.path("ada"))
	s.openAccount("ada", line)
	if out, code := s.skep("user", "list", "--state", s.path("ada")); code != 0 || strings.Count(out, "\n") != 2 {
		t.Errorf("exit code %d: %q", code, out)
	}
	if _, code := s.skep("up", "--state", s.path("ada")); code != 4 {
		t.Errorf("a hub beside an account: exit code %d", code)
	}
	if _, code := s.skep("user", "join", s.address, "--token-file", s.path("ada.line"), "--state", s.path("hub")); code != 4 {
		t.Errorf("an account beside a hub: exit code %d", code)
	}
}
