// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"skep/grid/proto"
)

func (w *world) getPage(path string) (*http.Response, string) {
	w.t.Helper()
	resp, err := w.cli.http.Get("http://hub/page" + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(b)
}

var rowOf = regexp.MustCompile(`(?s)<tr.*?\n`)

// wantRow looks for a row of a table that has these texts in this order.
func wantRow(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, row := range rowOf.FindAllString(page, -1) {
		row = tagsOf.ReplaceAllString(row, "|")
		at := 0
		for _, text := range texts {
			next := strings.Index(row[at:], "|"+text)
			if next < 0 {
				at = -1
				break
			}
			at += next + len(text)
		}
		if at >= 0 {
			return
		}
	}
	t.Errorf("no row with %q:\n%s", texts, page)
}

func TestPageShowsTheHub(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	failCalls(m, a)
	a.sendVerb(proto.VerbBeat, proto.Beat{Free: 0, Kernel: proto.Kernel{Updates: []string{"fix<1>"}, Lent: []string{"2-3"}}}, nil)
	var page string
	waitUntil(t, "the beat", func() bool {
		_, page = w.getPage("/")
		return strings.Contains(page, "fix")
	})
	resp, _ := w.getPage("/")
	wantRow(t, page, "pc", "up", "linux", "1 of 1", "100 %", "1", "0", "1", "1")
	wantRow(t, page, "pc", "fix&lt;1&gt;", "2-3", "no")
	wantRow(t, page, "test", "", "0", "1", "1", "1", "0", "0")
	wantRow(t, page, "failed", "work", "pc", "1", "pc: &lt;i&gt;no such matrix")
	for _, want := range []string{"<dt>Calls running</dt><dd>1</dd>", "<dt>Calls done</dt><dd>1</dd>", "<dt>Failed or cancelled</dt><dd>1</dd>", "There is no roll", `http-equiv="refresh"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	digest := sha256.Sum256([]byte(style[1]))
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'; ") {
		t.Errorf("the style is not the one that is permitted: %s", policy)
	}
	if strings.Contains(page, "http:") || strings.Contains(page, "https:") || strings.Contains(page, "<script") || strings.Contains(page, "style=") {
		t.Error("the page has a script, a style of its own, or something from another place")
	}
	if _, still := w.getPage("/?still"); strings.Contains(still, "http-equiv") || !strings.Contains(still, "Not refreshed") {
		t.Error("the page refreshes although it should not")
	}
}

func TestPageOfACall(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	failCalls(m, a)
	o, err := w.cli.Overview(t.Context())
	if err != nil || len(o.Troubles) != 1 {
		t.Fatalf("%+v, %v", o.Troubles, err)
	}
	path := "/calls/" + uintText(o.Troubles[0].Call)
	var page string
	waitUntil(t, "the ledger", func() bool {
		_, page = w.getPage(path)
		return strings.Contains(page, "failed")
	})
	wantRow(t, page, "", "queued", "", "work")
	wantRow(t, page, "", "leased", "pc", "work")
	wantRow(t, page, "", "failed", "pc", "pc: &lt;i&gt;no such matrix")
	if resp, page := w.getPage("/calls/1"); resp.StatusCode != http.StatusNotFound || !strings.Contains(page, "do not name it") {
		t.Errorf("an unknown call: %s\n%s", resp.Status, page)
	}
	if resp, _ := w.getPage("/calls/x"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("no call: %s", resp.Status)
	}
}

// The port that nodes reach has neither the page nor what it shows.
func TestPageIsNotForNodes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	for _, path := range []string{"/page/", "/page/calls/1", "/v1/overview", "/"} {
		if resp, b := a.request(http.MethodGet, path, nil); resp.StatusCode != http.StatusNotFound || bytes.Contains(b, []byte("pc")) {
			t.Errorf("%s: %s, %s", path, resp.Status, b)
		}
	}
}
