// SPDX-License-Identifier: MIT

package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/grid/ident"
	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/internal/patience"
)

// ErrNoHub says that nothing listens on a control socket.
var ErrNoHub = errors.New("no hub runs with this state directory: start `skep up`, or name the hub's --state")

// ErrHubEnded says that a hub ended before it had answered: what it did of the request is
// not known.
var ErrHubEnded = errors.New("the hub ended before it answered: start `skep up` again, look at `skep nodes` or `skep runs`, and repeat the command")

// A Client speaks to a hub over its control socket, or over TLS. Any number of goroutines
// may use it.
type Client struct {
	socket string
	far    func(context.Context) (net.Conn, error) // connects over TLS, in place of socket
	user   *ident.Node                             // of a far client, or nil
	http   *http.Client
	long   *http.Client // of requests that last as long as a run
	// Away is called when a far hub does not answer for a while, with why, and with nil when it
	// does again. It must be set before the run begins.
	Away func(error)
}

// NewClient does not connect yet.
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	c.setTransport()
	return c
}

func (c *Client) setTransport() {
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		// A program is sent once, and must not go to a connection that a hub which ended left.
		DisableKeepAlives: c.far == nil,
	}}
	c.long = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dialLasting(ctx, c.Away) },
	}}
}

// restartWait is how long a client waits for a hub that is started again; tests
// shorten it. systemd starts it after five seconds.
var restartWait = time.Minute

const restartPoll = 100 * time.Millisecond

// dial connects to the hub. It waits for a hub that is about to be started again.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	if c.far != nil {
		return c.far(ctx)
	}
	late := time.NewTimer(restartWait)
	defer late.Stop()
	for {
		// Asked before: a hub listens, and then removes the file.
		restarts := c.restarts()
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil { // which says nothing about the hub
			return nil, ctx.Err()
		}
		if !restarts {
			return nil, dialError(err)
		}
		select {
		case <-time.After(restartPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return nil, fmt.Errorf("the hub ended to be started again, and was not within %v: %w", restartWait, dialError(err))
		}
	}
}

// restarts reports whether the hub is about to be started again.
func (c *Client) restarts() bool {
	if c.far != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(c.socket), restartFile))
	return err == nil
}

func dialError(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the hub of this state directory belongs to another user, and only this user may use it (%w)", err)
	}
	return fmt.Errorf("%w (%v)", ErrNoHub, err)
}

// request sends a request, and again to the next hub if this one closes to be
// started again. It returns a Problem as an error.
func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	for {
		resp, err := c.requestOnce(ctx, method, path, in)
		if _, once := in.(io.Reader); once || !c.mustRepeat(err) {
			return resp, err
		}
	}
}

// mustRepeat reports whether a request must be sent again, because the hub refused it or
// hung up to be started again: then it serves no run and no program. It waits a little, so
// that requests do not follow one another without a pause.
func (c *Client) mustRepeat(err error) bool {
	if !errors.Is(err, errStops) && !isHangUp(err) || !c.restarts() {
		return false
	}
	time.Sleep(restartPoll)
	return true
}

// isHangUp reports whether the hub closed the connection of a request. It is a reset if the
// hub had not read the whole request.
func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (c *Client) requestOnce(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var reader io.Reader
	switch v := in.(type) {
	case nil:
	case io.Reader:
		reader = v
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://hub"+path, reader)
	if err != nil {
		return nil, err
	}
	if f, ok := in.(*os.File); ok {
		if r.ContentLength = fileSize(f); r.ContentLength == 0 {
			r.Body = http.NoBody // else its size would count as unknown
		}
	}
	r.Header.Set(proto.HeaderRevision, strconv.Itoa(proto.Revision))
	by := c.http
	if strings.HasPrefix(path, "/v1/runs") {
		by = c.long
	}
	resp, err := by.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		if isHangUp(err) || errors.Is(err, lasting.ErrOver) || errors.Is(err, lasting.ErrAway) {
			err = fmt.Errorf("%w (%w)", ErrHubEnded, err)
		}
		return nil, ident.ExplainClock(err)
	}
	c.noteHub(resp.Header.Get(proto.HeaderHubs))
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readProblem(resp)
}

func readProblem(resp *http.Response) error {
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errStops
	}
	p := &proto.Problem{}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, proto.JoinMax))
	if json.Unmarshal(b, p) != nil || p.Text == "" {
		return fmt.Errorf("the hub answered %s", resp.Status)
	}
	return p
}

func requestJSON[T any](ctx context.Context, c *Client, method, path string, in any) (v T, err error) {
	resp, err := c.request(ctx, method, path, in)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	return v, json.NewDecoder(resp.Body).Decode(&v)
}

// Status requests the hub's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return requestJSON[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Nodes lists all nodes, or with a selector those that it selects.
func (c *Client) Nodes(ctx context.Context, on string) ([]NodeInfo, error) {
	return requestJSON[[]NodeInfo](ctx, c, http.MethodGet, "/v1/nodes?on="+url.QueryEscape(on), nil)
}

// DrainNode gives the node with this name or id no more work, or reopens it.
func (c *Client) DrainNode(ctx context.Context, name string, how Drain) error {
	resp, err := c.request(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(name)+"/"+string(how), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// RemoveNode bars the node with this name or id for good.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	resp, err := c.request(ctx, http.MethodDelete, "/v1/nodes/"+url.PathEscape(name), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Token makes a join token.
func (c *Client) Token(ctx context.Context, v TokenRequest) (TokenAnswer, error) {
	return requestJSON[TokenAnswer](ctx, c, http.MethodPost, "/v1/tokens", v)
}

// Jobs lists the movable programs.
func (c *Client) Jobs(ctx context.Context) ([]JobInfo, error) {
	return requestJSON[[]JobInfo](ctx, c, http.MethodGet, "/v1/jobs", nil)
}

// MoveJob moves a movable program to the node with this name or id, or if that is empty to one
// that the hub chooses, and returns when it runs there.
func (c *Client) MoveJob(ctx context.Context, job, node string) (JobInfo, error) {
	return requestJSON[JobInfo](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(job)+"/move", MoveRequest{node})
}

// CheckpointJob saves a movable program.
func (c *Client) CheckpointJob(ctx context.Context, job string) (JobInfo, error) {
	return requestJSON[JobInfo](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(job)+"/checkpoint", MoveRequest{})
}

// Program stores a program that Exec may run on nodes.
func (c *Client) Program(ctx context.Context, path string) (BlobAnswer, error) {
	return c.storeProgram(ctx, path, "/v1/programs")
}

// MovableProgram stores one that Exec may only run as a movable one: it may be dynamic.
func (c *Client) MovableProgram(ctx context.Context, path string) (BlobAnswer, error) {
	return c.storeProgram(ctx, path, "/v1/programs?movable")
}

func (c *Client) storeProgram(ctx context.Context, path, to string) (BlobAnswer, error) {
	f, err := os.Open(path)
	if err != nil {
		return BlobAnswer{}, err
	}
	defer f.Close()
	return requestJSON[BlobAnswer](ctx, c, http.MethodPost, to, f)
}

// A Stream gives events until it is closed.
type Stream struct {
	body io.ReadCloser
	dec  *json.Decoder
	key  string                      // of a run
	end  func(context.Context) error // of a run
	far  *relay                      // of a run whose hub is far
	keep time.Duration               // of a run: for so long it is looked for
}

// Keep returns for how long a run's hub keeps it after it was killed, so for how long to look for the
// next one; at least a minute, which is what a hub of an earlier version does not say.
func (s *Stream) Keep() time.Duration { return max(s.keep, restartWait) }

// Next waits for the next event. Those that ask for worker programs are answered here.
func (s *Stream) Next() (e Event, err error) {
	for {
		e = Event{}
		err = s.dec.Decode(&e)
		switch {
		case err == nil && s.far != nil && e.Type == "want":
			go s.far.answerWant(e.State, e.Text)
		case err == nil && s.far != nil && e.Type == eventHubs:
			s.far.client.noteHub(e.Text)
		default:
			return e, err
		}
	}
}

// Close ends the stream, and the run that it belongs to unless RunAgain continues it.
func (s *Stream) Close() error { return s.body.Close() }

// Forget removes the socket of a run that is over.
func (s *Stream) Forget() {
	if s.far != nil {
		s.far.close()
	}
}

func (c *Client) open(ctx context.Context, method, path string, in any) (*Stream, error) {
	resp, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	return &Stream{body: resp.Body, dec: json.NewDecoder(resp.Body)}, nil
}

// Events streams all that happens from now on.
func (c *Client) Events(ctx context.Context) (*Stream, error) {
	return c.open(ctx, http.MethodGet, "/v1/events", nil)
}

// Run opens a socket for masters (SKEP_SOCKET). It lives until the stream, which reports what happens to the run, is closed.
func (c *Client) Run(ctx context.Context, v RunRequest) (socket string, s *Stream, err error) {
	if s, err = c.open(ctx, http.MethodPost, "/v1/runs", v); err != nil {
		return "", nil, err
	}
	e, err := s.Next()
	if err == nil && c.far != nil {
		if s.far, err = newRelay(c, e.Text, v.Dirs); err == nil {
			e.Socket = s.far.socket()
		}
	}
	if err == nil && e.Socket == "" {
		err = errors.New("the hub opened no socket for the run")
	}
	if err != nil {
		s.Close()
		return "", nil, err
	}
	s.key, s.keep = e.Text, time.Duration(e.Keep)*time.Millisecond
	s.end = func(ctx context.Context) error {
		resp, err := c.request(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(e.Text)+"/end", nil)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	return e.Socket, s, nil
}

// TryMost is what a try to reach the hub counts for at most.
const TryMost = 15 * time.Second // as one over TLS may take, farDialIn

// RunAgain continues the stream of a run whose hub was killed, once another hub of its
// state directory has the run. It looks for that one for s.Keep().
func (c *Client) RunAgain(ctx context.Context, s *Stream) (*Stream, error) {
	for left := patience.New(s.Keep(), TryMost); ; {
		began := time.Now()
		next, err := c.open(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(s.key)+"/again", nil)
		if err == nil {
			next.key, next.end, next.far, next.keep = s.key, s.end, s.far, s.keep
			_, err = next.Next() // its socket, as before
		}
		if err == nil {
			return next, nil
		}
		if p := (*proto.Problem)(nil); errors.As(err, &p) || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-time.After(restartPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !left.Spend(began) {
			return nil, err
		}
	}
}

// End ends the run that the stream belongs to: masters that are left end, and Next
// returns io.EOF after the last event, which is when the run's workers have ended, or
// when their nodes have not said so for ten seconds (SessionLate).
func (s *Stream) End(ctx context.Context) error { return s.end(ctx) }

// An ExecError is why a program has no exit status: it did not start, was
// refused, or its node went away.
type ExecError struct {
	Kind proto.ExecType // FAILED, REFUSED or GONE
	Text string
}

func (e *ExecError) Error() string { return e.Text }

// Exec runs a program on one node with these streams until it ends, and gives
// its exit status. stdin may be nil; reading it goes on in the background.
func (c *Client) Exec(ctx context.Context, v ExecRequest, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	conn, in, err := c.upgrade(ctx, v)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go sendInput(conn, stdin)
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(in, buf)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, &ExecError{proto.ExecGone, "the stream to the node broke before the program ended"}
		case t == proto.ExecStdout && len(p) == 0: // the node checks that this exists
		case t == proto.ExecStdout:
			_, err = stdout.Write(p)
		case t == proto.ExecStderr:
			_, err = stderr.Write(p)
		case t == proto.ExecExit && len(p) == 4:
			return int(int32(binary.LittleEndian.Uint32(p))), nil
		case t == proto.ExecFailed, t == proto.ExecRefused, t == proto.ExecGone:
			return 0, &ExecError{t, string(p)}
		default:
			err = fmt.Errorf("the node sent an exec frame of type %d", t)
		}
		if err != nil {
			return 0, err
		}
	}
}

// sendInput ends with the empty frame that means end of file.
func sendInput(conn net.Conn, stdin io.Reader) {
	if stdin != nil {
		buf := make([]byte, proto.ExecFrameMax)
		for {
			n, err := stdin.Read(buf)
			if n > 0 && proto.WriteExec(conn, proto.ExecStdin, buf[:n]) != nil {
				return
			}
			if err != nil {
				break
			}
		}
	}
	proto.WriteExec(conn, proto.ExecStdin, nil)
}

func (c *Client) upgrade(ctx context.Context, v ExecRequest) (net.Conn, *bufio.Reader, error) {
	for {
		conn, in, err := c.upgradeOnce(ctx, v)
		if !c.mustRepeat(err) {
			return conn, in, err
		}
	}
}

func (c *Client) upgradeOnce(ctx context.Context, v ExecRequest) (net.Conn, *bufio.Reader, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	return c.switchTo(ctx, "/v1/exec", b)
}

// switchTo sends a request after which the connection is a stream. The caller closes it.
func (c *Client) switchTo(ctx context.Context, path string, body []byte) (net.Conn, *bufio.Reader, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hub"+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	dial := func(ctx context.Context) (net.Conn, error) { return c.dialLasting(ctx, nil) }
	conn, in, _, err := c.switchOn(ctx, dial, r)
	return conn, in, err
}

// switchOn is switchTo on a connection of one kind. It returns the answer's headers too.
func (c *Client) switchOn(ctx context.Context, dial func(context.Context) (net.Conn, error), r *http.Request) (net.Conn, *bufio.Reader, http.Header, error) {
	r.Header.Set(proto.HeaderRevision, strconv.Itoa(proto.Revision))
	conn, err := dial(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	in := bufio.NewReaderSize(conn, proto.ExecFrameMax)
	err = r.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(in, r)
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = readProblem(resp)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	return conn, in, resp.Header, nil
}
