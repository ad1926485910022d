// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	hubs "skep/grid/hub"
	"skep/grid/ident"
)

// The role node is an agent in another process, which prints its log and the reason of its end.
func init() {
	roles["node"] = func(args []string) {
		err := Run(context.Background(), Config{State: args[0], Hub: args[1], Slots: 3, Version: "t",
			Log:    func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
			Status: func(text string) { fmt.Println("status: " + text) }})
		fmt.Printf("ended: %v\n", err)
		os.Exit(0)
	}
}

// A cutter is a connection between node and hub that can be cut.
type cutter struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	dead  bool // accepts no more connections
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to}
	t.Cleanup(func() { l.Close(); c.cut(true) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.connect(in)
		}
	}()
	return c
}

func (c *cutter) connect(in net.Conn) {
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		in.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		in.Close()
		out.Close()
		return
	}
	c.conns = append(c.conns, in, out)
	go func() { io.Copy(in, out); in.Close() }()
	go func() { io.Copy(out, in); out.Close() }()
}

func (c *cutter) cut(dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns, c.dead = nil, dead
}

func startHub(t *testing.T) (h *hubs.Hub, token func() string) {
	state, err := os.MkdirTemp("", "hub") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	if h, err = hubs.Open(hubs.Config{State: state, Listen: "127.0.0.1:0", Version: "t"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(); os.RemoveAll(state) })
	return h, func() string {
		v, err := hubs.NewClient(h.ControlSocket()).Token(t.Context(), hubs.TokenRequest{Uses: 1, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return v.Token
	}
}

// startNode starts a node and returns the lines that it prints, each once.
func startNode(t *testing.T, state, address string) <-chan string {
	cmd := exec.Command(os.Args[0], "node", state, address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// awaitLine skips lines until one begins so.
func awaitLine(t *testing.T, lines <-chan string, start string) string {
	t.Helper()
	for limit := time.After(testTimeout); ; {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the node ended before it said %q", start)
			}
			t.Log(line)
			if strings.HasPrefix(line, start) {
				return line
			}
		case <-limit:
			t.Fatalf("in vain waited for %q", start)
		}
	}
}

// A node works for its hub, reconnects when the connection was cut, waits twice as long after
// each try, and ends with a reason when the hub has removed it.
func TestNodeComesBackUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	h, token := startHub(t)
	state := t.TempDir()
	if err := Join(t.Context(), Config{State: state, Name: "pc", Version: "t"}, h.Address().String(), token()); err != nil {
		t.Fatal(err)
	}
	isUp := func(want bool) func() bool {
		return func() bool {
			list := h.Nodes()
			return len(list) == 1 && (list[0].State == hubs.NodeUp) == want
		}
	}
	line := newCutter(t, h.Address().String())
	lines := startNode(t, state, line.Addr().String())
	awaitLine(t, lines, "connected to the hub at "+line.Addr().String()+" as pc (linux)")
	waitUntil(t, "the node", isUp(true))
	if n := h.Nodes()[0]; n.Name != "pc" || n.Slots != 3 || n.Version != "t" {
		t.Errorf("%+v", n)
	}
	for _, waits := range [][]string{{"1s", "2s"}, nil} { // the second time is logged too
		line.cut(true)
		awaitLine(t, lines, "no connection to the hub (") // EOF, or a reset if bytes were on their way
		for _, wait := range waits {
			if text := awaitLine(t, lines, "status: no connection to the hub ("); !strings.HasSuffix(text, "; next try in "+wait) {
				t.Error(text)
			}
		}
		line.cut(false)
		awaitLine(t, lines, "connected to the hub at ")
	}
	waitUntil(t, "the node again", isUp(true))
	if err := h.RemoveNode("pc"); err != nil {
		t.Fatal(err)
	}
	if text := awaitLine(t, lines, "ended: "); !strings.Contains(text, "removed") {
		t.Error(text)
	}
	if text := awaitLine(t, startNode(t, state, h.Address().String()), "ended: "); !strings.Contains(text, "removed") {
		t.Errorf("started again: %s", text)
	}
}

// A hub that is off for days costs a line of the log, not one a minute; the status has each try.
func TestNodeLogsEachCauseOnce(t *testing.T) {
	t.Parallel()
	lines, tries := []string{}, []string{}
	a := &Agent{away: map[string]bool{}, config: Config{Status: func(text string) { tries = append(tries, text) },
		Log: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}}
	reset := func(port int) error {
		return fmt.Errorf("greeting: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET})
	}
	clock := func(day int) error { return fmt.Errorf("%w on day %d (%w)", ident.ErrClock, day, io.EOF) }
	for i := range 3 {
		for _, err := range []error{reset(i), io.EOF, clock(i)} {
			a.logAway(err, time.Minute)
		}
	}
	if len(lines) != 3 || !strings.Contains(lines[0], "(greeting: read tcp :0: connection reset by peer); tries again until there is one") {
		t.Errorf("%q", lines)
	}
	if len(tries) != 9 || !strings.HasSuffix(tries[8], "; next try in 1m0s") {
		t.Errorf("%q", tries)
	}
}

// An agent that is told to end, as at a shutdown, tells its hub so.
func TestNodeLeavesAtItsEnd(t *testing.T) {
	t.Parallel()
	h, token := startHub(t)
	lines := make(chan string, 100)
	c := Config{State: t.TempDir(), Name: "pc", Version: "t", Slots: 1, Log: func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }}
	if err := Join(t.Context(), c, h.Address().String(), token()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	awaitLine(t, lines, "connected to the hub")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	waitUntil(t, "the end of the node", func() bool { return h.Nodes()[0].State == hubs.NodeDown })
	if n := h.Nodes()[0]; n.Problem != "it was shut down" {
		t.Errorf("%+v", n)
	}
}

// The command that made a machine a node does so again after a boot, when its token is used up
// or unknown. It is another hub's, or that of a node that was removed, only with a new one.
func TestNodeJoinsAgainWithItsToken(t *testing.T) {
	t.Parallel()
	h, token := startHub(t)
	other, otherToken := startHub(t)
	var lines []string
	c := Config{State: t.TempDir(), Name: "pc", Version: "t",
		Log: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}
	address, text := h.Address().String(), token()
	for n, want := range []string{"", "the hub refused the token, which is not needed: this machine joined this hub before, as pc"} {
		if err := Join(t.Context(), c, address, text); err != nil || strings.Join(lines, "\n") != want {
			t.Errorf("join %d: %q, %v, want %q", n+1, lines, err, want)
		}
	}
	list, err := h.Tokens().List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := h.Tokens().Remove(list[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := Join(t.Context(), c, address, text); err != nil {
		t.Errorf("with a token that the hub has forgotten: %v", err)
	}
	awaitLine(t, startNode(t, c.State, address), "connected to the hub at ")

	used := otherToken()
	if err := Join(t.Context(), Config{State: t.TempDir(), Name: "first"}, other.Address().String(), used); err != nil {
		t.Fatal(err)
	}
	if err := Join(t.Context(), c, other.Address().String(), used); err == nil || !strings.Contains(err.Error(), "used up") {
		t.Errorf("another hub: %v", err)
	}
	if err := h.RemoveNode("pc"); err != nil {
		t.Fatal(err)
	}
	if err := Join(t.Context(), c, address, text); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("it was removed: %v", err)
	}
}

// A machine that is no node, or a node of another hub, gets an error at once.
func TestNodeWithoutHub(t *testing.T) {
	t.Parallel()
	h, token := startHub(t)
	other, _ := startHub(t)
	state := t.TempDir()
	if text := awaitLine(t, startNode(t, state, h.Address().String()), "ended: "); text == "ended: <nil>" {
		t.Errorf("without an admission: %s", text)
	}
	text := token()
	err := Join(t.Context(), Config{State: state}, other.Address().String(), text)
	if err == nil || !strings.Contains(err.Error(), "hub") {
		t.Errorf("another hub's token: %v", err)
	}
	if err := Join(t.Context(), Config{State: state}, h.Address().String(), text); err != nil {
		t.Fatal(err)
	}
	n, err := openNode(state)
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := os.Hostname(); n.Admission().Name != name {
		t.Errorf("without a name it is %s on %s", n.Admission().Name, name)
	}
	if err := Join(t.Context(), Config{State: filepath.Join(state, "second")}, h.Address().String(), text); err == nil {
		t.Error("a token for one node admitted two")
	}
	lines := startNode(t, state, other.Address().String())
	if text := awaitLine(t, lines, "ended: "); text == "ended: <nil>" {
		t.Errorf("another hub: %s", text)
	}
}
