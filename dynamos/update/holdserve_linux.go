// SPDX-License-Identifier: MIT

package update

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/peercred"
)

// A HoldRequest is the line with which a process of this machine asks for an update.
type HoldRequest struct {
	Update string `json:"update"`
	// Cgroup is the folder of a cgroup of the user who asks. "": the process that asks is
	// moved into a child of its own cgroup.
	Cgroup string `json:"cgroup,omitempty"`
}

// A HoldAnswer is the line that answers. Then the update is in force, until the connection
// is closed and no process is in the cgroup.
type HoldAnswer struct {
	Refused string `json:"refused,omitempty"` // a sentence
	Error   string `json:"error,omitempty"`
}

const (
	holdLine   = 8 << 10
	holdAsk    = 10 * time.Second
	holdsAtOne = 256 // connections
)

// Serve answers requests until ctx ends. Every user may connect: what he may ask for, the
// owner of the cgroup and the operators' signatures decide.
func (h *Holds) Serve(ctx context.Context, l net.Listener) error {
	h.resume()
	var ends sync.WaitGroup
	defer ends.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ends.Go(func() {
		tick := time.NewTicker(holdEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				h.tick()
			}
		}
	})
	room := make(chan struct{}, holdsAtOne)
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case room <- struct{}{}:
		default:
			c.Close()
			continue
		}
		ends.Go(func() {
			defer func() { <-room }()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			defer c.Close()
			h.answer(c)
		})
	}
}

// answer serves one connection to its end.
func (h *Holds) answer(c net.Conn) {
	one, err := h.ask(c)
	var a HoldAnswer
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) || trust.Name(err) != "":
		a.Refused = err.Error()
	case err != nil:
		a.Error = err.Error()
	}
	if one != nil {
		defer h.release(one)
	}
	text, _ := json.Marshal(a) // two strings
	if _, failed := c.Write(append(text, '\n')); failed != nil || err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c) // until the other side closes it
}

func (h *Holds) ask(c net.Conn) (*hold, error) {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("it is not of this machine")
	}
	peer, err := peercred.Read(unixConn)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(holdAsk)); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(c, holdLine)).ReadSlice('\n')
	var r HoldRequest
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return h.permit(&r, peer.Uid, int(peer.Pid))
}

// permit begins what a user may ask for.
func (h *Holds) permit(r *HoldRequest, uid uint32, pid int) (*hold, error) {
	if !pack.ValidName(r.Update) {
		return nil, refusef("%.80q is not the name of an update", r.Update)
	}
	if r.Cgroup == "" {
		dir, err := h.tree.Enter(pid, holdPrefix+r.Update)
		if err != nil {
			return nil, err
		}
		one, err := h.begin(r.Update, dir, true)
		if err != nil {
			return nil, errors.Join(err, h.tree.Leave(pid, dir))
		}
		return one, nil
	}
	dir := filepath.Clean(r.Cgroup)
	if _, err := h.tree.ID(dir); err != nil {
		return nil, err
	}
	owner, err := h.tree.Owner(dir)
	if err != nil {
		return nil, err
	}
	if uid != 0 && owner != uid {
		return nil, refusef("%s belongs to user %d, and user %d asks: name a cgroup of your own", dir, owner, uid)
	}
	return h.begin(r.Update, dir, false)
}

// AskHold asks the machine's service for an update. It is in force when AskHold returns, and
// until the connection is closed and no process is in the cgroup.
func AskHold(ctx context.Context, socket string, r HoldRequest) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, refusef("no service gives jobs updates on this machine: 'skep service install kernel' installs it (%v)", err)
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = c.Write(append(text, '\n'))
	}
	var a HoldAnswer
	if err == nil {
		err = json.NewDecoder(io.LimitReader(c, holdLine)).Decode(&a)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("the service that gives jobs updates did not answer: %w", err)
	case a.Refused != "":
		err = &RefusedError{Why: a.Refused}
	case a.Error != "":
		err = errors.New(a.Error)
	default:
		return c, nil
	}
	c.Close()
	return nil, err
}

// holdAgain is how long KeepHold waits before it asks again.
const holdAgain = time.Second

// KeepHold asks as AskHold does, and again when the service was restarted, until end is
// called, ctx ends or lives returns false. tell gets why the service does not give the
// update any more; it is called for each other reason once.
func KeepHold(ctx context.Context, socket string, r HoldRequest, lives func() bool, tell func(error)) (end func(), err error) {
	c, err := AskHold(ctx, socket, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var ends sync.WaitGroup
	ends.Go(func() {
		last := ""
		for ctx.Err() == nil {
			if c != nil {
				stop := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = io.Copy(io.Discard, c) // until the service ends
				stop()
				c.Close()
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(holdAgain):
			}
			if !lives() {
				return
			}
			var err error
			if c, err = AskHold(ctx, socket, r); err == nil {
				last = ""
			} else if text := err.Error(); text != last && ctx.Err() == nil {
				last = text
				tell(err)
			}
		}
	})
	return func() { cancel(); ends.Wait() }, nil
}
