// SPDX-License-Identifier: MIT

package hub

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPageRelay(t *testing.T) {
	w := newWorld(t, nil)
	w.startAgent(1)
	p, err := NewPageRelay(w.cli, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewPageRelay(w.cli, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.listen.Close()
	defer p.listen.Close()
	if p.secret == other.secret || len(p.secret) < 26 {
		t.Errorf("the secrets are %s and %s", p.secret, other.secret)
	}
	s := "/" + p.secret
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", s + "/", "127.0.0.1:1", 200}, {"HEAD", s + "/", "127.0.0.1:1", 200}, {"GET", s + "/?still=1", "localhost:8080", 200},
		{"GET", s + "/calls/1", "127.0.0.1", 404}, // of no such call
		{"GET", "/", "127.0.0.1", 404}, {"GET", "/" + other.secret + "/", "127.0.0.1", 404}, {"GET", s[:10] + "/", "127.0.0.1", 404},
		{"GET", s + "/", "evil.example", 404}, {"GET", s + "/", "127.0.0.1.evil.example", 404}, {"GET", s + "/", "", 404},
		{"POST", s + "/", "127.0.0.1", 405}, {"DELETE", s + "/", "127.0.0.1", 405}, {"OPTIONS", s + "/", "127.0.0.1", 405},
		{"GET", s, "127.0.0.1", 404}, {"GET", s + "/v1/nodes", "127.0.0.1", 404}, {"GET", s + "/../v1/nodes", "127.0.0.1", 404},
		{"GET", s + "/%2e%2e/v1/nodes", "127.0.0.1", 404}, {"GET", s + "/calls/../../v1/nodes", "127.0.0.1", 404}, {"GET", s + "//v1/nodes", "127.0.0.1", 404},
		{"GET", s + "/calls/1%2f..%2f..", "127.0.0.1", 404}, {"GET", s + "/metrics/", "127.0.0.1", 404}, {"GET", "/metrics", "127.0.0.1", 404},
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Host = c.host
		got := httptest.NewRecorder()
		p.ServeHTTP(got, r)
		shows := strings.Contains(got.Body.String(), "Substrate")
		if got.Code != c.want || shows != (c.want == 200 && c.method == "GET" || c.want == 200 && c.method == "HEAD") {
			t.Errorf("%s %s of %s: %d, want %d\n%s", c.method, c.path, c.host, got.Code, c.want, got.Body)
		}
		h := got.Header()
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; ") || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: the headers are %v", c.method, c.path, h)
		}
	}
}

// The link works for a browser, and says what is wrong when the hub has gone.
func TestPageRelayWithoutHub(t *testing.T) {
	w := newWorld(t, nil)
	p, err := NewPageRelay(w.cli, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(t.Context()) }()
	get := func() (int, string) {
		resp, err := http.Get(p.Link())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, page := get(); code != http.StatusOK || !strings.Contains(page, "No node has joined") {
		t.Errorf("%d\n%s", code, page)
	}
	w.hub.Close()
	if code, page := get(); code != http.StatusBadGateway || !strings.Contains(page, "no hub runs") {
		t.Errorf("%d\n%s", code, page)
	}
	if !strings.HasPrefix(p.Link(), "http://127.0.0.1:") {
		t.Errorf("the link is %s", p.Link())
	}
	p.listen.Close()
	if err := receiveFrom(t, "the end", served); err == nil {
		t.Error("a lost port is no error")
	}
}
