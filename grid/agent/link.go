// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"skep/grid/blob"
	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
)

const (
	retryFirst = time.Second
	retryLast  = time.Minute
	retryCarry = 2 * time.Second // with leases, for which a hub that comes back waits 5 s
	retryHubs  = 4 * time.Second // with a standby, which may take over at any time
	renewEvery = time.Hour
	cacheBytes = 8 << 30
)

func openNode(state string) (*ident.Node, error) {
	machine, err := ident.ThisMachine()
	if err != nil {
		return nil, err
	}
	return ident.OpenNode(filepath.Join(state, "node"), machine)
}

// Join presents a token to the hub at address and stores the admission. A node that joined the
// token's hub before needs none: if the hub refuses it, as a token that is used up when the same
// command runs after a boot, c.Log is told, and the admission stays.
func Join(ctx context.Context, c Config, address, text string) error {
	token, err := ident.ParseToken(text)
	if err != nil {
		return err
	}
	if err := ident.StateDir(c.State); err != nil {
		return err
	}
	n, err := openNode(c.State)
	if err != nil {
		return err
	}
	csr, err := n.CSR()
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		name, _ = os.Hostname()
	}
	hub := newClient(address, ident.JoinTLS(token, proto.ALPNHTTP))
	defer hub.http.CloseIdleConnections()
	var j proto.Joined
	err = hub.post(ctx, proto.PathJoin, proto.Join{Version: c.Version, Name: name,
		Login: proto.Login{Revision: proto.Revision, Token: text, CSR: csr, NKey: n.NKey()}}, &j)
	if err != nil {
		err = joinError(address, err)
		var p *proto.Problem
		if errors.As(err, &p) && p.Code == proto.ProblemToken && n.JoinedHubOf(token) {
			c.log("the hub refused the token, which is not needed: this machine joined this hub before, as %s", n.Admission().Name)
			return nil
		}
		return err
	}
	return n.Admit(ident.Admission{Hub: address, Name: j.Name, Certificate: j.Certificate, CA: j.CA, UserJWT: j.UserJWT})
}

func joinError(address string, err error) error {
	var p *proto.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ident.ErrWrongHub):
		return ident.ErrWrongHub
	}
	if err := ident.ExplainClock(err); errors.Is(err, ident.ErrClock) {
		return err
	}
	var post *url.Error // its URL has the certificate's name, not the hub's address
	if errors.As(err, &post) {
		err = post.Err
	}
	return fmt.Errorf("the hub at %s cannot be reached: is `skep up` running there, and does a firewall let that port through? (%w)", address, err)
}

// link is the hub over the network.
type link struct {
	*client
	node  *ident.Node
	nats  *nats.Conn
	near  Near   // or nil
	epoch uint64 // of the hub
}

func (l *link) fetch(ctx context.Context, digest string, into store) (uint64, error) {
	return into.(*blob.Store).Fetch(ctx, l.http, base+proto.PathBlob(digest), digest)
}

func (l *link) publish(verb proto.Verb, v any, raw []byte) error {
	b, err := proto.Encode(v, raw)
	if err != nil {
		return err
	}
	return l.nats.Publish(proto.FromNode(l.node.ID(), verb), b)
}

func (l *link) exchangeHello(ctx context.Context, h proto.Hello) (proto.Welcome, error) {
	var w proto.Welcome
	b, err := proto.Encode(h, nil)
	if err != nil {
		return w, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	m, err := l.nats.RequestWithContext(ctx, proto.FromNode(l.node.ID(), proto.VerbHello), b)
	if err != nil {
		return w, fmt.Errorf("the hub did not answer: %w", err)
	}
	_, err = proto.Decode(m.Data, &w)
	return w, err
}

// ErrLeft is Run's error after Config.Leave.
var ErrLeft = errors.New("the node was asked to leave and is idle")

// leavePoll is how often a node that has to leave checks whether it is idle.
const leavePoll = 100 * time.Millisecond

// awaitLeave returns true when the node was asked to leave and is idle.
func (a *Agent) awaitLeave(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-a.config.Leave:
	}
	poll := time.NewTicker(leavePoll)
	defer poll.Stop()
	for waits := false; !a.stopIdle(); waits = true {
		if !waits {
			a.config.logStatus("restarts when the programs that run here have ended")
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
	return true
}

// ErrLost is returned by Run if Config.Lost is set, and there was no hub for so long.
var ErrLost = errors.New("the hub has gone, and with it the run that started this node")

// Run works for the hub that the node joined until ctx ends, the node left (ErrLeft), the hub
// refuses this node for good or is lost (ErrLost), or the identity is invalid. Broken connections
// are opened again.
func Run(ctx context.Context, c Config) error {
	a, err := newAgent(c)
	if err != nil {
		return err
	}
	defer a.unlock()
	if len(a.confined.open) > 0 {
		c.log("%v", a.Confined())
	}
	if err := protectAgent(); err != nil {
		return err
	}
	node, err := openNode(c.State)
	if err != nil {
		return err
	}
	if err := whyNever(node); err != nil {
		return err
	}
	cache, err := blob.Open(filepath.Join(a.work, "blobs"), c.cacheLimit())
	if err != nil {
		return fmt.Errorf("the node's cache cannot be used: %w", err)
	}
	defer a.stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	go func() {
		if a.awaitLeave(ctx) {
			leave(ErrLeft)
		}
	}()
	defer a.startOwner(ctx)()
	defer a.startRolls(ctx)()
	a.lost = time.Now()
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		began := time.Now()
		a.config.Alive()
		err := ident.ExplainClock(a.runSession(ctx, node, cache))
		var p *proto.Problem
		var other *tls.CertificateVerificationError
		switch {
		case ctx.Err() != nil:
			return leftError(ctx)
		case errors.As(err, &p) && (p.Code == proto.ProblemRevision || p.Code == proto.ProblemToken || p.Code == proto.ProblemIdentity):
			return p
		case errors.As(err, &other) && !a.connected && !errors.Is(err, ident.ErrClock):
			return ident.ErrOtherHub // later it may be a temporary error
		case whyNever(node) != nil:
			return whyNever(node)
		case c.Lost > 0 && time.Since(a.lost) > c.Lost:
			return ErrLost
		}
		if time.Since(began) > retryLast {
			wait = retryFirst
		}
		if len(a.listCarried()) > 0 {
			wait = min(wait, retryCarry)
		}
		if c.Lost > 0 {
			wait = min(wait, c.Lost/8)
		}
		if len(node.Hubs()) > 1 {
			wait = min(wait, retryHubs)
		}
		a.logAway(err, wait)
		select {
		case <-ctx.Done():
			return leftError(ctx)
		case <-time.After(wait/2 + rand.N(wait)): // not all nodes at once
		}
	}
}

// logAway logs why there is no connection, once for each cause: a hub may be off for days. The
// status has each try.
func (a *Agent) logAway(err error, wait time.Duration) {
	if cause := rootOf(err); !a.away[cause] {
		a.away[cause] = true
		a.config.log("no connection to the hub (%v); tries again until there is one", err)
	}
	a.config.status("no connection to the hub (%v); next try in %v", err, wait)
}

// rootOf returns the text of the innermost error. Those around it name ports and times, which
// differ from try to try.
func rootOf(err error) string {
	if errors.Is(err, ident.ErrClock) {
		return ident.ErrClock.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// whyNever says why a node need not try to connect. A clock that is behind will be set.
func whyNever(node *ident.Node) error {
	if err := node.Why(); !errors.Is(err, ident.ErrClock) {
		return err
	}
	return nil
}

// leftError tells a node that left from one that was stopped.
func leftError(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrLeft) {
		return ErrLeft
	}
	return nil
}

func (c *Config) cacheLimit() int64 {
	if c.Cache == 0 {
		return cacheBytes
	}
	return int64(min(c.Cache, math.MaxInt64))
}

// logStatus logs what the agent does from now on.
func (c *Config) logStatus(format string, args ...any) {
	c.log(format, args...)
	c.status(format, args...)
}

func (c *Config) status(format string, args ...any) {
	if c.Status != nil {
		c.Status(fmt.Sprintf(format, args...))
	}
}

func (c *Config) log(format string, args ...any) {
	if c.Log != nil {
		c.Log(format, args...)
	}
}

// runSession is one connection, until it breaks.
func (a *Agent) runSession(ctx context.Context, node *ident.Node, cache *blob.Store) error {
	// life is that of the connection. When ctx ends, the programs that move outlive it.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer a.dropExecs()
	config, err := node.TLS(proto.ALPNHTTP)
	if err != nil {
		return err
	}
	address, err := a.chooseHub(ctx, node, config)
	if err != nil {
		return err
	}
	l := &link{client: newClient(address, config), node: node, near: a.config.Near}
	defer l.http.CloseIdleConnections()
	defer l.patient.CloseIdleConnections()
	if err := l.claimIdentity(ctx, a.boot); err != nil {
		return err
	}
	l.epoch, _ = node.Epoch()
	if err := a.dial(ctx, l, func(err error) { end(err); cancel(err) }); err != nil {
		return l.explainRefusal(ctx, err)
	}
	defer l.nats.Close()
	a.connect(l, cache)
	messages, err := receiveAll(life, l.nats, proto.ToNode(node.ID(), "*"))
	if err != nil {
		return err
	}
	w, err := l.exchangeHello(ctx, a.hello())
	switch {
	case err != nil:
		return err
	case w.Problem != nil:
		return w.Problem
	}
	if _, p := proto.CommonRevision(w.Revision, proto.Revision); p != nil {
		return p
	}
	if !a.connected && a.ungrouped != nil { // one that is refused says only that
		a.config.Log("limits are measured by skep alone, without control groups: %v", a.ungrouped)
	}
	a.connected = true
	a.setLinked(true)
	clear(a.away)
	a.handleWelcome(w)
	a.noteHubs(node, w.Hubs)
	if a.config.Near == nil {
		a.running.Add(1)
		go func() {
			defer a.running.Done()
			a.watchHubs(life, l, func(err error) { end(err); cancel(err) })
		}()
	}
	a.config.logStatus("connected to the hub at %s as %s (%s)", address, node.Admission().Name, runtime.GOOS)
	return a.serve(ctx, life, l, messages)
}

// receiveAll passes messages on until ctx ends. However many arrive at a time, none is dropped:
// a hub that was started again cancels thousands of leases at once.
func receiveAll(ctx context.Context, c *nats.Conn, subject string) (<-chan *nats.Msg, error) {
	sub, err := c.SubscribeSync(subject)
	if err != nil {
		return nil, err
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	messages := make(chan *nats.Msg)
	go func() {
		for {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return // the connection, or ctx, ended
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return messages, nil
}

// handleWelcome drops sessions that ended while this node was disconnected.
func (a *Agent) handleWelcome(w proto.Welcome) {
	for _, session := range w.Ended {
		a.releaseSession(session)
	}
}

// claimIdentity asks whether another agent works with this identity: a connection would
// end the other's. A hub that is older does not know the question.
func (l *link) claimIdentity(ctx context.Context, boot string) error {
	var nothing struct{}
	err := l.post(ctx, proto.PathClaim, proto.Claim{Boot: boot}, &nothing)
	if errors.Is(err, errNoPath) {
		return nil
	}
	var post *url.Error // its URL has the certificate's name, not the hub's address
	if errors.As(err, &post) {
		err = post.Err
	}
	return err
}

// explainRefusal asks the hub over HTTP why the engine refused the connection.
func (l *link) explainRefusal(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+proto.PathBlob(strings.Repeat("0", 64)), nil)
	resp, err2 := l.do(r)
	var p *proto.Problem
	if errors.As(err2, &p) && p.Code == proto.ProblemToken {
		return p
	}
	if err2 == nil {
		resp.Body.Close()
	}
	return err
}

// connect makes l the hub; programs of an older one have ended.
func (a *Agent) connect(l *link, cache store) {
	a.running.Wait()
	a.hubMu.Lock()
	defer a.hubMu.Unlock()
	a.hub, a.store = l, cache
}

func (a *Agent) dial(ctx context.Context, l *link, cancel context.CancelCauseFunc) error {
	config, err := l.node.TLS(proto.ALPNNats)
	if err != nil {
		return err
	}
	engineSide := newClient(l.address, config)
	l.nats, err = engine.Dial(engine.DialConfig{ID: l.node.ID(),
		JWT:  func() (string, error) { return l.node.Admission().UserJWT, nil },
		Sign: l.node.Sign,
		Dial: func() (net.Conn, error) { return engineSide.dial(ctx) },
		// A session begins with a hello, so a broken connection ends it. Run opens another.
		Down: func(err error) {
			if err == nil {
				err = errors.New("the connection ended")
			}
			cancel(err)
		},
		Up:    func() {},
		Wrong: func(err error) { a.config.Log("the hub refused a message: %v", err) }})
	return err
}

// serve works for the hub until its connection, life, ends. When ctx ends before that, the agent
// was told to end: the hub moves programs to other nodes, and then serve returns.
func (a *Agent) serve(ctx, life context.Context, l *link, messages <-chan *nats.Msg) error {
	beat := time.NewTicker(proto.BeatEvery)
	defer beat.Stop()
	a.running.Add(1)
	go func() {
		defer a.running.Done()
		l.keepRenewed(ctx, time.Now, a.config.Log)
	}()
	a.sendAsk()
	told := ctx.Done()
	var left <-chan struct{}
	var hurry <-chan os.Signal
	defer func() { a.lost = time.Now() }()
	for {
		select {
		case <-life.Done():
			return context.Cause(life)
		case <-told:
			told, left, hurry = nil, a.leave(life, l), a.config.Hurry
		case <-left:
			return context.Cause(ctx)
		case <-hurry:
			return context.Cause(ctx)
		case m := <-messages:
			_, verb, _ := proto.SplitSubject(m.Subject)
			if verb == proto.VerbStop {
				return stopReason(m.Data)
			}
			if verb == proto.VerbHubs {
				a.readHubs(l.node, m.Data)
				continue
			}
			if err := a.handleMessage(life, verb, m.Data); err != nil {
				a.config.Log("a message of the hub was dropped: %v", err)
			}
		case <-beat.C:
			a.config.Alive()
			a.sendBeat()
		}
	}
}

// leaveLimit bounds how long an agent that ends waits for the hub, beside the time in which
// programs move.
const leaveLimit = 2 * time.Second

// leave tells the hub that this node ends: its calls begin anew on others at once, and nobody
// counts them as lost, and its movable programs move. The channel is closed when the hub has
// answered: then none is left. A hub that is not told notices the end of the connection, and
// one of the release before answers at once and moves nothing.
func (a *Agent) leave(life context.Context, l *link) <-chan struct{} {
	var v proto.Leave
	if n := a.beginLeave(); n > 0 {
		v.Wait = proto.LeaveMax.Seconds()
		a.config.logStatus("ends when the movable programs that run here, %d, go on on other nodes, or in %v; a second signal ends it at once", n, proto.LeaveMax)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		b, err := proto.Encode(v, nil)
		if err == nil {
			ctx, cancel := context.WithTimeout(life, leaveLimit+time.Duration(v.Wait*float64(time.Second)))
			defer cancel()
			_, err = l.nats.RequestWithContext(ctx, proto.FromNode(l.node.ID(), proto.VerbLeave), b)
		}
		if err != nil && v.Wait > 0 {
			a.config.Log("the hub did not say that the programs have moved: %v", err)
		}
	}()
	return left
}

// stopReason returns why the hub told this node to stop.
func stopReason(message []byte) error {
	var v proto.Stop
	if _, err := proto.Decode(message, &v); err != nil || v.Text == "" {
		return errors.New("the hub asked this node to stop")
	}
	return &proto.Problem{Code: proto.ProblemToken, Text: v.Text}
}

// keepRenewed renews the certificate in time. It checks at once, because a machine may never
// run for an hour, and runs in a goroutine of its own, because the hub may be slow.
func (l *link) keepRenewed(ctx context.Context, now func() time.Time, log func(string, ...any)) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	for {
		if err := l.renewCertificate(ctx, now()); err != nil && ctx.Err() == nil {
			log("the certificate was not renewed: %v", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewCertificate gets a new certificate when the old one is a month old.
func (l *link) renewCertificate(ctx context.Context, now time.Time) error {
	if !l.node.RenewDue(now) {
		return nil
	}
	csr, err := l.node.CSR()
	if err != nil {
		return err
	}
	var j proto.Joined
	if err := l.post(ctx, proto.PathRenew, proto.Renew{CSR: csr}, &j); err != nil {
		return err
	}
	admission := l.node.Admission()
	admission.Certificate, admission.CA = j.Certificate, j.CA
	if j.UserJWT != "" {
		admission.UserJWT = j.UserJWT
	}
	return l.node.Admit(admission)
}
