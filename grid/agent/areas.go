// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"skep/grid/blob"
	"skep/grid/ident"
)

// An area is what the programs of one user have on this node: a cache, a folder for their
// folders, and the output that was kept. On Windows, programs see the root and nothing else, so
// that of one user is never inside that of another.
type area struct {
	root, tmp, logs string
	store           store
	last            time.Time // use; areas.mu
}

// areas are those of users with an account; the hub's own user has what the agent was made
// with. The lock guards the map, and is held while a cache is opened.
type areas struct {
	dir  string // of all
	open func(dir string) (store, error)

	mu     sync.Mutex
	byUser map[string]*area
	closed []closedArea // that this agent has not opened, the least recently used first
}

// A closedArea is the cache of a user who has had no calls since the agent started.
type closedArea struct {
	user  string
	bytes int64
	last  time.Time
}

// areaAge is how long the cache of a user is kept who has no calls here.
const areaAge = 30 * 24 * time.Hour

// userForm is what a hub calls users. It is a part of a path.
var userForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// openAreas empties the temporary folders of users, and removes what was not used for long.
func (a *Agent) openAreas(dir string) error {
	a.areas = areas{dir: dir, byUser: map[string]*area{}, open: func(dir string) (store, error) {
		return blob.Open(dir, a.config.cacheLimit()/4)
	}}
	if err := ident.StateDir(dir); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range list {
		path := filepath.Join(dir, entry.Name(), "tmp")
		info, err := entry.Info()
		old := err == nil && time.Since(info.ModTime()) > areaAge
		if old {
			path = filepath.Dir(path)
		}
		if err := RemoveAll(path); err != nil {
			return fmt.Errorf("the state directory is in use or damaged: %w", err)
		}
		if err == nil && !old && userForm.MatchString(entry.Name()) {
			a.areas.closed = append(a.areas.closed, closedArea{entry.Name(), areaBytes(filepath.Join(dir, entry.Name())), info.ModTime()})
		}
	}
	slices.SortFunc(a.areas.closed, func(x, y closedArea) int { return x.last.Compare(y.last) })
	a.boundAreas()
	return nil
}

// areaBytes is what the files in a folder have together.
func areaBytes(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// boundAreas keeps the caches of all users together within the size of the agent's own, however
// many users there are: those go first that were not used for longest, and what runs stays.
func (a *Agent) boundAreas() {
	a.areas.mu.Lock()
	defer a.areas.mu.Unlock()
	left := a.config.cacheLimit()
	for _, c := range a.areas.closed {
		left -= c.bytes
	}
	open := slices.SortedFunc(maps.Values(a.areas.byUser), func(x, y *area) int { return x.last.Compare(y.last) })
	for _, p := range open {
		left -= p.store.Bytes()
	}
	for left < 0 && len(a.areas.closed) > 0 {
		c := a.areas.closed[0]
		if err := RemoveAll(filepath.Join(a.areas.dir, c.user)); err != nil {
			a.config.Log("the cache of a user stays: %v", err)
		}
		left += c.bytes
		a.areas.closed = a.areas.closed[1:]
	}
	for _, p := range open {
		if had := p.store.Bytes(); left < 0 {
			p.store.Trim(max(0, had+left))
			left += had - p.store.Bytes()
		}
	}
}

// areaOf returns the area of a user.
func (a *Agent) areaOf(user string) (*area, error) {
	if user == "" {
		return a.ownArea(), nil
	}
	if !userForm.MatchString(user) {
		return nil, fmt.Errorf("the hub names a user %.40q", user)
	}
	a.areas.mu.Lock()
	defer a.areas.mu.Unlock()
	p := a.areas.byUser[user]
	if p != nil {
		p.last = time.Now()
		return p, nil
	}
	root := filepath.Join(a.areas.dir, user)
	p = &area{root: root, tmp: filepath.Join(root, "tmp"), logs: filepath.Join(a.areas.dir, user+".logs")}
	for _, dir := range []string{root, p.tmp, p.logs} {
		if err := ident.StateDir(dir); err != nil {
			return nil, err
		}
	}
	var err error
	if p.store, err = a.areas.open(filepath.Join(root, "blobs")); err != nil {
		return nil, err
	}
	now := time.Now()
	p.last = now
	a.areas.closed = slices.DeleteFunc(a.areas.closed, func(c closedArea) bool { return c.user == user })
	for _, dir := range []string{root, p.logs} { // for areaAge
		if err := os.Chtimes(dir, now, now); err != nil {
			return nil, err
		}
	}
	a.areas.byUser[user] = p
	return p, nil
}

// ownArea is that of the hub's own user.
func (a *Agent) ownArea() *area {
	return &area{root: a.work, tmp: a.tmp, logs: a.logs, store: a.blobStore()}
}

func (a *Agent) blobStore() store {
	a.hubMu.RLock()
	defer a.hubMu.RUnlock()
	return a.store
}

// allAreas lists those that are in use.
func (a *Agent) allAreas() []*area {
	list := []*area{a.ownArea()}
	a.areas.mu.Lock()
	defer a.areas.mu.Unlock()
	for _, p := range a.areas.byUser {
		list = append(list, p)
	}
	return list
}

// logFolders lists the folders with kept output, also of users who have no calls here now.
func (a *Agent) logFolders() []string {
	list, _ := filepath.Glob(filepath.Join(a.areas.dir, "*.logs"))
	return append(list, a.logs)
}

// fetchInto brings a blob into the cache of an area.
func (a *Agent) fetchInto(ctx context.Context, p *area, digest string) (uint64, error) {
	n, err := a.toHub().fetch(ctx, digest, p.store)
	if n > 0 && p.root != a.work {
		a.boundAreas()
	}
	return n, err
}
