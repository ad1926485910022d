// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"skep/grid/proto"
	"skep/internal/atomicfile"
	"skep/internal/lockdep"
)

// A roster records the nodes that joined, so that a name belongs to one node, and an
// id to one key: whoever knows a node's public key knows its id. The lock guards the
// map and the file.
type roster struct {
	file   string
	stored func([]byte) // gets the file's text, with the lock held; or nil

	mu   sync.Mutex
	list map[string]member
}

type member struct {
	Name string `json:"name"`
	Key  string `json:"key"` // SHA-256 of the public key in its certificate, hex

	Removed bool `json:"removed,omitempty"` // by the hub's user, for good
	Drained bool `json:"drained,omitempty"` // it gets no work until it is reopened
}

var errOtherKey = errors.New("a node with this identity joined with another key: remove the state directory of this one, and join it again")

var (
	errRemoved = errors.New("this node was removed from the hub: to join again, remove its state directory and use a new token")
	errNoNode  = errors.New("no node is called")
)

func openRoster(file string) (*roster, error) {
	r := &roster{file: file, list: map[string]member{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &r.list); err != nil {
		return nil, fmt.Errorf("%s is damaged: restore it, or remove it and let every node join again", file)
	}
	return r, nil
}

func (r *roster) isKnown(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.list[id]
	return ok && !m.Removed
}

// all reports whether f is true of each node that may connect.
func (r *roster) all(f func(id string) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.list {
		if !m.Removed && !f(id) {
			return false
		}
	}
	return true
}

func (r *roster) isRemoved(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[id].Removed
}

func (r *roster) name(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[id].Name
}

// check reports whether id may join with this key.
func (r *roster) check(id, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkLocked(id, key)
}

// checkLocked is check with the lock held.
func (r *roster) checkLocked(id, key string) error {
	lockdep.AssertHeld(&r.mu)
	switch m, ok := r.list[id]; {
	case ok && m.Key != key:
		return errOtherKey
	case m.Removed:
		return errRemoved
	}
	return nil
}

// remove bars the node with a name or an id, and returns its id.
func (r *roster) remove(name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.list {
		if m.Removed || m.Name != name && id != name {
			continue
		}
		r.list[id] = member{Name: m.Name, Key: m.Key, Removed: true}
		if err := r.save(); err != nil {
			r.list[id] = m
			return "", err
		}
		return id, nil
	}
	return "", fmt.Errorf("%w %q: `skep nodes` lists them", errNoNode, name)
}

// drain marks the node with a name or an id, and returns its id.
func (r *roster) drain(name string, on bool) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.list {
		if m.Removed || m.Name != name && id != name {
			continue
		}
		old := m
		m.Drained = on
		r.list[id] = m
		if err := r.save(); err != nil {
			r.list[id] = old
			return "", err
		}
		return id, nil
	}
	return "", fmt.Errorf("%w %q: `skep nodes` lists them", errNoNode, name)
}

func (r *roster) isDrained(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[id].Drained
}

// add records a node. Its name is the one that it wants, with a number if that is taken.
func (r *roster) add(id, key, want string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checkLocked(id, key); err != nil {
		return "", err
	}
	taken := map[string]bool{"": true}
	for other, m := range r.list {
		if other != id && !m.Removed {
			taken[m.Name] = true
		}
	}
	name := nodeName(want)
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", nodeName(want), i)
	}
	old, had := r.list[id]
	r.list[id] = member{Name: name, Key: key}
	if err := r.save(); err != nil {
		delete(r.list, id)
		if had {
			r.list[id] = old
		}
		return "", err
	}
	return name, nil
}

// nodeName returns a name that fits into tables and selectors.
func nodeName(want string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '-'
	}, want)
	if name == "" {
		name = "node"
	}
	return name[:min(len(name), proto.NameMax-8)]
}

func (r *roster) save() error {
	b, err := json.MarshalIndent(r.list, "", "\t")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if err := atomicfile.Write(r.file, b, 0o600); err != nil {
		return diskFull(filepath.Dir(r.file), err)
	}
	if r.stored != nil {
		r.stored(b)
	}
	return nil
}
