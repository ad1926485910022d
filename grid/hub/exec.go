// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// An execution is one program that `skep exec` runs on one node. The command line is
// connected already, the agent connects before it starts the program. The hub only
// passes their frames on. Hub.mu guards waiting; agent gets the agent's stream, once.
type execution struct {
	id      string // in Hub.execs
	node    *node
	user    string // id of who asked
	agent   chan io.ReadWriteCloser
	waiting bool
	begun   bool // the node has connected for the streams; Hub.mu
	ended   chan struct{}
	why     string
	once    sync.Once
	over    chan struct{} // nobody reads the agent's stream any more
	whole   bool          // the command got all that the agent sent; its goroutine's

	// Of a program with a lease; else nil.
	call     *call
	master   *master
	request  ExecRequest
	answered chan struct{} // the call has ended
	fence    uint64        // of the lease under which it began; Hub.mu
	stream   *lasting.Conn // its node's, if that lasts; Hub.mu
}

const (
	execJoinIn = 20 * time.Second // an agent connects for the streams
	execDrain  = time.Second      // what a lost node's program wrote arrives
	execArgs   = 128 << 10        // bytes of arguments and environment
	programMax = 1 << 30
)

// execUpgrade is what both sides of an exec stream switch to.
const execUpgrade = "skep-exec"

func (x *execution) finish(why string) {
	x.once.Do(func() { x.why = why; close(x.ended) })
}

// endExecs ends those programs of a node that are among which. It is called with the lock held.
func (h *Hub) endExecs(n *node, which func(*execution) bool, why string) {
	lockdep.AssertHeld(&h.mu)
	for _, x := range h.execs {
		if x.node == n && which(x) {
			x.finish(why)
		}
	}
}

// allExecs, leasedExecs and otherExecs are for endExecs. Those with leases may outlive the
// connection of their node.
func allExecs(*execution) bool      { return true }
func leasedExecs(x *execution) bool { return x.call != nil }
func otherExecs(x *execution) bool  { return x.call == nil }

// storeChecked stores a program, or answers why not. Only a movable one may be dynamic: its nodes
// are Linux, with the system's libraries.
func (h *Hub) storeChecked(w http.ResponseWriter, from io.Reader, owner string, movable bool) (v BlobAnswer, ok bool) {
	digest, err := h.putBlob(http.MaxBytesReader(w, io.NopCloser(from), programMax), owner)
	if err != nil {
		writeProblem(w, http.StatusInsufficientStorage, proto.ProblemFull, "the program cannot be stored: %v", err)
		return v, false
	}
	f, err := h.openBlob(digest)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "the program cannot be read back: %v", err)
		return v, false
	}
	defer f.Close()
	check := uapi.CheckStatic
	if movable {
		check = uapi.CheckProgram
	}
	if err := check(f); err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, proto.ProblemRequest, "%v", err)
		return v, false
	}
	return BlobAnswer{fmt.Sprintf("%x", digest), fileSize(f)}, true
}

func fileSize(f *os.File) int64 {
	if info, err := f.Stat(); err == nil {
		return info.Size()
	}
	return 0
}

// startExec begins a program for the command line.
func (h *Hub) startExec(w http.ResponseWriter, r *http.Request, by viewer) {
	var v ExecRequest
	if !h.largeBody(w, r, &v, 2*execArgs) {
		return
	}
	if !v.Limits.Check() {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "the program's limits are not valid times")
		return
	}
	if err := checkProgram(&v); by.confines(&v) && err != nil {
		writeProblem(w, http.StatusForbidden, proto.ProblemToken, "%v", err)
		return
	}
	if v.Logs {
		session, err := h.sessionOf(r.Context(), by, truncateText(v.Session))
		if err != nil {
			writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
			return
		}
		v = ExecRequest{Node: v.Node, Logs: true, Session: session} // it asks for nothing else
	} else if d, ok := parseDigest(v.Program); !ok || len(strings.Join(v.Args, " "))+len(strings.Join(v.Env, " ")) > execArgs {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "the program is not named by its digest, or its arguments are too long")
		return
	} else if f, err := h.openBlob(d); err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "the hub does not have this program: send it first")
		return
	} else {
		err := uapi.CheckStatic(f)
		f.Close()
		if err != nil && !v.Movable {
			writeProblem(w, http.StatusUnprocessableEntity, proto.ProblemRequest, "%v", err)
			return
		}
	}
	if v.Movable {
		h.serveJob(w, v)
		return
	}
	id := session.NewID().String()
	x, err := h.submitExec(id, v, by)
	if errors.Is(err, errStops) {
		writeProblem(w, http.StatusServiceUnavailable, proto.ProblemGone, "%v", err)
		return
	}
	if err != nil {
		writeProblem(w, http.StatusConflict, proto.ProblemGone, "%v", err)
		return
	}
	defer h.endExec(id, x)
	c, err := hijackConn(w)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	defer c.Close()
	if why := h.joinStreams(x, c); why != "" {
		c.SetWriteDeadline(time.Now().Add(farewell))
		proto.WriteExec(c, proto.ExecGone, []byte(why))
	}
}

// submitExec begins a program, which has a lease, or the output of workers. One of the operator
// has none where the agent is of an earlier version.
func (h *Hub) submitExec(id string, v ExecRequest, by viewer) (*execution, error) {
	h.mu.Lock()
	n := h.nodes[v.Node]
	old := by.all && n != nil && !n.lasting
	h.mu.Unlock()
	if v.Logs || old {
		return h.newExec(id, v, by)
	}
	return h.newProgram(id, v, by)
}

func (h *Hub) newExec(id string, v ExecRequest, by viewer) (*execution, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.execNode(&v, by)
	if err != nil {
		return nil, err
	}
	x := newExecution(n, by)
	h.execs[id] = x
	err = h.publish(v.Node, proto.VerbExec, proto.Exec{ID: id, Program: v.Program, Name: v.Name,
		Args: v.Args, Env: v.Env, Limits: v.Limits, Update: v.Update, Logs: v.Logs, Session: v.Session, Movable: v.Movable, CPU: v.cpu, Fits: v.Movable}, nil)
	if err != nil {
		delete(h.execs, id)
	}
	return x, err
}

func newExecution(n *node, by viewer) *execution {
	return &execution{node: n, user: by.user, agent: make(chan io.ReadWriteCloser, 1), waiting: true, ended: make(chan struct{}), over: make(chan struct{})}
}

// execNode returns the node of a request, if it can take it.
func (h *Hub) execNode(v *ExecRequest, by viewer) (*node, error) {
	lockdep.AssertHeld(&h.mu)
	if h.closed {
		return nil, errStops
	}
	n := h.nodes[v.Node]
	if n == nil || n.info.State != NodeUp {
		return nil, errors.New("this node is not up: `skep nodes` lists those that are")
	}
	if n.info.Drained && !v.Logs {
		return nil, fmt.Errorf("the node %s is drained: `skep nodes --reopen %s` gives it work again", n.info.Name, n.info.Name)
	}
	if v.Update != "" && !n.holds {
		return nil, fmt.Errorf("the node %s gives programs no kernel updates: it needs Linux, and an agent of this version", n.info.Name)
	}
	if v.Movable && !n.info.Moves {
		return nil, fmt.Errorf("the node %s runs no movable programs: %s", n.info.Name, MovesNeed)
	}
	if by.user != "" && h.accounts.byID(by.user) == nil { // removed meanwhile
		return nil, errors.New("the account was removed")
	}
	if by.confines(v) && !n.programs {
		return nil, fmt.Errorf("the node %s runs no programs of accounts: update its agent", n.info.Name)
	}
	return n, nil
}

func (h *Hub) endExec(id string, x *execution) {
	x.finish("it ended")
	h.mu.Lock()
	delete(h.execs, id)
	x.waiting = false
	h.mu.Unlock()
	select {
	case a := <-x.agent:
		a.Close()
	default:
	}
	close(x.over)
	if x.call != nil {
		h.endProgram(x)
	}
}

// joinStreams copies both ways until the agent's side ends.
func (h *Hub) joinStreams(x *execution, c net.Conn) (why string) {
	await := h.awaitAgent
	if x.call != nil {
		await = h.awaitProgram
	}
	agent, why := await(x, c)
	if why != "" {
		return why
	}
	defer agent.Close()
	done := make(chan struct{})
	out := &commandSide{to: c}
	go func() {
		// The command line disconnected: the agent sees that and ends the program.
		io.Copy(agent, c)
		agent.Close()
	}()
	go func() {
		x.whole = out.copyFrames(agent) == nil
		close(done)
	}()
	if x.call != nil {
		go h.tellAway(x, out, done)
	}
	select {
	case <-done:
	case <-x.ended:
		select {
		case <-done:
		case <-time.After(h.cfg.execDrain): // what was written before is on its way
			agent.Close()
			c.SetWriteDeadline(time.Now().Add(h.cfg.execDrain)) // the command may read nothing
			<-done
		}
	}
	select {
	case <-x.ended: // the stream's end may be seen before
		return x.why
	default:
		return ""
	}
}

// A commandSide writes to the command of a program. The lock keeps frames whole.
type commandSide struct {
	mu sync.Mutex
	to io.Writer
}

func (s *commandSide) write(kind proto.ExecType, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return proto.WriteExec(s.to, kind, p)
}

// copyFrames passes on what the agent sends, until that ends.
func (s *commandSide) copyFrames(agent io.Reader) error {
	buf := make([]byte, proto.ExecFrameMax)
	for {
		kind, p, err := proto.ReadExec(agent, buf)
		if err == nil {
			err = s.write(kind, p)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// awaitAgent waits until the agent connects for the streams of a program.
func (h *Hub) awaitAgent(x *execution, _ net.Conn) (agent io.ReadWriteCloser, why string) {
	t := time.NewTimer(h.cfg.execIn)
	defer t.Stop()
	select {
	case agent = <-x.agent:
		return agent, ""
	case <-x.ended:
		return nil, x.why
	case <-t.C:
		return nil, "the node did not start the program in time: `skep nodes` says whether it lives"
	}
}

// joinExec serves the agent that connects for a program's streams.
func (h *Hub) joinExec(w http.ResponseWriter, r *http.Request, id string) {
	fence, _ := strconv.ParseUint(r.URL.Query().Get("fence"), 10, 64)
	h.mu.Lock()
	x := h.execs[r.PathValue("exec")]
	own := x != nil && x.node.info.ID == id
	begins := own && x.waiting && h.isLeased(x, id, fence)
	var back *lasting.Conn
	if begins {
		x.waiting, x.begun, x.fence = false, true, fence
	} else if own && x.fence == fence { // the lease may have ended, and not all been read
		back = x.stream
	}
	h.mu.Unlock()
	switch {
	case back != nil:
		attachStream(w, r, back, "its command has ended")
	case !begins:
		writeProblem(w, http.StatusGone, proto.ProblemGone, "no command waits for this program on this node")
	case x.call != nil && r.Header.Get(proto.HeaderHas) != "" && h.keepNodes() > 0:
		h.serveLasting(w, x)
	default:
		serveStream(w, x)
	}
}

// serveStream lets a program have streams that end with their connection.
func serveStream(w http.ResponseWriter, x *execution) {
	c, err := hijackConn(w)
	if err != nil {
		x.finish("the node's stream cannot be used: " + err.Error())
		return
	}
	defer c.Close()
	x.agent <- c
	<-x.over
}

// hijacked is a connection of which some bytes were read ahead.
type hijacked struct {
	net.Conn
	r io.Reader
}

func (c *hijacked) Read(b []byte) (int, error) { return c.r.Read(b) }

// hijackConn switches a connection to exec frames.
func hijackConn(w http.ResponseWriter) (*hijacked, error) { return hijackWith(w, "") }

// hijackWith is hijackConn whose answer has more headers.
func hijackWith(w http.ResponseWriter, headers string) (*hijacked, error) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+execUpgrade+"\r\n"+headers+"\r\n"); err != nil {
		c.Close()
		return nil, err
	}
	return &hijacked{c, rw.Reader}, nil
}
