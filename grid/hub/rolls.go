// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/grid/proto"
	"skep/grid/rolls"
)

// Rolls of kernel updates. rolls.Hub has its own lock, under which it writes files; it is
// never called with Hub.mu held.

const (
	rollTick     = 250 * time.Millisecond
	announceTick = 8                // ticks between two looks for nodes that do not know a roll
	uploadFor    = 10 * time.Minute // a package is kept before its roll begins
)

// A RollRequest begins a roll.
type RollRequest struct {
	Spec rolls.Spec `json:"spec"`
	Plan roll.Plan  `json:"plan"`
}

func rollOwner(name string) string { return "roll " + name }

func (h *Hub) openRolls() (err error) {
	h.rolls, err = rolls.OpenHub(filepath.Join(h.cfg.State, "rolls"), h.cfg.Now, func(name, text string) {
		h.log.Info("a roll", "update", name, "event", text)
	})
	if err != nil {
		return err
	}
	for name, digests := range h.rolls.Packages() {
		h.pinPackages(name, digests)
	}
	return nil
}

// runRolls lets rolls see the time, until stop.
func (h *Hub) runRolls(stop <-chan struct{}) {
	t := time.NewTicker(rollTick)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-t.C:
			h.rolls.Tick()
			if n%announceTick == 0 {
				h.announceRolls()
			}
		case <-stop:
			return
		}
	}
}

// rollNodes returns the nodes that take part in rolls: names by id.
func (h *Hub) rollNodes(connected bool) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := map[string]string{}
	for id, n := range h.nodes {
		if n.rolls && (n.ready || !connected) {
			m[id] = n.info.Name
		}
	}
	return m
}

func (h *Hub) announceRolls() {
	for id, name := range h.rollNodes(true) {
		for _, o := range h.rolls.Unheard(name) {
			h.sendRoll(id, o)
		}
	}
}

func (h *Hub) sendRoll(id string, o rolls.Order) {
	if err := h.publish(id, proto.VerbRoll, o, nil); err != nil {
		h.log.Warn("a node was not told of a roll", "node", id, "error", err)
	}
}

// readRoll answers a node's report about a roll.
func (h *Hub) readRoll(id string, m *nats.Msg) (report, error) {
	var v rolls.Report
	if _, err := proto.Decode(m.Data, &v); err != nil {
		return report{}, err
	}
	h.mu.Lock()
	n := h.nodes[id]
	takes := n != nil && n.ready && n.rolls && !h.closed
	name := h.roster.name(id)
	h.mu.Unlock()
	if takes {
		if o, ok := h.rolls.Report(name, v); ok {
			h.sendRoll(id, o)
		}
	}
	return report{take: func(*node) error { return nil }}, nil
}

// storePackage takes the package of a roll from the command line.
func (h *Hub) storePackage(w http.ResponseWriter, r *http.Request) {
	owner := "upload " + rand.Text()
	digest, err := h.putBlob(http.MaxBytesReader(w, r.Body, pack.MaxPackage), owner)
	if err != nil {
		writeProblem(w, http.StatusInsufficientStorage, proto.ProblemFull, "the package cannot be stored: %v", err)
		return
	}
	time.AfterFunc(uploadFor, func() { h.blobs.Unpin(owner) })
	f, err := h.openBlob(digest)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "the package cannot be read back: %v", err)
		return
	}
	defer f.Close()
	if _, err := pack.Read(f); err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, proto.ProblemRequest, "it is not a usable package: %v", err)
		return
	}
	writeJSON(w, http.StatusOK, BlobAnswer{fmt.Sprintf("%x", digest), fileSize(f)})
}

// openPackage reads a package that the command line has stored.
func (h *Hub) openPackage(digest string) (p *pack.Package, status int, err error) {
	d, ok := parseDigest(digest)
	if !ok {
		return nil, http.StatusBadRequest, errors.New("the package is not named by its digest")
	}
	f, err := h.openBlob(d)
	if err != nil {
		return nil, http.StatusNotFound, errors.New("the hub does not have this package: send it first")
	}
	defer f.Close()
	if p, err = pack.Read(f); err != nil {
		return nil, http.StatusUnprocessableEntity, fmt.Errorf("it is not a usable package: %w", err)
	}
	return p, 0, nil
}

// beginRoll begins a roll over all nodes that take part in rolls. Of several packages the
// request has the digests; what kernels they are for, the packages say.
func (h *Hub) beginRoll(w http.ResponseWriter, r *http.Request) {
	var v RollRequest
	if !h.largeBody(w, r, &v, 2*proto.JoinMax) {
		return
	}
	v.Spec.ID = rand.Text()
	digests, packages := []string{v.Spec.Package}, []*pack.Package{}
	if len(v.Spec.Variants) > 0 {
		digests = nil
		for _, one := range v.Spec.Variants {
			digests = append(digests, one.Package)
		}
		v.Spec.Package = digests[0]
	}
	for _, digest := range digests {
		p, status, err := h.openPackage(digest)
		if err != nil {
			kind := proto.ProblemRequest
			if status == http.StatusNotFound {
				kind = proto.ProblemGone
			}
			writeProblem(w, status, kind, "%v", err)
			return
		}
		packages = append(packages, p)
	}
	var err error
	if v.Spec.Variants, err = rolls.NewVariants(digests, packages); err != nil {
		writeProblem(w, http.StatusConflict, proto.ProblemRequest, "%v", err)
		return
	}
	nodes := []string{}
	for _, name := range h.rollNodes(false) {
		nodes = append(nodes, name)
	}
	h.pinPackages(v.Spec.Name, digests)
	if err := h.rolls.Begin(userOf(r), v.Spec, v.Plan, nodes, packages); err != nil {
		h.pinRoll(v.Spec.Name)
		writeProblem(w, http.StatusConflict, proto.ProblemRequest, "%v", err)
		return
	}
	h.announceRolls()
	h.listRolls(w, r)
}

// pinRoll keeps the packages that the roll of an update has, and no others.
func (h *Hub) pinRoll(name string) { h.pinPackages(name, h.rolls.Packages()[name]) }

func (h *Hub) pinPackages(name string, digests []string) {
	h.blobs.Unpin(rollOwner(name))
	for _, digest := range digests {
		h.blobs.Pin(digest, rollOwner(name))
	}
}

func (h *Hub) listRolls(w http.ResponseWriter, r *http.Request) {
	list, err := h.rolls.List(r.URL.Query().Get("name"))
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "%v", err)
		return
	}
	writeJSON(w, http.StatusOK, list)
}

func (h *Hub) auditRoll(w http.ResponseWriter, r *http.Request) {
	a, err := h.rolls.Audit(r.PathValue("name"))
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "%v", err)
		return
	}
	writeJSON(w, http.StatusOK, a)
}

func (h *Hub) changeRoll(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := h.rolls.Act(userOf(r), name, r.PathValue("action"))
	switch {
	case errors.Is(err, rolls.ErrNoRoll):
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "%v", err)
		return
	case err != nil:
		writeProblem(w, http.StatusConflict, proto.ProblemRequest, "%v", err)
		return
	}
	h.pinRoll(name)
	writeJSON(w, http.StatusOK, struct{}{})
}

// Package stores the package of a roll.
func (c *Client) Package(ctx context.Context, path string) (BlobAnswer, error) {
	f, err := os.Open(path)
	if err != nil {
		return BlobAnswer{}, err
	}
	defer f.Close()
	return requestJSON[BlobAnswer](ctx, c, http.MethodPost, "/v1/packages", io.Reader(f))
}

// BeginRoll begins a roll, and returns all rolls.
func (c *Client) BeginRoll(ctx context.Context, v RollRequest) ([]rolls.Status, error) {
	return requestJSON[[]rolls.Status](ctx, c, http.MethodPost, "/v1/rolls", v)
}

// Rolls lists all rolls, or that of one update.
func (c *Client) Rolls(ctx context.Context, name string) ([]rolls.Status, error) {
	return requestJSON[[]rolls.Status](ctx, c, http.MethodGet, "/v1/rolls?name="+url.QueryEscape(name), nil)
}

// AuditRoll returns the audit log of a roll, which the caller verifies.
func (c *Client) AuditRoll(ctx context.Context, name string) (rolls.Audit, error) {
	return requestJSON[rolls.Audit](ctx, c, http.MethodGet, "/v1/rolls/"+url.PathEscape(name)+"/audit", nil)
}

// ChangeRoll pauses, resumes, stops or forgets a roll.
func (c *Client) ChangeRoll(ctx context.Context, name, action string) error {
	_, err := requestJSON[struct{}](ctx, c, http.MethodPost, "/v1/rolls/"+url.PathEscape(name)+"/"+action, nil)
	return err
}
