// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/lazy"
)

// A build service builds signed packages once more, for the kernels of other machines. It is
// trusted with nothing: it builds only what operators signed, and a node takes what it built
// only when operators signed that too.

// Builds is the service. What it built stays in Dir, by the digest of what was asked.
type Builds struct {
	Dir     string
	Version string // of skep: another builder may make other bytes
	Keys    func() (trust.State, error)
	Build   func(ctx context.Context, p *pack.Package, kernel string) (*pack.Package, error)
	Log     func(format string, args ...any)
	Now     func() time.Time // nil: time.Now

	mu   sync.Mutex
	list map[string]*Built
	asks chan string
}

// A Built is one package for one kernel.
type Built struct {
	Key     string `json:"key"`
	Name    string `json:"name"`
	Kernel  string `json:"kernel"`
	State   string `json:"state"`
	Why     string `json:"why,omitempty"`     // it cannot be built, or is not signed
	Content string `json:"content,omitempty"` // that operators sign
}

// States of a Built.
const (
	Building = "building"
	Unsigned = "unsigned"
	Signed   = "signed"
	Failed   = "failed"
	Contains = "included"        // the kernel contains the change: there is nothing to build
	Stated   = "included-signed" // and operators signed that
)

const (
	buildsMax  = 32 // that wait
	keptBuilds = 1024
	askFile    = ".ask" // the package that was asked to be built again
	statedFile = ".skepincluded"
)

var kernelVersion = lazy.Regexp(`^[0-9][0-9A-Za-z.+~-]{0,63}$`)

func (b *Builds) path(key, kind string) string { return filepath.Join(b.Dir, key+kind) }

// Open reads what was built. Builds that were not done are asked for again by their nodes.
func (b *Builds) Open() error {
	b.list, b.asks = map[string]*Built{}, make(chan string, buildsMax)
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return err
	}
	files, err := filepath.Glob(b.path("*", ".json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		var one Built
		if err == nil {
			err = json.Unmarshal(text, &one)
		}
		if err != nil || one.Key+".json" != filepath.Base(file) {
			return fmt.Errorf("%s is damaged: remove it, and it is built again (%v)", file, err)
		}
		if one.State != Building {
			b.list[one.Key] = &one
		}
	}
	return nil
}

// Run builds, one package after the other, until ctx ends.
func (b *Builds) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-b.asks:
			b.buildOne(ctx, key)
		}
	}
}

func (b *Builds) buildOne(ctx context.Context, key string) {
	b.mu.Lock()
	one := *b.list[key]
	b.mu.Unlock()
	err := b.make(ctx, &one)
	var refused *RefusedError
	switch {
	case err == nil:
		one.State, one.Why = Unsigned, ""
	case Included(err):
		one.State, one.Why = Contains, err.Error()
	case errors.As(err, &refused):
		one.State, one.Why = Failed, err.Error()
	default: // the network or the disk: a later request tries again
		b.Log("%s for Linux %s is not built: %v", one.Name, one.Kernel, err)
		b.mu.Lock()
		delete(b.list, key)
		b.mu.Unlock()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.store(&one); err != nil {
		b.Log("%s for Linux %s is not stored: %v", one.Name, one.Kernel, err)
		delete(b.list, key)
		return
	}
	b.Log("%s for Linux %s: %s %s", one.Name, one.Kernel, one.State, one.Why)
}

func (b *Builds) make(ctx context.Context, one *Built) error {
	from, err := pack.Open(b.path(one.Key, askFile))
	if err != nil {
		return err
	}
	p, err := b.Build(ctx, from, one.Kernel)
	if err != nil {
		return err
	}
	if one.Content, err = p.Content(); err != nil {
		return err
	}
	return pack.WriteFile(b.path(one.Key, pack.Suffix), p)
}

func (b *Builds) store(one *Built) error {
	text, err := json.Marshal(one)
	if err == nil {
		err = atomicfile.Write(b.path(one.Key, ".json"), text, 0o600)
	}
	if err == nil {
		b.list[one.Key] = one
	}
	return err
}

// verify returns a package that enough operators signed.
func (b *Builds) verify(text []byte) (p *pack.Package, content string, err error) {
	if p, err = pack.Read(bytes.NewReader(text)); err != nil {
		return nil, "", err
	}
	if content, err = p.Content(); err != nil {
		return nil, "", err
	}
	s, err := b.Keys()
	if err != nil {
		return nil, "", err
	}
	return p, content, s.CheckPolicy(p.Signatures, &trust.Facts{Name: p.Name, Class: p.Class, Content: content})
}

// Ask answers who wants a package for another kernel. It is built once.
func (b *Builds) Ask(text []byte, kernel string) (Built, error) {
	if !kernelVersion().MatchString(kernel) {
		return Built{}, refusef("%.80q is not the version of a kernel's package", kernel)
	}
	p, content, err := b.verify(text)
	if err != nil {
		return Built{}, err
	}
	key := b.keyOf(content, kernel)
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.list[key]; one != nil {
		return *one, nil
	}
	if len(b.list) >= keptBuilds {
		return Built{}, refusef("%d packages are stored: remove old ones from %s, and start the service again", keptBuilds, b.Dir)
	}
	if err := atomicfile.Write(b.path(key, askFile), text, 0o600); err != nil {
		return Built{}, err
	}
	one := &Built{Key: key, Name: p.Name, Kernel: kernel, State: Building}
	select {
	case b.asks <- key:
	default:
		return Built{}, refusef("%d builds wait already: ask again later", buildsMax)
	}
	b.list[key] = one
	return *one, nil
}

// Offer takes a package that operators signed, if this service built the same contents.
func (b *Builds) Offer(text []byte) (Built, error) {
	_, content, err := b.verify(text)
	if err != nil {
		return Built{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.list {
		if one.Content != content || one.State == Building {
			continue
		}
		next := *one
		next.State = Signed
		if err := atomicfile.Write(b.path(one.Key, pack.Suffix), text, 0o600); err != nil {
			return Built{}, err
		}
		return next, b.store(&next)
	}
	return Built{}, refusef("this service built no such contents: build the package with 'skep update build PACKAGE --kernel VERSION' by the same version of skep, and compare")
}

// State takes the statement of operators that a kernel contains a change, if this service was
// asked for that package and kernel and found the same.
func (b *Builds) State(text []byte) (Built, error) {
	s, err := b.Keys()
	if err != nil {
		return Built{}, err
	}
	doc, err := trust.ParseSigned(text)
	if err != nil {
		return Built{}, err
	}
	said, err := trust.ParseIncluded(doc.Text)
	if err != nil {
		return Built{}, err
	}
	facts := &trust.Facts{Name: said.Name, Content: said.Content}
	if _, err := s.CheckIncluded(text, facts, said.BuildID, b.now()); err != nil {
		return Built{}, err
	}
	key := b.keyOf(said.Content, said.Version)
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.list[key]
	if one == nil || one.State != Contains && one.State != Stated {
		return Built{}, refusef("this service did not find that %.80s contains %s: ask it with 'skep update builds --take' on a node of that kernel", said.Version, said.Name)
	}
	next := *one
	next.State = Stated
	if err := atomicfile.Write(b.path(key, statedFile), text, 0o600); err != nil {
		return Built{}, err
	}
	return next, b.store(&next)
}

// keyOf returns the name of what is asked for.
func (b *Builds) keyOf(content, kernel string) string {
	sum := sha256.Sum256([]byte(content + "\n" + kernel + "\n" + b.Version + "\n"))
	return hex.EncodeToString(sum[:])
}

func (b *Builds) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// List returns what was built, in an order that stays.
func (b *Builds) List() (list []Built) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.list {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y Built) int { return strings.Compare(x.Name+x.Kernel+x.Key, y.Name+y.Kernel+y.Key) })
	return list
}

// Handler serves the requests of nodes and operators.
func (b *Builds) Handler() http.Handler {
	mux := http.NewServeMux()
	body := func(w http.ResponseWriter, r *http.Request, do func(text []byte) (Built, error)) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pack.MaxPackage))
		var one Built
		if err == nil {
			one, err = do(text)
		}
		answerBuild(w, one, err)
	}
	mux.HandleFunc("POST /v1/builds", func(w http.ResponseWriter, r *http.Request) {
		body(w, r, func(text []byte) (Built, error) { return b.Ask(text, r.URL.Query().Get("kernel")) })
	})
	mux.HandleFunc("PUT /v1/builds", func(w http.ResponseWriter, r *http.Request) { body(w, r, b.Offer) })
	mux.HandleFunc("PUT /v1/builds/included", func(w http.ResponseWriter, r *http.Request) { body(w, r, b.State) })
	mux.HandleFunc("GET /v1/builds", func(w http.ResponseWriter, _ *http.Request) { answerBuild(w, b.List(), nil) })
	mux.HandleFunc("GET /v1/builds/{key}", func(w http.ResponseWriter, r *http.Request) {
		key := r.PathValue("key")
		b.mu.Lock()
		state := ""
		if one := b.list[key]; one != nil {
			state = one.State
		}
		b.mu.Unlock()
		switch state {
		case Signed, Unsigned:
			http.ServeFile(w, r, b.path(key, pack.Suffix))
		case Stated:
			http.ServeFile(w, r, b.path(key, statedFile))
		default:
			http.Error(w, "there is no such package", http.StatusNotFound)
		}
	})
	return mux
}

func answerBuild(w http.ResponseWriter, v any, err error) {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) || trust.Name(err) != "":
		http.Error(w, err.Error(), http.StatusConflict)
		return
	case errors.Is(err, fs.ErrPermission), err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the other side may be gone
}
