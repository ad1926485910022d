// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/uapi"
)

// A BuildClient asks a build service. Nothing that it answers is trusted.
type BuildClient struct{ URL string }

const (
	buildAnswer = 4 << 20
	buildWait   = 10 * time.Minute // for one request
)

func (c *BuildClient) request(ctx context.Context, method, path string, body []byte, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, buildWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/v1/builds"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the build service does not answer: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the build service does not answer: %w", err)
	case answer.StatusCode == http.StatusConflict:
		return nil, refusef("the build service refuses: %.1000s", strings.TrimSpace(string(text)))
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the build service says %s: %.1000s", answer.Status, strings.TrimSpace(string(text)))
	case int64(len(text)) > most:
		return nil, fmt.Errorf("the build service sent more than %d bytes", most)
	}
	return text, nil
}

func (c *BuildClient) built(ctx context.Context, method, path string, body []byte) (one Built, err error) {
	text, err := c.request(ctx, method, path, body, buildAnswer)
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	return one, err
}

// Ask asks for a package to be built for another kernel.
func (c *BuildClient) Ask(ctx context.Context, file []byte, kernel string) (Built, error) {
	return c.built(ctx, http.MethodPost, "?kernel="+url.QueryEscape(kernel), file)
}

// Offer gives the service a package that operators signed.
func (c *BuildClient) Offer(ctx context.Context, file []byte) (Built, error) {
	return c.built(ctx, http.MethodPut, "", file)
}

// State gives the service a statement of operators that a kernel contains a change.
func (c *BuildClient) State(ctx context.Context, document []byte) (Built, error) {
	return c.built(ctx, http.MethodPut, "/included", document)
}

// List returns what the service has.
func (c *BuildClient) List(ctx context.Context) (list []Built, err error) {
	text, err := c.request(ctx, http.MethodGet, "", nil, buildAnswer)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	return list, err
}

// Get returns the bytes of a package.
func (c *BuildClient) Get(ctx context.Context, key string) ([]byte, error) {
	return c.request(ctx, http.MethodGet, "/"+url.PathEscape(key), nil, pack.MaxPackage)
}

// A Taker takes packages of committed updates for the kernel that runs now, after another
// kernel was booted.
type Taker struct {
	Keep    *Keep
	Client  *BuildClient
	BuildID string // of the running kernel
	Kernel  string // version of its package
	// Approve verifies the operators' signatures with the keys of this node, and records the
	// sequence. It refuses what nobody signed.
	Approve func(p *pack.Package, policy *uapi.DynamosPolicy) error
	// Included verifies, with the same keys, the statement that this kernel contains the change
	// of a package, and returns who signed it.
	Included func(document []byte, f *trust.Facts) (signers []string, err error)
	Says     func(format string, args ...any)
}

// Take asks for each stored update of another kernel, and stores what operators signed, so
// that the next restore puts it on trial. It says what it waits for.
func (t *Taker) Take(ctx context.Context) error {
	list, all := t.Keep.List()
	for i := range list {
		if k := &list[i]; k.BuildID != t.BuildID && !k.containedIn(t.BuildID) {
			if err := t.takeOne(ctx, k); err != nil {
				all = errors.Join(all, fmt.Errorf("%s: %w", k.Name, err))
			}
		}
	}
	return all
}

func (t *Taker) takeOne(ctx context.Context, k *Kept) error {
	file, err := os.ReadFile(t.Keep.path(k.Name, pack.Suffix))
	if err != nil {
		return err
	}
	if digestOf(file) != k.Digest {
		return refusef("its package is not the one that was committed")
	}
	one, err := t.Client.Ask(ctx, file, t.Kernel)
	if err != nil {
		return err
	}
	switch one.State {
	case Signed:
	case Contains:
		t.Says("%s: the build service says, %.300s; it waits for operators to compare and sign that", k.Name, one.Why)
		return nil
	case Stated:
		return t.include(ctx, k, file, one.Key)
	case Failed:
		return refusef("it cannot be built for Linux %s: %.1000s", t.Kernel, one.Why)
	case Unsigned:
		t.Says("%s: built for Linux %s; it waits for operators to sign %.80s", k.Name, t.Kernel, one.Key)
		return nil
	default:
		t.Says("%s: it is being built for Linux %s", k.Name, t.Kernel)
		return nil
	}
	text, err := t.Client.Get(ctx, one.Key)
	if err != nil {
		return err
	}
	return t.keep(k, text)
}

// include records that the kernel contains the change, if operators signed that. Nothing is
// applied for it, and the package stays for the kernel that lacks the change.
func (t *Taker) include(ctx context.Context, k *Kept, file []byte, key string) error {
	document, err := t.Client.request(ctx, http.MethodGet, "/"+url.PathEscape(key), nil, trust.MaxDocument)
	if err != nil {
		return err
	}
	p, err := pack.Read(bytes.NewReader(file))
	if err != nil {
		return err
	}
	f := &trust.Facts{Name: k.Name, Class: p.Class}
	if f.Content, err = p.Content(); err != nil {
		return err
	}
	signers, err := t.Included(document, f)
	if err != nil {
		return err
	}
	next := *k
	next.Contained = &Contained{t.BuildID, signers}
	if err := t.Keep.write(&next); err != nil {
		return err
	}
	t.Says("%s: Linux %s contains the change, as %s signed", k.Name, t.Kernel, strings.Join(signers, " and "))
	return nil
}

// keep stores a package instead of that of the earlier kernel, if operators signed it.
func (t *Taker) keep(k *Kept, text []byte) error {
	p, err := pack.Read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if p.Name != k.Name {
		return refusef("the build service sent a package of %s", p.Name)
	}
	if _, err := moduleOf(p, t.BuildID); err != nil {
		return err
	}
	if err := t.Approve(p, &k.Policy); err != nil {
		return err
	}
	next := *k
	next.BuildID, next.Digest = t.BuildID, digestOf(text)
	about, err := json.Marshal(next)
	if err == nil {
		err = atomicfile.Write(t.Keep.path(k.Name, pack.Suffix), text, 0o600)
	}
	if err == nil {
		err = atomicfile.Write(t.Keep.path(k.Name, ".json"), about, 0o600)
	}
	if err != nil {
		return err
	}
	t.Says("%s: taken for Linux %s; the service kernel puts it on trial when it starts", k.Name, t.Kernel)
	return nil
}
