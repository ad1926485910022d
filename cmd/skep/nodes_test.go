// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/internal/cli"
)

// Each command that starts a node accepts the same options of its owner.
func TestAllowancesOfEachCommand(t *testing.T) {
	line := strings.Fields("--allow /a --allow /b --allow-write /c --allow-network --limit-memory 50M --limit-wall-time 3s")
	var u up
	var j join
	var r run
	for name, r := range map[string]struct {
		runner
		allow *allowances
	}{
		"up":   {&u, &u.allow},
		"join": {&j, &j.allow},
		"run":  {&r, &r.allow},
	} {
		f := cli.NewFlags(name, name)
		r.options(f)
		if _, err := f.Parse(line); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var c agent.Config
		r.allow.apply(&c, "/state")
		if !slices.Equal(c.Read, []string{"/a", "/b"}) || !slices.Equal(c.Write, []string{"/c"}) || !c.Network || c.Limits.Memory != 50<<20 || c.Limits.Wall != 3 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// An address without a port gets the default port.
func TestAddressOfAHub(t *testing.T) {
	for _, c := range []struct{ words, token, want, wrong string }{
		{"pc", "t", "pc:4860", ""},
		{"pc:1", "t", "pc:1", ""},
		{"::1", "t", "[::1]:4860", ""},
		{"[::1]:7", "t", "[::1]:7", ""},
		{"", "", "", ""},
		{"", "t", "", "HOST:PORT is expected"},
		{"pc other", "t", "", `"other"`},
	} {
		j := &join{token: c.token}
		got, err := j.hubAddress(cli.NewFlags("join", "join"), strings.Fields(c.words))
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %q, %v", c.words, got, err)
		}
	}
}

// The token by which a hub's own agent joins cannot be used again.
func TestTokenOfTheOwnAgentIsUsedUp(t *testing.T) {
	dir, err := os.MkdirTemp("", "own") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h, err := hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c := agent.Config{State: agentState(dir), Name: "pc"}
	if err := joinHere(t.Context(), h, &c); err != nil {
		t.Fatal(err)
	}
	list, err := h.Tokens().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range list {
		if token.Uses > 0 {
			t.Errorf("%d uses are left of a token", token.Uses)
		}
	}
}

// Lines of several nodes are printed whole and with the node's name, in whatever pieces
// they arrive.
func TestOutputOfSeveralNodes(t *testing.T) {
	long := strings.Repeat("x", lineMax)
	for _, c := range []struct {
		many   bool
		writes []string
		want   string
	}{
		{false, []string{"a\nb", "c"}, "a\nbc"},
		{true, []string{"a\nb", "c\n", "\n", "d"}, "n: a\nn: bc\nn: \nn: d\n"},
		{true, []string{"a\nb\nc\n"}, "n: a\nn: b\nn: c\n"},
		{true, []string{long + "y\n"}, "n: " + long + "y\n"},
		{true, []string{long[1:], "x", "y\n"}, "n: " + long + "\nn: y\n"},
	} {
		got := printedBy(t, &os.Stdout, func() {
			o := (&job{many: c.many}).newOutput(os.Stdout, "n")
			for _, text := range c.writes {
				if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
			o.flush()
		})
		if got != c.want {
			t.Errorf("%.40q: %.80q, want %.80q", c.writes, got, c.want)
		}
	}
}

// Every program reads the whole input. One that has ended does not delay others. A single
// program gets the input itself.
func TestInputOfSeveralPrograms(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 20000) // more than one copy of the fan
	f := newFan(bytes.NewReader(text), 3)
	f.releaseReader(1)
	var wait sync.WaitGroup
	for _, i := range []int{0, 2} {
		r := f.newReader(i)
		wait.Go(func() {
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
				t.Errorf("reader %d has %d bytes of %d, %v", i, len(got), len(text), err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the readers never end")
	}
	in := strings.NewReader("abc")
	if newFan(in, 1).newReader(0) != io.Reader(in) {
		t.Error("a single program has a copy of the input")
	}
}

// A run's progress counts the calls of each node and prints important events.
func TestProgressOfARun(t *testing.T) {
	w := newWatch(os.Stderr)
	call := func(state string, n uint64) hub.Event {
		return hub.Event{Type: "call", State: state, Node: "1", Name: "pc", Substrate: "linux", Call: n, Running: 1, Sent: 1000, Fetched: 500, Text: "it left"}
	}
	for _, c := range []struct {
		event hub.Event
		says  string
	}{
		{hub.Event{Type: "log", Name: "pc", Text: "hello\x1b"}, "pc: hello?"},
		{hub.Event{Type: "node", Name: "pc", State: hub.NodeUp}, ""},
		{hub.Event{Type: "node", Name: "pc", State: "lost", Text: "silent"}, "skep: node pc is lost: silent"},
		{hub.Event{Type: "node", Name: "pc", State: "lost"}, "skep: node pc is lost"},
		{hub.Event{Type: "call", State: hub.CallLeased}, ""}, // without a node
		{call(hub.CallLeased, 1), ""}, {call(hub.CallLeased, 2), ""}, {call(hub.CallLeased, 3), ""}, {call(hub.CallLeased, 4), ""},
		{call(hub.CallDone, 1), ""}, {call(hub.CallFailed, 2), ""}, {call(hub.CallCancelled, 4), ""},
		{call(hub.CallRequeued, 3), "skep: call 3 is run again, it was on node pc: it left"},
	} {
		said := make(chan string, 1)
		go func() { said <- w.countEvent(c.event) }()
		select {
		case got := <-said:
			if got != c.says {
				t.Errorf("%+v: %q, want %q", c.event, got, c.says)
			}
		case <-time.After(time.Minute):
			t.Fatal("the second event is never taken")
		}
	}
	if got := strings.Join(strings.Fields(strings.Join(w.progressLines(), "\n")), " "); got != "pc linux 1 running 1 done 2.5 kB sent" {
		t.Errorf("got %q", got)
	}
}
