// SPDX-License-Identifier: MIT

package hub

import (
	"net/http"
	"strings"
	"testing"

	"skep/grid/proto"
)

// requestClaim claims the node for the agent of a boot.
func (a *fakeAgent) requestClaim(boot string) (status int, text string) {
	a.w.t.Helper()
	resp, b := a.request(http.MethodPost, proto.PathClaim, strings.NewReader(`{"boot": "`+boot+`"}`))
	return resp.StatusCode, string(b)
}

// claimsBeating claims the node while the connected agent sends beats.
func (a *fakeAgent) claimsBeating(boot string) (status int, text string) {
	a.w.t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		status, text = a.requestClaim(boot)
	}()
	waitUntil(a.w.t, "the answer to a claim", func() bool {
		a.sendVerb(proto.VerbBeat, proto.Beat{Free: 1, Running: []uint64{}}, nil)
		select {
		case <-answered:
			return true
		default:
			return false
		}
	})
	return status, text
}

// An agent that is alive keeps its identity. Another one gets it if the first is silent or gone,
// or if it is the same agent.
func TestClaim(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	free := func(what, boot string) {
		t.Helper()
		if status, text := a.requestClaim(boot); status != http.StatusOK {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	free("nobody is there", "other")
	a.connect()
	a.sendHello(1)
	if status, text := a.claimsBeating("b"); status != http.StatusOK {
		t.Errorf("the same agent comes again: %d %s", status, text)
	}
	status, text := a.claimsBeating("other")
	if status != http.StatusConflict || !strings.Contains(text, proto.ProblemIdentity) || !strings.Contains(text, "node pc at 127.0.0.1: ") {
		t.Errorf("another comes: %d %s", status, text)
	}
	a.sendHello(1) // behind all beats
	w.clock.advance(proto.SilentFor)
	free("it has been silent", "other")
	a.sendHello(1)
	a.cutConnection()
	free("it has gone", "other")
}
