// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// A user's side: a client that reaches the hub over TLS, and brings the masters and the worker
// programs of this machine to it.

// A FarError says that a hub on another machine does not answer. It is an ErrNoHub too.
type FarError struct {
	Address string
	Err     error
}

func (e *FarError) Error() string {
	return fmt.Sprintf("the hub at %s cannot be reached: is `skep up` running there, and does a firewall let that port through? (%v)", e.Address, e.Err)
}

func (e *FarError) Unwrap() error { return e.Err }

// Is makes a hub that is away the same to callers as one that does not run here.
func (e *FarError) Is(other error) bool { return other == ErrNoHub }

const farDialIn = 15 * time.Second

// NewUserClient is a client of the hub that a user of this machine joined. It does not connect
// yet.
func NewUserClient(user *ident.Node) *Client {
	c := newHubsClient(user.Hubs, func() (*tls.Config, error) { return user.TLS(proto.ALPNHTTP) })
	c.user = user
	return c
}

// noteHub stores the address of the hub's standby, as the hub named it.
func (c *Client) noteHub(address string) {
	if c.user != nil && address != "" {
		c.user.AddHub(address) // an error means that this run does not find the standby
	}
}

func newFarClient(address string, config func() (*tls.Config, error)) *Client {
	return newHubsClient(func() []string { return []string{address} }, config)
}

// newHubsClient is a client of the hub that answers at one of these addresses.
func newHubsClient(hubs func() []string, config func() (*tls.Config, error)) *Client {
	c := &Client{}
	c.far = func(ctx context.Context) (net.Conn, error) {
		conf, err := config()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, farDialIn)
		defer cancel()
		d := &tls.Dialer{Config: conf, NetDialer: &net.Dialer{KeepAlive: 5 * time.Second}}
		dial := func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
		list := hubs()
		conn, address, err := ident.DialAny(ctx, list, dial, c.tellFormer)
		if err == nil && c.user != nil {
			c.user.UseHub(address) // an error means that the next command tries in another order
		}
		if err == nil {
			return conn, nil
		}
		address = list[0]
		if err := ident.ExplainClock(err); errors.Is(err, ident.ErrClock) {
			return nil, err
		}
		if other := (*tls.CertificateVerificationError)(nil); errors.As(err, &other) {
			return nil, fmt.Errorf("%w (%v)", ident.ErrOtherHub, other)
		}
		return nil, &FarError{address, err}
	}
	c.setTransport()
	return c
}

// tellFormer tells a hub that is not in charge any more, as it can be seen, that it is not.
func (c *Client) tellFormer(address string, err error) {
	if c.user != nil && errors.Is(err, ident.ErrFormerHub) {
		if conf, err := c.user.FormerTLS(proto.ALPNHTTP); err == nil {
			_, proof := c.user.Epoch()
			go TellEpoch(address, conf, proof)
		}
	}
}

// IsFar reports whether the client is a user's, over TLS.
func (c *Client) IsFar() bool { return c.far != nil }

// Login opens the account of a token for a user of this machine.
func Login(ctx context.Context, user *ident.Node, address, text string) error {
	token, err := ident.ParseToken(text)
	if err != nil {
		return err
	}
	csr, err := user.CSR()
	if err != nil {
		return err
	}
	c := newFarClient(address, func() (*tls.Config, error) { return ident.JoinTLS(token, proto.ALPNHTTP), nil })
	j, err := requestJSON[proto.Joined](ctx, c, http.MethodPost, proto.PathLogin,
		proto.Login{Revision: proto.Revision, Token: text, CSR: csr, NKey: user.NKey()})
	if err != nil {
		return err
	}
	return user.Admit(ident.Admission{Hub: address, Name: j.Name, Certificate: j.Certificate, CA: j.CA})
}

// RenewUser gets a new certificate, if that of the user is old.
func RenewUser(ctx context.Context, user *ident.Node, now time.Time) error {
	if !user.RenewDue(now) {
		return nil
	}
	csr, err := user.CSR()
	if err != nil {
		return err
	}
	j, err := requestJSON[proto.Joined](ctx, NewUserClient(user), http.MethodPost, proto.PathRenew, proto.Renew{CSR: csr})
	if err != nil {
		return err
	}
	a := user.Admission()
	a.Name, a.Certificate, a.CA = j.Name, j.Certificate, j.CA
	return user.Admit(a)
}

// A relay is the socket of a run whose hub is far: each connection of a master goes on to the
// hub over TLS.
type relay struct {
	client *Client
	dir    string
	listen net.Listener
	key    string // of the run
	dirs   []string
}

func newRelay(c *Client, key string, dirs []string) (*relay, error) {
	dir, err := os.MkdirTemp("", "skep-run-")
	if err != nil {
		return nil, err
	}
	r := &relay{client: c, dir: dir, key: key, dirs: dirs}
	if r.listen, err = listenUnix(r.socket()); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go r.accept()
	return r, nil
}

func (r *relay) socket() string { return filepath.Join(r.dir, "run.sock") }

func (r *relay) close() {
	r.listen.Close()
	os.RemoveAll(r.dir)
}

func (r *relay) accept() {
	for {
		c, err := r.listen.Accept()
		if err != nil {
			return
		}
		go r.connect(c)
	}
}

// connect serves one master. A hub that does not answer looks to it like one that hung up: its
// library connects again.
func (r *relay) connect(master net.Conn) {
	defer master.Close()
	ctx, cancel := context.WithTimeout(context.Background(), farDialIn)
	hub, in, err := r.client.switchTo(ctx, "/v1/runs/"+url.PathEscape(r.key)+"/master", nil)
	cancel()
	if err != nil {
		return
	}
	defer hub.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		io.Copy(hub, master)
		// What the master wrote last must arrive, so the hub closes, and not this side.
		if t, ok := hub.(interface{ CloseWrite() error }); ok {
			t.CloseWrite()
		}
		hub.SetReadDeadline(time.Now().Add(farewell))
	}()
	io.Copy(master, in)
	master.Close()
	<-gone
}

// openSent is openWorker for a file that leaves this machine: the hub names it, so it must be a
// worker program and no other file of the user.
func openSent(dirs []string, name string) (string, *os.File, error) {
	path, f, err := openWorker(dirs, name)
	if err != nil {
		return "", nil, err
	}
	if _, _, err := uapi.ReadManifest(f); err != nil {
		f.Close()
		return "", nil, fmt.Errorf("%s is not a worker program that skep can run: %v", path, err)
	}
	return path, f, nil
}

// answerWant sends the hub a worker program, or why there is none.
func (r *relay) answerWant(id, name string) {
	path, f, err := openSent(r.dirs, name)
	query, body := url.Values{}, io.Reader(http.NoBody)
	size := int64(0)
	if err == nil {
		defer f.Close()
		query.Set("path", path)
		body, size = f, fileSize(f)
	} else {
		query.Set("error", err.Error())
	}
	req, err := http.NewRequest(http.MethodPost, "http://hub/v1/runs/"+url.PathEscape(r.key)+"/workers/"+url.PathEscape(id)+"?"+query.Encode(), body)
	if err != nil {
		return
	}
	req.ContentLength = size
	req.Header.Set(proto.HeaderRevision, strconv.Itoa(proto.Revision))
	if resp, err := r.client.long.Do(req); err == nil { // else the hub says that nothing came
		resp.Body.Close()
	}
}
