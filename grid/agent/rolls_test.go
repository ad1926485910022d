// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
	"skep/grid/proto"
	"skep/grid/rolls"
)

// A tookRoller records what reaches it.
type tookRoller struct {
	took  []rolls.Order
	ready bool
	began chan struct{}
	ended bool
}

func (r *tookRoller) Take(o rolls.Order) { r.took = append(r.took, o) }
func (r *tookRoller) Ready() bool        { return r.ready }
func (r *tookRoller) Applied() []roll.Applied {
	return []roll.Applied{{Name: "fix", State: "committed"}}
}
func (r *tookRoller) Run(ctx context.Context) {
	close(r.began)
	<-ctx.Done()
	r.ended = true
}

// An order of the hub reaches the roller of a node that has one.
func TestOrdersOfRolls(t *testing.T) {
	a, h := newIdleAgent(t)
	order := rolls.Order{Spec: rolls.Spec{Name: "fix", Lease: time.Second}}
	if err := a.handleMessage(t.Context(), proto.VerbRoll, encodeMessage(t, order)); err == nil || !strings.Contains(err.Error(), "takes part in no rolls") {
		t.Error(err)
	}
	a.startRolls(t.Context())() // nothing to carry out
	r := &tookRoller{began: make(chan struct{})}
	a.rolls = r
	if err := a.handleMessage(t.Context(), proto.VerbRoll, []byte{0xff}); err == nil || len(r.took) != 0 {
		t.Errorf("%v, %v", err, r.took)
	}
	if err := a.handleMessage(t.Context(), proto.VerbRoll, encodeMessage(t, order)); err != nil || len(r.took) != 1 || !reflect.DeepEqual(r.took[0].Spec, order.Spec) {
		t.Errorf("%v, %+v", err, r.took)
	}
	a.sendBeat()
	r.ready = true
	a.sendBeat()
	if h.beats[0].Rolls || !h.beats[1].Rolls {
		t.Errorf("beats say %v, then %v", h.beats[0].Rolls, h.beats[1].Rolls)
	}
	if k := h.beats[1].Kernel.Applied; len(k) != 1 || k[0].Name != "fix" || k[0].State != "committed" {
		t.Errorf("beats say that %+v is applied", k)
	}
	end := a.startRolls(t.Context())
	<-r.began
	if end(); !r.ended {
		t.Error("the rolls go on")
	}
}

// The package of a roll comes from the hub that the agent has at that time.
func TestPackagesOfRolls(t *testing.T) {
	a, h := newIdleAgent(t)
	dir := a.store.(fakeStore).dir
	h.cache = dir
	digest := a.store.(fakeStore).put(t, []byte("a package"))
	if path, err := a.fetchPackage(t.Context(), digest); err != nil || path != filepath.Join(dir, digest) {
		t.Errorf("%q, %v", path, err)
	}
	h.lost = errors.New("it is gone")
	if path, err := a.fetchPackage(t.Context(), strings.Repeat("0", 64)); !errors.Is(err, h.lost) || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	a.hub = nil
	if _, err := a.fetchPackage(t.Context(), digest); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Error(err)
	}
}
