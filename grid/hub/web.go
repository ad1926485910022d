// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"skep/dynamos/update/trust"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/sched"
)

// stallIn is how long a peer may neither receive nor send a byte.
const stallIn = time.Minute

// webHandler is the HTTP side of the TLS port.
func (h *Hub) webHandler() http.Handler {
	mux := http.NewServeMux()
	settled := func(f http.HandlerFunc) http.HandlerFunc { return h.mirror.settling(f).ServeHTTP }
	mux.HandleFunc(proto.PatternJoin, settled(h.join))
	mux.HandleFunc(proto.PatternLogin, settled(h.login))
	mux.HandleFunc(proto.PatternEpoch, h.takeEpoch)
	mux.HandleFunc("POST "+proto.PathStandby, h.joinStandby)
	mux.HandleFunc("POST "+proto.PathCopy, h.forStandby(h.serveCopy))
	mux.HandleFunc("POST "+proto.PathYield, h.forStandby(h.yield))
	mux.HandleFunc(proto.PatternRenew, h.forNode(h.renewNode))
	mux.HandleFunc(proto.PatternClaim, h.forNode(h.handleClaim))
	mux.HandleFunc(proto.PatternBlob, h.forNode(h.sendBlob))
	mux.HandleFunc(proto.PatternArgs, h.forNode(h.sendArgs))
	mux.HandleFunc(proto.PatternResult, settled(h.forNode(h.takeBody)))
	mux.HandleFunc(proto.PatternBack, h.forNode(h.handleCallback))
	mux.HandleFunc(proto.PatternExec, h.forNode(h.joinExec))
	users := h.mirror.settling(h.userHandler())
	return h.limitTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := ident.PeerUser(*r.TLS); ok && r.URL.Path != proto.PathLogin {
			users.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// limitTime allows a request's body little time, until a handler gives it more. A client that
// is not a node gets one request per connection.
func (h *Hub) limitTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.cfg.bodyIn))
		}
		if !h.isKnown(r.TLS) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// isKnown reports whether a peer is a node or a user of this hub.
func (h *Hub) isKnown(peer *tls.ConnectionState) bool {
	if id, ok := ident.PeerUser(*peer); ok {
		_, err := h.accounts.byKey(id)
		return err == nil
	}
	id, ok := ident.PeerNode(*peer)
	return ok && h.roster.isKnown(id)
}

// forNode admits only nodes that joined this hub.
func (h *Hub) forNode(f func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, ok := "", false
		if r.TLS != nil {
			id, ok = ident.PeerNode(*r.TLS)
		}
		if ok && h.roster.isRemoved(id) {
			writeProblem(w, http.StatusForbidden, proto.ProblemToken, "%v", errRemoved)
			return
		}
		if !ok || !h.roster.isKnown(id) {
			writeProblem(w, http.StatusForbidden, proto.ProblemToken, "this needs the certificate of a node: join the hub first")
			return
		}
		f(w, r, id)
	}
}

func writeProblem(w http.ResponseWriter, status int, code, format string, args ...any) {
	writeJSON(w, status, proto.Problem{Code: code, Text: fmt.Sprintf(format, args...)})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// body reads a small JSON body, which must arrive soon.
func (h *Hub) body(w http.ResponseWriter, r *http.Request, v any) bool {
	return h.largeBody(w, r, v, proto.JoinMax)
}

func (h *Hub) largeBody(w http.ResponseWriter, r *http.Request, v any, most int64) bool {
	ctl := http.NewResponseController(w)
	ctl.SetReadDeadline(time.Now().Add(h.cfg.bodyIn))
	b, err := io.ReadAll(http.MaxBytesReader(bare(w), r.Body, most))
	if err == nil {
		ctl.SetReadDeadline(time.Time{}) // after an error the rest of the body is bounded too
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "the hub cannot read this request: %v", err)
	}
	return err == nil
}

// join admits a node. The rest of the request is checked before a use of the token is spent.
func (h *Hub) join(w http.ResponseWriter, r *http.Request) {
	var v proto.Join
	c := h.readLogin(w, r, &v, &v.Login, h.nodeIssuer())
	if c == nil {
		return
	}
	id, key := c.id, c.key
	user, err := h.engine.UserJWT(id, v.NKey)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
		return
	}
	if err := h.tokens.Redeem(v.Token); err != nil {
		h.log.Warn("a join was refused", "from", r.RemoteAddr, "error", err)
		tokenProblem(w, err)
		return
	}
	name, err := h.roster.add(id, key, v.Name)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	if err := h.rolls.NodeEvent("token", trust.VerbJoined, name); err != nil {
		h.log.Warn("a node that joined is not in the audit log", "node", name, "error", err)
	}
	h.log.Info("a node joined", "node", name, "id", id, "from", r.RemoteAddr)
	h.answerJoined(w, c, name, user)
}

func tokenProblem(w http.ResponseWriter, err error) {
	for _, known := range []error{ident.ErrTokenForm, ident.ErrTokenUnknown, ident.ErrTokenUsedUp, ident.ErrTokenExpired, ident.ErrWrongHub} {
		if errors.Is(err, known) {
			writeProblem(w, http.StatusForbidden, proto.ProblemToken, "%v", known)
			return
		}
	}
	writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "the hub cannot use its tokens: %v", err)
}

// A certified peer has a certificate of the hub for its key.
type certified struct {
	id   string
	key  string // SHA-256, hex
	cert []byte // DER
}

// An issuer gives certificates to peers of one kind.
type issuer struct {
	check func(id, key string) error // refuses the key of a peer
	sign  func(csr []byte, id string) ([]byte, error)
}

func (h *Hub) nodeIssuer() issuer { return issuer{h.roster.check, h.ca.Sign} }

// certify signs a certificate request, or answers it with why not.
func (i issuer) certify(w http.ResponseWriter, csr []byte, id string) *certified {
	key, err := requestKey(csr)
	if err == nil {
		err = i.check(id, key)
	}
	var cert []byte
	if err == nil {
		cert, err = i.sign(csr, id)
	}
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
		return nil
	}
	return &certified{id, key, cert}
}

// readLogin reads the body of a request for a first certificate into v, of which l is a part,
// and certifies the peer.
func (h *Hub) readLogin(w http.ResponseWriter, r *http.Request, v any, l *proto.Login, by issuer) *certified {
	if !h.body(w, r, v) {
		return nil
	}
	if _, p := proto.CommonRevision(proto.Revision, l.Revision); p != nil {
		writeJSON(w, http.StatusConflict, p)
		return nil
	}
	return by.certify(w, l.CSR, ident.NodeID(l.NKey))
}

// renew signs a new certificate for the key that a peer has.
func (h *Hub) renew(w http.ResponseWriter, r *http.Request, id, name string, by issuer) {
	var v proto.Renew
	if !h.body(w, r, &v) {
		return
	}
	if c := by.certify(w, v.CSR, id); c != nil {
		h.answerJoined(w, c, name, "")
	}
}

func (h *Hub) answerJoined(w http.ResponseWriter, c *certified, name, userJWT string) {
	writeJSON(w, http.StatusOK, proto.Joined{Node: c.id, Name: name, Certificate: c.cert,
		CA: h.ca.DER(), UserJWT: userJWT, Hub: h.cfg.Version})
}

func requestKey(csr []byte) (string, error) {
	req, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return "", fmt.Errorf("the certificate request cannot be read: %w", err)
	}
	sum := sha256.Sum256(req.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}

func (h *Hub) renewNode(w http.ResponseWriter, r *http.Request, id string) {
	h.renew(w, r, id, h.roster.name(id), h.nodeIssuer())
}

// paced extends the deadlines of a transfer while bytes move, and counts those that it sends
// to the node. It has no other methods of a ResponseWriter, so that none can bypass it.
type paced struct {
	http.ResponseWriter
	r     io.Reader
	ctl   *http.ResponseController
	count func(int)
}

func (h *Hub) paceBody(w http.ResponseWriter, r *http.Request, id string) *paced {
	ctl := http.NewResponseController(w)
	return &paced{w, r.Body, ctl, func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if to := h.nodes[id]; to != nil {
			to.info.Sent += uint64(n)
		}
	}}
}

func (p *paced) Write(b []byte) (int, error) {
	p.ctl.SetWriteDeadline(time.Now().Add(stallIn))
	n, err := p.ResponseWriter.Write(b)
	p.count(n)
	return n, err
}

func (p *paced) Read(b []byte) (int, error) {
	p.ctl.SetReadDeadline(time.Now().Add(stallIn))
	return p.r.Read(b)
}

func (h *Hub) sendBlob(w http.ResponseWriter, r *http.Request, id string) {
	d, ok := parseDigest(r.PathValue("digest"))
	if !ok {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "this is not a digest")
		return
	}
	f, err := h.openBlob(d)
	if errors.Is(err, os.ErrNotExist) {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "the hub does not have this blob any more")
		return
	}
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "the hub cannot read this blob: %v", err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+r.PathValue("digest")+`"`)
	http.ServeContent(h.paceBody(w, r, id), r, "", time.Time{}, f)
}

// checkLease returns the call and the lease that a request names, if its node holds the lease.
// A node may access no other calls.
func (h *Hub) checkLease(w http.ResponseWriter, r *http.Request, id string) (*call, *lease) {
	number, err := strconv.ParseUint(r.PathValue("call"), 10, 64)
	fence, err2 := strconv.ParseUint(r.URL.Query().Get("fence"), 10, 64)
	if err != nil || err2 != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "a call and its fence must be numbers")
		return nil, nil
	}
	c, l := h.leaseOf(id, sched.CallID(number), sched.Fence(fence))
	if c == nil {
		writeProblem(w, http.StatusConflict, proto.ProblemFence, "this node does not hold the lease %d of call %d", fence, number)
	}
	return c, l
}

// sendArgs streams arguments, also while they arrive from the master. The digest follows
// as a trailer. If the master fails, the connection is aborted.
func (h *Hub) sendArgs(w http.ResponseWriter, r *http.Request, id string) {
	c, l := h.checkLease(w, r, id)
	if c == nil {
		return
	}
	if !c.args.get() {
		writeProblem(w, http.StatusGone, proto.ProblemGone, "the call has ended")
		return
	}
	defer c.args.put()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", proto.TrailerDigest)
	w.Header().Set(lengthHeader, strconv.FormatInt(c.args.want, 10))
	p := h.paceBody(w, r, id)
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(p, sum), flushing{c.args.reader(r.Context()), p.ctl}, make([]byte, 256<<10))
	h.mu.Lock()
	l.sent += uint64(n)
	h.mu.Unlock()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(proto.TrailerDigest, hex.EncodeToString(sum.Sum(nil)))
}

// lengthHeader has the length of arguments and results; Content-Length excludes trailers.
const lengthHeader = "Skep-Length"

// flushing sends what was written before it waits for more.
type flushing struct {
	r   *spoolReader
	ctl *http.ResponseController
}

func (f flushing) Read(b []byte) (int, error) {
	if f.r.empty() {
		f.ctl.Flush()
	}
	return f.r.Read(b)
}

// takeBody stores a result beside its lease. `done` commits it.
func (h *Hub) takeBody(w http.ResponseWriter, r *http.Request, id string) {
	c, l := h.checkLease(w, r, id)
	if c == nil {
		return
	}
	n, known, err := resultLength(r)
	var s *spool
	if err == nil {
		s, err = h.resultSpool(c, l, n, known)
	}
	if err == nil {
		err = receiveSpool(s, h.paceBody(w, r, id), r)
	}
	if err != nil {
		if s != nil {
			s.put()
		}
		status, code := http.StatusBadRequest, proto.ProblemRequest
		if q := (*quotaError)(nil); noSpace(err) || errors.As(err, &q) {
			status, code = http.StatusInsufficientStorage, proto.ProblemFull
		}
		writeProblem(w, status, code, "%v", err)
		return
	}
	h.copyResult(s)
	if !h.keepResult(c, l, s) {
		s.put()
		writeProblem(w, http.StatusConflict, proto.ProblemFence, "the lease %d of call %d was taken back", l.Fence, c.id)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// resultLength returns the length of a result, if its request says it. That of one with a
// trailer is in lengthHeader, because HTTP sends it in chunks.
func resultLength(r *http.Request) (n uint64, known bool, err error) {
	n, known = uint64(max(r.ContentLength, 0)), r.ContentLength >= 0
	if text := r.Header.Get(lengthHeader); !known && text != "" {
		if n, err = strconv.ParseUint(text, 10, 62); err != nil {
			return 0, false, errors.New("a result's length must be a number")
		}
		known = true
	}
	return n, known, nil
}

// resultSpool creates the spool of a result.
func (h *Hub) resultSpool(c *call, l *lease, n uint64, known bool) (*spool, error) {
	if err := c.checkResultSize(n); err != nil {
		return nil, err
	}
	if !known {
		n = c.most
	}
	if name := h.storedName(c, n); name != "" {
		return h.spools.newNamed(name, n, !known, h.resultQuotas(c, l)...)
	}
	if !known {
		return h.spools.newUnbounded(n, h.resultQuotas(c, l)...)
	}
	return h.spools.newSpool(n, h.resultQuotas(c, l)...)
}

func receiveSpool(s *spool, from io.Reader, r *http.Request) error {
	if err := fillSpool(s, from); err != nil {
		return err
	}
	digest, _ := s.complete()
	if said := r.Trailer.Get(proto.TrailerDigest); said != "" && said != hex.EncodeToString(digest[:]) {
		return errors.New("the result has another digest than its sender says: send it again")
	}
	return nil
}

// fillSpool stores all of a reader.
func fillSpool(s *spool, from io.Reader) error {
	if _, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{from}, make([]byte, 256<<10)); err != nil {
		return err
	}
	return s.finish()
}

// keepResult refuses a lease that was revoked meanwhile.
func (h *Hub) keepResult(c *call, l *lease, s *spool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == callEnded || c.leases[l.Fence] != l {
		return false
	}
	if l.result != nil {
		l.result.put()
	}
	l.result = s
	return true
}
