// SPDX-License-Identifier: MIT

package update

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// A Task is inside a function of an update.
type Task struct {
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Comm    string `json:"comm"`
	Symbol  string `json:"symbol"`
	Version string `json:"version"` // old, new, or - if its stack does not show it
	Frame   string `json:"frame"`   // where it sleeps
}

const (
	stackMax  = 64 << 10
	insideMax = 256 // the most tasks listed for each update
	engine    = "dynamos"
	// a function between a wrapper and the version, on the slow path
	detour = "dynamos_call_slow"
)

var errHidden = errors.New("/proc/kallsyms hides addresses, so nobody inside can be named: write 1 to /proc/sys/kernel/kptr_restrict")

// A place is the symbol and the module of a stack frame.
type place struct{ symbol, module string }

// FillInside fills in the tasks inside the functions of the updates; proc is /proc.
// It does not find a task that is running, because its stack cannot be read.
func FillInside(proc string, list []Status) error {
	if !anyInside(list) {
		return nil
	}
	places, err := readPlaces(filepath.Join(proc, "kallsyms"), list)
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "task", "[0-9]*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		text, err := readAtMax(filepath.Join(dir, "stack"), stackMax)
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("the tasks inside can't be determined: %w", err)
		}
		if err != nil || len(text) == 0 {
			continue // it ended in the meantime
		}
		for i := range list {
			if t, ok := places.find(&list[i], parseStack(string(text))); ok && len(list[i].Inside) < insideMax {
				t.readProc(dir)
				list[i].Inside = append(list[i].Inside, t)
			}
		}
	}
	for i := range list {
		sort.Slice(list[i].Inside, func(a, b int) bool { return list[i].Inside[a].TID < list[i].Inside[b].TID })
	}
	return nil
}

func anyInside(list []Status) bool {
	for _, u := range list {
		for _, f := range u.Functions {
			if f.Old.Inside+f.New.Inside > 0 {
				return true
			}
		}
	}
	return false
}

func readAtMax(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// placesOf maps the wrapper and the new version of each function to the function.
type placesOf map[place]spot

// A spot is an update's function, by update and number.
type spot struct {
	wrapper  bool
	function map[string]int // by name of the update
}

// readPlaces looks up the addresses of wrappers and versions.
func readPlaces(path string, list []Status) (placesOf, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ours := map[string]bool{engine: true}
	for _, u := range list {
		ours[u.Name] = true
	}
	places, seen := placesOf{}, false
	for in := bufio.NewScanner(f); in.Scan(); {
		w := strings.Fields(in.Text())
		if len(w) != 4 || !ours[strings.Trim(w[3], "[]")] {
			continue
		}
		address, err := strconv.ParseUint(w[0], 16, 64)
		if err != nil || address == 0 {
			continue
		}
		seen = true
		places.add(list, address, place{w[2], strings.Trim(w[3], "[]")})
	}
	if !seen {
		return nil, errHidden
	}
	return places, nil
}

func (p placesOf) add(list []Status, address uint64, at place) {
	for _, u := range list {
		for n, f := range u.Functions {
			wrapper := at.module == engine && f.wrapper.contains(address)
			if !wrapper && (at.module != u.Name || !f.text.contains(address)) {
				continue
			}
			if p[at].function == nil {
				p[at] = spot{wrapper, map[string]int{}}
			}
			p[at].function[u.Name] = n
		}
	}
}

// find reports whether a task with these frames, innermost first, is inside a
// function of u. If it is inside several, it returns the outermost.
func (p placesOf) find(u *Status, frames []place) (Task, bool) {
	for i := len(frames) - 1; i >= 0; i-- {
		s := p[frames[i]]
		n, ok := s.function[u.Name]
		if !ok {
			continue
		}
		t := Task{Symbol: u.Functions[n].Symbol, Version: "-", Frame: frames[0].symbol}
		if frames[0].module != "" {
			t.Frame += " [" + frames[0].module + "]"
		}
		switch {
		case !s.wrapper:
			t.Version = "new"
		case i == 0:
		case frames[i-1] == place{t.Symbol, ""}:
			t.Version = "old"
		case frames[i-1].module == u.Name:
			t.Version = "new"
		}
		return t, true
	}
	return Task{}, false
}

// parseStack parses lines such as '[<0>] symbol+0x12/0x34 [module]'.
func parseStack(text string) (frames []place) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), "] ")
		if !ok {
			continue
		}
		name, more, _ := strings.Cut(rest, " ")
		symbol, _, _ := strings.Cut(name, "+")
		at := place{symbol, strings.Trim(more, "[]")}
		if at != (place{detour, engine}) {
			frames = append(frames, at)
		}
	}
	return frames
}

// readProc reads the identity of the task; dir is /proc/PID/task/TID.
func (t *Task) readProc(dir string) {
	t.TID, _ = strconv.Atoi(filepath.Base(dir))
	t.PID, _ = strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(dir))))
	comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
	t.Comm = strings.TrimSuffix(string(comm), "\n")
}
