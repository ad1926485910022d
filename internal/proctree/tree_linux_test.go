// SPDX-License-Identifier: MIT

package proctree

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// writeProc makes a folder like /proc with the stat of each process.
func writeProc(t *testing.T, stats map[int]string) string {
	t.Helper()
	proc := t.TempDir()
	for pid, text := range stats {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

func statLine(pid int, name string, parent, used, start int) string {
	return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 %d 20 300 4000 20 0 7 0 %d 0", pid, name, parent, used, start)
}

func TestBelow(t *testing.T) {
	proc := writeProc(t, map[int]string{
		5:  statLine(5, "skep (a name) ", 1, 100, 50),
		6:  statLine(6, "sh", 5, 200, 50),
		7:  statLine(7, "cc", 6, 0, 51),
		8:  statLine(8, "other", 1, 0, 51),
		9:  "9 (cut) S 5 1",
		10: statLine(10, "older", 5, 0, 49),
	})
	if got := Below(proc, 5); !slices.Equal(got, []int{6, 7}) {
		t.Error(got)
	}
	if got := Below(proc, 4); got != nil {
		t.Errorf("below a process that is not there: %v", got)
	}
	f := Stat(proc, 5)
	if f[State] != "S" || f[Threads] != "7" {
		t.Error(f)
	}
	if Stat(proc, 9) != nil || Stat(proc, 11) != nil {
		t.Error("a cut line, or none, has fields")
	}
	if got := fmt.Sprintf("%.2f", Seconds(proc, 5, 9, 6)); got != "89.40" {
		t.Errorf("%s s", got)
	}
}

// The kernel writes what the fields are read for.
func TestBelowThisProcess(t *testing.T) {
	c := exec.Command("sh", "-c", "sleep 1000 & echo; wait")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1)) // sleep has been forked
	list := Below("/proc", os.Getpid())
	below := Below("/proc", c.Process.Pid)
	for _, pid := range append(below, c.Process.Pid) {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
	c.Wait()
	if len(below) != 1 || !slices.Contains(list, below[0]) || !slices.Contains(list, c.Process.Pid) {
		t.Errorf("%v, below its child %v", list, below)
	}
}
