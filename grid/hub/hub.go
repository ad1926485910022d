// SPDX-License-Identifier: MIT

// Package hub is the center of a grid: agents dial in to its one TLS port,
// masters and the command line to its local sockets. It passes events to the
// scheduler and executes the scheduler's actions.
//
// Hub.mu guards what stands below its name in Hub, and in node, call, lease,
// caller, run, execution and watcher below a comment with its name; all else in
// them is set once. What one goroutine owns, or another lock guards, says so.
//
// Under Hub.mu there is no wait for a peer, a disk or a lock that is held over
// such work: frames to masters, ledger entries and events have queues, messages
// to nodes are the engine's, which drops a node that reads too slowly, and a
// spool's lock is free while its file is written. The remaining work under the
// lock is short: closing and removing the file of a spool without holders,
// opening or removing that of a stored result, and a line of log.
package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"skep/grid/blob"
	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/rolls"
	"skep/grid/sched"
)

// Config of a hub. Only State is needed.
type Config struct {
	State   string // directory, 0700
	Listen  string // HOST:PORT of the TLS port, default ":4860"
	Version string // for people
	// Advertise is what join lines name; by default the address listened on,
	// or this machine's first one.
	Advertise string
	Grace     time.Duration // a master may be away for so long (5 s)
	Spool     string        // directory for arguments and results (State/spool)
	BlobLimit int64         // bytes of stored blobs that are not pinned (8 GiB)
	Quotas    Quotas
	// Keep stores runs and sessions, so that masters go on with a hub that is started
	// after this one was killed.
	Keep bool
	Hold time.Duration // for so long runs of a hub that was killed are kept (2 min)
	// Fenced is called when another hub took over from this one. The program must end, and
	// not by Close, which ends the sessions that go on there.
	Fenced func(error)
	// Stands is told what a standby has, each time that it changes; or nil.
	Stands func(StandbyInfo)
	Sched  sched.Config
	// Now is the time, with a monotonic reading as that of time.Now: leases, silences and deadlines
	// do not follow a step of the machine's clock.
	Now func() time.Time
	Log *slog.Logger

	look func() time.Time // finds out that the hub did not run; time.Now

	unauthenticated, unread, transfers int // limits that tests change
	bodyIn, hostIn, execIn, release    time.Duration
	execDrain, execPoll                time.Duration
	returnIn, stall, copyStall         time.Duration
}

// Files of the state directory.
const (
	rosterFile  = "nodes.json"
	tokensFile  = "tokens.json"
	numbersFile = "fences"
	lockFile    = "hub.lock"
)

const (
	graceDefault       = 5 * time.Second
	blobDefault        = 8 << 30
	spoolLimit         = 256 << 20
	handshakeIn        = 10 * time.Second
	handshakes         = 256 // at the same time
	unauthenticatedMax = 256 // likewise
	headerMax          = 16 << 10
)

// A Hub runs from Open to Close.
type Hub struct {
	cfg        Config
	log        *slog.Logger
	ca         *ident.CA
	tokens     *ident.Tokens
	userTokens *ident.Tokens
	accounts   *accounts
	engine     *engine.Engine
	nats       *nats.Conn
	blobs      *blob.Store
	spools     spooler
	quota      *quota // of all bytes that it holds
	ledger     *recorder
	roster     *roster
	rolls      *rolls.Hub
	records    runRecords
	streams    streams
	linked     *queueListener // of streams

	standing      standing // only standbyMu's holder writes it
	proof         []byte   // this hub's certificate
	standbyTokens *ident.Tokens
	mirror        *mirror
	over          atomic.Bool // another hub took over
	standbyMu     sync.Mutex  // guards standby and their files
	standby       standbyRecord

	unlock  func()
	started time.Time
	port    net.Listener
	control net.Listener
	stop    chan struct{}
	served  sync.WaitGroup

	greeting crowd // in a handshake
	unknown  crowd // without a node's certificate

	mu          sync.Mutex // for all that follows
	closed      bool
	looked      time.Time // the last time; Config.look
	sched       *sched.Scheduler
	nodes       map[string]*node
	calls       map[sched.CallID]*call
	lastCall    sched.CallID
	firstNumber uint64 // calls and leases of this hub have greater ones, those of earlier hubs do not
	runs        map[string]*run
	userQuotas  map[string]*quota   // by the user's id
	releases    map[string]*release // by session
	masters     map[sched.SessionID]*master
	byKey       map[string]sched.SessionID // as nodes call them
	lastSession sched.SessionID
	execs       map[string]*execution
	sent        map[sentKey]*sentProgram
	jobs        map[string]*job
	jobCount    int
	back        returning
	stored      map[carryKey]*storedResult // of an earlier hub, not claimed yet
	adopted     map[sched.Fence]*adopted
	watchers    map[string]map[*watcher]bool // by run; "": of all events
	tally       tally
	userTallies map[string]*tally // by the user's id
}

func (c *Config) setDefaults() error {
	if c.State == "" {
		return errors.New("the hub needs a state directory")
	}
	if c.Listen == "" {
		c.Listen = fmt.Sprintf(":%d", proto.DefaultPort)
	}
	if c.Grace == 0 {
		c.Grace = graceDefault
	}
	if c.Spool == "" {
		c.Spool = filepath.Join(c.State, "spool")
	}
	if c.BlobLimit == 0 {
		c.BlobLimit = blobDefault
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.look == nil {
		c.look = time.Now
	}
	for _, l := range []struct {
		limit *time.Duration
		most  time.Duration
	}{{&c.bodyIn, handshakeIn}, {&c.hostIn, joinTime}, {&c.execIn, execJoinIn}, {&c.execDrain, execDrain}, {&c.execPoll, execPoll}, {&c.release, releaseMax}, {&c.returnIn, returnTime}, {&c.Hold, holdTime}, {&c.stall, stallIn}, {&c.copyStall, copyStall}} {
		if *l.limit == 0 {
			*l.limit = l.most
		}
	}
	for _, l := range []struct {
		limit *int
		most  int
	}{{&c.unauthenticated, unauthenticatedMax}, {&c.unread, callsMax}, {&c.transfers, transfersMax}} {
		if *l.limit == 0 {
			*l.limit = l.most
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Open starts a hub on its state directory and serves until Close.
func Open(cfg Config) (*Hub, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	h := &Hub{
		cfg: cfg, log: cfg.Log, stop: make(chan struct{}), started: cfg.Now(),
		sched: sched.New(cfg.Sched), spools: spooler{dir: cfg.Spool, limit: spoolLimit, filesMax: openFiles() / 2},
		nodes: map[string]*node{}, calls: map[sched.CallID]*call{}, runs: map[string]*run{}, userQuotas: map[string]*quota{}, userTallies: map[string]*tally{}, releases: map[string]*release{},
		masters: map[sched.SessionID]*master{}, byKey: map[string]sched.SessionID{}, execs: map[string]*execution{}, sent: map[sentKey]*sentProgram{}, jobs: map[string]*job{},
		adopted: map[sched.Fence]*adopted{}, stored: map[carryKey]*storedResult{},
		back: returning{keys: map[string]bool{}, leases: map[carryKey]carried{},
			calls: map[sched.CallID]bool{}, fences: map[sched.Fence]bool{}, waiting: map[carryKey]*call{}},
		watchers: map[string]map[*watcher]bool{}, greeting: crowd{most: handshakes}, unknown: crowd{most: cfg.unauthenticated},
	}
	h.tally.began, h.looked = h.started, cfg.look()
	h.mirror = newMirror(h.stop, cfg.copyStall)
	if err := h.open(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func listenError(address string, err error) error {
	cure := "stop what uses that port, or give another --listen"
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cure = "give --listen an address that this machine has, or :PORT for all of them"
	case errors.Is(err, os.ErrPermission):
		cure = "give --listen a port from 1024, the others are the administrator's"
	}
	return fmt.Errorf("the hub cannot listen on %s: %s: %w", address, cure, err)
}

func (h *Hub) open() (err error) {
	for _, dir := range []string{h.cfg.State, h.cfg.Spool} {
		if err := ident.StateDir(dir); err != nil {
			return err
		}
	}
	if h.unlock, err = ident.TryLock(filepath.Join(h.cfg.State, lockFile)); err != nil {
		return fmt.Errorf("another hub uses %s: stop it, or give this one another --state: %w", h.cfg.State, err)
	}
	if err := h.openStanding(); err != nil {
		return err
	}
	removeSpools(h.cfg.Spool)
	base, err := reserveNumbers(filepath.Join(h.cfg.State, numbersFile), uint64(h.cfg.Now().UnixMilli())*1000)
	if err != nil {
		return err
	}
	h.sched.StartFences(sched.Fence(base))
	h.firstNumber, h.lastCall = base, sched.CallID(base)
	free, err := freeBytes(h.cfg.Spool)
	if err != nil {
		return fmt.Errorf("the free space of %s cannot be read: %w", h.cfg.Spool, err)
	}
	h.cfg.Quotas.setDefaults(free)
	h.quota = h.cfg.Quotas.ofHub()
	if h.ca, err = ident.OpenCA(h.cfg.State); err != nil {
		return err
	}
	if h.tokens, err = ident.OpenTokens(h.cfg.State, h.ca.Digest()); err != nil {
		return err
	}
	if h.roster, err = openRoster(filepath.Join(h.cfg.State, rosterFile)); err != nil {
		return err
	}
	if err = h.openUsers(); err != nil {
		return err
	}
	if err = h.openMirror(); err != nil {
		return err
	}
	if h.blobs, err = openBlobs(h.cfg); err != nil {
		return err
	}
	if err = h.openRolls(); err != nil {
		return err
	}
	if h.engine, err = engine.Start(engine.Config{Dir: filepath.Join(h.cfg.State, "engine")}); err != nil {
		return err
	}
	h.nats = h.engine.Conn()
	h.ledger = newRecorder(h.engine.Record, func(err error) { h.log.Error("the ledger is incomplete", "error", err) })
	return h.listen()
}

func (h *Hub) listen() error {
	sub, err := h.nats.Subscribe(proto.FromNodes, h.handleMessage)
	if err != nil {
		return err
	}
	if err := sub.SetPendingLimits(-1, 512<<20); err != nil {
		return err
	}
	conf, err := h.ca.RankTLS(ident.Rank{Epoch: h.standing.Epoch}, proto.ALPNNats, proto.ALPNHTTP)
	if err != nil {
		return err
	}
	own, err := conf.GetCertificate(nil)
	if err != nil {
		return err
	}
	h.proof = own.Certificate[0]
	if h.port, err = net.Listen("tcp", h.cfg.Listen); err != nil {
		return listenError(h.cfg.Listen, err)
	}
	if err = h.openRecords(); err != nil {
		return err
	}
	if h.control, err = listenUnix(h.ControlSocket()); err != nil {
		return err
	}
	h.markRestart(false)
	web := newQueueListener(h.port.Addr())
	h.goServe(&http.Server{Handler: h.countHandlers(h.webHandler()), ConnState: h.webState}, web)
	h.linked = newQueueListener(h.port.Addr())
	h.goServe(&http.Server{Handler: h.countHandlers(fromStream(h.webHandler())), ConnContext: withStream}, h.linked)
	h.goServe(&http.Server{Handler: h.countHandlers(h.mirror.settling(h.controlHandler())), ConnContext: withUser}, h.control)
	h.served.Add(4)
	go func() { defer h.served.Done(); h.tellFormer() }()
	go func() { defer h.served.Done(); h.accept(conf, web) }()
	go func() { defer h.served.Done(); h.runRolls(h.stop) }()
	go func() { defer h.served.Done(); h.runTicker(h.stop) }()
	return nil
}

// goServe serves HTTP on l until the hub stops.
func (h *Hub) goServe(s *http.Server, l net.Listener) {
	s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes = handshakeIn, 2*time.Minute, headerMax
	s.ErrorLog = slog.NewLogLogger(h.log.Handler(), slog.LevelDebug)
	h.served.Add(2)
	go func() { defer h.served.Done(); s.Serve(l) }()
	go func() { defer h.served.Done(); <-h.stop; s.Close() }()
}

// countHandlers has Close wait for each request that began, and refuses those after it: the
// end of a run removes its record, which must not happen to the next hub of the directory.
func (h *Hub) countHandlers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		closed := h.closed || h.over.Load()
		if !closed {
			h.served.Add(1)
		}
		h.mu.Unlock()
		if closed {
			w.Header().Set("Connection", "close") // another hub may answer
			writeProblem(w, http.StatusServiceUnavailable, proto.ProblemGone, "%v", errStops)
			return
		}
		defer h.served.Done()
		next.ServeHTTP(w, r)
	})
}

// accept takes connections of the one port; ALPN says who gets them.
func (h *Hub) accept(conf *tls.Config, web *queueListener) {
	for {
		c, err := h.port.Accept()
		if err != nil {
			select {
			case <-h.stop:
				return
			case <-time.After(100 * time.Millisecond): // out of descriptors
				continue
			}
		}
		if !h.greeting.add(c) {
			c.Close()
			return
		}
		h.served.Add(1)
		go func() {
			defer h.served.Done()
			t := tls.Server(c, conf)
			ok := h.shakeHands(t)
			h.greeting.remove(c)
			if ok {
				h.routeConn(t, web)
			}
		}()
	}
}

func (h *Hub) shakeHands(t *tls.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeIn)
	defer cancel()
	err := t.HandshakeContext(ctx)
	if err != nil {
		h.log.Debug("a handshake failed", "from", t.RemoteAddr(), "error", err)
		t.Close()
	}
	return err == nil
}

func (h *Hub) routeConn(t *tls.Conn, web *queueListener) {
	state := t.ConnectionState()
	if state.NegotiatedProtocol != proto.ALPNNats {
		if !h.isKnown(&state) && !h.unknown.add(t) {
			t.Close()
			return
		}
		web.put(t)
		return
	}
	id, ok := ident.PeerNode(state)
	if !ok || !h.roster.isKnown(id) {
		h.log.Warn("a connection without a node's certificate was refused", "from", t.RemoteAddr())
		t.Close()
		return
	}
	h.serveEngine(id, t)
}

func (h *Hub) webState(c net.Conn, s http.ConnState) {
	if s == http.StateClosed || s == http.StateHijacked {
		h.unknown.remove(c)
	}
}

// Address is what the TLS port listens on.
func (h *Hub) Address() net.Addr { return h.port.Addr() }

// ControlSocket is where the command line finds the hub of a state directory.
func (h *Hub) ControlSocket() string { return ControlSocket(h.cfg.State) }

// ControlSocket is where a hub with this state directory listens.
func ControlSocket(state string) string { return filepath.Join(state, "hub.sock") }

// Tokens is the store of join tokens.
func (h *Hub) Tokens() *ident.Tokens { return h.tokens }

// restartFile names the file beside the control socket that says that the hub is
// about to be started again. Clients then wait for it.
const restartFile = "restarts"

// markRestart creates or removes the file.
func (h *Hub) markRestart(restarts bool) {
	path := filepath.Join(h.cfg.State, restartFile)
	err := os.Remove(path)
	if restarts {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("commands cannot see whether the hub restarts", "error", err)
	}
}

// idlePoll is how often CloseIdle checks.
const idlePoll = 100 * time.Millisecond

// CloseIdle waits until the hub serves no run and no program, and then closes it:
// none can begin in between. busy is called once if the hub has to wait. Until
// another hub of this state directory listens, clients wait for that one. false:
// ctx ended before, and the hub is open.
func (h *Hub) CloseIdle(ctx context.Context, busy func()) bool {
	h.markRestart(true)
	poll := time.NewTicker(idlePoll)
	defer poll.Stop()
	for !h.close(true) {
		busy()
		busy = func() {}
		select {
		case <-ctx.Done():
			h.markRestart(false)
			return false
		case <-poll.C:
		}
	}
	return true
}

// Close ends sessions and connections, and releases the state directory.
func (h *Hub) Close() { h.close(false) }

// close does nothing and returns false if the hub is in use and onlyIdle is set.
func (h *Hub) close(onlyIdle bool) bool {
	h.mu.Lock()
	if onlyIdle && len(h.runs)+len(h.execs) > 0 {
		h.mu.Unlock()
		return false
	}
	if h.closed {
		h.mu.Unlock()
		return true
	}
	h.closed = true
	runs := make([]*run, 0, len(h.runs))
	for _, r := range h.runs {
		runs = append(runs, r)
	}
	for _, n := range h.nodes {
		h.endExecs(n, allExecs, "the hub stopped")
	}
	h.mu.Unlock()
	if !onlyIdle {
		h.markRestart(false)
	}
	close(h.stop)
	h.greeting.close()
	h.unknown.close()
	for _, r := range runs {
		r.close(nil)
	}
	for _, l := range []net.Listener{h.port, h.control} {
		if l != nil {
			l.Close()
		}
	}
	if h.nats != nil {
		h.nats.Flush()
	}
	if h.ledger != nil {
		h.ledger.close()
	}
	if h.engine != nil {
		h.engine.Close()
	}
	h.served.Wait()
	h.streams.close()
	if h.unlock != nil {
		h.unlock()
	}
	return true
}

// A queueListener hands connections that were accepted elsewhere to a server.
type queueListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newQueueListener(addr net.Addr) *queueListener {
	return &queueListener{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

func (l *queueListener) put(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		c.Close()
	}
}

func (l *queueListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *queueListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *queueListener) Addr() net.Addr { return l.addr }

// listenUnix makes a socket that only this user can reach: its directory has
// mode 0700. The socket of a dead hub under this name is removed.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > 100 {
		return nil, fmt.Errorf("the path of a socket is too long for the system (%s): give a shorter --state", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("the local socket cannot be made: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeSpools removes the files of a hub that was killed on Windows.
func removeSpools(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, ".spool-*"))
	for _, name := range old {
		os.Remove(name)
	}
}
