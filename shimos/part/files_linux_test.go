// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"skep/shimos/ninep"
)

// Tversion of 8192 bytes and "9P2000.L".
const askVersion = "\x15\x00\x00\x00\x64\xff\xff\x00\x20\x00\x00\x08\x009P2000.L"

func newFiles(t *testing.T, d *driver) *files {
	t.Helper()
	server, err := ninep.NewServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &files{l: d.l, pool: d.pool, server: server}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *files) mustStep(t *testing.T, want bool) {
	t.Helper()
	if busy, err := f.step(); busy != want || err != nil {
		t.Fatalf("%v, %v", busy, err)
	}
}

func TestFilesAreServedWhileTheQueueIsReady(t *testing.T) {
	d := newDriver()
	f := newFiles(t, d)
	f.mustStep(t, false)
	d.l.Device[0].Ready = 1
	f.mustStep(t, true)
	if d.l.Device[0].Served != 1 {
		t.Error("the queue is not served")
	}
	f.mustStep(t, false)
	copy(d.pool[testData:], askVersion)
	d.describe(0, testHigh+testData, uint32(len(askVersion)), flagNext, 1)
	d.describe(1, testLow, 100, flagWrite, 0)
	d.offer(0, 0)
	f.mustStep(t, true)
	reply := d.pool[testPool/2:]
	if n := binary.LittleEndian.Uint32(reply); n != 21 || reply[4] != 101 || string(reply[13:n]) != "9P2000.L" {
		t.Errorf("the reply is %q", reply[:32])
	}
	d.l.Device[0].Ready = 0
	f.mustStep(t, true)
	if d.l.Device[0].Served != 0 {
		t.Error("the queue is not left")
	}
	f.mustStep(t, false)
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
		f := newFiles(t, d)
		if err := f.serve(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRootIsRefusedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := new(Lender)
	if _, err := l.prepareFiles(nil, file); !isRefused(err, "the root: "+file+" is not a folder") {
		t.Errorf("a file: %v", err)
	}
	if f, err := l.prepareFiles(nil, ""); f != nil || err != nil || f.close() != nil || f.serve(t.Context()) != nil {
		t.Errorf("no root: %v, %v", f, err)
	}
}
