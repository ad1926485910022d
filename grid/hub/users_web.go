// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
)

// login opens an account on a machine. The rest of the request is checked before a use of the
// token is spent.
func (h *Hub) login(w http.ResponseWriter, r *http.Request) {
	var v proto.Login
	c := h.readLogin(w, r, &v, &v, issuer{func(string, string) error { return nil }, h.ca.SignUser}) // addKey checks the key
	if c == nil {
		return
	}
	name, refused := "", error(nil)
	_, err := h.userTokens.RedeemFor(v.Token, func(user string) error {
		name, refused = h.accounts.addKey(user, c.id, c.key)
		return refused
	})
	switch {
	case refused != nil:
		writeProblem(w, http.StatusForbidden, proto.ProblemToken, "%v", refused)
	case err != nil:
		h.log.Warn("an account was not opened", "from", r.RemoteAddr, "error", err)
		tokenProblem(w, err)
	default:
		h.log.Info("an account was opened", "user", name, "from", r.RemoteAddr)
		h.answerJoined(w, c, name, "")
	}
}

// userHandler is what users may do over TLS; what it does not have is the operator's.
func (h *Hub) userHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request, *account)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id, _ := ident.PeerUser(*r.TLS)
			u, err := h.accounts.byKey(id)
			if err != nil {
				writeProblem(w, http.StatusForbidden, proto.ProblemToken, "%v", err)
				return
			}
			revision, err := strconv.Atoi(r.Header.Get(proto.HeaderRevision))
			if _, p := proto.CommonRevision(proto.Revision, revision); err != nil || p != nil {
				writeProblem(w, http.StatusConflict, proto.ProblemRevision, "the hub speaks revision %d and this program another one: update the older skep", proto.Revision)
				return
			}
			for _, address := range h.otherHubs() {
				w.Header().Set(proto.HeaderHubs, address)
			}
			f(w, r, u)
		})
	}
	handle(proto.PatternRenew, h.renewUser)
	handle("GET /v1/status", func(w http.ResponseWriter, _ *http.Request, u *account) {
		h.mu.Lock()
		status := h.statusOf(u.ID)
		h.mu.Unlock()
		writeJSON(w, http.StatusOK, status)
	})
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request, viewer){
		"GET /v1/overview": h.showOverview, "GET /page/{$}": h.showPage, "GET /page/calls/{call}": h.showCall, "GET /page/metrics": h.showMetrics,
	} {
		handle(pattern, func(w http.ResponseWriter, r *http.Request, u *account) { f(w, r, viewer{user: u.ID}) })
	}
	handle("GET /v1/users", func(w http.ResponseWriter, _ *http.Request, u *account) {
		writeJSON(w, http.StatusOK, h.users(viewer{user: u.ID}))
	})
	handle("GET /v1/nodes", func(w http.ResponseWriter, r *http.Request, _ *account) { h.listNodes(w, r) })
	handle("GET /v1/calls", func(w http.ResponseWriter, r *http.Request, u *account) { h.listCalls(w, r, viewer{user: u.ID}) })
	handle("POST /v1/calls/{call}/cancel", func(w http.ResponseWriter, r *http.Request, u *account) { h.serveCancelCall(w, r, viewer{user: u.ID}) })
	handle("POST /v1/sessions/{session}/cancel", func(w http.ResponseWriter, r *http.Request, u *account) {
		h.serveCancelCalls(w, r, viewer{user: u.ID})
	})
	handle("GET /v1/ledger", func(w http.ResponseWriter, r *http.Request, u *account) { h.listLedger(w, r, viewer{user: u.ID}) })
	handle("POST /v1/runs", func(w http.ResponseWriter, r *http.Request, u *account) { h.serveRun(w, r, viewer{user: u.ID}) })
	handle("POST /v1/runs/{key}/end", func(w http.ResponseWriter, r *http.Request, u *account) { h.serveEnd(w, r, viewer{user: u.ID}) })
	handle("POST /v1/runs/{key}/again", func(w http.ResponseWriter, r *http.Request, u *account) { h.serveAgain(w, r, viewer{user: u.ID}) })
	handle("POST /v1/runs/{key}/master", h.serveMaster)
	handle("POST /v1/runs/{key}/workers/{want}", h.takeWorker)
	handle("POST "+pathStreams, h.openStream)
	handle("POST "+pathStreams+"/{stream}", h.resumeStream)
	handle("POST /v1/exec", func(w http.ResponseWriter, r *http.Request, u *account) { h.startExec(w, r, viewer{user: u.ID}) })
	handle("POST /v1/programs", func(w http.ResponseWriter, r *http.Request, u *account) { h.storeProgram(w, r, viewer{user: u.ID}) })
	handle("/", func(w http.ResponseWriter, r *http.Request, u *account) {
		writeProblem(w, http.StatusForbidden, proto.ProblemToken, "the user %s may not do this: it is for the hub's operator, on the hub's machine", u.Name)
	})
	return mux
}

func (h *Hub) renewUser(w http.ResponseWriter, r *http.Request, u *account) {
	id, _ := ident.PeerUser(*r.TLS)
	h.renew(w, r, id, u.Name, issuer{func(id, key string) error {
		if u.Keys[id] != key {
			return errors.New("this certificate is bound to another key")
		}
		return nil
	}, h.ca.SignUser})
}

// statusOf is the status with the numbers of one user.
func (h *Hub) statusOf(user string) Status {
	lockdep.AssertHeld(&h.mu)
	s, q := h.status(), h.quotaOf(user)
	s.PID, s.Sessions, s.Calls = 0, 0, 0
	s.Stored, s.StoredMax = uint64(max(q.used.Load(), 0)), uint64(min(q.limit(), h.quota.limit()))
	for _, m := range h.masters {
		if m.run.user == user {
			s.Sessions++
			s.Calls += len(m.calls)
		}
	}
	return s
}

// sessionOf returns the whole name of a session of a user whose logs are asked for: the latest
// that begins with prefix, open or among the last entries of the ledger.
func (h *Hub) sessionOf(ctx context.Context, by viewer, prefix string) (string, error) {
	if by.all {
		return prefix, nil
	}
	h.mu.Lock()
	latest := sched.SessionID(0)
	found := ""
	for _, m := range h.masters {
		if by.sees(m.run.user) && strings.HasPrefix(m.key, prefix) && m.id > latest {
			latest, found = m.id, m.key
		}
	}
	h.mu.Unlock()
	if found != "" {
		return found, nil
	}
	list, err := h.engine.Entries(ctx, ledgerMax)
	if err != nil {
		return "", err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].User == by.user && strings.HasPrefix(list[i].Session, prefix) {
			return list[i].Session, nil
		}
	}
	return "", fmt.Errorf("no session of yours begins with %q: `skep ledger` lists them", prefix)
}
