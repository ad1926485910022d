// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"skep/grid/policy"
	"skep/grid/proto"
)

// A movableRig is the hub's end of a movable program's stream.
type movableRig struct {
	*rig
	conn net.Conn
}

func (r *movableRig) send(kind proto.ExecType, v any) {
	r.t.Helper()
	var b []byte
	if v != nil {
		b, _ = json.Marshal(v)
	}
	if err := proto.WriteExec(r.conn, kind, b); err != nil {
		r.t.Fatal(err)
	}
}

// await reads frames until one of a kind comes.
func (r *movableRig) await(kind proto.ExecType) []byte {
	r.t.Helper()
	r.conn.SetReadDeadline(time.Now().Add(testTimeout))
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(r.conn, buf)
		if err != nil {
			r.t.Fatal(err)
		}
		if t == proto.ExecStderr {
			r.t.Logf("it says: %s", p)
		}
		if t == kind && (t != proto.ExecStdout || len(p) > 0) {
			return p
		}
		if t >= proto.ExecExit && t <= proto.ExecGone {
			r.t.Fatalf("it ended: %d %q", t, p)
		}
	}
}

// A program that the owner has paused asks to be moved after a time, is saved, and stays
// paused if it was not moved.
func TestPausedProgramIsSaved(t *testing.T) {
	p, err := policy.Parse([]byte("use none when battery\nuse all\npause 1m\nsettle 0s"))
	if err != nil {
		t.Fatal(err)
	}
	base := newRigOf(t, Config{State: tempDir(t), Slots: 1, Bee: beeProgram(t), Policy: p})
	base.needMover()
	ours, theirs := net.Pipe()
	defer ours.Close()
	r := &movableRig{base, ours}
	now, facts := time.Now(), &policy.Facts{Battery: policy.Say(false, "")}
	r.owner.step(now, facts)
	e := proto.Exec{ID: "1", Movable: true, Program: r.cache.put(t, readBusybox(t)), Name: "busybox",
		Args: []string{"sh", "-c", "while :; do echo text; done"}, CPU: r.mover.cpu}
	r.fake.execs[e.ID] = theirs
	message, err := proto.Encode(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.handleMessage(context.Background(), proto.VerbExec, message); err != nil {
		t.Fatal(err)
	}
	r.await(proto.ExecReady)
	r.send(proto.ExecBegin, nil)
	r.await(proto.ExecStarted)
	r.await(proto.ExecStdout)
	facts.Battery.Value = true
	r.owner.step(now, facts)
	r.owner.step(now.Add(time.Minute), facts)
	r.await(proto.ExecLeave)
	r.send(proto.ExecFreeze, proto.ExecSave{Serial: 3, Hold: true})
	r.await(proto.ExecFrozen)
	var end proto.ExecImageEnd
	if err := json.Unmarshal(r.await(proto.ExecSaved), &end); err != nil || end.Serial != 3 || end.Bytes == 0 {
		t.Fatalf("%+v, %v", end, err)
	}
	r.send(proto.ExecResume, proto.ExecSave{Serial: 3})
	r.send(proto.ExecFreeze, proto.ExecSave{Serial: 4})
	r.await(proto.ExecSaved)
	r.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	buf := make([]byte, proto.ExecFrameMax)
	for {
		kind, p, err := proto.ReadExec(r.conn, buf)
		if err != nil {
			break
		}
		if kind == proto.ExecStdout && len(p) > 0 {
			t.Fatal("a paused program wrote something")
		}
	}
	facts.Battery.Value = false
	r.owner.step(now.Add(2*time.Minute), facts)
	r.await(proto.ExecStdout)
}

// A CPU that lacks something is told before the program is asked to begin.
func TestOtherCPU(t *testing.T) {
	r := newRig(t, beeProgram(t), 1)
	r.needMover()
	e := proto.Exec{ID: "1", Movable: true, Program: r.cache.put(t, readBusybox(t)), Name: "busybox", CPU: "ff" + r.mover.cpu[2:]}
	if got := r.execAndWait(e, ""); got.failed != "this CPU lacks cpuid leaf 0x1 ecx bit 2, which the program may use" {
		t.Errorf("%+v", got)
	}
}

// needMover skips a test where this computer lets no program have name spaces of its own: such a
// node runs no movable programs.
func (r *rig) needMover() {
	r.t.Helper()
	if r.mover.bee == "" {
		r.t.Skip("programs have no name spaces of their own here")
	}
}
