// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"

	"skep/grid/proto"
	"skep/internal/atomicfile"
)

// How a standby becomes the hub, and what its operator's commands ask.

// A PromoteRequest makes a standby the hub.
type PromoteRequest struct {
	Force bool `json:"force,omitempty"` // the hub does not answer, and the operator says that it is dead or cut off
}

// Promote makes this machine the hub: the hub gives way if it answers, when everything is here. One
// that does not answer may still work, with nodes that reach it, so only the operator's word
// replaces its own.
func (s *Standby) Promote(ctx context.Context, v PromoteRequest) error {
	s.promoting.Lock()
	defer s.promoting.Unlock()
	select {
	case <-s.promoted:
		return nil
	default:
	}
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	if !state.Whole {
		return fmt.Errorf("this machine never had everything from the hub at %s, so it cannot take over: `skep standby` says when it has", state.Hub)
	}
	next := standing{Epoch: state.Epoch + 1, Former: state.Hub}
	err := s.reach(ctx)
	if err == nil {
		err = s.askToYield(ctx, next.Epoch)
	}
	if p := (*proto.Problem)(nil); errors.As(err, &p) {
		return err
	}
	if err != nil && !v.Force {
		return fmt.Errorf("the hub at %s does not answer (%w). If it is dead, or must be taken for dead, `skep standby promote --force` takes over. If it lives and only this machine cannot reach it, what it accepts now is not here", state.Hub, err)
	}
	if err := s.takeOver(next); err != nil {
		return err
	}
	close(s.promoted)
	return nil
}

// reach finds out whether the hub answers. One that is stopped has a port, but does not.
func (s *Standby) reach(ctx context.Context) error {
	conf, err := s.node.TLS(proto.ALPNHTTP)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachIn)
	defer cancel()
	d := &tls.Dialer{Config: conf}
	c, err := d.DialContext(ctx, "tcp", s.state.Hub)
	if err != nil {
		return err
	}
	return c.Close()
}

// askToYield asks the hub to end. A Problem is its refusal.
func (s *Standby) askToYield(ctx context.Context, epoch uint64) error {
	ctx, cancel := context.WithTimeout(ctx, giveWayIn)
	defer cancel()
	c := newFarClient(s.state.Hub, func() (*tls.Config, error) { return s.node.TLS(proto.ALPNHTTP) })
	b, err := json.Marshal(yieldRequest{epoch})
	if err != nil {
		return err
	}
	resp, err := c.requestOnce(ctx, http.MethodPost, proto.PathYield, bytes.NewReader(b))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// takeOver makes the state directory that of a hub with a new epoch and new numbers. The removal of
// the one file is the moment.
func (s *Standby) takeOver(next standing) error {
	s.cancel() // nothing is copied any more
	s.mu.Lock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.mu.Unlock()
	if err := skipNumbers(filepath.Join(s.cfg.State, numbersFile), s.cfg.Now()); err != nil {
		return err
	}
	if err := writeStateFile(s.cfg.State, standingFile, next); err != nil {
		return err
	}
	return atomicfile.Remove(filepath.Join(s.cfg.State, followFile))
}

// serveLocal answers the commands of this machine's operator.
func (s *Standby) serveLocal() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/standby", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Info()) })
	mux.HandleFunc("POST /v1/standby/promote", func(w http.ResponseWriter, r *http.Request) {
		var v PromoteRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, proto.JoinMax)).Decode(&v); err != nil {
			writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
			return
		}
		answerUser(w, nil, s.Promote(r.Context(), v))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusConflict, proto.ProblemRequest, "%v", errIsStandby)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: handshakeIn, MaxHeaderBytes: headerMax,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.served.Add(1)
	go func() {
		defer s.served.Done()
		<-s.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), farewells)
		defer cancel()
		server.Shutdown(ctx) // the answer that this machine is the hub now arrives
	}()
	server.Serve(s.local)
}

// Standby describes the hub's standby, or the standby that was asked.
func (c *Client) Standby(ctx context.Context) (StandbyInfo, error) {
	return requestJSON[StandbyInfo](ctx, c, http.MethodGet, "/v1/standby", nil)
}

// StandbyToken makes a token with which another machine stands by.
func (c *Client) StandbyToken(ctx context.Context) (TokenAnswer, error) {
	return requestJSON[TokenAnswer](ctx, c, http.MethodPost, "/v1/standby/token", struct{}{})
}

// Promote makes the standby of this machine the hub.
func (c *Client) Promote(ctx context.Context, v PromoteRequest) error {
	return c.done(ctx, http.MethodPost, "/v1/standby/promote", v)
}

// ForgetStandby has the hub go on without its standby.
func (c *Client) ForgetStandby(ctx context.Context) error {
	return c.done(ctx, http.MethodDelete, "/v1/standby", nil)
}

func (c *Client) done(ctx context.Context, method, path string, in any) error {
	resp, err := c.request(ctx, method, path, in)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
