// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/atomicfile"
	"skep/internal/lazy"
	"skep/internal/uapi"
)

// What a hub stores, so that masters and nodes find their sessions after it was killed:
// docs/design/reattach.md.

// A runRecord is the file of one run.
type runRecord struct {
	RunRequest
	Key      string          `json:"key"`
	User     string          `json:"user,omitempty"` // id; empty for the operator
	Sessions []sessionRecord `json:"sessions,omitempty"`
}

type sessionRecord struct {
	ID      string         `json:"id"`  // the master's
	Key     string         `json:"key"` // the nodes'
	Modules []moduleRecord `json:"modules,omitempty"`
}

// A moduleRecord is in the place of its handle.
type moduleRecord struct {
	Digest string      `json:"digest"`
	Node   string      `json:"node,omitempty"`
	Init   *proto.Init `json:"init,omitempty"`
}

// runRecords is the folder of a hub's records; dir is empty if it stores none.
type runRecords struct {
	dir     string
	stored  func(v *runRecord, text []byte) // after each write; or nil
	removed func(key string)
}

func (r runRecords) path(key string) string { return filepath.Join(r.dir, key+".json") }

func (r runRecords) write(v runRecord) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if err := atomicfile.Write(r.path(v.Key), b, 0o600); err != nil {
		return diskFull(r.dir, err)
	}
	if r.stored != nil {
		r.stored(&v, b)
	}
	return nil
}

func (r runRecords) remove(key string) {
	os.Remove(r.path(key))
	if r.removed != nil {
		r.removed(key)
	}
}

var runKey = lazy.Regexp(`^[0-9a-f]{12}$`)

// readAll returns the records that can be read, and an error for each of the others, which it
// removes.
func (r runRecords) readAll() (list []runRecord, bad []error) {
	names, _ := filepath.Glob(r.path("*"))
	for _, name := range names {
		var v runRecord
		b, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err == nil && (!runKey().MatchString(v.Key) || name != r.path(v.Key)) {
			err = errors.New("it is not what a hub writes")
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("the run of %s is lost, because its record cannot be used: %w", name, err))
			os.Remove(name)
			continue
		}
		list = append(list, v)
	}
	return list, bad
}

// A keeper writes the record of one run. The lock guards all, and is held while the file
// is written.
type keeper struct {
	to runRecords

	mu     sync.Mutex
	record runRecord
	closed bool
}

// change stores the record with a change, which is undone if that fails.
func (k *keeper) change(f func(*runRecord)) error {
	if k.to.dir == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errors.New("the run ended")
	}
	next := k.record
	next.Sessions = append([]sessionRecord(nil), k.record.Sessions...)
	f(&next)
	if err := k.to.write(next); err != nil {
		return fmt.Errorf("the hub cannot store what it must find again: %w", err)
	}
	k.record = next
	return nil
}

func (k *keeper) session(id session.ID) (sessionRecord, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.record.Sessions {
		if s.ID == id.String() {
			return s, true
		}
	}
	return sessionRecord{}, false
}

// sessions returns all of them.
func (k *keeper) sessions() []sessionRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]sessionRecord(nil), k.record.Sessions...)
}

func (k *keeper) remove() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.to.dir != "" {
		k.to.remove(k.record.Key)
	}
}

func setSession(r *runRecord, s sessionRecord) {
	for i := range r.Sessions {
		if r.Sessions[i].ID == s.ID {
			r.Sessions[i] = s
			return
		}
	}
	r.Sessions = append(r.Sessions, s)
}

// dropSession removes what is stored of a session.
func (r *run) dropSession(conn *session.Conn) {
	if err := r.keep.change(func(v *runRecord) { dropSession(v, conn.ID().String()) }); err != nil {
		r.hub.log.Debug("a session's record was not removed", "error", err) // its run ended
	}
}

func dropSession(r *runRecord, id string) {
	for i := range r.Sessions {
		if r.Sessions[i].ID == id {
			r.Sessions = append(r.Sessions[:i], r.Sessions[i+1:]...)
			return
		}
	}
}

// recordModules stores a master's modules before it hears of them.
func (m *master) recordModules() error {
	s := sessionRecord{ID: m.conn.ID().String(), Key: m.key}
	for _, mod := range m.modules {
		v := moduleRecord{Digest: mod.digest, Node: string(mod.node)}
		if mod.init != nil {
			v.Init = &proto.Init{Function: mod.init.function, Blob: mod.init.digest, Length: mod.init.length}
		}
		s.Modules = append(s.Modules, v)
	}
	return m.run.keep.change(func(r *runRecord) { setSession(r, s) })
}

// restoreModules gives a master that came back the modules of its record.
func (m *master) restoreModules(s sessionRecord) error {
	for _, v := range s.Modules {
		mod, err := m.restoreModule(v)
		if err != nil {
			return uapi.Errorf(uapi.EInternal, "the session cannot continue after the hub was started again: %v", err)
		}
		m.modules = append(m.modules, mod)
	}
	return nil
}

func (m *master) restoreModule(v moduleRecord) (*module, error) {
	sum, ok := parseDigest(v.Digest)
	if !ok {
		return nil, fmt.Errorf("its record has a module %.80q", v.Digest)
	}
	m.hub.blobs.Pin(v.Digest, m.key)
	f, err := m.hub.openBlob(sum)
	if err != nil {
		return nil, fmt.Errorf("a module is not stored any more: %w", err)
	}
	defer f.Close()
	mod := &module{digest: v.Digest, sum: sum, node: sched.NodeID(v.Node)}
	if mod.manifest, _, err = uapi.ReadManifest(f); err != nil {
		return nil, err
	}
	if v.Init == nil {
		return mod, nil
	}
	data, ok := parseDigest(v.Init.Blob)
	if !ok {
		return nil, fmt.Errorf("its record has data %.80q", v.Init.Blob)
	}
	m.hub.blobs.Pin(v.Init.Blob, m.key)
	if !m.hub.blobs.Has(v.Init.Blob) {
		return nil, errors.New("the data of Initialize is not stored any more")
	}
	if err := m.reserve(v.Init.Length); err != nil {
		return nil, err
	}
	mod.init = &initData{v.Init.Function, v.Init.Blob, v.Init.Length, initDigest(v.Init.Function, data)}
	return mod, nil
}

// numbersEach is how many call and fencing numbers a hub may give between two starts.
const numbersEach = 1 << 36

// numbersRestored is how many numbers a hub skips whose state was restored: the hub that was
// backed up may have been started so many times since.
const numbersRestored = numbersEach << 10

func parseNumbers(b []byte) (stored uint64, ok bool) {
	stored, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return stored, err == nil && stored <= 1<<63
}

// reserveNumbers returns the number after which this hub may number calls and leases: no
// earlier hub of this state directory has used one of them, whatever the clock says.
func reserveNumbers(file string, now uint64) (uint64, error) {
	from := now
	b, err := os.ReadFile(file)
	if err == nil {
		stored, ok := parseNumbers(b)
		if !ok {
			return 0, fmt.Errorf("%s is damaged: stop the nodes' agents for a minute, remove it, and start the hub again", file)
		}
		from = max(from, stored)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	text := strconv.FormatUint(from+numbersEach, 10) + "\n"
	return from, diskFull(filepath.Dir(file), atomicfile.Write(file, []byte(text), 0o600))
}
