// SPDX-License-Identifier: MIT

package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// pageFor returns what `skep page` shows to whoever has the client.
func pageFor(t *testing.T, cli *Client, path string) (int, string) {
	t.Helper()
	p, err := NewPageRelay(cli, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.listen.Close()
	got := httptest.NewRecorder()
	p.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/"+p.secret+"/"+path, nil))
	return got.Code, got.Body.String()
}

// A user's `skep top` and page have all nodes, and of the sessions, calls, troubles and history
// only its own, also of programs that ended; the operator's say whose a session is.
func TestUserOverview(t *testing.T) {
	w := newWorld(t, nil)
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{})
	a := w.startAgent(1)
	first := ada.startMaster()
	first.call(9, nil)
	l := a.nextLease()
	a.sendDone(l, []byte("right"))
	first.readResult(9)
	a.askLeases(1)
	first.call(10, nil)
	f := a.nextLease()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: f.Call, Fence: f.Fence, Reason: proto.ReasonError, Code: uapi.EArguments, Text: "a matrix of ada"}, nil)
	first.readFailure(10)
	first.conn.Close()
	overview := func(cli *Client) Overview {
		o, err := cli.Overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	waitUntil(t, "the end of the program", func() bool { return len(overview(w.cli).Ended) == 1 })
	second := ada.startMaster()
	second.call(1, nil)
	waitUntil(t, "the call of the next one", func() bool { return overview(w.cli).Status.Calls == 1 })

	check := func(who string, o Overview, user string, sessions, done, failed int) {
		t.Helper()
		var past Interval
		for _, i := range o.History {
			past.Done += i.Done
			past.Failed += i.Failed
		}
		if len(o.Nodes) != 1 || len(o.Sessions) != sessions || len(o.Ended) != sessions || o.Status.Sessions != sessions || o.Status.Calls != sessions ||
			o.Calls.Waiting+o.Calls.Running != sessions || o.Calls.Done != uint64(done) || o.Calls.Failed != uint64(failed) ||
			len(o.Troubles) != failed || past.Done != uint64(done) || past.Failed != uint64(failed) {
			t.Errorf("%s sees %+v", who, o)
		}
		if o.Rolls == nil || o.Acts == nil {
			t.Errorf("%s: programs read null in place of lists", who)
		}
		for _, s := range append(o.Sessions, o.Ended...) {
			if s.User != user {
				t.Errorf("%s sees %q as the user of %s", who, s.User, s.Key)
			}
		}
	}
	check("the operator", overview(w.cli), "ada", 1, 1, 1)
	check("ada", overview(ada.cli), "ada", 1, 1, 1)
	check("eve", overview(eve.cli), "", 0, 0, 0)
	if all, o := overview(w.cli), overview(eve.cli); len(all.Acts) == 0 || len(o.Acts) != 0 || o.Status.PID != 0 {
		t.Errorf("the audit log has %d lines, and eve sees %d, %+v", len(all.Acts), len(o.Acts), o.Status)
	}

	call := fmt.Sprint("calls/", f.Call)
	for _, c := range []struct {
		who, path, text string
		cli             *Client
		code            int
		shown           bool
	}{
		{"the operator", "", "a matrix of ada", w.cli, 200, true}, {"ada", "", "a matrix of ada", ada.cli, 200, true}, {"eve", "", "a matrix of ada", eve.cli, 200, false},
		{"ada", "", l.Session[:8], ada.cli, 200, true}, {"eve", "", l.Session[:8], eve.cli, 200, false},
		{"ada", "metrics", "skep_calls_done_total 1", ada.cli, 200, true}, {"eve", "metrics", "skep_calls_done_total 1", eve.cli, 200, false},
		{"eve", call, f.Session[:8], eve.cli, 404, false},
	} {
		if code, page := pageFor(t, c.cli, c.path); code != c.code || strings.Contains(page, c.text) != c.shown {
			t.Errorf("%s at /%s: %d, wants %d and %q %v:\n%s", c.who, c.path, code, c.code, c.text, c.shown, page)
		}
	}
	waitUntil(t, "the ledger", func() bool {
		code, page := pageFor(t, ada.cli, call)
		return code == 200 && strings.Contains(page, "a matrix of ada")
	})
}
