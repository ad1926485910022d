// SPDX-License-Identifier: MIT

package hub

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"skep/grid/blob"
	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/lazy"
)

// The standby's side: it stores what its hub stores, in the same files, so that a hub that is
// opened on its state directory is one that was started again.

const (
	identityDir  = "standby"
	followSilent = 30 * time.Second // a hub that sends no beat is away
	followAgain  = time.Second
	reachIn      = 5 * time.Second
	giveWayIn    = time.Minute
)

// copyName is a name that the hub may have stored.
var copyName = lazy.Regexp(`^(ca\.key|ca\.crt|fences|engine/keys\.json|(user-)?tokens\.json|nodes\.json|users\.json|` +
	`rolls/(audit\.log|harmed|signed/[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.json)|runs/[0-9a-f]{12}\.json|spool/result-[0-9a-f]{32}-[0-9]{1,20}-[0-9]+)$`)

// A Standby copies a hub until it is promoted.
type Standby struct {
	cfg    Config
	log    *slog.Logger
	node   *ident.Node
	port   net.Listener
	local  net.Listener
	unlock func()
	blobs  *blob.Store
	engine *engine.Engine // once there are keys for it
	ctx    context.Context
	cancel context.CancelFunc
	served sync.WaitGroup

	promoting sync.Mutex // held while this standby takes over
	promoted  chan struct{}

	mu    sync.Mutex // guards what follows
	state following
	info  StandbyInfo
	conn  net.Conn
	conf  *tls.Config // once there is a CA
	seen  map[string]bool
}

// IsStandby reports whether a state directory is that of a standby.
func IsStandby(state string) bool {
	_, err := os.Stat(filepath.Join(state, followFile))
	return err == nil
}

// OpenStandby begins to stand by for the hub at an address, with a token, or goes on if address
// is empty.
func OpenStandby(ctx context.Context, cfg Config, address, token string) (*Standby, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Standby{cfg: cfg, log: cfg.Log, promoted: make(chan struct{}), seen: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.open(ctx, address, token); err != nil {
		s.Close()
		return nil, err
	}
	s.served.Add(3)
	go func() { defer s.served.Done(); s.follow() }()
	go func() { defer s.served.Done(); s.greet() }()
	go func() { defer s.served.Done(); s.serveLocal() }()
	return s, nil
}

func (s *Standby) open(ctx context.Context, address, token string) (err error) {
	for _, dir := range []string{s.cfg.State, s.cfg.Spool} {
		if err := ident.StateDir(dir); err != nil {
			return err
		}
	}
	if s.unlock, err = ident.TryLock(filepath.Join(s.cfg.State, lockFile)); err != nil {
		return fmt.Errorf("another hub uses %s: stop it, or give this one another --state: %w", s.cfg.State, err)
	}
	found, err := readStateFile(s.cfg.State, followFile, &s.state)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.cfg.State, "ca.crt")); err == nil && !found {
		return fmt.Errorf("%s has the state of a hub, which cannot stand by: give another --state, or remove or rename that directory", s.cfg.State)
	}
	if s.node, err = ident.OpenNode(filepath.Join(s.cfg.State, identityDir), ident.Machine{}); err != nil {
		return err
	}
	if s.port, err = net.Listen("tcp", s.cfg.Listen); err != nil {
		return listenError(s.cfg.Listen, err)
	}
	if token != "" {
		if err := s.join(ctx, address, token); err != nil {
			return err
		}
	}
	if !s.node.Admitted() {
		return errors.New("this machine does not stand by for a hub yet: run the line that `skep standby token` prints on the hub")
	}
	if address != "" && address != s.state.Hub {
		s.state.Hub = address
		if err := writeStateFile(s.cfg.State, followFile, s.state); err != nil {
			return err
		}
	}
	if s.blobs, err = openBlobs(s.cfg); err != nil {
		return err
	}
	s.info = StandbyInfo{Standby: true, Hub: s.state.Hub, Address: s.address(), State: StandbyAway, Epoch: s.state.Epoch}
	if err := s.useCA(); err != nil && found {
		s.log.Debug("the standby has no CA yet", "error", err)
	}
	s.local, err = listenUnix(ControlSocket(s.cfg.State))
	return err
}

// join gets the certificate with which this machine may copy the hub.
func (s *Standby) join(ctx context.Context, address, text string) error {
	token, err := ident.ParseToken(text)
	if err != nil {
		return err
	}
	csr, err := s.node.CSR()
	if err != nil {
		return err
	}
	c := newFarClient(address, func() (*tls.Config, error) { return ident.JoinTLS(token, proto.ALPNHTTP), nil })
	j, err := requestJSON[proto.Joined](ctx, c, http.MethodPost, proto.PathStandby,
		proto.Login{Revision: proto.Revision, Token: text, CSR: csr, NKey: s.node.NKey()})
	if p := (*proto.Problem)(nil); errors.As(err, &p) && s.node.JoinedHubOf(token) {
		s.log.Warn("the hub refused the token, which is not needed: this machine is its standby", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	return s.node.Admit(ident.Admission{Hub: address, Name: j.Name, Certificate: j.Certificate, CA: j.CA})
}

// address is where nodes find this machine when it is the hub.
func (s *Standby) address() string { return advertised(&s.cfg, s.port.Addr()) }

// Address is what the TLS port listens on.
func (s *Standby) Address() net.Addr { return s.port.Addr() }

// Promoted is closed when this machine is to be the hub: Close the standby, and Open a hub.
func (s *Standby) Promoted() <-chan struct{} { return s.promoted }

// Info says what this standby has.
func (s *Standby) Info() StandbyInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Close releases the port and the state directory.
func (s *Standby) Close() {
	s.cancel()
	for _, l := range []net.Listener{s.port, s.local} {
		if l != nil {
			l.Close()
		}
	}
	s.served.Wait()
	if s.engine != nil {
		s.engine.Close()
	}
	if s.unlock != nil {
		s.unlock()
	}
}

// useCA has this standby say what it is to those who connect.
func (s *Standby) useCA() error {
	if _, err := os.Stat(filepath.Join(s.cfg.State, "ca.crt")); err != nil {
		return err
	}
	ca, err := ident.OpenCA(s.cfg.State)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conf, err = ca.RankTLS(ident.Rank{Epoch: s.state.Epoch, Standby: true}, proto.ALPNNats, proto.ALPNHTTP)
	return err
}

// greet shows its certificate to those who connect, and serves nobody.
func (s *Standby) greet() {
	crowd := crowd{most: handshakes}
	defer crowd.close()
	for {
		c, err := s.port.Accept()
		if err != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(followAgain):
				continue
			}
		}
		s.mu.Lock()
		conf := s.conf
		s.mu.Unlock()
		if conf == nil || !crowd.add(c) {
			c.Close()
			continue
		}
		s.served.Add(1)
		go func() {
			defer s.served.Done()
			ctx, cancel := context.WithTimeout(s.ctx, handshakeIn)
			defer cancel()
			t := tls.Server(c, conf)
			t.HandshakeContext(ctx)
			crowd.remove(c)
			t.Close()
		}()
	}
}

// follow copies the hub, again and again.
func (s *Standby) follow() {
	for s.ctx.Err() == nil {
		err := s.copyHub()
		s.mu.Lock()
		was := s.info.State
		s.info.State, s.conn = StandbyAway, nil
		if was != StandbyAway {
			s.info.Since = s.cfg.Now()
		}
		s.mu.Unlock()
		s.log.Debug("no copy of the hub", "error", err)
		if was != StandbyAway && s.ctx.Err() == nil {
			s.log.Warn("the hub is away: `skep standby promote` makes this machine the hub", "hub", s.state.Hub, "error", err)
			s.tell()
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// copyHub is one connection to the hub.
func (s *Standby) copyHub() error {
	ledger, err := s.lastEntry()
	if err != nil {
		return err
	}
	conf, err := s.node.TLS(proto.ALPNHTTP)
	if err != nil {
		return err
	}
	c := newFarClient(s.state.Hub, func() (*tls.Config, error) { return conf, nil })
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://hub"+proto.PathCopy, nil)
	if err != nil {
		return err
	}
	conn, in, _, err := c.switchOn(s.ctx, c.dial, r)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	b, err := json.Marshal(copyHello{Address: s.address(), Blobs: s.blobs.List(), Ledger: ledger})
	if err == nil {
		_, err = conn.Write(b)
	}
	if err != nil {
		return err
	}
	epoch, _ := s.node.Epoch()
	s.begin(conn, epoch)
	from := bufio.NewReaderSize(conn, 64<<10)
	from.Reset(io.MultiReader(io.LimitReader(in, int64(in.Buffered())), conn))
	for {
		conn.SetReadDeadline(time.Now().Add(followSilent))
		head, err := readCopy(from)
		if err != nil {
			return err
		}
		body := &io.LimitedReader{R: &bodyReader{conn, from}, N: head.Size}
		if err := s.take(head, body); err != nil {
			s.log.Error("what the hub sent cannot be stored", "name", head.Name, "error", err)
			return err
		}
		if body.N > 0 {
			return fmt.Errorf("%s was not read to its end", head.Name)
		}
		if head.Seq > 0 {
			if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, head.Seq)); err != nil {
				return err
			}
		}
	}
}

// A bodyReader reads from a hub that may be slow.
type bodyReader struct {
	conn net.Conn
	from io.Reader
}

func (r *bodyReader) Read(b []byte) (int, error) {
	r.conn.SetReadDeadline(time.Now().Add(followSilent))
	return r.from.Read(b)
}

func (s *Standby) begin(conn net.Conn, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.seen = conn, map[string]bool{}
	s.info.State, s.info.Since, s.info.Epoch = StandbyCopies, s.cfg.Now(), epoch
	s.state.Epoch = epoch
}

// tell reports what this standby has now.
func (s *Standby) tell() {
	if s.cfg.Stands != nil {
		s.cfg.Stands(s.Info())
	}
}

// finish removes what the hub does not have any more. From now on this machine can take over.
func (s *Standby) finish() error {
	for _, pattern := range []string{runFolder + "*.json", rollFolder + "*.json", rollFolder + "signed/*", rollFolder + "harmed", tokensFile, userTokensFile, rosterFile, usersFile} {
		list, _ := filepath.Glob(filepath.Join(s.cfg.State, filepath.FromSlash(pattern)))
		for _, path := range list {
			if name, err := filepath.Rel(s.cfg.State, path); err == nil && !s.seen[filepath.ToSlash(name)] {
				os.Remove(path)
			}
		}
	}
	list, _ := filepath.Glob(filepath.Join(s.cfg.Spool, "result-*"))
	for _, path := range list {
		if !s.seen[resultFolder+filepath.Base(path)] {
			os.Remove(path)
		}
	}
	if err := s.useCA(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Whole = true
	s.info.State, s.info.Since = StandbyWhole, s.cfg.Now()
	return writeStateFile(s.cfg.State, followFile, s.state)
}
