// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
	"skep/grid/hub"
	"skep/grid/proto"
	"skep/grid/rolls"
	"skep/internal/cli"
)

// readPage opens the link that skep page prints, and ends the command.
func (f *rollFleet) readPage() string {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	in, out := io.Pipe()
	p := &page{state: f.state, out: out}
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx, cli.NewFlags("page", "page"), nil) }()
	link, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := http.Get(strings.TrimSpace(link))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s, %v: %s", resp.Status, err, b)
	}
	cancel()
	if err := <-ended; err != nil {
		f.t.Errorf("the end of skep page: %v", err)
	}
	if _, err := http.Get(strings.TrimSpace(link)); err == nil {
		f.t.Error("the link works after the end of skep page")
	}
	return string(b)
}

// The page and skep top show a roll, with the node that was left out and why.
func TestPageAndTopShowARoll(t *testing.T) {
	f := newRollFleet(t, "a", "xc")
	f.awaitNodes(2)
	f.sign("uid=1000")
	f.skep(0, "update roll %s --state "+f.state+" --waves 1,all --canary-time 1s --settle 1s", "fix.skepup")
	page := f.readPage()
	for _, want := range []string{"<h3>fix</h3>", "<strong>done</strong>", "Wave 2 of 2", "0 run it on trial, 1 have it for good, 1 are left out",
		`<th scope="row">a<td>committed`, "<strong>it refused: this node has no keys of operators", "wave 2 of 2 begins", "<dd>2 of 2</dd>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	out, _ := f.skep(0, "top --count 2 --interval 0.1 --state "+f.state)
	tables := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
	if len(tables) != 2 {
		t.Fatalf("%d tables:\n%s", len(tables), out)
	}
	for _, want := range []string{"2 of 2 nodes up; 0 sessions; calls: 0 waiting", "roll of fix: done, wave 2 of 2; of 2 nodes 0 run it, 1 committed, 1 left out", "NAME", "\na ", "\nxc ", "0/1"} {
		if !strings.Contains(tables[1], want) {
			t.Errorf("top lacks %q:\n%s", want, out)
		}
	}
	out, _ = f.skep(0, "top --count 1 --interval 0.1 --json --state "+f.state)
	var o hub.Overview
	if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Nodes) != 2 || len(o.Rolls) != 1 || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPageErrors(t *testing.T) {
	f := newRollFleet(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if _, text := f.skep(cli.Failed, "page --port "+port+" --state "+f.state); !strings.Contains(text, "give another --port") {
		t.Error(text)
	}
	for line, want := range map[string]string{"page --port 0": "want a port", "page --port x": "want a port", "page word": `"word"`, "top --count 0": "want a number", "top --interval 0": "want seconds"} {
		if _, text := f.skep(cli.Usage, line+" --state "+f.state); !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
	f.hub.Close()
	for _, line := range []string{"page", "top --count 1"} {
		if _, text := f.skep(cli.Unreachable, line+" --state "+f.state); !strings.Contains(text, "no hub runs") {
			t.Errorf("%s: %s", line, text)
		}
	}
}

// Rates are those between two readings; a hub that was started again counts from 0.
func TestTopText(t *testing.T) {
	reading := func(seconds int64, done, sent uint64) *hub.Overview {
		o := &hub.Overview{Nodes: []hub.NodeInfo{{ID: "1", Name: "pc", Substrate: "linux", State: hub.NodeUp, Slots: 4, Free: 1, Running: 3, Done: done, Sent: sent}}}
		o.Time = o.Time.AddDate(2000, 0, 0).Add(time.Duration(seconds) * time.Second)
		return o
	}
	row := func(before, after *hub.Overview) string {
		lines := strings.Split(topText(before, after), "\n")
		return strings.Join(strings.Fields(lines[2]), " ")
	}
	if got := row(reading(0, 10, 0), reading(2, 50, 4000)); got != "pc linux up 3/4 3 20 0 2.0 kB 0 B -" {
		t.Error(got)
	}
	if got := row(reading(0, 50, 4000), reading(2, 10, 100)); got != "pc linux up 3/4 3 0 0 0 B 0 B -" {
		t.Error(got)
	}
	odd := &hub.Overview{Rolls: []rolls.Status{{Nodes: []rolls.NodeStatus{{Functions: []rolls.Function{{Symbol: "f\x1b", Uncounted: true}}}}}}}
	if got := topText(odd, odd); !strings.HasSuffix(got, "\n  f?: calls are not counted\n") {
		t.Errorf("%q", got)
	}
	byHand := func(calls uint64) hub.NodeInfo {
		return hub.NodeInfo{Kernel: proto.Kernel{Applied: []roll.Applied{{Name: "arp\x1b", Functions: []rolls.Function{{Symbol: "f", New: rolls.Version{Calls: calls, Errors: 1, P99: 1000 * calls}}}},
			{Name: "rolled", Functions: []rolls.Function{{Symbol: "g"}}}}}}
	}
	odd = &hub.Overview{Nodes: []hub.NodeInfo{byHand(4), byHand(3)}, Rolls: []rolls.Status{{Spec: rolls.Spec{Name: "rolled"}}}}
	if got := topText(odd, odd); !strings.Contains(got, "update arp?, without a roll, on 2 of the nodes\n  f: old 0 calls, 0 errors, 99 % in -; new 7 calls, 2 errors, 99 % in 4µs\n") || strings.Contains(got, "  g:") {
		t.Errorf("%q", got)
	}
	if got := topText(&hub.Overview{}, &hub.Overview{}); got != "0 of 0 nodes up; 0 sessions; calls: 0 waiting, 0 running, 0 done, 0 failed, 0 ran again\n" {
		t.Error(got)
	}
}

// With --secret-file the link stays the same. A secret that others may read, or none, is refused.
func TestPageSecretFile(t *testing.T) {
	f := newRollFleet(t)
	file := filepath.Join(t.TempDir(), "page.secret")
	link := func() string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in, out := io.Pipe()
		p := &page{state: f.state, out: out, secret: file}
		ended := make(chan error, 1)
		go func() { ended <- p.run(ctx, cli.NewFlags("page", "page"), nil) }()
		link, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(strings.TrimSpace(link) + "metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), "\nskep_sessions 0\n") {
			t.Errorf("%s, %v:\n%s", resp.Status, err, b)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return strings.Split(link, "/")[3]
	}
	first := link()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the secret: %v, %v", info, err)
	}
	if again := link(); again != first {
		t.Errorf("the secret changed from %s to %s", first, again)
	}
	refused := func(want string) {
		t.Helper()
		if _, text := f.skep(cli.Usage, "page --secret-file "+file+" --state "+f.state); !strings.Contains(text, want) {
			t.Error(text)
		}
	}
	os.Chmod(file, 0o640)
	refused("chmod 600")
	os.Chmod(file, 0o600)
	for _, text := range []string{"", "short", strings.Repeat("a", 129), strings.Repeat("a", 30) + "/../v1", "two words of twenty-six characters"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("holds no secret")
	}
	file = filepath.Join(t.TempDir(), "none", "page.secret")
	if _, text := f.skep(cli.Failed, "page --secret-file "+file+" --state "+f.state); !strings.Contains(text, "cannot be stored") {
		t.Error(text)
	}
}
