// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/uapi"
)

const (
	dialLimit    = 15 * time.Second
	requestLimit = 30 * time.Second
	base         = "https://" + ident.ServerName
)

var errNoPath = errors.New("the hub answered 404 Not Found")

// A client speaks the hub's HTTP API at one address, whatever its name.
type client struct {
	address string
	tls     *tls.Config
	http    *http.Client
	patient *http.Client // waits for an answer as long as it takes
}

func newClient(address string, config *tls.Config) *client {
	c := &client{address: address, tls: config}
	t := &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.dial(ctx)
		},
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: requestLimit,
		WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10, DisableCompression: true}
	c.http = &http.Client{Transport: t}
	long := t.Clone()
	long.ResponseHeaderTimeout = 0
	c.patient = &http.Client{Transport: long}
	return c
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	d := &tls.Dialer{Config: c.tls, NetDialer: &net.Dialer{KeepAlive: 5 * time.Second}}
	return d.DialContext(ctx, "tcp", c.address)
}

// do sends a request. An error response is returned as an error: a Problem if the hub gave a
// reason, errNoPath if it does not know the path.
func (c *client) do(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	return resp, checkResponse(resp, http.StatusOK)
}

func checkResponse(resp *http.Response, want int) error {
	if resp.StatusCode == want || want == http.StatusOK && resp.StatusCode/100 == 2 {
		return nil
	}
	defer resp.Body.Close()
	p := &proto.Problem{}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if json.Unmarshal(b, p) != nil || p.Text == "" {
		if resp.StatusCode == http.StatusNotFound {
			return errNoPath
		}
		return fmt.Errorf("the hub answered %s", resp.Status)
	}
	return p
}

// post sends JSON and reads JSON.
func (c *client) post(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(json.NewEncoder(pw).Encode(in)) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, pr)
	if err != nil {
		return err
	}
	resp, err := c.do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, proto.JoinMax)).Decode(out)
}

// args streams a call's arguments. The read of the last bytes fails unless all of
// them have the digest in the hub's trailer.
func (c *client) args(ctx context.Context, call, fence, length uint64) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+proto.PathArgs(call, fence), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(r)
	if err != nil {
		return nil, err
	}
	return &checked{resp: resp, sum: sha256.New(), left: length}, nil
}

// checked reads a body of known length with its digest in the trailer.
type checked struct {
	resp *http.Response
	sum  hash.Hash
	left uint64
}

func (c *checked) Close() error { return c.resp.Body.Close() }

func (c *checked) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.resp.Body.Read(p[:min(uint64(len(p)), c.left)])
	c.sum.Write(p[:n])
	c.left -= uint64(n)
	if c.left > 0 {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	if err != nil && err != io.EOF {
		return 0, err
	}
	return n, c.readTrailer()
}

// readTrailer reads to the trailer.
func (c *checked) readTrailer() error {
	if more, err := io.Copy(io.Discard, io.LimitReader(c.resp.Body, 1)); err != nil || more > 0 {
		return fmt.Errorf("their length differs from that in the lease (%v)", err)
	}
	if c.resp.Trailer.Get(proto.TrailerDigest) != hex.EncodeToString(c.sum.Sum(nil)) {
		return errors.New("their digest is not the hub's: they were damaged on the way")
	}
	return nil
}

func (c *client) result(ctx context.Context, call, fence, n uint64, body io.Reader, sum func() string) error {
	trailer := http.Header{proto.TrailerDigest: nil}
	end := &atEnd{body, func() { trailer.Set(proto.TrailerDigest, sum()) }}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, base+proto.PathResult(call, fence), end)
	if err != nil {
		return err
	}
	r.Trailer, r.ContentLength = trailer, -1 // trailers go with chunks only
	r.Header.Set("Skep-Length", strconv.FormatUint(n, 10))
	resp, err := c.do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c *client) callback(ctx context.Context, call, fence uint64, payload []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+proto.PathCallback(call, fence), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	resp, err := c.patient.Do(r)
	if err == nil {
		err = checkResponse(resp, http.StatusOK)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, uapi.FrameMax+1))
	if err == nil && len(answer) > uapi.FrameMax {
		err = errors.New("the answer of the master is too long")
	}
	return answer, err
}

// atEnd calls f when the reader ends without an error.
type atEnd struct {
	io.Reader
	f func()
}

func (e *atEnd) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.f()
	}
	return n, err
}

// exec turns a connection of its own into exec's frames.
func (c *client) exec(ctx context.Context, id string, fence uint64, has *uint64) (e execConn, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return e, err
	}
	late := time.Now().Add(requestLimit)
	if t, ok := ctx.Deadline(); ok && t.Before(late) {
		late = t
	}
	conn.SetDeadline(late)
	r, err := http.NewRequest(http.MethodPost, base+proto.PathExec(id, fence), nil)
	if err != nil {
		return e, err
	}
	if has != nil {
		r.Header.Set(proto.HeaderHas, strconv.FormatUint(*has, 10))
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "skep-exec")
	in := bufio.NewReader(conn)
	err = r.Write(conn)
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(in, r); err == nil {
			err = checkResponse(resp, http.StatusSwitchingProtocols)
		}
		if err == nil {
			keep, _ := strconv.ParseUint(resp.Header.Get(proto.HeaderKeep), 10, 40) // a hub of an earlier version says none
			e.has, _ = strconv.ParseUint(resp.Header.Get(proto.HeaderHas), 10, 64)
			e.keep = time.Duration(keep) * time.Millisecond
		}
	}
	if err != nil {
		conn.Close()
		return e, err
	}
	conn.SetDeadline(time.Time{})
	e.Conn = &upgraded{conn, in}
	return e, nil
}

type upgraded struct {
	net.Conn
	in *bufio.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.in.Read(p) }
