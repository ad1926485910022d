// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

const testBehind = 0x200 // the second queue's rings behind the first one's

// A wired is a card whose interface is a pair of sockets, and both queues of the kernel.
type wired struct {
	in, out *driver // frames to the kernel, and from it
	link    *Link
	device  *device
	far     int // the other socket
}

func newWired(t testing.TB) *wired {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &wired{in: newDriver(), link: &Link{Name: "skep7", fd: pair[0], card: [6]byte{2, 3, 4, 5, 6, 7}}, far: pair[1]}
	w.out = &driver{w.in.pool, w.in.l, testBehind}
	q := w.in.l.Device[0].Queue[0]
	w.in.l.Device[0].Queue[1] = uapi.SkepLinuxQueue{Descriptors: q.Descriptors + testBehind, Available: q.Available + testBehind, Used: q.Used + testBehind, Size: q.Size}
	list, err := plug(w.in.l, w.in.pool, []model{netModel(w.link)})
	if err != nil {
		t.Fatal(err)
	}
	w.device = list[0]
	t.Cleanup(func() {
		unix.Close(pair[1])
		if err := errors.Join(closeModels([]model{w.device.model}), w.link.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// ready lets the card take its queues.
func (w *wired) ready(t testing.TB) {
	t.Helper()
	w.in.l.Device[0].Ready = 1
	if busy, err := w.device.look(); !busy || err != nil {
		t.Fatalf("the queues: %v, %v", busy, err)
	}
}

// used returns how many chains are given back, and the length of the last one.
func (d *driver) used() (n uint16, length uint32) {
	ring := d.pool[d.at+testUsed:]
	n = binary.LittleEndian.Uint16(ring[2:])
	return n, binary.LittleEndian.Uint32(ring[8+8*int((n-1)%testSize):])
}

func newFrame(bytes int) []byte {
	frame := make([]byte, bytes)
	rand.New(rand.NewSource(int64(bytes))).Read(frame)
	return frame
}

// post puts a header and a frame in two descriptors, as number n.
func (w *wired) post(n uint16, header, frame []byte) {
	copy(w.out.pool[testData:], header)
	copy(w.out.pool[testData+64:], frame)
	w.out.describe(0, testHigh+testData, uint32(len(header)), flagNext, 1)
	w.out.describe(1, testHigh+testData+64, uint32(len(frame)), 0, 0)
	w.out.offer(n, 0)
}

func (w *wired) offerRoom(n uint16, bytes uint32) {
	w.in.describe(0, testLow, bytes, flagWrite, 0)
	w.in.offer(n, 0)
}

func TestCardCarriesFramesBothWays(t *testing.T) {
	w := newWired(t)
	at := &w.in.l.Device[0]
	if at.Kind != 1 || at.Queues != 2 || at.Features != 32 || !bytes.Equal(at.Config[:6], w.link.card[:]) {
		t.Errorf("the kernel is told %+v", at)
	}
	w.ready(t)
	w.device.mustLook(t, false)
	buffer := make([]byte, 2000)
	for i, size := range []int{leastEthernet, 60, 1514, mostEthernet} {
		frame := newFrame(size)
		w.post(uint16(i), make([]byte, netHeader), frame)
		w.device.mustLook(t, true)
		n, err := unix.Read(w.far, buffer)
		if used, length := w.out.used(); err != nil || !bytes.Equal(buffer[:max(n, 0)], frame) || int(used) != i+1 || length != 0 {
			t.Errorf("%d bytes from the kernel: %d, %v, used %d of %d", size, n, err, used, length)
		}
		if _, err := unix.Write(w.far, frame); err != nil {
			t.Fatal(err)
		}
		w.device.mustLook(t, false) // it stays where it is until there is room
		w.offerRoom(uint16(i), netHeader+mostEthernet)
		w.device.mustLook(t, true)
		got := w.in.pool[testPool/2:]
		if used, length := w.in.used(); int(used) != i+1 || int(length) != netHeader+size || string(got[:netHeader]) != "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00" || !bytes.Equal(got[netHeader:][:size], frame) {
			t.Errorf("%d bytes to the kernel: used %d of %d, header %q", size, used, length, got[:netHeader])
		}
	}
	if text := w.link.Losses(); text != "" {
		t.Errorf("it lost something: %s", text)
	}
}

// What the card can't pass on is counted, and the kernel gets its buffers back.
func TestCardDropsFrames(t *testing.T) {
	for what, c := range map[string]struct {
		header, frame []byte
	}{
		"a frame that is too short": {make([]byte, netHeader), newFrame(leastEthernet - 1)},
		"a frame that is too long":  {make([]byte, netHeader), newFrame(mostEthernet + 1)},
		"a checksum to compute":     {append([]byte{1}, make([]byte, netHeader-1)...), newFrame(60)},
		"segments to make":          {append([]byte{0, 1}, make([]byte, netHeader-2)...), newFrame(60)},
	} {
		w := newWired(t)
		w.ready(t)
		w.post(0, c.header, c.frame)
		w.device.mustLook(t, true)
		n, err := unix.Read(w.far, make([]byte, 2000))
		if used, _ := w.out.used(); used != 1 || !errors.Is(err, unix.EAGAIN) || w.link.Losses() != "the link skep7 dropped 1 frames of the kernel" {
			t.Errorf("%s: used %d, passed on %d, %v; %q", what, used, n, err, w.link.Losses())
		}
	}
}

// Nothing waits for an interface that takes no more.
func TestCardDropsWhatTheInterfaceDoesNotTake(t *testing.T) {
	w := newWired(t)
	w.ready(t)
	const all = 5000
	for i := range uint16(all) {
		w.post(i, make([]byte, netHeader), newFrame(1000))
		w.device.mustLook(t, true)
	}
	passed := 0
	for ; ; passed++ {
		if _, err := unix.Read(w.far, make([]byte, 2000)); err != nil {
			break
		}
	}
	if passed == 0 || w.link.dropped == 0 || uint64(passed)+w.link.dropped != all {
		t.Errorf("%d passed, %d dropped", passed, w.link.dropped)
	}
}

// A frame of this Linux that is too long for the kernel's buffer does not reach it, also
// not in part.
func TestCardDropsLongFrames(t *testing.T) {
	w := newWired(t)
	w.ready(t)
	w.offerRoom(0, netHeader+mostEthernet+100)
	for _, size := range []int{mostEthernet + 1, mostEthernet + 50, 60} {
		if _, err := unix.Write(w.far, newFrame(size)); err != nil {
			t.Fatal(err)
		}
		w.device.mustLook(t, true)
	}
	if used, length := w.in.used(); used != 1 || length != netHeader+60 || w.link.dropped != 2 {
		t.Errorf("used %d of %d, dropped %d", used, length, w.link.dropped)
	}
}

func TestSpoiledCardEndsTheRun(t *testing.T) {
	for what, spoil := range map[string]func(*wired){
		"less room than a frame": func(w *wired) { w.offerRoom(0, netHeader+mostEthernet-1) },
		"room that can be read":  func(w *wired) { w.in.describe(0, testLow, 2000, 0, 0); w.in.offer(0, 0) },
		"room behind what can be read": func(w *wired) {
			w.in.describe(0, testLow, 20, flagNext, 1)
			w.in.describe(1, testLow, 2000, flagWrite, 0)
			w.in.offer(0, 0)
		},
		"room outside":               func(w *wired) { w.in.describe(0, 0, 2000, flagWrite, 0); w.in.offer(0, 0) },
		"room in a circle":           func(w *wired) { w.in.describe(0, testLow, 100, flagWrite|flagNext, 0); w.in.offer(0, 0) },
		"a frame without its header": func(w *wired) { w.out.describe(0, testLow, netHeader-1, 0, 0); w.out.offer(0, 0) },
		"a frame that can be written": func(w *wired) {
			w.out.describe(0, testLow, 60, flagNext, 1)
			w.out.describe(1, testLow, 60, flagWrite, 0)
			w.out.offer(0, 0)
		},
		"a frame of 2 MiB":    func(w *wired) { w.out.describe(0, testLow, 2<<20, 0, 0); w.out.offer(0, 0) },
		"too many frames":     func(w *wired) { w.out.offer(testSize, 0) },
		"a head outside":      func(w *wired) { w.out.offer(0, testSize) },
		"no second queue":     func(w *wired) { w.in.l.Device[0].Queue[1].Size = 0 },
		"a first one outside": func(w *wired) { w.in.l.Device[0].Queue[0].Available = 0 },
	} {
		w := newWired(t)
		w.in.l.Device[0].Ready = 1
		spoil(w)
		if err := serveDevices(t.Context(), []*device{w.device}); !errors.Is(err, errQueue) || !strings.HasPrefix(err.Error(), "its link: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The card of a kernel that takes its queues back forgets the buffers that it held.
func TestCardForgetsWhatWasTakenBack(t *testing.T) {
	w := newWired(t)
	w.ready(t)
	w.offerRoom(0, 2000)
	w.device.mustLook(t, false)
	w.in.l.Device[0].Ready = 0
	w.device.mustLook(t, true)
	if _, err := unix.Write(w.far, newFrame(60)); err != nil {
		t.Fatal(err)
	}
	w.device.mustLook(t, false)
	clear(w.in.pool[testAvail:][:64])
	w.ready(t)
	w.device.mustLook(t, false)
	if used, _ := w.in.used(); used != 0 || !bytes.Equal(w.in.pool[testPool/2:][:netHeader+60], make([]byte, netHeader+60)) {
		t.Errorf("used %d", used)
	}
	w.offerRoom(0, 2000)
	w.device.mustLook(t, true)
}

// mustWait fails unless the card waits as long as it may.
func (w *wired) mustWait(t *testing.T, q []*queue) {
	t.Helper()
	const short = 5 * time.Millisecond
	began := time.Now()
	w.device.wait(q, short)
	if took := time.Since(began); took < short {
		t.Errorf("it looks again after %v", took)
	}
}

// With room for it, a frame wakes the card at once. Without, the card does not turn in
// circles.
func TestCardWaitsForFrames(t *testing.T) {
	w := newWired(t)
	w.ready(t)
	if _, err := unix.Write(w.far, newFrame(60)); err != nil {
		t.Fatal(err)
	}
	w.device.mustLook(t, false)
	w.mustWait(t, nil)
	w.mustWait(t, w.device.active)
	w.offerRoom(0, 2000)
	if room, err := w.device.active[0].peek(); room == nil || err != nil {
		t.Fatal(room, err)
	}
	w.device.wait(w.device.active, time.Hour)
	w.device.mustLook(t, true)
}

func TestDeletedLinkIsSaid(t *testing.T) {
	w := newWired(t)
	w.ready(t)
	w.offerRoom(0, 2000)
	fd := w.link.fd
	w.link.fd = -1
	w.device.mustLook(t, true)
	w.link.fd = fd
	w.post(0, make([]byte, netHeader), newFrame(60))
	w.device.mustLook(t, true)
	if _, err := unix.Write(w.far, newFrame(60)); err != nil {
		t.Fatal(err)
	}
	w.device.mustLook(t, false)
	w.mustWait(t, w.device.active)
	if text := w.link.Losses(); text != "the link skep7 was deleted while the kernel ran" || w.link.dropped != 1 {
		t.Errorf("%q, %d dropped", text, w.link.dropped)
	}
}

func TestLinkAddresses(t *testing.T) {
	for _, c := range []struct {
		id                uint32
		want, here, there string
	}{
		{0, "", "169.254.64.1/30", "169.254.64.2/30"},
		{1, "", "169.254.64.5/30", "169.254.64.6/30"},
		{64, "", "169.254.65.1/30", "169.254.65.2/30"},
		{4095, "", "169.254.127.253/30", "169.254.127.254/30"},
		{4096, "", "169.254.64.1/30", "169.254.64.2/30"},
		{9, "10.9.8.1/30", "10.9.8.1/30", "10.9.8.2/30"},
		{9, "10.9.8.6/30", "10.9.8.6/30", "10.9.8.5/30"},
		{9, "10.9.8.0/30", "", ""}, {9, "10.9.8.3/30", "", ""}, {9, "10.9.8.1/29", "", ""}, {9, "10.9.8.1/31", "", ""},
		{9, "127.0.0.1/30", "", ""}, {9, "224.0.0.1/30", "", ""}, {9, "0.0.0.1/30", "", ""}, {9, "240.0.0.1/30", "", ""}, {9, "239.0.0.1/30", "", ""}, {9, "fd00::1/30", "", ""},
	} {
		var want netip.Prefix
		if c.want != "" {
			want = netip.MustParsePrefix(c.want)
		}
		here, there, err := LinkAddresses(c.id, want)
		if (err != nil) != (c.here == "") || err == nil && (here.String() != c.here || there.String() != c.there) {
			t.Errorf("%d, %q: %s, %s, %v", c.id, c.want, here, there, err)
		}
	}
}

// Any memory with both queues in it, and frames of any length on the other side.
func FuzzNet(f *testing.F) {
	good := newWired(f)
	good.post(0, make([]byte, netHeader), newFrame(60))
	good.offerRoom(0, 2000)
	f.Add(good.in.pool[:testData+2000], uint64(0), uint64(0), uint16(60))
	f.Fuzz(func(t *testing.T, content []byte, in, out uint64, size uint16) {
		w := newWired(t)
		copy(w.in.pool, content)
		w.in.l.Device[0].Queue[0].Used += in
		w.in.l.Device[0].Queue[1].Used += out
		w.in.l.Device[0].Ready = 1
		for range 100 {
			unix.Write(w.far, make([]byte, size)) // it may be full
			if busy, err := w.device.look(); !busy || err != nil {
				if err != nil && !errors.Is(err, errQueue) {
					t.Fatal(err)
				}
				return
			}
		}
	})
}
