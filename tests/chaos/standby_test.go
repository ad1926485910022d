// SPDX-License-Identifier: MIT

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"skep/grid/hub"
)

// startStandby has a second machine stand by for the hub, and returns when it has everything.
func (s *scene) startStandby(words ...string) *exec.Cmd {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.start(w, append([]string{"up", "--state", s.path("second"), "--listen", "127.0.0.1:0", "--no-agent"}, words...)...)
	w.Close()
	lines := bufio.NewScanner(r)
	if !lines.Scan() || !strings.Contains(lines.Text(), "stands by for the hub at "+s.address) {
		s.t.Fatalf("the standby prints %q", lines.Text())
	}
	go func() { io.Copy(s.output, r); r.Close() }()
	s.await("a whole standby", func() bool { return s.standbyOf("second").State == hub.StandbyWhole })
	return cmd
}

func (s *scene) standbyOf(state string) (i hub.StandbyInfo) {
	out, code := s.skep("standby", "show", "--json", "--state", s.path(state))
	if err := json.Unmarshal([]byte(out), &i); err != nil || code != 0 {
		s.t.Fatalf("%d, %v: %.300q", code, err, out)
	}
	return i
}

// The hub is killed in the middle of 200 calls, and its standby takes over by one command: each call
// ends once and right, none that had ended is run again, and the old hub neither starts again nor, if
// it sleeps, goes on.
func TestStandbyTakesOver(t *testing.T) {
	for _, how := range []string{"killed", "asleep"} {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.openLog()
			token := s.startHub()
			s.startAgent("--token", token)
			s.awaitNode()
			s.addUser("ada")
			line, code := s.skep("standby", "token", "--state", s.path("hub"))
			if code != 0 || !strings.Contains(line, "skep up --standby "+s.address) {
				t.Fatalf("%d %q", code, line)
			}
			os.WriteFile(s.path("standby.line"), []byte(line), 0o600)
			s.startStandby("--standby", s.address, "--token-file", s.path("standby.line"))
			program := filepath.Join(s.build, "test", "chaos")
			id := s.detach("--state", s.path("ada"), "--modules", program, "--",
				filepath.Join(program, "master"), "200", fmt.Sprint(window), fmt.Sprint(pause), s.path("log/runs"))
			s.awaitRuns(40)
			if how == "killed" {
				killNow(s.hub)
			} else {
				s.hub.Process.Signal(syscall.SIGSTOP)
			}
			before := s.endedIn("ada", id)
			if how == "killed" {
				if _, code := s.skep("standby", "promote", "--state", s.path("second")); code == 0 {
					t.Error("a hub that does not answer was replaced without a word")
				}
			}
			s.promote()
			out, code := s.skep("attach", "--state", s.path("ada"), id)
			if code != 0 || !strings.Contains(out, "\n200 right, 0 wrong, 0 failed\n") {
				t.Errorf("exit code %d: %.500q", code, out)
			}
			for number, times := range s.runs() {
				if before[number] && times > 1 {
					t.Errorf("call %d had ended and was run %d times", number, times)
				}
			}
			s.endOldHub(how)
		})
	}
}

// promote has the standby take over by the operator's word.
func (s *scene) promote() {
	s.t.Helper()
	if out, code := s.skep("standby", "promote", "--force", "--state", s.path("second")); code != 0 || !strings.HasPrefix(out, "this machine is the hub now") {
		s.t.Fatalf("%d %q", code, out)
	}
}

// endOldHub checks that the hub which is over does not work any more.
func (s *scene) endOldHub(how string) {
	s.t.Helper()
	if how == "asleep" {
		s.hub.Process.Signal(syscall.SIGCONT)
		s.hub.Wait()
	} else {
		s.hub = s.start(io.Discard, "up", "--state", s.path("hub"), "--listen", s.address, "--no-agent")
		s.hub.Wait()
	}
	if code := s.hub.ProcessState.ExitCode(); code != 4 {
		s.t.Errorf("the old hub ends with %d", code)
	}
}
