// SPDX-License-Identifier: MIT

package rolls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skep/dynamos/update/roll"
)

const relayTimeout = time.Minute

// A relayed node has a host in one place and a relay in another, with a socket between them.
type relayed struct {
	t       *testing.T
	k       *fakeKernel
	relay   *Relay
	socket  string
	reports chan Report
	permit  error
	mu      sync.Mutex
	lines   []string
}

// A fullListener first has no descriptor left for a connection.
type fullListener struct {
	net.Listener
	failed bool
}

func (l *fullListener) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func newRelayed(t *testing.T, fetch func(context.Context, string) (string, error)) *relayed {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &relayed{t: t, k: &fakeKernel{boot: "1", began: time.Now(), refuse: map[string]error{}}, socket: filepath.Join(dir, "sock"), reports: make(chan Report, 1000)}
	log := func(format string, args ...any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, fmt.Sprintf(format, args...))
	}
	h, err := NewHost(filepath.Join(dir, "host"), r.k, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	r.relay = NewRelay(r.socket, func(v Report) { r.reports <- v }, fetch, log)
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	ends.Go(func() {
		if err := h.Serve(ctx, &fullListener{Listener: l}, func(net.Conn) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.permit
		}); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	ends.Go(func() { r.relay.Run(ctx) })
	t.Cleanup(func() { cancel(); ends.Wait() })
	return r
}

func (r *relayed) logged(words string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.lines, "\n"), words)
}

// await waits until a condition holds; it sends the order until then, as a hub does.
func (r *relayed) await(what string, o *Order, is func(v Report) bool) {
	r.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(relayTimeout); ; {
		var v Report
		select {
		case v = <-r.reports:
		case <-poll.C:
			if o != nil {
				r.relay.Take(*o)
			}
		case <-end:
			r.t.Fatalf("%s never came: %v", what, r.lines)
		}
		if is(v) {
			return
		}
		if o != nil && v.ID != "" {
			o.Order = roll.Order{Boot: v.Report.Boot, Stamp: v.Report.Stamp, Goal: roll.Staged}
		}
	}
}

// Applied returns an update whose calls grow.
func (k *fakeKernel) Applied() ([]roll.Applied, error) {
	return []roll.Applied{{Name: "fix", State: "committed", Functions: []Function{{Symbol: "f", New: Version{Calls: k.calls.Add(1) + 7}}}}}, nil
}

// What is applied reaches the agent, without a roll, again and again, and is not known when
// there is no host.
func TestRelayOfAppliedUpdates(t *testing.T) {
	r := newRelayed(t, nil)
	has := func() bool {
		list := r.relay.Applied()
		return len(list) == 1 && list[0].Name == "fix" && list[0].Functions[0].New.Calls > 7
	}
	r.await("the figures", nil, func(Report) bool { return has() })
	first := r.relay.Applied()[0].Functions[0].New.Calls
	r.await("later figures", nil, func(Report) bool { return r.relay.Applied()[0].Functions[0].New.Calls > first })
	if n := NewRelay(r.socket, nil, nil, nil); len(n.Applied()) > 0 {
		t.Errorf("without a host: %+v", n.Applied())
	}
}

// A package reaches the host through the relay, and reports come back.
func TestRelay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "package")
	if err := os.WriteFile(file, []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	r := newRelayed(t, func(context.Context, string) (string, error) {
		if tries++; tries == 1 {
			return "", errors.New("there is no connection to the hub")
		}
		return file, nil
	})
	r.await("the connection", nil, func(Report) bool { return r.relay.Ready() })
	o := &Order{Spec: testSpec}
	r.await("the package", o, func(v Report) bool {
		return v.ID == testSpec.ID && v.Report.Phase == roll.Staged
	})
	reports := 0 // they come over the connection that the package came over
	r.await("more reports", o, func(v Report) bool {
		if v.ID == testSpec.ID {
			reports++
		}
		return reports == 3
	})
	if r.logged("not connected any more") {
		t.Errorf("a package that was sent ended the connection: %v", r.lines)
	}
	if !r.logged("the package cannot be fetched: there is no connection to the hub") {
		t.Errorf("a fetch that failed is not told: %v", r.lines)
	}
}

var greeting = regexp.MustCompile(`^{}\n({"applied":\[[^\n]*\]}\n)?$`)

// The host refuses a peer that may not connect, closes at each malformed message, and
// serves the next agent.
func TestHostOfHostilePeers(t *testing.T) {
	r := newRelayed(t, func(context.Context, string) (string, error) { return "", errors.New("none") })
	r.await("the connection", nil, func(Report) bool { return r.relay.Ready() })
	for _, text := range []string{
		"{}\nnonsense\n",
		strings.Repeat("x", lineMax+1) + "\n",
		`{"package":"` + testSpec.Package + `","size":5}` + "\nabcde",
		`{"package":"../../etc/passwd","size":5}` + "\nabcde",
		`{"package":"x","size":-1}` + "\n",
		`{"package":"x","size":99999999999999}` + "\n",
	} {
		c, err := net.Dial("unix", r.socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "broken pipe") {
			t.Error(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(relayTimeout)); err != nil {
			t.Fatal(err)
		}
		// Before the host reads the message, it may say that the peer is permitted and what is applied.
		if got, err := io.ReadAll(c); len(got) > 0 && !greeting.Match(got) || os.IsTimeout(err) {
			t.Errorf("%.40q was taken: %q, %v", text, got, err)
		}
		c.Close()
	}
	r.await("the agent again", nil, func(Report) bool { return r.relay.Ready() })
	order := Order{Spec: testSpec}
	r.await("an order", &order, func(v Report) bool { return v.ID == testSpec.ID })
}

// A host that does not permit an agent gives it nothing, and the agent says so once.
func TestHostPermitsOnlyItsAgent(t *testing.T) {
	r := newRelayed(t, nil)
	r.await("the connection", nil, func(Report) bool { return r.relay.Ready() })
	r.mu.Lock()
	r.permit = errors.New("user 7 is nobody")
	r.mu.Unlock()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, _ := io.ReadAll(c); len(got) > 0 {
		t.Errorf("a peer that may not connect got %q", got)
	}
	if !r.relay.Ready() || !r.logged("a connection was refused: user 7 is nobody") {
		t.Errorf("the first agent: %v; %v", r.relay.Ready(), r.lines)
	}
}

// A pipeConn is a connection whose peer sent some bytes and hung up.
type pipeConn struct {
	net.Conn
	in io.Reader
}

func (c *pipeConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *pipeConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *pipeConn) Close() error                     { return nil }
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

// Whatever an agent sends, the host ends the connection, and its node takes no order that
// is not whole.
func FuzzHost(f *testing.F) {
	f.Add([]byte("{}\n{\"order\":{\"spec\":{\"id\":\"one\",\"name\":\"fix\"}}}\n"))
	f.Add([]byte("{\"package\":\"" + testSpec.Package + "\",\"size\":3}\nabc{}\n"))
	f.Add([]byte("{\"package\":\"" + testSpec.Package + "\",\"error\":\"none\"}\n"))
	f.Add([]byte("{\"package\":\"" + testSpec.Package + "\",\"size\":3}\nab"))
	f.Add([]byte("{\"package\":\"another\",\"size\":2}\n{}{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := NewHost(t.TempDir(), &fakeKernel{boot: "1"}, func(string, ...any) {})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan packageFile, 1)
		h.waits[testSpec.Package] = got
		w := newWire(&pipeConn{in: strings.NewReader(string(text))})
		h.agent = w
		if err := h.serve(t.Context(), w); err == nil {
			t.Error("a connection that ended was served without an error")
		}
		for len(h.node.orders) > 0 {
			h.node.take(t.Context(), <-h.node.orders)
		}
		for name, l := range h.node.rolls {
			if err := l.spec.Check(); err != nil || name != l.spec.Name {
				t.Errorf("a roll %q was taken: %v", name, err)
			}
		}
	})
}

// Whatever a node reports, the hub's record of the roll can be stored and read again.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"id":"one","report":{"Boot":"1","Stamp":5,"Heard":3,"Fits":true,"Phase":3,"For":9,"Inside":["a"]}}`), int64(1))
	f.Add([]byte(`{"id":"one","report":{"Boot":"1","Stamp":-9223372036854775808,"Heard":9223372036854775807,"Phase":255,"Bad":"x"}}`), int64(1<<40))
	f.Fuzz(func(t *testing.T, text []byte, later int64) {
		var r Report
		if json.Unmarshal(text, &r) != nil {
			return
		}
		fl := newFleet(t, "a", "b")
		fl.begin(testSpec, "1,all")
		for range 12 {
			fl.step()
		}
		fl.hub.Report("a", r)
		fl.now = fl.now.Add(time.Duration(later & (1<<40 - 1)))
		fl.hub.Tick()
		fl.hub.Report("a", r)
		fl.open()
		if m := fl.hub.rolls["fix"].Roll.Nodes["b"]; m.Failed == "" && m.Goal == roll.Committed && fl.nodes["b"].k.phase < roll.Canary {
			t.Errorf("a report of a made b commit: %+v", m)
		}
	})
}
