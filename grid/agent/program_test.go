// SPDX-License-Identifier: MIT

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"skep/grid/lasting"
	"skep/grid/proto"
)

// A rigProgram is a program under a lease, and the hub's end of its streams.
type rigProgram struct {
	r     *rig
	lease proto.Lease
	conn  net.Conn
}

// beginProgram grants a lease of busybox to a user.
func (r *rig) beginProgram(user string, l proto.Limits, args ...string) *rigProgram {
	r.t.Helper()
	p := r.programLease(user, l, args...)
	r.send(p.lease)
	return p
}

func (r *rig) programLease(user string, l proto.Limits, args ...string) *rigProgram {
	r.t.Helper()
	v := r.makeLease(0, nil)
	inline.Store(v.Digest, []byte{})
	v.Worker.Module, v.User, v.Session, v.Limits = r.publishBlob(readBusybox(r.t)), user, "of "+user, l
	v.Exec = &proto.Exec{ID: "x" + user, Name: "busybox", Args: args, Env: []string{"SKEP_STREAM=9", "OWN=1"}}
	ours, theirs := net.Pipe()
	r.fake.mu.Lock()
	r.fake.execs[v.Exec.ID] = theirs
	r.fake.mu.Unlock()
	return &rigProgram{r, v, ours}
}

// wait reads the program's output to its end.
func (p *rigProgram) wait(stdin string) ran {
	p.r.t.Helper()
	go func() {
		if stdin != "" {
			proto.WriteExec(p.conn, proto.ExecStdin, []byte(stdin))
		}
		proto.WriteExec(p.conn, proto.ExecStdin, nil)
	}()
	got, buf := ran{status: -1}, make([]byte, proto.ExecFrameMax)
	for {
		t, b, err := proto.ReadExec(p.conn, buf)
		if err != nil {
			return got
		}
		switch t {
		case proto.ExecStdout:
			got.out += string(b)
		case proto.ExecStderr:
			got.err += string(b)
		case proto.ExecExit:
			got.status = int(binary.LittleEndian.Uint32(b))
		case proto.ExecFailed, proto.ExecRefused:
			got.failed = string(b)
		}
	}
}

// A program of a user runs in the user's area and in a slot, with its streams at the hub and its
// lease's limits. Its end is that of the lease.
func TestProgramOfAUser(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		p := r.beginProgram(userOne, proto.Limits{}, "sh", "-c", "cat; echo to >&2; echo $OWN$SKEP_STREAM; exit 7")
		if got := p.wait("input "); got.out != "input 19\n" || got.err != "to\n" || got.status != 7 {
			t.Errorf("%+v", got)
		}
		_, done := r.mustSucceed(p.lease.Call)
		if done.Program != p.lease.Worker.Module || done.Length != 0 || r.bee.isSet() != (done.Calls != 0 && done.Nonce != 0) {
			t.Errorf("%+v", done)
		}
		area, err := r.areaOf(userOne)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(area.store.(fakeStore).dir, p.lease.Worker.Module)); err != nil {
			t.Errorf("it is not in the cache of its user: %v", err)
		}
		if list, _ := os.ReadDir(area.tmp); len(list) != 0 {
			t.Errorf("%v is left", list)
		}

		p = r.beginProgram(userOne, proto.Limits{Wall: 0.3}, "sleep", "1000")
		if got := p.wait(""); got.status != 137 || !strings.Contains(got.err, "--wall-time") {
			t.Errorf("%+v", got)
		}
		r.mustFail(p.lease.Call, proto.ReasonLimit, "--wall-time")
		p = r.beginProgram(userOne, proto.Limits{}, "sh", "-c", "kill -9 $$")
		if got := p.wait(""); got.status != 137 {
			t.Errorf("%+v", got)
		}
		r.mustFail(p.lease.Call, proto.ReasonError, "a signal ended it (status 137)")
		if l := r.listCarried(); len(l) != 0 {
			t.Errorf("%+v outlives its connection", l)
		}
	})
}

// A program has a slot as long as it runs, and no longer. It ends with its lease and with its
// streams, also if it reads no input.
func TestProgramHasASlot(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		first := r.beginProgram(userOne, proto.Limits{}, "sh", "-c", "echo on; sleep 1000")
		buf := make([]byte, proto.ExecFrameMax)
		for {
			if kind, b, err := proto.ReadExec(first.conn, buf); err != nil {
				t.Fatal(err)
			} else if kind == proto.ExecStdout && string(b) == "on\n" {
				break
			}
		}
		if free, _ := r.pool.snapshot(); free != 0 {
			t.Errorf("%d slots are free", free)
		}
		second := r.beginProgram(userTwo, proto.Limits{}, "echo", "two")
		r.pool.mu.Lock()
		waiting := len(r.pool.waiting)
		r.pool.mu.Unlock()
		_, _, ended := r.ended(second.lease.Call)
		if ended || waiting > 1 {
			t.Errorf("a second program runs, or %d wait", waiting)
		}
		go func() { // what nobody reads
			for proto.WriteExec(first.conn, proto.ExecStdin, make([]byte, proto.ExecFrameMax)) == nil {
			}
		}()
		r.cancel(first.lease.Fence)
		if got := first.wait(""); got.failed != "the call was cancelled" {
			t.Errorf("%+v", got)
		}
		r.mustFail(first.lease.Call, proto.ReasonCancelled, "cancelled")
		if got := second.wait(""); got.out != "two\n" || got.status != 0 {
			t.Errorf("%+v", got)
		}
		r.mustSucceed(second.lease.Call)
		third := r.beginProgram(userOne, proto.Limits{}, "sleep", "1000")
		third.conn.Close()
		r.mustFail(third.lease.Call, proto.ReasonCancelled, "cancelled")
		waitUntil(t, "the slot", func() bool { free, _ := r.pool.snapshot(); return free == 1 })
	})
}

func (r *rig) ended(call uint64) (done proto.Done, failed proto.Failed, ok bool) {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	done, ok = r.fake.done[call]
	failed, bad := r.fake.failed[call]
	return done, failed, ok || bad
}

// A program reaches nothing of another user, nor of the agent, nor another's processes.
func TestHostileProgramOfAUser(t *testing.T) {
	runOnSubstrates(t, 2, func(t *testing.T, r *rig) {
		if r.confined.Kind == ConfinedNot && !systemIsWindows {
			t.Skip("this machine confines no programs")
		}
		area, err := r.areaOf(userOne)
		if err != nil {
			t.Fatal(err)
		}
		secrets := []string{filepath.Join(area.root, "blobs", "secret"), filepath.Join(area.tmp, "secret"), filepath.Join(area.logs, "secret"), filepath.Join(r.config.State, "secret"), filepath.Join(r.logs, "secret")}
		for _, name := range secrets {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		victim := r.beginProgram(userOne, proto.Limits{}, "sh", "-c", "read x; echo $x")
		seen := secrets
		if systemIsWindows { // the root is the user's area
			seen = nil
			for _, name := range secrets {
				name, err := filepath.Rel(filepath.Join(r.areas.dir, userTwo), name)
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, "/"+filepath.ToSlash(name))
			}
		}
		script := "for f in " + strings.Join(seen, " ") + "; do cat $f; echo bad > $f; done; cat /proc/[0-9]*/environ; "
		if r.confined.Kind == ConfinedSpaces {
			script += fmt.Sprintf("kill -9 %d; ", os.Getpid())
		}
		script += "echo end"
		got := r.beginProgram(userTwo, proto.Limits{}, "sh", "-c", script).wait("")
		if !strings.HasSuffix(got.out, "end\n") || strings.Contains(got.out, "secret") || strings.Contains(got.out, userOne) {
			t.Errorf("it read %q", got.out)
		}
		for _, name := range secrets {
			if b, err := os.ReadFile(name); err != nil || string(b) != "secret" {
				t.Errorf("%s is %q now, %v", name, b, err)
			}
		}
		if got := victim.wait("alive\n"); got.out != "alive\n" || got.status != 0 {
			t.Errorf("the other program: %+v", got)
		}
		r.mustSucceed(victim.lease.Call)
	})
}

// lastingHub lets the fake hub keep the streams of a program: it gives a connection for each
// request, unless there is none.
type lastingHub struct {
	mu     sync.Mutex
	stream *lasting.Conn // the hub's side
	line   net.Conn      // the last connection
	away   error
}

func (h *lastingHub) exec(has *uint64) (e execConn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away != nil {
		return e, h.away
	}
	ours, theirs := net.Pipe()
	e, h.line = execConn{Conn: theirs}, theirs
	if h.stream == nil {
		l := lasting.Default
		l.Silence = 0
		h.stream = lasting.Accept(l, ours, nil)
		e.keep = l.Keep
		return e, nil
	}
	err = h.stream.Attach(*has, func(n uint64) (net.Conn, error) { e.has = n; return ours, nil })
	return e, err
}

// set has later requests fail, or not.
func (h *lastingHub) set(away error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
	if away != nil {
		h.line.Close()
	}
}

// A program under a lease goes on while there is no connection to the hub. What it writes then
// arrives later, and the end of its lease is said only after that, and kept for the hub. It ends if
// the hub has its streams no more.
func TestProgramOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeOrNone(t), 1)
	begin := func(l proto.Limits, args ...string) (*rigProgram, *lastingHub) {
		h := &lastingHub{}
		r.fake.mu.Lock()
		r.fake.lasts = h.exec
		r.fake.mu.Unlock()
		p := r.programLease(userOne, l, args...)
		p.lease.Client = 1
		r.send(p.lease)
		waitUntil(t, "its streams", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			p.conn = h.stream
			return h.stream != nil
		})
		kind, b, err := proto.ReadExec(p.conn, make([]byte, proto.ExecFrameMax))
		if err != nil || kind != proto.ExecStdout || len(b) != 0 {
			t.Fatalf("first came %d %q %v", kind, b, err)
		}
		return p, h
	}
	p, h := begin(proto.Limits{Wall: 1}, "sh", "-c", "echo on; sleep 1000")
	h.set(errors.New("the network is down"))
	area, err := r.areaOf(userOne)
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the end of the program", func() bool { list, err := os.ReadDir(area.tmp); return err == nil && len(list) == 0 })
	if _, f, ended := r.ended(p.lease.Call); ended {
		t.Errorf("the hub was told before it had all: %+v", f)
	}
	h.set(nil)
	if got := p.wait(""); got.out != "on\n" || got.status != 137 || !strings.Contains(got.err, "--wall-time") {
		t.Errorf("%+v", got)
	}
	p.conn.Close()
	r.mustFail(p.lease.Call, proto.ReasonLimit, "--wall-time")
	if list := r.listCarried(); len(list) != 1 || list[0].Fence != p.lease.Fence {
		t.Errorf("%+v", list)
	}
	p, h = begin(proto.Limits{}, "sleep", "1000")
	h.set(&proto.Problem{Code: proto.ProblemGone, Text: "its command has ended"})
	r.mustFail(p.lease.Call, proto.ReasonCancelled, "cancelled")
}
