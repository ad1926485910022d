// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"skep/dynamos/update/roll"
	"skep/grid/proto"
	"skep/grid/rolls"
)

// A roller takes part in rolls for a node: rolls.Node itself, or a relay to root's host.
type roller interface {
	Take(rolls.Order)
	Run(context.Context)
	Ready() bool
	Applied() []roll.Applied
}

// openRolls prepares this node's part in rolls of kernel updates.
func (a *Agent) openRolls() error {
	if a.config.Rolls == nil && a.config.RollSocket == "" {
		return nil
	}
	send := func(r rolls.Report) {
		if h := a.toHub(); h != nil {
			_ = h.publish(proto.VerbRoll, r, nil) // a lost report is followed by others
		}
	}
	if a.config.Rolls == nil {
		a.rolls = rolls.NewRelay(a.config.RollSocket, send, a.fetchPackage, a.config.Log)
		return nil
	}
	n, err := rolls.NewNode(filepath.Join(filepath.Dir(a.work), "rolls"), a.config.Rolls, send, a.fetchPackage, a.config.Log)
	a.rolls = n
	return err
}

// takesRolls reports whether rolls reach the kernel of this node now.
func (a *Agent) takesRolls() bool { return a.rolls != nil && a.rolls.Ready() }

// startRolls carries rolls out until ctx ends, also while there is no connection to the
// hub. The function that it returns ends that.
func (a *Agent) startRolls(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ends sync.WaitGroup
	if a.rolls != nil {
		ends.Go(func() { a.rolls.Run(ctx) })
	}
	return func() { cancel(); ends.Wait() }
}

func (a *Agent) takeRoll(message []byte) error {
	var o rolls.Order
	if _, err := proto.Decode(message, &o); err != nil {
		return err
	}
	if a.rolls == nil {
		return errors.New("this node takes part in no rolls of kernel updates")
	}
	a.rolls.Take(o)
	return nil
}

// fetchPackage brings the package of a roll onto this node.
func (a *Agent) fetchPackage(ctx context.Context, digest string) (string, error) {
	a.hubMu.RLock()
	hub, store := a.hub, a.store
	a.hubMu.RUnlock()
	if hub == nil {
		return "", errors.New("there is no connection to the hub")
	}
	if _, err := hub.fetch(ctx, digest, store); err != nil {
		return "", err
	}
	return store.Path(digest)
}
