// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"skep/grid/proto"
	"skep/internal/lazy"
)

// Browsers cannot open the control socket, so a PageRelay serves the hub's page on a port of
// this machine. Whoever has its link may read the page as the user of the control socket may:
// the link has a secret, because each user of a machine reaches its ports. The relay passes
// on the page and nothing else.
type PageRelay struct {
	client *Client
	listen net.Listener
	secret string
}

const relayIn = 20 * time.Second // for an answer of the hub

// pagePath is what may follow the secret in a path.
var pagePath = lazy.Regexp(`^/(?:calls/[0-9]{1,20}|metrics)?$`)

// NewPageRelay listens on a port of the loopback interface; 0 is any. The secret is a new one if it
// is empty.
func NewPageRelay(c *Client, port int, secret string) (*PageRelay, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	if secret == "" {
		secret = rand.Text()
	}
	return &PageRelay{c, l, secret}, nil
}

// Link is what people open. It is a secret.
func (p *PageRelay) Link() string { return fmt.Sprintf("http://%s/%s/", p.listen.Addr(), p.secret) }

// Serve serves until ctx ends.
func (p *PageRelay) Serve(ctx context.Context) error {
	s := &http.Server{Handler: p, ReadTimeout: handshakeIn, WriteTimeout: 2 * relayIn, IdleTimeout: time.Minute,
		MaxHeaderBytes: headerMax, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(p.listen); ctx.Err() == nil {
		return err
	}
	return nil
}

// ServeHTTP refuses requests for another host, so that no page of another site reaches this one by
// a name that points to this machine. It answers everything without the secret alike.
func (p *PageRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setPageHeaders(w.Header())
	host := (&url.URL{Host: r.Host}).Hostname()
	path, known := p.cutSecret(r.URL.EscapedPath())
	if !known || host != "127.0.0.1" && host != "localhost" {
		http.Error(w, "There is no page here: open the link that 'skep page' printed.", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The page can only be read.", http.StatusMethodNotAllowed)
		return
	}
	if !pagePath().MatchString(path) {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Has("still") {
		path += "?still"
	}
	ctx, cancel := context.WithTimeout(r.Context(), relayIn)
	defer cancel()
	p.pass(ctx, w, path)
}

// cutSecret returns what follows the secret in a path.
func (p *PageRelay) cutSecret(path string) (rest string, known bool) {
	n := 1 + len(p.secret)
	if len(path) < n {
		return "", false
	}
	return path[n:], subtle.ConstantTimeCompare([]byte(path[:n]), []byte("/"+p.secret)) == 1
}

func (p *PageRelay) pass(ctx context.Context, w http.ResponseWriter, path string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub/page"+path, nil)
	var resp *http.Response
	if err == nil {
		r.Header.Set(proto.HeaderRevision, strconv.Itoa(proto.Revision))
		resp, err = p.client.http.Do(r)
	}
	if err != nil {
		w.Header().Set("Refresh", "5")
		http.Error(w, fmt.Sprintf("The hub does not answer: %v", err), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}
