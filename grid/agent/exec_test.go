// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"

	"skep/grid/proto"
)

// ran is the result of a program.
type ran struct {
	out, err, failed string
	status           int
}

func (r *rig) execute(program []byte, stdin string, args ...string) ran {
	r.t.Helper()
	return r.execAndWait(proto.Exec{ID: "1", Program: r.cache.put(r.t, program), Name: "busybox", Args: args}, stdin)
}

func (r *rig) execAndWait(e proto.Exec, stdin string) ran {
	r.t.Helper()
	ours, theirs := net.Pipe()
	r.fake.mu.Lock()
	r.fake.execs[e.ID] = theirs
	r.fake.mu.Unlock()
	message, err := proto.Encode(e, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.handleMessage(context.Background(), proto.VerbExec, message); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for b := []byte(stdin); len(b) > 0; b = b[min(len(b), proto.ExecFrameMax):] {
			proto.WriteExec(ours, proto.ExecStdin, b[:min(len(b), proto.ExecFrameMax)])
		}
		proto.WriteExec(ours, proto.ExecStdin, nil)
	}()
	got := ran{status: -1}
	buf := make([]byte, proto.ExecFrameMax)
	for got.status < 0 && got.failed == "" {
		t, p, err := proto.ReadExec(ours, buf)
		if err != nil {
			r.t.Fatal(err)
		}
		switch t {
		case proto.ExecStdout:
			got.out += string(p)
		case proto.ExecStderr:
			got.err += string(p)
		case proto.ExecExit:
			got.status = int(binary.LittleEndian.Uint32(p))
		case proto.ExecFailed, proto.ExecRefused:
			got.failed = string(p)
		}
	}
	ours.Close()
	waitUntil(r.t, "the end of exec", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.execs) == 0
	})
	return got
}

func readBusybox(t testing.TB) []byte {
	path := "/bin/busybox"
	if systemIsWindows {
		path = `Z:\bin\busybox` // the machine's own, under Wine
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal("busybox is missing; run: make setup")
	}
	return b
}

func TestExec(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		box := readBusybox(t)
		if got := r.execute(box, "", "echo", "hello"); got.out != "hello\n" || got.status != 0 {
			t.Errorf("%+v", got)
		}
		text := strings.Repeat("line\n", 40000)
		if got := r.execute(box, text, "cat"); got.out != text || got.status != 0 {
			t.Errorf("%d bytes came back, status %d, %q", len(got.out), got.status, got.failed)
		}
		if got := r.execute(box, "", "sh", "-c", "echo to >&2; exit 7"); got.err != "to\n" || got.status != 7 {
			t.Errorf("%+v", got)
		}
		if got := r.execute(box, "", "sh", "-c", "kill -9 $$"); got.status != 137 {
			t.Errorf("%+v", got)
		}
		for _, bad := range [][]byte{[]byte("no program"), {}, box[:5000]} {
			if got := r.execute(bad, ""); got.failed == "" {
				t.Errorf("%.10q: %+v", bad, got)
			} else {
				t.Log(got.failed)
			}
		}
	})
}

// The agent notices that the caller is gone even if the program reads no input.
func TestExecUnreadInput(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		ours, theirs := net.Pipe()
		e := proto.Exec{ID: "1", Program: r.cache.put(t, readBusybox(t)), Name: "busybox", Args: []string{"sleep", "1000"}}
		r.fake.mu.Lock()
		r.fake.execs[e.ID] = theirs
		r.fake.mu.Unlock()
		message, err := proto.Encode(e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.handleMessage(context.Background(), proto.VerbExec, message); err != nil {
			t.Fatal(err)
		}
		go func() {
			part := make([]byte, proto.ExecFrameMax)
			for proto.WriteExec(ours, proto.ExecStdin, part) == nil {
			}
		}()
		buf := make([]byte, proto.ExecFrameMax)
		if kind, p, err := proto.ReadExec(ours, buf); err != nil || kind != proto.ExecStdout || len(p) != 0 {
			t.Fatalf("frame %d of %d bytes, %v", kind, len(p), err)
		}
		ours.Close()
		waitUntil(t, "the end of exec", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.execs) == 0
		})
	})
}
