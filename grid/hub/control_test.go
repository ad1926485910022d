// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
)

// wantProblem checks the code and a part of the text of a refused request.
func wantProblem(t *testing.T, what string, err error, code, text string) {
	t.Helper()
	var p *proto.Problem
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(p.Text, text) {
		t.Errorf("%s: %v, want %s with %q", what, err, code, text)
	}
}

func TestNodesOfASelector(t *testing.T) {
	w := newWorld(t, nil)
	w.startAgent(1)
	for _, on := range []string{"", "all", "any", "os=linux", "node=pc"} {
		if list, err := w.cli.Nodes(t.Context(), on); err != nil || len(list) != 1 || list[0].Name != "pc" {
			t.Errorf("%q: %+v, %v", on, list, err)
		}
	}
	_, err := w.cli.Nodes(t.Context(), "os=plan9")
	wantProblem(t, "no such system", err, proto.ProblemRequest, "no node that is up matches os=plan9")
	_, err = w.cli.Nodes(t.Context(), "plan9")
	wantProblem(t, "no selector", err, proto.ProblemRequest, "is not a selector")
}

// Nodes are listed by name, and those of one name by id.
func TestNodesAreSorted(t *testing.T) {
	h := &Hub{nodes: map[string]*node{}, sched: sched.New(sched.Config{})}
	for id, name := range map[string]string{"4": "b", "3": "b", "1": "c", "2": "a", "9": "b", "7": "a"} {
		h.nodes[id] = &node{info: NodeInfo{ID: id, Name: name}}
	}
	for range 20 { // in any order of the map
		var got strings.Builder
		for _, n := range h.Nodes() {
			got.WriteString(n.Name + n.ID)
		}
		if got.String() != "a2a7b3b4b9c1" {
			t.Fatalf("got %s", got.String())
		}
	}
}

// From 1 to 10000 entries may be asked for; any other number gives 100.
func TestLengthOfTheLedger(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 150 {
		w.hub.ledger.add(engine.Entry{Call: uint64(i + 1), State: engine.Queued})
	}
	waitUntil(t, "the entries", func() bool {
		list, err := w.cli.Ledger(t.Context(), LedgerQuery{Last: 10000})
		return err == nil && len(list) == 150
	})
	for last, want := range map[int]int{-1: 100, 0: 100, 1: 1, 149: 149, 10000: 150, 10001: 100} {
		list, err := w.cli.Ledger(t.Context(), LedgerQuery{Last: last})
		if err != nil || len(list) != want || list[len(list)-1].Call != 150 {
			t.Errorf("the last %d: %d entries, %v", last, len(list), err)
		}
	}
	list, err := requestJSON[[]engine.Entry](t.Context(), w.cli, http.MethodGet, "/v1/ledger", nil)
	if err != nil || len(list) != 100 {
		t.Errorf("without a number: %d entries, %v", len(list), err)
	}
	w.hub.nats.Close()
	_, err = w.cli.Ledger(t.Context(), LedgerQuery{Last: 1})
	wantProblem(t, "a lost engine", err, proto.ProblemInternal, "the ledger cannot be read")
}

// A token is for one machine and a day unless the request says otherwise.
func TestDefaultsOfTokens(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		request TokenRequest
		uses    int
		life    time.Duration
	}{
		{TokenRequest{}, 1, 24 * time.Hour}, {TokenRequest{Uses: 3}, 3, 24 * time.Hour},
		{TokenRequest{Life: time.Hour}, 1, time.Hour}, {TokenRequest{5, 2 * time.Hour}, 5, 2 * time.Hour},
	} {
		begin := time.Now()
		a, err := w.cli.Token(t.Context(), c.request)
		if err != nil || a.Address != w.hub.Address().String() {
			t.Fatalf("%+v: %+v, %v", c.request, a, err)
		}
		list, err := w.hub.Tokens().List()
		if err != nil || len(list) != 1 {
			t.Fatalf("%d tokens, %v", len(list), err)
		}
		early, late := begin.Add(c.life), time.Now().Add(c.life)
		if end := list[0].Expires; list[0].Uses != c.uses || end.Before(early) || end.After(late) {
			t.Errorf("%+v: %d uses until %v", c.request, list[0].Uses, end)
		}
		if err := w.hub.Tokens().Remove(list[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.cli.Token(t.Context(), TokenRequest{Uses: -1})
	wantProblem(t, "no use", err, proto.ProblemRequest, "one use or more")
	_, err = w.cli.Token(t.Context(), TokenRequest{Life: -time.Hour})
	wantProblem(t, "a past time", err, proto.ProblemRequest, "a time to live")
	if list, err := w.hub.Tokens().List(); err != nil || len(list) != 0 {
		t.Errorf("refused requests left %v, %v", list, err)
	}
}

// A body that is no JSON, or too long, changes nothing.
func TestUnreadableRequests(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/v1/tokens", "/v1/runs", "/v1/exec"} {
		for name, text := range map[string]string{"cut": "{", "long": `"` + strings.Repeat("x", 2*execArgs) + `"`} {
			resp, err := w.cli.request(t.Context(), http.MethodPost, path, strings.NewReader(text))
			if err == nil {
				resp.Body.Close()
			}
			wantProblem(t, name+" for "+path, err, proto.ProblemRequest, "the hub cannot read this request")
		}
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if len(w.hub.runs)+len(w.hub.execs) != 0 {
		t.Errorf("%d runs and %d programs", len(w.hub.runs), len(w.hub.execs))
	}
}

// An answer is marked as JSON, also one that refuses a request.
func TestAnswersAreJSON(t *testing.T) {
	for _, write := range []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, 1) },
		func(w http.ResponseWriter) { writeProblem(w, http.StatusForbidden, "code", "text") },
	} {
		w := httptest.NewRecorder()
		if write(w); w.Result().Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", w.Result().Header)
		}
	}
}

// A roll of a package that the hub does not have is refused with what to do.
func TestPackagesThatCannotBeOpened(t *testing.T) {
	w := newWorld(t, nil)
	for digest, c := range map[string]struct {
		status int
		want   string
	}{
		"x":                     {http.StatusBadRequest, "not named by its digest"},
		strings.Repeat("a", 64): {http.StatusNotFound, "does not have this package: send it first"},
	} {
		p, status, err := w.hub.openPackage(digest)
		if p != nil || status != c.status || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %d, %v", digest, p, status, err)
		}
	}
}

func TestRefusedRuns(t *testing.T) {
	w := newWorld(t, nil)
	dirs := func(n int, dir string) (list []string) {
		for range n {
			list = append(list, dir)
		}
		return list
	}
	for _, c := range []struct {
		name string
		run  RunRequest
		want string
	}{
		{"no directory", RunRequest{}, "names 1 to 64 directories"},
		{"too many", RunRequest{Dirs: dirs(65, w.dirs)}, "names 1 to 64 directories"},
		{"a relative one", RunRequest{Dirs: []string{w.dirs, "here"}}, "are absolute paths, not here"},
		{"no time", RunRequest{Dirs: dirs(1, w.dirs), Limits: proto.Limits{CPU: -1}}, "limits are not valid"},
		{"no selector", RunRequest{Dirs: dirs(1, w.dirs), On: "frob"}, "is not a selector"},
		{"a deadline before the call", RunRequest{Dirs: dirs(1, w.dirs), Deadline: -1}, "deadline is no time"},
		{"fewer than no attempts", RunRequest{Dirs: dirs(1, w.dirs), Attempts: -1}, "more than 100 attempts"},
		{"too many attempts", RunRequest{Dirs: dirs(1, w.dirs), Attempts: 101}, "more than 100 attempts"},
		{"none", RunRequest{Dirs: dirs(1, w.dirs)}, ""},
		{"many", RunRequest{Dirs: dirs(64, w.dirs)}, ""},
	} {
		socket, s, err := w.cli.Run(t.Context(), c.run)
		if c.want != "" {
			wantProblem(t, c.name, err, proto.ProblemRequest, c.want)
		} else if err != nil || filepath.Dir(socket) != w.hub.cfg.State {
			t.Errorf("%s: %q, %v", c.name, socket, err)
		}
		if s != nil {
			s.Close()
		}
	}
}

// A run that cannot have its socket is refused.
func TestRunWithoutRoomForItsSocket(t *testing.T) {
	w := newWorld(t, nil)
	w.hub.cfg.State = filepath.Join(w.hub.cfg.State, "missing")
	_, _, err := w.cli.Run(t.Context(), RunRequest{Dirs: []string{w.dirs}})
	wantProblem(t, "no directory", err, proto.ProblemRequest, "the local socket cannot be made")
	w.hub.cfg.State += strings.Repeat("x", 100)
	_, _, err = w.cli.Run(t.Context(), RunRequest{Dirs: []string{w.dirs}})
	wantProblem(t, "a long path", err, proto.ProblemRequest, "too long for the system")
}

// 100 bytes are the longest path of a socket.
func TestPathsOfSockets(t *testing.T) {
	dir := shortDir(t)
	for n, good := range map[int]bool{100: true, 101: false} {
		l, err := listenUnix(dir + "/" + strings.Repeat("s", n-len(dir)-1))
		if (err == nil) != good {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err == nil {
			l.Close()
		}
	}
}

// A listenerAt is a listener of which only the address is used.
type listenerAt struct {
	net.Listener
	addr net.Addr
}

func (l listenerAt) Addr() net.Addr { return l.addr }

// Join lines name the address that is given, else the one listened on, else one of the
// machine's own.
func TestAdvertisedAddress(t *testing.T) {
	all := &net.TCPAddr{IP: net.IPv4zero, Port: 4860}
	for _, c := range []struct {
		given string
		addr  net.Addr
		want  string
	}{
		{"hub.example:1", all, "hub.example:1"},
		{"", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, "127.0.0.1:7"},
		{"", &net.UnixAddr{Name: "x"}, "x"},
	} {
		h := &Hub{cfg: Config{Advertise: c.given}, port: listenerAt{addr: c.addr}}
		if got := h.advertisedAddress(); got != c.want {
			t.Errorf("%q on %v: %s", c.given, c.addr, got)
		}
	}
	for _, ip := range []net.IP{net.IPv4zero, net.IPv6unspecified} {
		h := &Hub{port: listenerAt{addr: &net.TCPAddr{IP: ip, Port: 4860}}}
		host, port, err := net.SplitHostPort(h.advertisedAddress())
		if err != nil || port != "4860" || host == "" || net.ParseIP(host).IsUnspecified() {
			t.Errorf("on %v: %s %s, %v", ip, host, port, err)
		}
	}
}

// Of the machine's own addresses the first one counts that others can reach, and of these
// only version 4 goes into a join line.
func TestFirstAddressOfTheMachine(t *testing.T) {
	ip := func(text string) net.Addr { return &net.IPNet{IP: net.ParseIP(text)} }
	for want, list := range map[string][]net.Addr{
		"localhost": {ip("127.0.0.1"), ip("::1"), ip("fe80::1"), ip("2001:db8::1"), ip("169.254.1.2"), &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}},
		"10.0.0.7":  {ip("127.0.0.1"), ip("2001:db8::1"), ip("10.0.0.7"), ip("192.168.1.1")},
	} {
		if got := reachableAddress(list); got != want {
			t.Errorf("of %v: %s", list, got)
		}
	}
}

// Status counts what is there.
func TestStatus(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	w.startAgent(1).cutConnection()
	m.call(5, nil)
	a.nextLease()
	waitUntil(t, "one node", func() bool { return w.hub.Status().Nodes == 1 })
	s, err := w.cli.Status(t.Context())
	if err != nil || s.Version != "test" || s.Sessions != 1 || s.Calls != 1 || s.PID == 0 || s.Started.IsZero() || s.Address != w.hub.Address().String() {
		t.Errorf("%+v, %v", s, err)
	}
}

// Values of a node that are no durations count as unknown.
func TestSecondsOfNodes(t *testing.T) {
	for said, want := range map[float64]time.Duration{0: 0, -1: 0, 1e-3: time.Millisecond, 2.5: 2500 * time.Millisecond,
		9e8: 9e8 * time.Second, 1e9: 0, math.Inf(1): 0} {
		if got := parseSeconds(said); got != want {
			t.Errorf("%v seconds: %v", said, got)
		}
	}
	if got := parseSeconds(math.NaN()); got != 0 {
		t.Errorf("no number: %v", got)
	}
}

// A removed node whose removal cannot be stored stays.
func TestRemovalThatIsNotStored(t *testing.T) {
	w := newWorld(t, nil)
	w.startAgent(1)
	w.hub.roster.file = filepath.Join(t.TempDir(), "missing", "nodes.json")
	err := w.cli.RemoveNode(t.Context(), "pc")
	wantProblem(t, "no directory", err, proto.ProblemInternal, "missing")
	if list := w.hub.Nodes(); len(list) != 1 || list[0].State != NodeUp || !w.hub.roster.isKnown(list[0].ID) {
		t.Errorf("%+v", list)
	}
	_, err = w.postJoin(w.createToken(1, time.Hour), newNode(t), nil)
	wantProblem(t, "a node that is not stored", err, proto.ProblemInternal, "missing")
	if n := len(w.hub.roster.list); n != 1 {
		t.Errorf("%d nodes are known", n)
	}
	if err := w.cli.RemoveNode(t.Context(), "a/b c"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", "a/b c")) {
		t.Errorf("a name with odd characters: %v", err)
	}
}
