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
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/atomicfile"
)

// The hub's side of a standby: docs/design/standby.md.

// A standing says which of the hubs with this CA one is. Its file is in the state directory.
type standing struct {
	Epoch  uint64 `json:"epoch"`
	Former string `json:"former,omitempty"` // address of the hub that this one took over from, which is to be told
	Over   uint64 `json:"over,omitempty"`   // a hub of this epoch took over from this one
}

// A standbyRecord names the one standby that may copy this hub.
type standbyRecord struct {
	ID      string `json:"id"`
	Address string `json:"address,omitempty"` // once it was there
}

const (
	standbyFile = "standby.json"
	followFile  = "following.json"

	tellEvery = 5 * time.Second // a hub that does not know that it is over
	tellIn    = 10 * time.Second
)

// A following is the file that makes a state directory that of a standby. Its removal makes it a hub's.
type following struct {
	Hub   string `json:"hub"`   // its address
	Epoch uint64 `json:"epoch"` // its epoch
	Whole bool   `json:"whole"` // it had everything at one moment
}

// ErrOver says that another hub took over from the one of a state directory.
var ErrOver = errors.New("a standby took over from this hub, which must not go on: nodes and users are there now. To have this machine stand by, remove or rename its state directory and run the line that `skep standby token` prints on the other hub")

// errIsStandby is that of a command that a standby cannot answer.
var errIsStandby = errors.New("this is a standby, which serves nobody: `skep standby` says of which hub; `skep standby promote` makes it the hub")

func readStateFile(state, name string, v any) (found bool, err error) {
	b, err := os.ReadFile(filepath.Join(state, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // who makes the directory says why not
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("%s is damaged: restore the state directory from a backup (%w)", filepath.Join(state, name), err)
	}
	return true, nil
}

func writeStateFile(state, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return diskFull(state, atomicfile.Write(filepath.Join(state, name), append(b, '\n'), 0o600))
}

// openStanding refuses the state directory of a standby, and that of a hub which is over.
func (h *Hub) openStanding() error {
	if found, err := readStateFile(h.cfg.State, followFile, &following{}); found || err != nil {
		return errors.Join(errIsStandby, err)
	}
	if _, err := readStateFile(h.cfg.State, standingFile, &h.standing); err != nil {
		return err
	}
	if h.standing.Over > h.standing.Epoch {
		return ErrOver
	}
	_, err := readStateFile(h.cfg.State, standbyFile, &h.standby)
	return err
}

// openMirror has all that is stored from now on copied.
func (h *Hub) openMirror() (err error) {
	if h.standbyTokens, err = ident.OpenStandbyTokens(h.cfg.State, h.ca.Digest()); err != nil {
		return err
	}
	put := func(name string) func([]byte) { return func(text []byte) { h.mirror.put(name, text) } }
	h.tokens.Stored, h.userTokens.Stored = put(tokensFile), put(userTokensFile)
	h.roster.stored, h.accounts.stored = put(rosterFile), put(usersFile)
	h.spools.removed = func(path string) { h.mirror.remove(resultFolder + filepath.Base(path)) }
	return nil
}

// standbyIssuer gives a standby its certificate.
func (h *Hub) standbyIssuer() issuer {
	return issuer{func(string, string) error { return nil }, h.ca.SignStandby}
}

// joinStandby admits the machine that is to stand by. There is one: it takes the place of an earlier.
func (h *Hub) joinStandby(w http.ResponseWriter, r *http.Request) {
	var v proto.Login
	c := h.readLogin(w, r, &v, &v, h.standbyIssuer())
	if c == nil {
		return
	}
	if err := h.standbyTokens.Redeem(v.Token); err != nil {
		h.log.Warn("a standby was refused", "from", r.RemoteAddr, "error", err)
		tokenProblem(w, err)
		return
	}
	if err := h.setStandby(standbyRecord{ID: c.id}); err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	h.answerJoined(w, c, "standby", "")
}

func (h *Hub) setStandby(v standbyRecord) (err error) {
	h.standbyMu.Lock()
	defer h.standbyMu.Unlock()
	if v.ID == "" {
		if err = os.Remove(filepath.Join(h.cfg.State, standbyFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		err = writeStateFile(h.cfg.State, standbyFile, v)
	}
	if err == nil {
		h.standby = v
	}
	return err
}

func (h *Hub) standbyNow() standbyRecord {
	h.standbyMu.Lock()
	defer h.standbyMu.Unlock()
	return h.standby
}

// forStandby admits the one standby of this hub.
func (h *Hub) forStandby(f func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if id, ok := ident.PeerStandby(*r.TLS); !ok || id != h.standbyNow().ID {
			writeProblem(w, http.StatusForbidden, proto.ProblemToken, "this machine is not the hub's standby, or is not any more: a line of `skep standby token` on the hub makes it that")
			return
		}
		f(w, r)
	}
}

const copyHelloMax = 16 << 20

func (h *Hub) serveCopy(w http.ResponseWriter, _ *http.Request) {
	c, err := hijackPeer(w, "")
	if err != nil {
		return
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(h.cfg.bodyIn))
	var v copyHello
	if err := json.NewDecoder(io.LimitReader(c, copyHelloMax)).Decode(&v); err != nil {
		return
	}
	c.SetReadDeadline(time.Time{})
	if _, _, err := net.SplitHostPort(v.Address); err == nil {
		err = h.setStandby(standbyRecord{h.standbyNow().ID, v.Address})
		h.tellHubs()
	}
	if err == nil {
		err = h.copyTo(c, v)
	}
	if !h.isClosed() {
		h.log.Warn("the standby is away: what is accepted now is on this machine alone", "error", err)
	}
}

func (h *Hub) isClosed() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// tellHubs tells nodes and the command lines of runs where the standby is.
func (h *Hub) tellHubs() {
	list := h.otherHubs()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, n := range h.nodes {
		if n.ready && n.hubs && n.conn != nil {
			if err := h.publish(id, proto.VerbHubs, proto.Hubs{Addresses: list}, nil); err != nil {
				h.log.Warn("a node does not know the standby", "node", n.info.Name, "error", err)
			}
		}
	}
	for _, address := range list {
		h.emit(Event{Type: eventHubs, Text: address})
	}
}

// eventHubs tells a command line where the standby is.
const eventHubs = "hubs"

func (h *Hub) otherHubs() []string {
	if v := h.standbyNow(); v.Address != "" {
		return []string{v.Address}
	}
	return nil
}

// A yieldRequest asks the hub to end, because its standby takes over.
type yieldRequest struct {
	Epoch uint64 `json:"epoch"`
}

// yield ends this hub when its standby has all that was accepted. From the answer on, this hub
// accepts nothing.
func (h *Hub) yield(w http.ResponseWriter, r *http.Request) {
	var v yieldRequest
	if !h.body(w, r, &v) {
		return
	}
	if v.Epoch <= h.standing.Epoch || !h.mirror.freeze() {
		writeProblem(w, http.StatusConflict, proto.ProblemGone, "the standby does not have everything yet: `skep standby` on the hub says when it has")
		return
	}
	if err := h.endFor(v.Epoch); err != nil {
		h.mirror.thaw()
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	http.NewResponseController(w).Flush()
	h.fenced()
}

// takeEpoch ends this hub if another one with its CA has a greater epoch.
func (h *Hub) takeEpoch(w http.ResponseWriter, r *http.Request) {
	var v proto.Epoch
	if !h.body(w, r, &v) {
		return
	}
	epoch, err := h.ca.CheckProof(v.Proof)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
		return
	}
	if epoch > h.standing.Epoch {
		if err := h.endFor(epoch); err != nil {
			writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
			return
		}
		defer h.fenced()
	}
	writeJSON(w, http.StatusOK, struct{}{})
	http.NewResponseController(w).Flush()
}

// endFor stores that a hub of this epoch took over, so that no hub starts here any more.
func (h *Hub) endFor(epoch uint64) error {
	h.standbyMu.Lock()
	defer h.standbyMu.Unlock()
	next := h.standing
	next.Over = max(next.Over, epoch)
	err := writeStateFile(h.cfg.State, standingFile, next)
	if err == nil {
		h.over.Store(true)
	}
	return err
}

// fenced tells the program that this hub is over. It ends without a word to masters and nodes,
// which go on with the other hub.
func (h *Hub) fenced() {
	h.log.Error("this hub is over", "error", ErrOver)
	h.port.Close()
	if h.cfg.Fenced != nil {
		go h.cfg.Fenced(ErrOver)
	}
}

// tellFormer tells the hub that this one took over from, until it has heard it.
func (h *Hub) tellFormer() {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for h.standing.Former != "" {
		if err := TellEpoch(h.standing.Former, h.ca.ClientTLS(proto.ALPNHTTP), h.proof); err == nil {
			h.standbyMu.Lock()
			h.standing.Former = ""
			err = writeStateFile(h.cfg.State, standingFile, h.standing)
			h.standbyMu.Unlock()
			if err != nil {
				h.log.Warn("the hub's epoch was not stored", "error", err)
			}
			return
		}
		select {
		case <-tick.C:
		case <-h.stop:
			return
		}
	}
}

// TellEpoch proves to the hub at an address that another one took over.
func TellEpoch(address string, conf *tls.Config, proof []byte) error {
	b, err := json.Marshal(proto.Epoch{Proof: proof})
	if err != nil {
		return err
	}
	t := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: t, Timeout: tellIn}).Post("https://"+address+proto.PathEpoch, "application/json", bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return nil
}

// ErrNobodyKnows says that a hub's standby does not say whether it took over.
var ErrNobodyKnows = errors.New("this hub waits for its standby")

// AskStandby asks the standby of a state directory's hub, if it had one, whether it took over. nil: it
// did not. ErrOver: it did, and no hub starts here any more. ErrNobodyKnows: it may have.
func AskStandby(ctx context.Context, state string) error {
	var v standbyRecord
	if found, err := readStateFile(state, standbyFile, &v); !found || err != nil || v.Address == "" {
		return err
	}
	var own standing
	if _, err := readStateFile(state, standingFile, &own); err != nil {
		return err
	}
	ca, err := ident.OpenCA(state)
	if err != nil {
		return err
	}
	rank, err := ca.PeerRank(ctx, v.Address)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the standby at %s does not say whether it took over (%w)", ErrNobodyKnows, v.Address, err)
	case rank.Epoch > own.Epoch:
		own.Over = rank.Epoch
		return errors.Join(ErrOver, writeStateFile(state, standingFile, own))
	case !rank.Standby:
		return fmt.Errorf("%w: at %s, the standby's address, is a hub that is no standby", ErrNobodyKnows, v.Address)
	}
	return nil
}

// StandbyInfo describes a hub's standby, or on a standby the copy.
type StandbyInfo struct {
	Standby bool      `json:"standby"` // the command asked the standby, not the hub
	Epoch   uint64    `json:"epoch"`
	Hub     string    `json:"hub"` // its address
	Address string    `json:"address,omitempty"`
	State   string    `json:"state"` // none, away, copies or whole
	Since   time.Time `json:"since,omitzero"`
	Behind  int       `json:"behind,omitempty"` // changes that the standby does not have yet
}

// States of a standby.
const (
	StandbyNone   = "none"
	StandbyAway   = "away"
	StandbyCopies = "copies"
	StandbyWhole  = "whole"
)

// StandbyState says whether a standby has what this hub has.
func (h *Hub) StandbyState() StandbyInfo {
	v := h.standbyNow()
	i := StandbyInfo{Epoch: h.standing.Epoch, Hub: h.Status().Address, Address: v.Address, State: StandbyAway}
	m := h.mirror
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case v.ID == "":
		i.State = StandbyNone
	case m.isWhole():
		i.State, i.Behind = StandbyWhole, int(m.last-m.acked)
	case m.peer != nil:
		i.State = StandbyCopies
	}
	return i
}

func (h *Hub) handleStandby(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/standby", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, h.StandbyState()) })
	mux.HandleFunc("POST /v1/standby/token", func(w http.ResponseWriter, _ *http.Request) {
		t, err := h.standbyTokens.New(1, tokenLife)
		answerUser(w, TokenAnswer{Token: t.String(), Address: h.Status().Address}, err)
	})
	mux.HandleFunc("POST /v1/standby/promote", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusConflict, proto.ProblemRequest, "this is the hub already: promote its standby, on that machine")
	})
	mux.HandleFunc("DELETE /v1/standby", func(w http.ResponseWriter, _ *http.Request) {
		answerUser(w, nil, h.forgetStandby())
	})
}

// forgetStandby ends the copy for good: the standby is refused from now on.
func (h *Hub) forgetStandby() error {
	if err := h.setStandby(standbyRecord{}); err != nil {
		return err
	}
	h.mirror.mu.Lock()
	defer h.mirror.mu.Unlock()
	if h.mirror.peer != nil {
		go h.mirror.peer.Close()
	}
	return nil
}
