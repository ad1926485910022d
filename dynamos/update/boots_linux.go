// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"skep/internal/atomicfile"
)

// bootFile is there while updates of the store are in force, until an orderly shutdown. A
// boot that finds that of another one knows that the machine ended otherwise.
const bootFile = ".boot.json"

// Limits of what a machine takes from its updates.
const (
	bootsMax = 2 // boots in a row that ended early or in a panic
	endsMax  = 3 // boots in a row that ended so, or within bootDay without a shutdown
	// bootDay is how long a boot must last to show that its updates do no harm: a machine
	// that ends once a day can be repaired.
	bootDay = 24 * time.Hour
)

// A Stage is how far a boot came.
type Stage string

// Stages of a boot.
const (
	OnBootTrial Stage = ""        // updates are being restored, or on trial
	Settled     Stage = "settled" // they are committed
	Aged        Stage = "aged"    // the boot lasted bootDay
	Without     Stage = "without" // they were turned off, and power cuts may be why
)

// A Boot is the mark of a boot. Failed and Late count the boots before it, in a row.
type Boot struct {
	ID     string // empty: it was shut down before it showed anything
	Names  []string
	Stage  Stage     `json:",omitempty"`
	Failed int       // ended early, or in a panic
	Late   int       `json:",omitempty"` // ended later without a shutdown, and nobody knows why
	Began  time.Time // when it was marked first
}

// An Off says why an update is not restored.
type Off struct {
	Why  string
	Harm bool // false: power cuts may be why
}

// An ending is what follows from the end of a boot.
type ending uint8

const (
	counted ending = iota
	turnOff        // its updates are turned off
	turnOn         // it ended so without them: they are restored again
)

// ended counts a boot that ended without a shutdown.
func (b *Boot) ended(panicked bool) (then ending, why Off) {
	switch {
	case b.Stage == Without:
		return turnOn, Off{}
	case b.Stage == OnBootTrial || panicked:
		b.Failed++
	case b.Stage == Settled:
		b.Late++
	}
	both := b.Failed + b.Late
	switch {
	case b.Failed >= bootsMax:
		return turnOff, Off{Why: fmt.Sprintf("%d boots with %v ended early or in a panic", b.Failed, b.Names), Harm: true}
	case both >= endsMax:
		return turnOff, Off{Why: fmt.Sprintf("%d boots with %v ended without a shutdown, each within a day", both, b.Names)}
	}
	return counted, Off{}
}

func (k *Keep) bootPath() string { return filepath.Join(k.Dir, bootFile) }

var errDamagedMark = errors.New("the mark of the boot before is damaged")

// readBoot returns the mark of a boot; without one, an empty Boot.
func (k *Keep) readBoot() (b Boot, err error) {
	text, err := os.ReadFile(k.bootPath())
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil && json.Unmarshal(text, &b) != nil {
		err = errDamagedMark
	}
	return b, err
}

func (k *Keep) writeBoot(b *Boot) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return atomicfile.Write(k.bootPath(), text, 0o600)
}

func (k *Keep) removeBoot() error {
	if err := atomicfile.Remove(k.bootPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// BeginBoot examines how the boot before ended, and turns updates off or on again. Then it
// marks this boot. build is the running kernel's. If it fails, no update may be restored.
func (k *Keep) BeginBoot(id, build string, now time.Time) (Boot, error) {
	b, err := k.readBoot()
	switch {
	case errors.Is(err, errDamagedMark):
		b = Boot{}
		err = k.turn(nil, &Off{Why: err.Error()}) // all: the safe choice
	case err == nil && b.ID != "" && b.ID != id:
		err = k.endBefore(&b)
	}
	if err != nil {
		return b, err
	}
	if b.ID != id {
		b.ID, b.Stage, b.Began = id, OnBootTrial, now
	}
	on, doubted := k.split(build)
	if b.Names = on; len(on) == 0 {
		b.Names, b.Stage = doubted, Without
	}
	if len(b.Names) == 0 {
		return b, k.removeBoot()
	}
	return b, k.writeBoot(&b)
}

// split returns the updates of a kernel that are restored, and those that are turned off
// while power cuts may be why. What cannot be read is neither.
func (k *Keep) split(build string) (on, doubted []string) {
	list, _ := k.List()
	for _, kept := range list {
		switch {
		case kept.BuildID != build:
		case kept.Off == nil:
			on = append(on, kept.Name)
		case !kept.Off.Harm:
			doubted = append(doubted, kept.Name)
		}
	}
	return on, doubted
}

// endBefore draws the conclusion from a boot that ended without a shutdown.
func (k *Keep) endBefore(b *Boot) error {
	panicked := panicOf(k.Panics, b.Names, b.Began)
	then, why := b.ended(panicked)
	if panicked {
		why.Why += "; the kernel's record of the last one names a function of an update"
	}
	err := error(nil)
	switch then {
	case turnOff:
		err = k.turn(b.Names, &why)
	case turnOn:
		err = k.turn(b.Names, nil)
	default:
		return nil
	}
	b.Failed, b.Late = 0, 0
	return err
}

// turn turns updates off, or on again; nil: all.
func (k *Keep) turn(names []string, off *Off) error {
	list, _ := k.List()
	for i := range list {
		if names != nil && !slices.Contains(names, list[i].Name) || reflect.DeepEqual(list[i].Off, off) {
			continue
		}
		list[i].Off = off
		if err := k.write(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// TurnOn lets all updates be restored again, and forgets how boots ended.
func (k *Keep) TurnOn() error { return errors.Join(k.turn(nil, nil), k.removeBoot()) }

// IncludedIn reports whether a stored update is one that the kernel of this build-id contains.
func (k *Keep) IncludedIn(name, build string) bool {
	list, _ := k.List()
	return slices.ContainsFunc(list, func(kept Kept) bool { return kept.Name == name && kept.containedIn(build) })
}

// WhyOff says why a stored update is not restored. nil: it is, or it is not stored.
func (k *Keep) WhyOff(name string) *Off {
	list, _ := k.List()
	for _, kept := range list {
		if kept.Name == name {
			return kept.Off
		}
	}
	return nil
}

// MarkBoot records how far a boot came, and which updates are in force in it.
func (k *Keep) MarkBoot(b *Boot, build string, stage Stage) error {
	was := *b
	on, _ := k.split(build)
	switch {
	case len(on) > 0:
		b.Names, b.Stage = on, stage
	case b.Stage != Without || stage == Aged: // a day without them: they stay off
		b.Names = nil
	}
	if stage == Aged {
		b.Failed, b.Late = 0, 0
	}
	if reflect.DeepEqual(was, *b) {
		return nil
	}
	err := error(nil)
	if len(b.Names) == 0 {
		err = k.removeBoot()
	} else {
		err = k.writeBoot(b)
	}
	if err != nil {
		*b = was // tried again
	}
	return err
}

// EndBoot records that the machine is shut down in the ordinary way. A boot that showed
// nothing keeps the count of those before it.
func (k *Keep) EndBoot(b *Boot) error {
	if b.Stage == OnBootTrial && b.Failed+b.Late > 0 {
		b.ID = ""
		return k.writeBoot(b)
	}
	return k.removeBoot()
}

// PanicDirs is where the kernel keeps records of a panic, and systemd after the next boot.
func PanicDirs() []string { return []string{"/sys/fs/pstore", "/var/lib/systemd/pstore"} }

const (
	panicHead = "Panic#" // of each part of a record
	panicMax  = 1 << 20  // bytes of a part
)

// panicOf reports whether a record of a panic since a time has a function of an update in
// its trace, as "f+0x1/0x2 [fix]". What cannot be read is no evidence.
func panicOf(dirs, names []string, since time.Time) (found bool) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			info, err := d.Info()
			if err != nil || info.ModTime().Before(since) || info.Size() > panicMax {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil && bytes.HasPrefix(text, []byte(panicHead)) {
				found = found || slices.ContainsFunc(names, func(name string) bool {
					return bytes.Contains(text, []byte(" ["+name+"]")) || bytes.Contains(text, []byte(" ["+name+" "))
				})
			}
			return nil
		})
	}
	return found
}
