// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// A worker writes more than is passed on: the run learns how much is missing and how to see it, and the node keeps beginning and end in bounded files.
func TestFloodIsKept(t *testing.T) {
	const n = 100000 // about 2.4 MB
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		r.mustSucceed(r.start(fnSpeak, fmt.Appendf(nil, "flood %d", n)))
		// Output that Windows has not read from a killed bee is lost.
		for _, w := range r.pool.releaseSession("") {
			w.sendBye()
		}
		passed, missed := 0, 0
		waitUntil(t, "what became of each line", func() bool {
			r.fake.mu.Lock()
			defer r.fake.mu.Unlock()
			passed, missed = 0, 0
			for _, l := range r.fake.logs {
				var k int
				if strings.HasPrefix(l.Text, "line ") {
					passed++
				} else if fmt.Sscanf(l.Text, "(%d lines are not shown here", &k); strings.Contains(l.Text, "skep logs s shows them") {
					missed += k
				}
			}
			return passed+missed == n
		})
		if passed == 0 || missed == 0 {
			t.Errorf("%d lines passed on, %d missed", passed, missed)
		}
		got := r.execAndWait(proto.Exec{ID: "1", Logs: true, Session: "s"}, "")
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		var lost int
		shown := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "line ") {
				shown++
			}
			fmt.Sscanf(line, "(%d lines were here", &lost)
		}
		if !strings.HasPrefix(lines[0], "== worker ") || lines[1] != "line 1 of the flood" ||
			lines[len(lines)-1] != fmt.Sprintf("line %d of the flood", n) || lost == 0 || shown+lost != n {
			t.Errorf("%d lines, %d lost: %q to %q", shown, lost, lines[:2], lines[len(lines)-1])
		}
		if size := bytesBelow(t, r.logs); size > keptHead+2*keptTail+1000 {
			t.Errorf("%d bytes are kept", size)
		}
	})
}

func bytesBelow(t *testing.T, dir string) (size int64) {
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// The oldest files are removed, a worker without output leaves no file, and a session is found
// only by its own name.
func TestKeptWorkers(t *testing.T) {
	dir := tempDir(t)
	for i := range keptMax + 3 {
		k, err := newKeeper(dir, fmt.Sprintf("../%d", i%2))
		if err != nil {
			t.Fatal(err)
		}
		if i != 5 {
			k.add(fmt.Sprint("worker ", i))
		}
		k.close()
	}
	if n := len(keptBases(dir)); n != keptMax {
		t.Errorf("%d workers are kept, want %d", n, keptMax)
	}
	if above, _ := filepath.Glob(filepath.Join(dir, "..", "*.head")); len(above) > 0 {
		t.Error(above)
	}
	for session, want := range map[string]int{"../0": keptMax / 2, "../1": keptMax / 2, "": keptMax / 2, "none": 0} {
		var out strings.Builder
		if err := showKept([]string{dir}, session, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\nworker "); n < want-2 || n > want+2 || want == 0 && n > 0 {
			t.Errorf("%q: %d workers, want about %d", session, n, want)
		}
	}
}
