// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/rolls"
	"skep/grid/session"
	"skep/internal/uapi"
)

const testTimeout = 20 * time.Second

// A clock is a hub's time: the real time plus an offset.
type clock struct {
	mu   sync.Mutex
	skip time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skip)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skip += d
}

type world struct {
	t     *testing.T
	hub   *Hub
	clock *clock
	cli   *Client
	dirs  string // of worker programs
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// shortDir is t.TempDir, whose paths are too long for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, dirs: t.TempDir()}
	cfg := Config{State: shortDir(t), Listen: "127.0.0.1:0", Version: "test", Grace: 300 * time.Millisecond, Now: w.clock.now}
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.hub, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.hub.Close)
	w.cli = NewClient(w.hub.ControlSocket())
	w.addProgram("mod.rex", encodeManifest(t))
	return w
}

func (w *world) addProgram(name string, b []byte) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dirs, name), b, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func waitUntil(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !f(); {
		if time.Now().After(end) {
			t.Fatalf("in vain waited for: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func receiveFrom[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testTimeout):
		t.Fatalf("in vain waited for: %s", what)
	}
	return v
}

func encodeManifest(t *testing.T) []byte {
	t.Helper()
	m := uapi.Manifest{Name: "mod", Functions: []uapi.Function{{Name: "work"}, {Name: "Initialize", Init: true}}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return makeProgram(b, elf.PT_LOAD)
}

// testLimits are those of module mod.
var testLimits = uapi.Limits{Memory: 1 << 20, Wall: 3600000}

// makeProgram returns a file that looks like a static worker program with testLimits.
func makeProgram(section []byte, kind elf.ProgType) []byte {
	le := binary.LittleEndian
	const head, phdr, shdr = 64, 56, 64
	names := []byte("\x00.skep.module\x00.names\x00.skep.limits\x00")
	limits := uapi.Append(nil, testLimits)
	at := uint64(head + phdr)
	limitsAt := at + uint64(len(section))
	namesAt := limitsAt + uint64(len(limits))
	tableAt := namesAt + uint64(len(names))
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: head,
		Shoff: tableAt, Ehsize: head, Phentsize: phdr, Phnum: 1, Shentsize: shdr, Shnum: 4, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	binary.Write(&b, le, h)
	binary.Write(&b, le, elf.Prog64{Type: uint32(kind), Filesz: 1, Memsz: 1})
	b.Write(section)
	b.Write(limits)
	b.Write(names)
	binary.Write(&b, le, []elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: at, Size: uint64(len(section))},
		{Name: 14, Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names))},
		{Name: 21, Type: uint32(elf.SHT_PROGBITS), Off: limitsAt, Size: uint64(len(limits))}})
	return b.Bytes()
}

// A fakeAgent speaks the real protocol and runs nothing.
type fakeAgent struct {
	w        *world
	node     *ident.Node
	nats     *nats.Conn
	http     *http.Client
	mu       sync.Mutex
	raw      net.Conn // of the engine connection
	leases   chan fakeLease
	cancels  chan proto.Cancel
	releases chan proto.Release
	execs    chan proto.Exec
	stops    chan string
	resumes  chan proto.Resume
	orders   chan rolls.Order
	forgets  chan proto.Forget // nil: nobody reads them

	releasing bool // its hello says that it reports releases
	lasting   bool // and that programs of the operator may have leases
}

type fakeLease struct {
	proto.Lease
	raw []byte
}

func makeMachine(name string) ident.Machine { return ident.Machine{Install: name} }

func (w *world) createToken(uses int, life time.Duration) string {
	w.t.Helper()
	a, err := w.cli.Token(w.t.Context(), TokenRequest{uses, life})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Token
}

// postJoin joins and returns the hub's answer.
func (w *world) postJoin(token string, node *ident.Node, change func(*proto.Join)) (proto.Joined, error) {
	w.t.Helper()
	t, err := ident.ParseToken(token)
	if err != nil {
		w.t.Fatal(err)
	}
	csr, err := node.CSR()
	if err != nil {
		w.t.Fatal(err)
	}
	v := proto.Join{Login: proto.Login{Revision: proto.Revision, Token: token, CSR: csr, NKey: node.NKey()}, Name: "pc"}
	if change != nil {
		change(&v)
	}
	b, _ := json.Marshal(v)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: ident.JoinTLS(t, proto.ALPNHTTP)}}
	defer c.CloseIdleConnections()
	resp, err := c.Post("https://"+w.hub.Address().String()+proto.PathJoin, "", bytes.NewReader(b))
	if err != nil {
		return proto.Joined{}, err
	}
	defer resp.Body.Close()
	var out proto.Joined
	if resp.StatusCode != http.StatusOK {
		return out, readProblem(resp)
	}
	return out, json.NewDecoder(resp.Body).Decode(&out)
}

func newNode(t *testing.T) *ident.Node {
	t.Helper()
	n, err := ident.OpenNode(t.TempDir(), makeMachine("m"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// join returns an agent that has joined and is not connected yet.
func (w *world) join() *fakeAgent {
	w.t.Helper()
	a := &fakeAgent{w: w, node: newNode(w.t),
		leases: make(chan fakeLease, 100), cancels: make(chan proto.Cancel, 100),
		releases: make(chan proto.Release, 100), execs: make(chan proto.Exec, 100), stops: make(chan string, 1)}
	j, err := w.postJoin(w.createToken(1, time.Hour), a.node, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	err = a.node.Admit(ident.Admission{Hub: w.hub.Address().String(), Name: j.Name, Certificate: j.Certificate, CA: j.CA, UserJWT: j.UserJWT})
	if err != nil {
		w.t.Fatal(err)
	}
	conf, err := a.node.TLS(proto.ALPNHTTP)
	if err != nil {
		w.t.Fatal(err)
	}
	a.http = &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	w.t.Cleanup(func() { a.http.CloseIdleConnections() })
	return a
}

func (a *fakeAgent) connect() {
	a.w.t.Helper()
	c, err := engine.Dial(engine.DialConfig{
		ID: a.node.ID(), Sign: a.node.Sign,
		JWT:  func() (string, error) { return a.node.Admission().UserJWT, nil },
		Dial: a.dial,
	})
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.nats = c
	a.w.t.Cleanup(c.Close)
	_, err = c.Subscribe(proto.ToNode(a.node.ID(), "*"), a.handleMessage)
	if err != nil {
		a.w.t.Fatal(err)
	}
}

func (a *fakeAgent) dial() (net.Conn, error) {
	conf, err := a.node.TLS(proto.ALPNNats)
	if err != nil {
		return nil, err
	}
	c, err := tls.Dial("tcp", a.w.hub.Address().String(), conf)
	if err != nil { // and no nil of type *tls.Conn: the hub of a test may be closed
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw = c
	return c, nil
}

func (a *fakeAgent) handleMessage(m *nats.Msg) {
	_, verb, _ := proto.SplitSubject(m.Subject)
	switch verb {
	case proto.VerbLease:
		var l fakeLease
		l.raw, _ = proto.Decode(m.Data, &l.Lease)
		a.leases <- l
	case proto.VerbCancel:
		var v proto.Cancel
		proto.Decode(m.Data, &v)
		a.cancels <- v
	case proto.VerbRelease:
		var v proto.Release
		proto.Decode(m.Data, &v)
		a.releases <- v
	case proto.VerbResume:
		var v proto.Resume
		proto.Decode(m.Data, &v)
		a.resumes <- v
	case proto.VerbForget:
		var v proto.Forget
		proto.Decode(m.Data, &v)
		if a.forgets != nil {
			a.forgets <- v
		}
	case proto.VerbStop:
		var v proto.Stop
		proto.Decode(m.Data, &v)
		a.stops <- v.Text
	case proto.VerbExec:
		var v proto.Exec
		proto.Decode(m.Data, &v)
		a.execs <- v
	case proto.VerbRoll:
		var v rolls.Order
		proto.Decode(m.Data, &v)
		a.orders <- v
	}
}

func (a *fakeAgent) helloWith(h proto.Hello) proto.Welcome {
	a.w.t.Helper()
	b, _ := proto.Encode(h, nil)
	m, err := a.nats.Request(proto.FromNode(a.node.ID(), proto.VerbHello), b, testTimeout)
	if err != nil {
		a.w.t.Fatal(err)
	}
	var v proto.Welcome
	if _, err := proto.Decode(m.Data, &v); err != nil {
		a.w.t.Fatal(err)
	}
	return v
}

func (a *fakeAgent) sendHello(slots int) {
	a.w.t.Helper()
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: slots, Boot: "b", Releases: a.releasing, Apart: true, Programs: true, Lasting: a.lasting, Holds: a.lasting, Callbacks: true})
	if v.Problem != nil {
		a.w.t.Fatal(v.Problem)
	}
}

// startAgent returns an agent that has joined, is connected, and asks for that many leases.
func (w *world) startAgent(slots int) *fakeAgent {
	w.t.Helper()
	a := w.join()
	a.connect()
	a.sendHello(slots)
	a.askLeases(slots)
	return a
}

func (a *fakeAgent) sendVerb(verb proto.Verb, v any, raw []byte) {
	a.w.t.Helper()
	b, err := proto.Encode(v, raw)
	if err == nil {
		err = a.nats.Publish(proto.FromNode(a.node.ID(), verb), b)
	}
	if err == nil {
		err = a.nats.Flush()
	}
	if err != nil {
		a.w.t.Fatal(err)
	}
}

func (a *fakeAgent) askLeases(n int) {
	a.w.t.Helper()
	a.sendVerb(proto.VerbAsk, proto.Ask{Free: n, Memory: 1 << 40}, nil)
}

func (a *fakeAgent) nextLease() fakeLease {
	a.w.t.Helper()
	return receiveFrom(a.w.t, "a lease", a.leases)
}

// damage replaces a file by text that is no JSON.
func damage(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (a *fakeAgent) doneOf(l fakeLease, result []byte, inline bool) proto.Done {
	return proto.Done{Call: l.Call, Fence: l.Fence, Length: uint64(len(result)), Digest: digestOf(result), Inline: inline,
		ExecNS: 7, Program: l.Worker.Module, Substrate: "linux", Wall: 0.01}
}

func (a *fakeAgent) sendDone(l fakeLease, result []byte) {
	a.w.t.Helper()
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, true), result)
}

func (a *fakeAgent) request(method, path string, body io.Reader) (*http.Response, []byte) {
	a.w.t.Helper()
	r, err := http.NewRequest(method, "https://"+a.w.hub.Address().String()+path, body)
	if err != nil {
		a.w.t.Fatal(err)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		a.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return resp, b
}

func (a *fakeAgent) cutConnection() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw.Close()
}

// A fakeMaster reads all frames into a channel.
type fakeMaster struct {
	t      *testing.T
	id     session.ID
	socket string
	conn   *session.Conn
	raw    net.Conn
	frames chan session.Frame
	again  chan struct{} // signals that it is attached to another stream; it may have read on there already
	ended  chan struct{} // nothing more will be read
	events *Stream
	module uint32 // that it bound
}

func (w *world) startMaster() *fakeMaster {
	w.t.Helper()
	return w.startMasterOf(RunRequest{Name: "test", Dirs: []string{w.dirs}})
}

func (w *world) startMasterOf(r RunRequest) *fakeMaster {
	w.t.Helper()
	return w.startMasterBy(w.cli, r)
}

// startMasterBy starts a master of whoever has the client.
func (w *world) startMasterBy(cli *Client, r RunRequest) *fakeMaster {
	w.t.Helper()
	socket, events, err := cli.Run(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { events.Close(); events.Forget() })
	m := &fakeMaster{t: w.t, id: session.NewID(), socket: socket, frames: make(chan session.Frame, 1000),
		again: make(chan struct{}, 1), ended: make(chan struct{}), events: events}
	m.raw = m.dial()
	if m.conn, err = session.Open(m.raw, m.id); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { m.conn.Abort(nil) })
	go m.read()
	return m
}

func (m *fakeMaster) dial() net.Conn {
	m.t.Helper()
	c, err := net.Dial("unix", m.socket)
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

func (m *fakeMaster) read() {
	defer close(m.ended)
	for {
		f, err := m.conn.Read()
		if errors.Is(err, session.ErrCut) {
			select {
			case <-m.again:
				continue
			case <-m.t.Context().Done():
				return
			}
		}
		if err != nil {
			return
		}
		f.Payload = bytes.Clone(f.Payload)
		m.frames <- f
	}
}

func (m *fakeMaster) send(t uapi.FrameType, call uint64, payload []byte) {
	m.t.Helper()
	if err := m.conn.Send(t, call, payload); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fakeMaster) sendData(call uint64, b []byte) {
	m.t.Helper()
	if err := m.conn.SendData(m.t.Context(), call, bytes.NewReader(b), int64(len(b))); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fakeMaster) nextFrame(want uapi.FrameType, call uint64) session.Frame {
	m.t.Helper()
	f := receiveFrom(m.t, fmt.Sprintf("%v for call %d", want, call), m.frames)
	if f.Type != want || f.Call != call {
		text := ""
		if e, err := uapi.ParseError(f.Payload); err == nil && f.Type == uapi.TypeError {
			text = e.Text
		}
		m.t.Fatalf("got %v for call %d (%s), want %v for %d", f.Type, f.Call, text, want, call)
	}
	return f
}

// bindModule binds module mod; later calls are for it.
func (m *fakeMaster) bindModule() {
	m.t.Helper()
	m.send(uapi.TypeBind, 1, []byte("mod"))
	b, err := uapi.ParseBound(m.nextFrame(uapi.TypeBound, 1).Payload)
	if err != nil {
		m.t.Fatal(err)
	}
	m.module = b.Module
}

// startBoundMaster returns a master that has bound its module.
func (w *world) startBoundMaster() *fakeMaster {
	w.t.Helper()
	m := w.startMaster()
	m.bindModule()
	return m
}

// newTrio returns a world with a bound master and an agent that asks for that many leases.
func newTrio(t *testing.T, change func(*Config), slots int) (*world, *fakeMaster, *fakeAgent) {
	t.Helper()
	w := newWorld(t, change)
	return w, w.startBoundMaster(), w.startAgent(slots)
}

func (m *fakeMaster) sendHeader(call uint64, n int) {
	m.t.Helper()
	m.send(uapi.TypeCall, call, uapi.Append(nil, uapi.Call{Module: m.module, Length: uint64(n), Result: 16 << 20}))
}

func (m *fakeMaster) call(call uint64, args []byte) {
	m.t.Helper()
	m.sendHeader(call, len(args))
	m.sendData(call, args)
}

// readResult reads a whole result.
func (m *fakeMaster) readResult(call uint64) (uapi.Result, []byte) {
	m.t.Helper()
	r, err := uapi.DecodeExact[uapi.Result](m.nextFrame(uapi.TypeResult, call).Payload)
	if err != nil {
		m.t.Fatal(err)
	}
	var b []byte
	for {
		f := m.nextFrame(uapi.TypeData, call)
		b = append(b, f.Payload...)
		if f.Last() {
			return r, b
		}
	}
}

func (m *fakeMaster) readFailure(call uint64) *uapi.Error {
	m.t.Helper()
	e, err := uapi.ParseError(m.nextFrame(uapi.TypeError, call).Payload)
	if err != nil {
		m.t.Fatal(err)
	}
	return e
}

func (m *fakeMaster) waitForEvent(what string, match func(Event) bool) Event {
	m.t.Helper()
	return nextEvent(m.t, m.events, what, match)
}

// nextEvent reads events until one matches.
func nextEvent(t *testing.T, events *Stream, what string, match func(Event) bool) Event {
	t.Helper()
	late := time.AfterFunc(testTimeout, func() { events.Close() })
	defer late.Stop()
	for {
		e, err := events.Next()
		if err != nil {
			t.Fatalf("no event: %s: %v", what, err)
		}
		if match(e) {
			return e
		}
	}
}
