// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
)

// A viewer is who asks. The operator sees the runs of all, a user only its own.
type viewer struct {
	all  bool
	user string // id
}

var operator = viewer{all: true}

func (v viewer) sees(user string) bool { return v.all || v.user == user }

// confines says whether a program runs as one of an account's, within its limits. The logs of
// workers are no program.
func (v viewer) confines(r *ExecRequest) bool { return !v.all && !r.Logs }

// UserInfo is one row of `skep user list`.
type UserInfo struct {
	Name  string     `json:"name"`
	Added *time.Time `json:"added,omitempty"` // absent for the operator
	Terms
	Machines int    `json:"machines"` // that it submits from
	Sessions int    `json:"sessions"` // open
	Running  int    `json:"running"`  // calls
	Waiting  int    `json:"waiting"`  // calls
	Stored   uint64 `json:"stored"`   // bytes that count to its quota
}

// UserRequest adds a user, or changes what one may have; nil changes nothing.
type UserRequest struct {
	Name  string        `json:"name"`
	Share *int          `json:"share,omitempty"`
	Slots *int          `json:"slots,omitempty"`
	Bytes *uint64       `json:"bytes,omitempty"`
	Life  time.Duration `json:"life,omitempty"` // of the token, nanoseconds
}

func (v UserRequest) apply(t *Terms) {
	if v.Share != nil {
		t.Share = *v.Share
	}
	if v.Slots != nil {
		t.Slots = *v.Slots
	}
	if v.Bytes != nil {
		t.Bytes = *v.Bytes
	}
}

// openUsers reads the accounts, and tells the scheduler of them.
func (h *Hub) openUsers() (err error) {
	if h.userTokens, err = ident.OpenUserTokens(h.cfg.State, h.ca.Digest()); err != nil {
		return err
	}
	if _, err = h.userTokens.List(); err != nil {
		return err
	}
	if h.accounts, err = openAccounts(filepath.Join(h.cfg.State, usersFile)); err != nil {
		return err
	}
	list, own := h.accounts.all()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setTerms("", own)
	for _, u := range list {
		h.setTerms(u.ID, u.Terms)
	}
	return nil
}

// setTerms makes it hold what a user may have. Calls that run and bytes that are stored stay.
func (h *Hub) setTerms(id string, t Terms) {
	lockdep.AssertHeld(&h.mu)
	h.handleEvent(sched.UserSet{User: sched.UserID(id), Weight: max(t.Share, 1), Slots: t.Slots})
	h.quotaOf(id).set.Store(int64(t.Bytes))
}

// quotaOf returns the quota of a user.
func (h *Hub) quotaOf(id string) *quota {
	lockdep.AssertHeld(&h.mu)
	q := h.userQuotas[id]
	if q == nil {
		name := cmp.Or(h.accounts.nameOf(id), OperatorName)
		q = &quota{whose: "user " + name, most: math.MaxInt64 / 2,
			raise: fmt.Sprintf("ask the hub's operator for a larger `skep user set %s --quota`", name)}
		h.userQuotas[id] = q
	}
	return q
}

// Users lists the users that the viewer sees, the operator first.
func (h *Hub) users(by viewer) []UserInfo {
	list, own := h.accounts.all()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []UserInfo
	row := func(id string, i UserInfo) {
		if !by.sees(id) {
			return
		}
		i.Share = max(i.Share, 1)
		for _, m := range h.masters {
			if m.run.user != id {
				continue
			}
			i.Sessions++
			for _, c := range m.calls {
				if h.isRunning(c) {
					i.Running++
				} else {
					i.Waiting++
				}
			}
		}
		i.Stored = uint64(max(h.quotaOf(id).used.Load(), 0))
		out = append(out, i)
	}
	row("", UserInfo{Name: OperatorName, Terms: own})
	for _, u := range list {
		row(u.ID, UserInfo{Name: u.Name, Added: &u.Added, Terms: u.Terms, Machines: len(u.Keys)})
	}
	return out
}

// SetUser changes what a user may have.
func (h *Hub) SetUser(v UserRequest) error {
	id, t, err := h.accounts.set(v.Name, v.apply)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setTerms(id, t)
	return nil
}

// AddUser makes an account and a token that opens it.
func (h *Hub) AddUser(v UserRequest) (ident.Token, error) {
	var t Terms
	v.apply(&t)
	u, err := h.accounts.add(v.Name, t, h.cfg.Now())
	if err != nil {
		return ident.Token{}, err
	}
	h.mu.Lock()
	h.setTerms(u.ID, t)
	h.mu.Unlock()
	return h.userToken(u, v.Life)
}

func (h *Hub) userToken(u *account, life time.Duration) (ident.Token, error) {
	return h.userTokens.NewFor(u.ID, 1, cmp.Or(life, tokenLife))
}

// RemoveUser ends an account: its certificates and tokens are refused, and its runs end.
func (h *Hub) RemoveUser(name string) error {
	id, err := h.accounts.remove(name)
	if err != nil {
		return err
	}
	err = h.userTokens.RemoveUser(id)
	h.mu.Lock()
	delete(h.userTallies, id)
	var runs []*run
	for _, r := range h.runs {
		if r.user == id {
			runs = append(runs, r)
		}
	}
	for _, x := range h.execs {
		if x.user == id {
			x.finish("the account " + name + " was removed")
		}
	}
	h.mu.Unlock()
	for _, r := range runs {
		r.close(fmt.Errorf("the account %s was removed", name))
	}
	return err
}

func answerUser(w http.ResponseWriter, v any, err error) {
	switch {
	case errors.Is(err, errNoUser):
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
	case err != nil:
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, v)
	}
}

// handleUsers registers what the operator may do with users.
func (h *Hub) handleUsers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/users", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, h.users(operator)) })
	mux.HandleFunc("POST /v1/users", func(w http.ResponseWriter, r *http.Request) {
		var v UserRequest
		if h.body(w, r, &v) {
			t, err := h.AddUser(v)
			answerUser(w, TokenAnswer{t.String(), h.Status().Address}, err)
		}
	})
	mux.HandleFunc("POST /v1/users/{name}/token", func(w http.ResponseWriter, r *http.Request) {
		var v UserRequest
		if !h.body(w, r, &v) {
			return
		}
		u, err := h.accounts.byName(r.PathValue("name"))
		var t ident.Token
		if err == nil {
			t, err = h.userToken(u, v.Life)
		}
		answerUser(w, TokenAnswer{t.String(), h.Status().Address}, err)
	})
	mux.HandleFunc("PATCH /v1/users/{name}", func(w http.ResponseWriter, r *http.Request) {
		var v UserRequest
		if h.body(w, r, &v) {
			v.Name = r.PathValue("name")
			answerUser(w, nil, h.SetUser(v))
		}
	})
	mux.HandleFunc("DELETE /v1/users/{name}", func(w http.ResponseWriter, r *http.Request) {
		answerUser(w, nil, h.RemoveUser(r.PathValue("name")))
	})
}

// Users lists the users.
func (c *Client) Users(ctx context.Context) ([]UserInfo, error) {
	return requestJSON[[]UserInfo](ctx, c, http.MethodGet, "/v1/users", nil)
}

// AddUser makes an account, and a token that opens it on another machine.
func (c *Client) AddUser(ctx context.Context, v UserRequest) (TokenAnswer, error) {
	return requestJSON[TokenAnswer](ctx, c, http.MethodPost, "/v1/users", v)
}

// UserToken makes a token that opens an account on one more machine.
func (c *Client) UserToken(ctx context.Context, v UserRequest) (TokenAnswer, error) {
	return requestJSON[TokenAnswer](ctx, c, http.MethodPost, "/v1/users/"+url.PathEscape(v.Name)+"/token", v)
}

// SetUser changes what a user may have.
func (c *Client) SetUser(ctx context.Context, v UserRequest) error {
	resp, err := c.request(ctx, http.MethodPatch, "/v1/users/"+url.PathEscape(v.Name), v)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// RemoveUser ends an account and its runs.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	resp, err := c.request(ctx, http.MethodDelete, "/v1/users/"+url.PathEscape(name), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
