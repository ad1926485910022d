// SPDX-License-Identifier: MIT

package moves

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A node with another library refuses while the program runs, and so the program does not stop.
func TestOtherLibrary(t *testing.T) {
	s := newScene(t)
	j := s.beginOpen([]string{"--movable"}, "work-dynamic", "count", "400", "10")
	from, library := j.node(), libraryOf(t, filepath.Join(s.build, "test", "moves", "work-dynamic"))
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	other := s.path("other.so") // works as well
	if err := os.WriteFile(other, append(content, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	words := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		words = append(words, "--map-root-user")
	}
	s.slots = "9"
	s.startAgentBy(append(words, "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", other, library), "c")
	s.awaitNodes()
	s.must("nodes", "--drain", from, "--move") // c, which has more room, is asked before the other one
	s.await("the move from a drained node", func() bool { return j.node() != from })
	s.await("its start", func() bool { return j.state() == "running" })
	to, saved := j.node(), s.imageBytes()
	for range 3 {
		if out, err := s.command("move", j.number, "c"); err == nil || !strings.Contains(err.Error(), "libc.so.6 is another one here") {
			t.Errorf("%q, %v", out, err)
		}
	}
	if j.node() != to || to == "c" {
		t.Errorf("it was moved to %s, and is on %s", to, j.node())
	}
	if now := s.imageBytes(); now != saved {
		t.Errorf("it was saved for c: %d bytes, not %d", now, saved)
	}
	j.input.Close()
	if code := j.end(); code != 7 || j.out.String() != numbers(400) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(j.out.String()), j.err.String())
	}
}

// imageBytes returns the size of the last image of the only job.
func (s *scene) imageBytes() int64 {
	s.t.Helper()
	var v []struct{ Bytes int64 }
	if err := json.Unmarshal([]byte(s.must("move", "--json")), &v); err != nil || len(v) != 1 {
		s.t.Fatalf("%+v, %v", v, err)
	}
	return v[0].Bytes
}

// libraryOf returns the path of a program's C library.
func libraryOf(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command("ldd", program).Output()
	m := regexp.MustCompile(`=> (\S*/libc\.so\.6) `).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("ldd: %q, %v", out, err)
	}
	path, err := filepath.EvalSymlinks(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
