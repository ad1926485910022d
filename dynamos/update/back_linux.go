// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"skep/dynamos/update/pack"
	"skep/internal/atomicfile"
	"skep/internal/uapi"
)

// A BackKernel is the kernel in which GoBack puts an older update in force.
type BackKernel interface {
	Kernel
	CommitFor(name string, p uapi.DynamosPolicy) error
	Revert(name string, exist bool) error
}

// beforeDir holds the updates that a newer one superseded, so that there is a way back
// after a boot too.
const beforeDir = "before"

// retire stores a superseded update for a way back. Restore does not find it there.
func (k *Keep) retire(name string) error {
	old := &Keep{Dir: filepath.Join(k.Dir, beforeDir)}
	if err := atomicfile.MkdirAll(old.Dir, 0o700); err != nil {
		return err
	}
	for _, kind := range []string{pack.Suffix, ".json"} {
		if err := os.Rename(k.path(name, kind), old.path(name, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(atomicfile.SyncFolder(old.Dir), atomicfile.SyncFolder(k.Dir))
}

// retired returns a superseded update and its package's bytes.
func (k *Keep) retired(name string) (kept Kept, file []byte, err error) {
	if !pack.ValidName(name) {
		return kept, nil, refusef("%q is not the name of an update", name)
	}
	if on, err := k.IsOn(); err != nil || !on {
		return kept, nil, errors.Join(err, fs.ErrNotExist)
	}
	old := &Keep{Dir: filepath.Join(k.Dir, beforeDir)}
	text, err := os.ReadFile(old.path(name, ".json"))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil {
		file, err = os.ReadFile(old.path(name, pack.Suffix))
	}
	if err == nil && (kept.Name != name || digestOf(file) != kept.Digest) {
		err = refusef("what is stored of %s is damaged: apply its package with --supersede", name)
	}
	return kept, file, err
}

// undoConfirm is the kernel's time limit of the trial between the two steps of GoBack.
const undoConfirm = time.Minute

// GoBack puts older in force again, for whom it was in force before, and ends newer, which
// superseded it. Nothing is built: the module of older is loaded still, or its package is
// stored. At each time one of both is in force. newer may have been reverted already.
// exist: also if objects may exist that only newer's code has set up.
func GoBack(ctx context.Context, k BackKernel, keep *Keep, newer, older string, exist bool) error {
	if err := checkNewer(k, newer, older); err != nil {
		return err
	}
	a, err := readyOlder(k, keep, newer, older)
	if err != nil {
		return err
	}
	if exist {
		a.Flags |= uapi.DynamosObjectsLeft
	}
	policy := a.Policy
	a.Policy = uapi.DynamosPolicy{} // nobody, until newer ends
	if a.together {
		a.Policy = policy
	}
	if _, err := k.Apply(ctx, older, &a.DynamosApply); err != nil {
		return err
	}
	if a.together {
		err = k.Commit(older) // it has no policy to change
	} else {
		err = k.CommitFor(older, policy)
	}
	if err != nil {
		return errors.Join(err, k.Revert(older, true))
	}
	return nil
}

// checkNewer refuses a way back from an update that is on trial: its end is that way.
func checkNewer(s Source, newer, older string) error {
	i, loaded, err := lookFor(s, newer)
	if err != nil || !loaded {
		return err
	}
	if i.State == uapi.DynamosTrial || i.State == uapi.DynamosEntering {
		return refusef("%s is on trial, and %s is in force below it: 'skep update revert %s' ends the trial", newer, older, newer)
	}
	return nil
}

// A backApply is how an older update is applied again.
type backApply struct {
	uapi.DynamosApply
	together bool
}

// readyOlder loads the older update, and returns how it was applied.
func readyOlder(k BackKernel, keep *Keep, newer, older string) (*backApply, error) {
	a := &backApply{DynamosApply: uapi.DynamosApply{Flags: uapi.DynamosSupersede | uapi.DynamosBack,
		ConfirmMS: uint32(undoConfirm.Milliseconds()), EnterMS: uint32(time.Minute.Milliseconds())}}
	i, loaded, err := lookFor(k, older)
	switch {
	case err != nil:
		return nil, err
	case loaded && i.State == uapi.DynamosLeaving:
		return nil, refusef("tasks are inside %s still: 'skep update status %s' lists them; try again when it has left", older, older)
	case loaded && i.State != uapi.DynamosLoaded:
		return nil, refusef("%s is %s: 'skep update revert %s' ends the newer one", older, i.State, newer)
	case loaded && i.Cause == uapi.DynamosSuperseded:
		a.Policy, a.Health, a.together = i.Policy, i.Health, i.Class == uapi.DynamosTogether
		reason, err := keep.exist(older)
		a.Flags |= existFlag(reason)
		return a, err
	}
	kept, file, err := keep.retired(older)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusef("this node has no %s that a newer update superseded: apply its package with --supersede", older)
	}
	if err != nil {
		return nil, err
	}
	return a, loadRetired(k, keep, a, &kept, file)
}

// loadRetired loads the module of a stored update.
func loadRetired(k BackKernel, keep *Keep, a *backApply, kept *Kept, file []byte) error {
	p, err := pack.Read(bytes.NewReader(file))
	if err != nil {
		return err
	}
	running, err := k.BuildID()
	if err != nil {
		return err
	}
	module, err := moduleOf(p, running)
	if err != nil {
		return err
	}
	about, _ := p.Kernel(running)
	if err := CheckObjects(k.HasModule, kept.Name, about, kept.ObjectsExist); err != nil {
		return err
	}
	if err := kept.numberCgroups(CgroupID); err != nil {
		return err
	}
	if err := keep.RememberExist(kept.Name, kept.ObjectsExist); err != nil {
		return err
	}
	if _, err := k.Load(kept.Name, module); err != nil {
		return err
	}
	a.Flags |= existFlag(kept.ObjectsExist)
	a.Policy, a.Health, a.together = kept.Policy, kept.Health, p.Class == uapi.DynamosTogether.String()
	if err := keep.Remember(kept.Name, file); err != nil {
		return fmt.Errorf("%s cannot be stored for the next boot: %w", kept.Name, err)
	}
	return nil
}
