// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// Functions of testdata/worker.c.
const (
	fnEcho = iota
	fnAbort
	fnSilent
	fnCompute
	fnSpeak
	fnFork
	fnExit
	fnState
	fnCount
	fnLie
	fnFail
	fnInitialize
	fnPoison
	fnTamper
	fnDeaf
	fnConsume
	fnAttack
	fnLate
)

const testTimeout = 30 * time.Second

// roles are functions that this program runs if a test starts it again.
var roles = map[string]func(args []string){}

var (
	workerFile string
	root       string // of the repository
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(RunGuard())
	}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		roles[os.Args[1]](os.Args[2:])
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		panic(err)
	}
	defer RemoveAll(dir)
	if root, err = filepath.Abs("../.."); err != nil {
		panic(err)
	}
	if workerFile = os.Getenv("AGENT_TEST_WORKER"); workerFile != "" {
		return m.Run() // where no compiler is
	}
	workerFile = filepath.Join(dir, "worker")
	cc := exec.Command("gcc", "-static", "-std=gnu11", "-O2", "-Wall", "-Werror", "-pthread",
		"-I", filepath.Join(root, "include"), "-I", root, "-o", workerFile,
		"testdata/worker.c", filepath.Join(root, "base/sha256.c"))
	if out, err := cc.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("worker.c: %v: %s", err, out))
	}
	return m.Run()
}

// fakeStore keeps blobs as files named after their digest.
type fakeStore struct{ dir string }

func (s fakeStore) Path(digest string) (string, error) {
	path := filepath.Join(s.dir, digest)
	_, err := os.Stat(path)
	return path, err
}
func (s fakeStore) List() []string          { return nil }
func (s fakeStore) Pin(string, string)      {}
func (s fakeStore) Unpin(string)            {}
func (s fakeStore) UnpinOne(string, string) {}
func (s fakeStore) Discard(string)          {}
func (s fakeStore) Put(r io.Reader, _ string) (string, int64, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	return digest, int64(len(b)), os.WriteFile(filepath.Join(s.dir, digest), b, 0o600)
}
func (s fakeStore) Bytes() int64       { return areaBytes(s.dir) }
func (s fakeStore) Trim(int64)         {}
func (s fakeStore) Drop(digest string) { os.Remove(filepath.Join(s.dir, digest)) }

func (s fakeStore) put(t testing.TB, b []byte) string {
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(s.dir, digest), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return digest
}

// fakeHub records the messages of an agent.
type fakeHub struct {
	mu      sync.Mutex
	failed  map[uint64]proto.Failed
	done    map[uint64]proto.Done
	results map[uint64][]byte
	logs    []proto.Log
	beats   []proto.Beat
	asks    []proto.Ask
	order   []string // texts of logs, and "released SESSION"
	large   map[uint64][]byte
	master  func(context.Context, []byte) ([]byte, error) // answers callbacks
	argErr  error
	lost    error // each blob
	cut     error // each stream of a program
	refuses error // each result
	gone    bool  // no result can be sent
	execs   map[string]net.Conn
	lasts   func(has *uint64) (execConn, error) // in place of execs
	origin  sync.Map                            // blobs by digest
	cache   string                              // directory of the agent's
}

func (h *fakeHub) exchangeHello(context.Context, proto.Hello) (proto.Welcome, error) {
	return proto.Welcome{Revision: proto.Revision}, nil
}

func (h *fakeHub) publish(verb proto.Verb, v any, raw []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := v.(type) {
	case proto.Failed:
		h.failed[m.Call] = m
	case *proto.Done:
		h.done[m.Call] = *m
		if m.Inline {
			h.results[m.Call] = raw
		}
	case proto.Log:
		h.logs = append(h.logs, m)
		h.order = append(h.order, m.Text)
	case proto.Beat:
		h.beats = append(h.beats, m)
	case proto.Ask:
		h.asks = append(h.asks, m)
	case proto.Released:
		h.order = append(h.order, "released "+m.Session)
	}
	return nil
}

func (h *fakeHub) args(_ context.Context, call, _, _ uint64) (io.ReadCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return io.NopCloser(bytes.NewReader(h.large[call])), h.argErr
}

func (h *fakeHub) result(_ context.Context, call, _, n uint64, body io.Reader, sum func() string) error {
	h.mu.Lock()
	gone := h.gone
	h.mu.Unlock()
	if gone {
		return errors.New("no connection")
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	want := sha256.Sum256(b)
	if uint64(len(b)) != n || sum() != hex.EncodeToString(want[:]) {
		return fmt.Errorf("length or digest is wrong")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results[call] = b
	return h.refuses
}

func (h *fakeHub) callback(ctx context.Context, call, fence uint64, payload []byte) ([]byte, error) {
	h.mu.Lock()
	answer := h.master
	h.mu.Unlock()
	if answer == nil {
		return nil, errors.New("no master")
	}
	return answer(ctx, payload)
}

func (h *fakeHub) exec(_ context.Context, id string, _ uint64, has *uint64) (execConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if has != nil && h.lasts != nil {
		return h.lasts(has)
	}
	return execConn{Conn: h.execs[id]}, h.cut
}

// fetch copies a blob from origin to the cache, unless the cache has it.
func (h *fakeHub) fetch(_ context.Context, digest string, into store) (uint64, error) {
	b, ok := h.origin.Load(digest)
	path := filepath.Join(into.(fakeStore).dir, digest)
	if _, err := os.Stat(path); err == nil || !ok {
		return 0, h.lost
	}
	return uint64(len(b.([]byte))), os.WriteFile(path, b.([]byte), 0o600)
}

// tempDir is t.TempDir with a removal that works under Wine.
func tempDir(t testing.TB) string {
	if !systemIsWindows {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveAll(dir) })
	return dir
}

// A rig is an agent with a fake hub.
type rig struct {
	*Agent
	t      testing.TB
	fake   *fakeHub
	cache  fakeStore
	module string
	next   uint64

	program []byte
}

func newRig(t testing.TB, bee string, slots int) *rig {
	t.Helper()
	return newRigOf(t, Config{State: tempDir(t), Slots: slots, Bee: bee})
}

func newRigOf(t testing.TB, c Config) *rig {
	t.Helper()
	// On a busy computer a worker, whose priority is the lowest, waits for seconds.
	c.Log, c.muteLimit, c.startLimit = t.Logf, time.Minute, time.Minute
	a, err := newAgent(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Agent: a, t: t, cache: fakeStore{filepath.Join(a.work, "blobs")},
		fake: &fakeHub{failed: map[uint64]proto.Failed{}, done: map[uint64]proto.Done{},
			results: map[uint64][]byte{}, large: map[uint64][]byte{}, execs: map[string]net.Conn{}}}
	a.hub, a.store = r.fake, r.cache
	a.areas.open = func(dir string) (store, error) { return fakeStore{dir}, os.MkdirAll(dir, 0o700) }
	r.fake.cache = r.cache.dir
	if err := os.Mkdir(r.cache.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(workerFile)
	if err != nil {
		t.Fatal(err)
	}
	r.program, r.module = program, r.cache.put(t, program)
	t.Cleanup(a.stop)
	return r
}

// runOnSubstrates runs a test natively and under bee.
func runOnSubstrates(t *testing.T, slots int, f func(t *testing.T, r *rig)) { eachIn(t, slots, nil, f) }

// eachIn is runOnSubstrates with other bounds than this machine's best.
func eachIn(t *testing.T, slots int, b *bounds, f func(t *testing.T, r *rig)) {
	start := func(t *testing.T, bee string) {
		f(t, newRigOf(t, Config{State: tempDir(t), Slots: slots, Bee: bee, confine: b}))
	}
	if systemIsWindows {
		start(t, beeProgram(t))
		return
	}
	t.Run("native", func(t *testing.T) { t.Parallel(); start(t, "") })
	t.Run("bee", func(t *testing.T) { t.Parallel(); start(t, beeProgram(t)) })
}

func beeProgram(t testing.TB) string {
	path := filepath.Join(root, "build/bin/bee")
	if systemIsWindows {
		path += ".exe"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("build/bin/bee is missing; run: make build/bin/bee")
	}
	return path
}

func (r *rig) makeLease(function uint32, args []byte) proto.Lease {
	r.next++
	l := proto.Lease{Call: r.next, Fence: r.next, Session: "s", Function: function,
		Worker: proto.Worker{Module: r.module}, Length: uint64(len(args)), Name: "test",
		Result: 64 << 20}
	if len(args) > proto.InlineMax {
		r.fake.mu.Lock()
		r.fake.large[l.Call] = args
		r.fake.mu.Unlock()
		return l
	}
	sum := sha256.Sum256(args)
	l.Inline, l.Digest = true, hex.EncodeToString(sum[:])
	return l
}

func (r *rig) send(l proto.Lease) uint64 {
	r.t.Helper()
	var raw []byte
	if l.Inline {
		raw = r.callRaw(l)
	}
	message, err := proto.Encode(l, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.handleMessage(context.Background(), proto.VerbLease, message); err != nil {
		r.t.Fatal(err)
	}
	return l.Call
}

var inline sync.Map // arguments by digest

const mega = 1 << 20

// consumeResource calls a function that uses too much of a resource.
func (r *rig) consumeResource(what string, l proto.Limits) uint64 {
	lease := r.makeLease(fnConsume, []byte(what))
	inline.Store(lease.Digest, []byte(what))
	lease.Limits = l
	return r.send(lease)
}

func (r *rig) callRaw(l proto.Lease) []byte {
	b, _ := inline.Load(l.Digest)
	raw, _ := b.([]byte)
	return raw
}

func (r *rig) start(function uint32, args []byte) uint64 {
	r.t.Helper()
	l := r.makeLease(function, args)
	if l.Inline {
		inline.Store(l.Digest, args)
	}
	return r.send(l)
}

func waitUntil(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(testTimeout); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in %v not seen: %s", testTimeout, what)
		}
	}
}

func (r *rig) waitForEnd(call uint64) (done proto.Done, failed proto.Failed, ok bool) {
	r.t.Helper()
	waitUntil(r.t, fmt.Sprintf("the end of call %d", call), func() bool {
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		done, ok = r.fake.done[call]
		failed = r.fake.failed[call]
		return ok || failed.Call == call
	})
	return done, failed, ok
}

func (r *rig) mustSucceed(call uint64) ([]byte, proto.Done) {
	r.t.Helper()
	done, failed, ok := r.waitForEnd(call)
	if !ok {
		r.t.Fatalf("call %d failed: %+v", call, failed)
	}
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	return r.fake.results[call], done
}

func (r *rig) mustFail(call uint64, reason proto.Reason, text string) proto.Failed {
	r.t.Helper()
	_, f, ok := r.waitForEnd(call)
	if ok || f.Reason != reason || !strings.Contains(f.Text, text) {
		r.t.Fatalf("call %d: done %v, %+v; want %s, %q", call, ok, f, reason, text)
	}
	return f
}

func TestCallsAndReuse(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		got, done := r.mustSucceed(r.start(fnEcho, []byte("hello")))
		if string(got) != "hello" || !done.Inline || done.Length != 5 {
			t.Errorf("%q, %+v", got, done)
		}
		if r.bee.isSet() != (done.Nonce != 0) || r.bee.isSet() != (done.Calls != 0) {
			t.Errorf("the proof is %+v", done)
		}
		first, _ := r.mustSucceed(r.start(fnCount, nil))
		second, _ := r.mustSucceed(r.start(fnCount, nil))
		if !bytes.HasPrefix(first, []byte("1 ")) || !bytes.HasPrefix(second, []byte("2 ")) {
			t.Errorf("two calls in different processes: %q, %q", first, second)
		}
		empty, _ := r.mustSucceed(r.start(fnEcho, nil))
		if len(empty) != 0 {
			t.Errorf("%d bytes from none", len(empty))
		}
	})
}

func TestLargeArguments(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		for _, size := range []int{proto.InlineMax + 1, 11<<20 + 3} {
			args := bytes.Repeat([]byte("0123456789abcdef\n"), size/17+1)[:size]
			got, done := r.mustSucceed(r.start(fnEcho, args))
			if !bytes.Equal(got, args) || done.Inline {
				t.Errorf("%d bytes came back as %d", size, len(got))
			}
		}
	})
}

func TestDeaths(t *testing.T) {
	runOnSubstrates(t, 2, func(t *testing.T, r *rig) {
		f := r.mustFail(r.start(fnAbort, nil), proto.ReasonDied, "SIGABRT")
		if f.Status != 134 || f.Code != uapi.EWorker {
			t.Errorf("%+v", f)
		}
		if f := r.mustFail(r.start(fnExit, nil), proto.ReasonDied, "exit status 3"); f.Status != 3 {
			t.Errorf("%+v", f)
		}
		r.Agent.muteLimit = 4 * time.Second
		r.mustFail(r.start(fnSilent, nil), proto.ReasonMute, "sent nothing")
		r.Agent.muteLimit = time.Minute
		r.mustFail(r.start(fnFail, nil), proto.ReasonError, "no good")
		if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
			t.Errorf("%q", got)
		}
	})
}

func TestComputingWorkerIsNotSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeProgram(t), 1)
	r.Agent.muteLimit = 1800 * time.Millisecond // it pings every second
	call := r.start(fnCompute, nil)
	<-time.After(3 * time.Second) // the test is that nothing happens
	r.fake.mu.Lock()
	_, failed := r.fake.failed[call]
	r.fake.mu.Unlock()
	if failed {
		t.Error("a worker that pings was killed")
	}
	r.cancel(call)
	r.mustFail(call, proto.ReasonCancelled, "cancelled")
}

// The length that a worker announces is checked.
func TestResultLargerThanItsInterface(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		l := r.makeLease(fnEcho, []byte("12345"))
		inline.Store(l.Digest, []byte("12345"))
		l.Result = 4
		f := r.mustFail(r.send(l), proto.ReasonDied, "announced a result of 5 bytes where the interface of test")
		if f.Code != uapi.EWorker {
			t.Errorf("%+v", f)
		}
		if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
			t.Errorf("%q", got)
		}
	})
}

// A worker that reads nothing is ended after the reported time, even if it sends keepalives; so is one that is silent before its first call.
func TestDeafAndSilentWorkers(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		r.Agent.muteLimit, r.Agent.startLimit = 1500*time.Millisecond, 2500*time.Millisecond
		r.mustFail(r.start(fnDeaf, make([]byte, 11<<20)), proto.ReasonMute, "read nothing for 1.5s")
		r.mustFail(r.send(r.withState([]byte("silent"), fnState, "")), proto.ReasonMute, "sent nothing for 2.5s")
	})
}

func TestInitialize(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		state := bytes.Repeat([]byte("state "), 100)
		l := r.makeLease(fnState, []byte("tail"))
		inline.Store(l.Digest, []byte("tail"))
		l.Init = &proto.Init{Function: fnInitialize, Blob: r.cache.put(t, state), Length: uint64(len(state))}
		l.Worker.Init = "generation"
		got, _ := r.mustSucceed(r.send(l))
		if string(got) != string(state)+"tail" {
			t.Errorf("%q", got)
		}
		// Another generation needs another process, and the slot of the first.
		l2 := r.makeLease(fnState, []byte("tail"))
		if got, _ := r.mustSucceed(r.send(l2)); string(got) != "tail" {
			t.Errorf("%q", got)
		}
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		if len(r.pool.all) != 1 {
			t.Errorf("%d workers on one slot", len(r.pool.all))
		}
	})
}

func TestOutputBecomesLogs(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		call := r.start(fnSpeak, nil)
		r.mustSucceed(call)
		var seen map[string]bool
		waitUntil(t, "three lines", func() bool {
			r.fake.mu.Lock()
			defer r.fake.mu.Unlock()
			seen = map[string]bool{}
			for _, l := range r.fake.logs {
				if l.Session != "s" || len(l.Text) > lineMax+4 {
					t.Fatalf("%+v", l)
				}
				seen[l.Text] = true
			}
			return len(seen) >= 3
		})
		if !seen["a line on standard output"] || !seen["a line on standard error"] {
			t.Errorf("%v", seen)
		}
	})
}

func TestReleasedFollowsAllWorkers(t *testing.T) {
	runOnSubstrates(t, 2, func(t *testing.T, r *rig) {
		r.mustSucceed(r.start(fnLate, nil))
		call := r.start(fnCompute, nil)
		waitUntil(t, "a running call", func() bool {
			r.pool.mu.Lock()
			defer r.pool.mu.Unlock()
			return r.pool.taken == 1
		})
		r.releaseSession("s")
		r.mustFail(call, proto.ReasonCancelled, "")
		waitUntil(t, "the end of the session", func() bool {
			r.fake.mu.Lock()
			defer r.fake.mu.Unlock()
			return slices.Contains(r.fake.order, "released s")
		})
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		if r.fake.failed[call].Reason == "" {
			t.Error("Released came before the call's end")
		}
		if r.countWorkers() != 0 {
			t.Errorf("%d workers after Released", r.countWorkers())
		}
	})
}

func TestOutputAtExitPrecedesReleased(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		r.mustSucceed(r.start(fnLate, nil))
		r.releaseSession("s")
		want := []string{"written at exit", "released s"}
		waitUntil(t, "both", func() bool {
			r.fake.mu.Lock()
			defer r.fake.mu.Unlock()
			return len(r.fake.order) >= len(want)
		})
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		if !slices.Equal(r.fake.order, want) {
			t.Errorf("%q, want %q", r.fake.order, want)
		}
	})
}

func (r *rig) countWorkers() int {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return len(r.pool.all)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeProgram(t), 1)
	f := r.mustFail(r.start(fnLie, nil), proto.ReasonRefused, "refused by a safety check")
	if f.Code != uapi.ERefused {
		t.Errorf("%+v", f)
	}
}

func TestReleaseKills(t *testing.T) {
	runOnSubstrates(t, 2, func(t *testing.T, r *rig) {
		r.mustSucceed(r.start(fnEcho, nil))
		call := r.start(fnCompute, nil)
		waitUntil(t, "a second worker", func() bool {
			r.pool.mu.Lock()
			defer r.pool.mu.Unlock()
			return len(r.pool.all) == 1 && r.pool.taken == 1 && len(r.pool.idle) == 0
		})
		workers := r.pool.releaseSession("")
		r.releaseSession("s")
		r.mustFail(call, proto.ReasonCancelled, "")
		for _, w := range workers {
			<-w.process.done
			if _, err := os.Stat(w.dir); err == nil {
				waitUntil(t, "the removal of "+w.dir, func() bool { _, err := os.Stat(w.dir); return err != nil })
			}
		}
	})
}

func TestBadPrograms(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		program, err := os.ReadFile(workerFile)
		if err != nil {
			t.Fatal(err)
		}
		programs := map[string][]byte{"text": []byte("#!/bin/sh\necho no\n"),
			"corrupt": program[:1000], "empty": {}}
		if !r.bee.isSet() { // which runs dynamic programs
			if programs["dynamic"], err = os.ReadFile("/bin/true"); err != nil {
				t.Fatal(err)
			}
		}
		for name, b := range programs {
			l := r.makeLease(fnEcho, nil)
			l.Worker.Module = r.cache.put(t, b)
			_, f, ok := r.waitForEnd(r.send(l))
			if ok || f.Code != uapi.EBadModule || f.Text == "" {
				t.Errorf("%s: %v %+v", name, ok, f)
			}
			t.Logf("%s: %s", name, f.Text)
		}
		l := r.makeLease(fnEcho, nil)
		l.Worker.Module = strings.Repeat("0", 64)
		r.mustFail(r.send(l), proto.ReasonNode, "not in the cache")
	})
}

func TestDamagedCacheIsDetected(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		program, err := os.ReadFile(workerFile)
		if err != nil {
			t.Fatal(err)
		}
		changed := append(program, 0)
		if err := os.WriteFile(filepath.Join(r.cache.dir, r.module), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		_, f, ok := r.waitForEnd(r.start(fnEcho, nil))
		if ok || !strings.Contains(f.Text, "was changed") && f.Reason != proto.ReasonRefused {
			t.Errorf("%v %+v", ok, f)
		}
	})
}
