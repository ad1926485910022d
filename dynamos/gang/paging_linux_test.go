// SPDX-License-Identifier: MIT

package gang

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKindsOfPaging(t *testing.T) {
	for text, want := range map[string]Paging{
		"none": {}, "all": {true, true, true}, "selective": {Selective: true}, "aggressive": {Aggressive: true},
		"adaptive,selective": {true, false, true},
	} {
		if got, err := ParsePaging(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "al", "all,", "selective aggressive"} {
		if _, err := ParsePaging(text); err == nil || !strings.Contains(err.Error(), "is no kind of paging") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// newPager makes groups with memory files: job, and job/a, job/b and job/c below it.
func newPager(t *testing.T, kinds Paging) *pager {
	t.Helper()
	root := t.TempDir()
	p := &pager{Paging: kinds, root: root}
	for name, current := range map[string]int{"job": 900, "job/a": 300, "job/b": 100, "job/c": 500} {
		dir := filepath.Join(root, name)
		makeGroup(t, dir, domain, stopped)
		for file, text := range map[string]string{"memory.low": "77\n", "memory.max": "max\n", "memory.reclaim": "", "memory.current": fmt.Sprintln(current), "memory.swap.current": "0\n"} {
			putFile(t, dir, file, text)
		}
	}
	putFile(t, filepath.Join(root, "job"), "memory.max", "1000\n")
	for _, name := range []string{"a", "b", "c"} {
		p.groups = append(p.groups, &group{dir: filepath.Join(root, "job", name), begun: true})
	}
	return p
}

func putFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// texts returns the contents of a file of each gang.
func (p *pager) texts(t *testing.T, name string) (all string) {
	t.Helper()
	for _, g := range p.groups {
		text, err := os.ReadFile(filepath.Join(g.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all += strings.TrimSpace(string(text)) + ";"
	}
	return all
}

// clear empties a file of each gang: what is written to it later does not cut off the rest.
func (p *pager) clear(t *testing.T, name string) {
	t.Helper()
	for _, g := range p.groups {
		putFile(t, g.dir, name, "")
	}
}

func TestMemoryOfGangsIsAccountedFor(t *testing.T) {
	p := newPager(t, Paging{Aggressive: true})
	if err := p.open(false); err != nil || p.groups[0].low != "" {
		t.Errorf("%v, low %q", err, p.groups[0].low)
	}
	os.Remove(filepath.Join(p.groups[1].dir, "memory.reclaim"))
	if err := p.open(false); err == nil || !strings.Contains(err.Error(), "Linux 5.19") {
		t.Errorf("an old kernel: %v", err)
	}
	if err := p.open(true); err != nil {
		t.Errorf("groups of others: %v", err)
	}
	os.Remove(filepath.Join(p.groups[0].dir, "memory.low"))
	if err := p.open(false); err == nil || !strings.Contains(err.Error(), "echo +memory") {
		t.Errorf("no controller: %v", err)
	}
	p.Paging = Paging{}
	if err := p.open(false); err != nil {
		t.Errorf("without paging: %v", err)
	}
}

// The gang that runs is protected, and afterwards each has the protection that it had.
func TestSelectivePaging(t *testing.T) {
	p := newPager(t, Paging{Selective: true})
	if err := p.open(false); err != nil {
		t.Fatal(err)
	}
	for to, want := range []string{"max;0;0;", "0;max;0;"} {
		p.clear(t, "memory.low")
		if _, _, err := p.prepare(-1, to); err != nil {
			t.Fatal(err)
		}
		if got := p.texts(t, "memory.low"); got != want {
			t.Errorf("gang %d: %q, want %q", to, got, want)
		}
	}
	p.clear(t, "memory.low")
	for _, g := range p.groups {
		if err := g.release(); err != nil {
			t.Error(err)
		}
	}
	if got := p.texts(t, "memory.low"); got != "77;77;77;" {
		t.Errorf("afterwards: %q", got)
	}
	if got := p.texts(t, "memory.reclaim"); got != ";;;" {
		t.Errorf("selective paging pages out: %q", got)
	}
}

// What the next gang lacks beyond the room that is left is taken from the gang that has stopped
// first, then from the one before it.
func TestAggressivePaging(t *testing.T) {
	for _, c := range []struct {
		from, to int
		swapped  string
		want     string
	}{
		{0, 1, "50", ";;;"}, // there is room for 100
		{0, 1, "400", "300;;300;"},
		{1, 2, "400", "300;300;;"},
		{-1, 0, "400", ";300;300;"},
	} {
		p := newPager(t, Paging{Aggressive: true})
		if err := p.open(false); err != nil {
			t.Fatal(err)
		}
		putFile(t, p.groups[c.to].dir, "memory.swap.current", c.swapped)
		if _, _, err := p.prepare(c.from, c.to); err != nil {
			t.Fatal(err)
		}
		if got := p.texts(t, "memory.reclaim"); got != c.want {
			t.Errorf("%d to %d, %s: %q, want %q", c.from, c.to, c.swapped, got, c.want)
		}
		if got := p.texts(t, "memory.low"); got != "77;77;77;" {
			t.Errorf("aggressive paging protects: %q", got)
		}
	}
}
