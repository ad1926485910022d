// SPDX-License-Identifier: MIT

package detach

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"skep/grid/ident"
	"skep/internal/atomicfile"
)

// A Record describes one run. Its holder writes it when the run begins and when it ends.
type Record struct {
	ID      string        `json:"id"`
	Words   []string      `json:"command"`
	Folder  string        `json:"folder"` // in which it runs
	PID     int           `json:"pid"`    // of the holder
	Started time.Time     `json:"started"`
	Lease   time.Duration `json:"lease_ns,omitempty"` // the program is ended after so long; 0: never
	Ended   *time.Time    `json:"ended,omitempty"`
	Exit    int           `json:"exit"`          // once it has ended
	Why     string        `json:"why,omitempty"` // what skep says about the end
	State   State         `json:"state"`         // as found; the file's is not used
}

// A State of a run.
type State string

// States of runs.
const (
	Running State = "running"
	Ended   State = "ended"
	Lost    State = "lost" // its holder was killed, or the machine started again
)

// keptMost is how many runs that have ended are kept.
const keptMost = 64

// ErrNone says that there is no run of this name.
var ErrNone = errors.New("there is no such detached run: 'skep runs' lists them")

var idForm = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Runs is the folder with all runs of a hub's state directory.
type Runs struct{ dir string }

// Open returns the folder of a state directory; it need not exist.
func Open(state string) Runs { return Runs{filepath.Join(state, "detached")} }

// Dir is the folder of one run.
func (r Runs) Dir(id string) string { return filepath.Join(r.dir, id) }

func (r Runs) file(id string) string { return filepath.Join(r.Dir(id), "record.json") }
func (r Runs) lock(id string) string { return filepath.Join(r.Dir(id), "lock") }

// spare is a file that holds room for the record of the end.
func (r Runs) spare(id string) string { return filepath.Join(r.Dir(id), "spare") }

// Create makes the folder of a new run. The oldest runs that have ended make room.
func (r Runs) Create() (id string, err error) {
	list, err := r.List()
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(v Record) bool { return v.State == Running })
	for _, v := range list[:max(0, len(list)-keptMost+1)] {
		// Another process may make room as well.
		if err := r.Forget(v.ID); err != nil && !errors.Is(err, ErrNone) {
			return "", err
		}
	}
	var b [4]byte
	rand.Read(b[:])
	id = hex.EncodeToString(b[:])
	if err := ident.StateDir(r.dir); err != nil {
		return "", err
	}
	return id, os.Mkdir(r.Dir(id), 0o700)
}

// held refers to the locks of this process: the runtime closes a file that nothing refers to,
// and the lock with it.
var held sync.Map // the lock file's name -> func() that unlocks it

// Hold makes this process the holder of a run, until it ends.
func (r Runs) Hold(id string) error {
	unlock, err := ident.TryLock(r.lock(id))
	if err == nil {
		held.Store(r.lock(id), unlock)
	}
	return err
}

// spareMore is how much longer the record of a run's end may be than that of its beginning.
const spareMore = 8 << 10

// writeFile is atomicfile.Write. Tests fill the disk by it.
var writeFile = atomicfile.Write

// Write stores a record. That of a beginning takes room for that of the end, which is written
// even if the run has filled the disk.
func (r Runs) Write(v Record) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if v.Ended == nil {
		room := make([]byte, len(b)+spareMore)
		rand.Read(room) // file systems store zeros without a block
		if err := writeFile(r.spare(v.ID), room, 0o600); err != nil {
			return err
		}
	}
	err = writeFile(r.file(v.ID), b, 0o600)
	if v.Ended != nil && os.Remove(r.spare(v.ID)) == nil && err != nil {
		err = writeFile(r.file(v.ID), b, 0o600)
	}
	return err
}

// Read returns the record of a run.
func (r Runs) Read(id string) (Record, error) {
	v, err := r.readFile(id)
	if err != nil {
		return v, err
	}
	if v.Ended == nil && !r.isHeld(id) {
		v, err = r.readFile(id) // it may have ended meanwhile
	}
	switch {
	case v.Ended != nil:
		v.State = Ended
	case r.isHeld(id):
		v.State = Running
	default:
		v.State = Lost
	}
	return v, err
}

func (r Runs) readFile(id string) (v Record, err error) {
	if !idForm.MatchString(id) {
		return v, ErrNone
	}
	b, err := os.ReadFile(r.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return v, ErrNone
	}
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return v, fmt.Errorf("the record of run %s cannot be read: %w", id, err)
	}
	v.ID = id
	return v, nil
}

// isHeld reports whether the holder of a run lives. The holder has the lock before it writes
// the record, so this does not take it away.
func (r Runs) isHeld(id string) bool {
	unlock, err := ident.TryLock(r.lock(id))
	if err == nil {
		unlock()
	}
	return err != nil
}

// List returns all runs that can be read, the oldest first.
func (r Runs) List() (list []Record, err error) {
	dirs, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range dirs {
		v, err := r.Read(d.Name())
		if errors.Is(err, ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return list, err
}

// Forget removes what is kept of a run that does not run.
func (r Runs) Forget(id string) error {
	v, err := r.Read(id)
	if err != nil {
		return err
	}
	if v.State == Running {
		return fmt.Errorf("run %s has not ended: end it with 'skep runs --end %s' first", id, id)
	}
	return os.RemoveAll(r.Dir(id))
}
