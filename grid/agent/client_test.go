// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
)

// newTestClient returns a client of a hub whose answers the test writes.
func newTestClient(t *testing.T, answer http.HandlerFunc) *client {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com" // of the test's certificate
	c := newClient(s.Listener.Addr().String(), config)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Arguments are complete when their length and their digest are the hub's.
func TestArgumentsFromTheHub(t *testing.T) {
	const text = "arguments"
	for _, c := range []struct {
		name    string
		status  int
		body    string
		trailer string
		want    string
	}{
		{"whole", 200, text, digestOf(text), ""},
		{"another digest", 200, text, digestOf("x"), "damaged on the way"},
		{"none", 200, text, "", "damaged on the way"},
		{"cut", 200, text[:3], digestOf(text[:3]), "unexpected EOF"},
		{"longer", 200, text + "!", digestOf(text), "length differs"},
		{"refused", 409, `{"text": "no lease"}`, "", "no lease"},
	} {
		path := ""
		cli := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
			path = r.Method + " " + r.URL.RequestURI()
			w.Header().Set("Trailer", proto.TrailerDigest)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
			if c.trailer != "" {
				w.Header().Set(proto.TrailerDigest, c.trailer)
			}
		})
		r, err := cli.args(t.Context(), 7, 9, uint64(len(text)))
		var got []byte
		if err == nil {
			got, err = io.ReadAll(r)
			r.Close()
		}
		checkText(t, c.name, err, c.want)
		if c.want == "" && string(got) != text {
			t.Errorf("%s: %q", c.name, got)
		}
		if path != "GET "+proto.PathArgs(7, 9) {
			t.Errorf("%s: %s", c.name, path)
		}
	}
}

// A result goes with its length before and its digest behind it. A source that fails sends
// no digest, so that the hub takes no part for the whole.
func TestResultToTheHub(t *testing.T) {
	var got, length, digest, path string
	status := http.StatusNoContent
	cli := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, length, digest, path = string(b), r.Header.Get("Skep-Length"), r.Trailer.Get(proto.TrailerDigest), r.Method+" "+r.URL.RequestURI()
		w.WriteHeader(status)
		if status != http.StatusNoContent {
			io.WriteString(w, `{"text": "full"}`)
		}
	})
	send := func(body io.Reader) error {
		return cli.result(t.Context(), 7, 9, 6, body, func() string { return "the digest" })
	}
	if err := send(strings.NewReader("result")); err != nil {
		t.Fatal(err)
	}
	if got != "result" || length != "6" || digest != "the digest" || path != "PUT "+proto.PathResult(7, 9) {
		t.Errorf("%q of %s bytes, digest %q, %s", got, length, digest, path)
	}
	digest = ""
	if err := send(io.MultiReader(strings.NewReader("res"), brokenReader{})); err == nil || !errors.Is(err, errBroken) || digest != "" {
		t.Errorf("a source that fails: %v, digest %q", err, digest)
	}
	status = http.StatusInsufficientStorage
	checkText(t, "a full hub", send(strings.NewReader("result")), "full")
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// The streams of a program are a connection of its own, whose first bytes may come with the
// answer.
func TestStreamsFromTheHub(t *testing.T) {
	answer, echo := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: skep-exec\r\n\r\nfirst", ""
	cli := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if r.Header.Get("Upgrade") != "skep-exec" || r.Header.Get("Connection") != "Upgrade" || r.Method+" "+r.URL.Path != "POST "+proto.PathExec("id", 0) {
			t.Errorf("%s %s %v", r.Method, r.URL.Path, r.Header)
		}
		io.WriteString(c, answer)
		if strings.Contains(answer, " 101 ") {
			echo, _ = rw.ReadString('\n')
		}
	})
	s, err := cli.exec(t.Context(), "id", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(s, first); err != nil || string(first) != "first" {
		t.Errorf("%q, %v", first, err)
	}
	if _, err := io.WriteString(s, "hello\n"); err != nil {
		t.Error(err)
	}
	if n, err := s.Read(first); n != 0 || err == nil || echo != "hello\n" {
		t.Errorf("%d bytes, %v; the hub got %q", n, err, echo)
	}
	s.Close()
	for want, text := range map[string]string{
		"gone":               "HTTP/1.1 410 Gone\r\nContent-Length: 16\r\n\r\n{\"text\": \"gone\"}",
		"the hub answered 2": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"malformed":          "no HTTP\r\n\r\n",
		"EOF":                "",
	} {
		answer = text
		s, err := cli.exec(t.Context(), "id", 0, nil)
		checkText(t, text, err, want)
		if s.Conn != nil {
			t.Errorf("%q gave streams", text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cli.exec(ctx, "id", 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// A request goes as JSON, and so does its answer, which is bounded.
func TestRequestsToTheHub(t *testing.T) {
	body, status := `{"node": "n"}`, 200
	got := ""
	cli := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = r.URL.Path + " " + strings.TrimSpace(string(b))
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	var j proto.Joined
	if err := cli.post(t.Context(), "/x", proto.Claim{Boot: "b"}, &j); err != nil || j.Node != "n" || got != `/x {"boot":"b"}` {
		t.Errorf("%+v, %v, sent %s", j, err, got)
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{"no JSON", 200, "invalid character"}, {"", 200, "EOF"}, {"", 404, errNoPath.Error()}, {`{"text": "old"}`, 404, "old"},
		{`{"node": "` + strings.Repeat("x", proto.JoinMax) + `"}`, 200, "unexpected EOF"},
	} {
		body, status = c.body, c.status
		checkText(t, fmt.Sprintf("%d %.20s", c.status, c.body), cli.post(t.Context(), "/x", 1, &j), c.want)
	}
	if err := cli.post(t.Context(), "/x", func() {}, &j); err == nil {
		t.Error("a value that is no JSON was sent")
	}
}

// A claim that an older hub does not know is granted.
func TestClaimAtAnOlderHub(t *testing.T) {
	status, body := 404, ""
	l := &link{client: newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})}
	checkText(t, "an older hub", l.claimIdentity(t.Context(), "b"), "")
	status, body = 409, `{"code": "identity", "text": "another agent"}`
	checkText(t, "another agent", l.claimIdentity(t.Context(), "b"), "another agent")
	status, body = 200, "{}"
	checkText(t, "no other agent", l.claimIdentity(t.Context(), "b"), "")
	l.client = newClient("127.0.0.1:1", &tls.Config{})
	if err := l.claimIdentity(t.Context(), "b"); err == nil || strings.Contains(err.Error(), "Post") {
		t.Errorf("no hub: %v", err)
	}
}

// A hub that refuses the engine's connection may say why over HTTP; else the first error stays.
func TestRefusalIsExplained(t *testing.T) {
	status, body := 403, `{"code": "token", "text": "this node was removed"}`
	l := &link{client: newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})}
	first := errors.New("first")
	checkText(t, "a removed node", l.explainRefusal(t.Context(), first), "this node was removed")
	for _, c := range []struct {
		status int
		body   string
	}{{404, `{"code": "gone", "text": "no blob"}`}, {200, "x"}, {500, ""}} {
		status, body = c.status, c.body
		if err := l.explainRefusal(t.Context(), first); err != first {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
}

// A hub that takes a connection and says nothing ends with the context.
func TestSilentHub(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	took := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			bufio.NewReader(c).ReadByte()
			took <- c
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := newClient(l.Addr().String(), &tls.Config{ServerName: "x"}).dial(ctx)
		ended <- err
	}()
	c := <-took
	defer c.Close()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(testTimeout):
		t.Error("it waits")
	}
}
