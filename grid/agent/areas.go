// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
}

// areas are those of users with an account; the hub's own user has what the agent was made
// with. The lock guards the map, and is held while a cache is opened.
type areas struct {
	dir  string // of all
	open func(dir string) (store, error)

	mu     sync.Mutex
	byUser map[string]*area
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
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > areaAge {
			path = filepath.Dir(path)
		}
		if err := RemoveAll(path); err != nil {
			return fmt.Errorf("the state directory is in use or damaged: %w", err)
		}
	}
	return nil
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
	for _, dir := range []string{root, p.logs} { // for areaAge
		if err := os.Chtimes(dir, now, now); err != nil {
			return nil, err
		}
	}
	a.areas.byUser[user] = p
	return p, nil
}

// ownArea is that of the hub's own user.
func (a *Agent) ownArea() *area { return &area{a.work, a.tmp, a.logs, a.blobStore()} }

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
	return a.toHub().fetch(ctx, digest, p.store)
}
