// SPDX-License-Identifier: MIT

package chaos

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"skep/grid/engine"
	"skep/grid/hub"
)

// skepJSON runs a command that prints JSON.
func skepJSON[T any](s *scene, args ...string) (v T) {
	s.t.Helper()
	out, code := s.skep(append(args, "--json", "--state", s.path("hub"))...)
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		s.t.Fatalf("%q: %d, %v: %.300q", args, code, err, out)
	}
	return v
}

// The calls of a program are listed, and end when they are cancelled: each once, with an error
// for the program, which goes on. The ledger has their history.
func TestCallsAreSeenAndCancelled(t *testing.T) {
	const calls = 100
	s := newScene(t)
	s.openLog()
	s.startHub() // and no node
	id := s.detach("--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "master"), strconv.Itoa(calls), strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
	var first hub.CallInfo
	s.await("the calls", func() bool {
		v := skepJSON[hub.Calls](s, "calls")
		if v.All == 2*window {
			first = v.List[0]
		}
		return v.All == 2*window
	})
	if first.State != hub.CallWaiting || first.Function != "step" || first.Run != "master" {
		t.Errorf("%+v", first)
	}
	if out, code := s.skep("calls", first.Session[:8], "--state", s.path("hub")); code != 0 || strings.Count(out, "\n") != 1+2*window || !strings.Contains(out, "waiting") {
		t.Errorf("exit code %d: %.300q", code, out)
	}
	number := fmt.Sprint(first.Call)
	if out, code := s.skep("cancel", number, "--state", s.path("hub")); code != 0 || out != "cancelled: 1\n" {
		t.Errorf("exit code %d: %q", code, out)
	}
	s.await("the ledger", func() bool {
		out, code := s.skep("ledger", number, "--state", s.path("hub"))
		return code == 0 && strings.Contains(out, "  failed  ") && strings.Contains(out, "cancelled with 'skep cancel'")
	})
	list := skepJSON[[]engine.Entry](s, "ledger", number)
	if len(list) != 2 || list[0].State != engine.Queued || list[1].State != engine.Failed {
		t.Errorf("%+v", list)
	}
	cancelled := 1
	s.await("the end of the run", func() bool {
		out, code := s.skep("cancel", "--session", first.Session, "--state", s.path("hub"))
		if code == 0 {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out, "cancelled: ")))
			cancelled += n
		}
		out, _ = s.skep("runs", "--state", s.path("hub"))
		return !strings.Contains(out, id+"  running")
	})
	out, _ := s.skep("attach", "--state", s.path("hub"), id)
	if cancelled != calls || !strings.Contains(out, fmt.Sprintf("\n0 right, 0 wrong, %d failed\n", calls)) {
		t.Errorf("%d were cancelled: %.300q", cancelled, out)
	}
}
