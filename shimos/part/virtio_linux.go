// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"skep/internal/uapi"
)

const (
	soon = 50 * time.Microsecond
	late = 5 * time.Millisecond
)

// A model is what a device of the kernel is, and what it does. One goroutine calls it.
type model struct {
	name     string // in messages
	kind     uint32 // its number in virtio
	queues   int
	features uint64
	config   []byte
	backend
}

// A backend does what a device does. Its errors end the run.
type backend interface {
	// step does what there is to do, without waiting, and reports whether there was any.
	step(q []*queue) (busy bool, err error)
	// wait waits until there may be something to do for Linux, or so long. There may be no
	// queues.
	wait(q []*queue, limit time.Duration)
	close() error
}

// A device is a model, and this side of its place in the mailbox.
type device struct {
	model
	l      *uapi.SkepLinux
	at     *uapi.SkepLinuxDevice
	pool   []byte
	active []*queue // none: the kernel has not said where they are
}

// plug writes models to the table of the mailbox, before the kernel starts.
func plug(l *uapi.SkepLinux, pool []byte, models []model) (list []*device, err error) {
	if len(models) > len(l.Device) {
		return nil, fmt.Errorf("%d devices, and the mailbox has places for %d", len(models), len(l.Device))
	}
	for i, m := range models {
		at := &l.Device[i]
		at.Kind, at.Queues, at.Features = m.kind, uint32(m.queues), m.features
		copy(at.Config[:], m.config)
		list = append(list, &device{model: m, l: l, at: at, pool: pool})
	}
	return list, nil
}

// serveDevices serves all until one fails or ctx ends.
func serveDevices(ctx context.Context, list []*device) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, d := range list {
		all.Go(func() {
			if err := d.serve(ctx); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func closeModels(models []model) (err error) {
	for _, m := range models {
		err = errors.Join(err, m.close())
	}
	return err
}

// serve does the device's work until ctx ends, or the kernel does what no kernel of ours
// does. Nobody can interrupt this Linux for a request, so it looks for them: all the time
// after the last one, then less and less.
func (d *device) serve(ctx context.Context) error {
	seen := time.Now()
	for ctx.Err() == nil {
		busy, err := d.look()
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if busy {
			seen = time.Now()
			continue
		}
		// an eighth of the time that it has been quiet
		d.wait(d.active, min(max(time.Since(seen)/8, soon), late))
	}
	return nil
}

// look takes or leaves the queues, or lets the backend do its work.
func (d *device) look() (busy bool, err error) {
	ready := atomic.LoadUint32(&d.at.Ready)
	switch {
	case ready == 0 && d.active != nil:
		d.active = nil
		atomic.StoreUint32(&d.at.Served, 0)
		return true, nil
	case ready != 0 && d.active == nil:
		return true, d.begin()
	case d.active == nil:
		return false, nil
	}
	return d.step(d.active)
}

// begin takes the queues that the kernel describes.
func (d *device) begin() error {
	m, err := newMemory(d.pool, d.l)
	if err != nil {
		return err
	}
	queues := make([]*queue, d.queues)
	for i := range queues {
		if queues[i], err = newQueue(m, &d.at.Queue[i]); err != nil {
			return err
		}
	}
	d.active = queues
	atomic.StoreUint32(&d.at.Served, 1)
	return nil
}
