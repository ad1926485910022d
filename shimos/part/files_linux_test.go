// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
	"skep/shimos/ninep"
)

// Tversion of 8192 bytes and "9P2000.L".
const askVersion = "\x15\x00\x00\x00\x64\xff\xff\x00\x20\x00\x00\x08\x009P2000.L"

// plugFiles makes the device of a folder.
func plugFiles(t *testing.T, d *driver) *device {
	t.Helper()
	m, err := filesModel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return plugOne(t, d, m)
}

func plugOne(t *testing.T, d *driver, m model) *device {
	t.Helper()
	list, err := plug(d.l, d.pool, []model{m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeModels([]model{m}); err != nil {
			t.Error(err)
		}
	})
	return list[0]
}

func (d *device) mustLook(t *testing.T, want bool) {
	t.Helper()
	if busy, err := d.look(); busy != want || err != nil {
		t.Fatalf("%v, %v", busy, err)
	}
}

// The kernel's driver of 9P asks for the tag by its length, which comes first.
func TestFilesAreServedWhileTheQueueIsReady(t *testing.T) {
	d := newDriver()
	f := plugFiles(t, d)
	at := &d.l.Device[0]
	if at.Kind != 9 || at.Queues != 1 || at.Features != 1 || string(at.Config[:6]) != "\x04\x00skep" {
		t.Errorf("the kernel is told %+v", at)
	}
	f.mustLook(t, false)
	at.Ready = 1
	f.mustLook(t, true)
	if at.Served != 1 {
		t.Error("the queue is not served")
	}
	f.mustLook(t, false)
	copy(d.pool[testData:], askVersion)
	d.describe(0, testHigh+testData, uint32(len(askVersion)), flagNext, 1)
	d.describe(1, testLow, 100, flagWrite, 0)
	d.offer(0, 0)
	f.mustLook(t, true)
	reply := d.pool[testPool/2:]
	if n := binary.LittleEndian.Uint32(reply); n != 21 || reply[4] != 101 || string(reply[13:n]) != "9P2000.L" {
		t.Errorf("the reply is %q", reply[:32])
	}
	at.Ready = 0
	f.mustLook(t, true)
	if at.Served != 0 {
		t.Error("the queue is not left")
	}
	f.mustLook(t, false)
}

func TestSpoiledQueueEndsTheRun(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(*driver)
		want  error
	}{
		"a queue outside":         {func(d *driver) { d.l.Device[0].Queue[0].Used = 0 }, errQueue},
		"no room for a reply":     {func(d *driver) { d.describe(1, testLow, leastReply-1, flagWrite, 0) }, errQueue},
		"a request without bytes": {func(d *driver) { d.describe(0, testHigh+testData, 3, flagNext, 1) }, ninep.ErrSpoiled},
	} {
		d := newDriver()
		copy(d.pool[testData:], askVersion)
		d.describe(0, testHigh+testData, uint32(len(askVersion)), flagNext, 1)
		d.describe(1, testLow, leastReply, flagWrite, 0)
		d.offer(0, 0)
		d.l.Device[0].Ready = 1
		c.spoil(d)
		f := plugFiles(t, d)
		if err := serveDevices(t.Context(), []*device{f}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRootIsRefusedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := Boot{Files: file}
	if list, err := b.models(); len(list) != 0 || !isRefused(err, "the root: "+file+" is not a folder") {
		t.Errorf("a file: %v, %v", list, err)
	}
}

// idle is a backend that has nothing to do.
type idle struct{}

func (idle) step([]*queue) (bool, error)      { return false, nil }
func (idle) wait(_ []*queue, _ time.Duration) {}
func (idle) close() error                     { return nil }

// Each device has its own place and state, and there are as many as places.
func TestDevicesHaveTheirOwnPlaces(t *testing.T) {
	d := newDriver()
	d.l.Device[1].Queue = [2]uapi.SkepLinuxQueue{d.l.Device[0].Queue[0], d.l.Device[0].Queue[0]}
	models := []model{{"first", 1, 1, 2, []byte("a"), idle{}}, {"second", 3, 2, 4, []byte("b"), idle{}}}
	list, err := plug(d.l, d.pool, models)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range models {
		at := &d.l.Device[i]
		if at.Kind != m.kind || at.Queues != uint32(m.queues) || at.Features != m.features || at.Config[0] != m.config[0] {
			t.Errorf("device %d is %+v", i, at)
		}
	}
	d.l.Device[1].Ready = 1
	list[0].mustLook(t, false)
	list[1].mustLook(t, true)
	if len(list[1].active) != 2 || list[0].active != nil || d.l.Device[0].Served != 0 || d.l.Device[1].Served != 1 {
		t.Errorf("%d and %d queues", len(list[0].active), len(list[1].active))
	}
	d.l.Device[1].Queue[1].Size = 3
	d.l.Device[1].Ready = 0
	list[1].mustLook(t, true)
	d.l.Device[1].Ready = 1
	if err := serveDevices(t.Context(), list); !errors.Is(err, errQueue) || !strings.HasPrefix(err.Error(), "second: ") {
		t.Errorf("a second queue that is none: %v", err)
	}
	if _, err := plug(d.l, d.pool, make([]model, uapi.SkepLinuxDevices+1)); err == nil {
		t.Error("more devices than places")
	}
}
