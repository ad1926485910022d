// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skep/grid/engine"
	"skep/internal/cli"
)

// The hub's page shows an Overview to people. It is made here, of tables, without scripts and
// without anything from another place, and changes nothing. Texts of nodes and programs are
// hostile: html/template escapes them according to their context.

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"ago":     cli.FormatAgo,
		"bytes":   cli.FormatBytes,
		"clean":   func(v any) string { return cli.CleanText(fmt.Sprint(v)) },
		"clock":   func(t time.Time) string { return formatTime(t, time.TimeOnly) },
		"date":    func(t time.Time) string { return formatTime(t, "2006-01-02 15:04:05 MST") },
		"exact":   func(t time.Time) string { return formatTime(t, "2006-01-02 15:04:05.000") },
		"list":    func(list []string) string { return cli.CleanText(strings.Join(list, ", ")) },
		"percent": formatPercent,
		"latency": formatLatency,
	}).Parse(pageText))
})

// pagePolicy permits the style of the page, by its digest, and nothing else.
var pagePolicy = func() string {
	digest := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

func formatTime(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(layout)
}

func formatPercent(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d %%", part*100/of)
}

// formatLatency shows nanoseconds; none were measured if there are 0.
func formatLatency(ns uint64) string {
	if ns == 0 {
		return "-"
	}
	return time.Duration(ns).String()
}

const (
	rowsMax   = 1000  // nodes on the page
	ledgerMax = 10000 // entries that are searched for a call
	barHeight = 80
)

type pageHead struct {
	Title   string
	Style   template.CSS
	Refresh bool
}

type overviewPage struct {
	pageHead
	Overview
	Rows    []NodeInfo
	Hidden  int
	Kernels []NodeInfo // where Skep changes something
	Figures bool       // one of them says how its updates do
	Bars    []bar
	Most    uint64 // calls of the highest bar
}

// A bar shows an interval.
type bar struct{ X, Good, GoodY, Bad, BadY int }

// barsOf scales intervals to the highest of them, which had so many calls. The last one, which
// is now, is on the right.
func barsOf(history []Interval) (list []bar, most uint64) {
	for _, i := range history {
		most = max(most, i.Done+i.Failed)
	}
	scale := max(most, 1)
	for n, i := range history {
		b := bar{X: 2 + 10*(intervals-len(history)+n), Good: int(i.Done * barHeight / scale), Bad: int(i.Failed * barHeight / scale)}
		if i.Failed > 0 {
			b.Bad = max(b.Bad, 2) // visible
		}
		if i.Done > 0 {
			b.Good = max(b.Good, 2)
		}
		b.GoodY = barHeight + 2 - b.Good
		b.BadY = max(0, b.GoodY-b.Bad)
		list = append(list, b)
	}
	return list, most
}

// newPage arranges an overview. Nodes that are not up come first.
func newPage(o Overview, refresh bool) *overviewPage {
	p := &overviewPage{pageHead: pageHead{"Skep: hub " + o.Status.Address, template.CSS(pageStyle), refresh}, Overview: o, Rows: slices.Clone(o.Nodes)}
	p.Bars, p.Most = barsOf(o.History)
	slices.SortStableFunc(p.Rows, func(a, b NodeInfo) int {
		switch {
		case (a.State == NodeUp) == (b.State == NodeUp):
			return 0
		case a.State == NodeUp:
			return 1
		}
		return -1
	})
	for _, n := range p.Rows {
		if k := n.Kernel; len(k.Updates)+len(k.Lent)+len(k.Applied) > 0 || k.O2G {
			p.Kernels = append(p.Kernels, n)
			p.Figures = p.Figures || len(k.Applied) > 0
		}
	}
	p.Hidden = max(0, len(p.Rows)-rowsMax)
	p.Rows, p.Kernels = p.Rows[:len(p.Rows)-p.Hidden], p.Kernels[:min(len(p.Kernels), rowsMax)]
	return p
}

func (h *Hub) showPage(w http.ResponseWriter, r *http.Request, by viewer) {
	o, err := h.overviewFor(by)
	if err != nil {
		answerNode(w, err)
		return
	}
	writePage(w, http.StatusOK, "overview", newPage(o, !r.URL.Query().Has("still")))
}

type callPage struct {
	pageHead
	Call    uint64
	Session string
	Steps   []engine.Entry
	Read    int
}

// showCall shows what the ledger says of a call.
func (h *Hub) showCall(w http.ResponseWriter, r *http.Request, by viewer) {
	id, err := strconv.ParseUint(r.PathValue("call"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	list, err := h.engine.Entries(r.Context(), ledgerMax)
	if err != nil {
		answerNode(w, err)
		return
	}
	p := &callPage{pageHead: pageHead{Title: fmt.Sprint("Skep: call ", id), Style: template.CSS(pageStyle)}, Call: id, Read: len(list)}
	for _, e := range list {
		if e.Call != id || !by.sees(e.User) {
			continue
		}
		if name := h.roster.name(e.Node); name != "" {
			e.Node = name
		}
		p.Steps, p.Session = append(p.Steps, e), e.Session
	}
	status := http.StatusOK
	if len(p.Steps) == 0 {
		status = http.StatusNotFound
	}
	writePage(w, status, "call", p)
}

// setPageHeaders are those of everything that a browser gets.
func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer") // the link is a secret
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func writePage(w http.ResponseWriter, status int, name string, v any) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, v); err != nil {
		answerNode(w, err)
		return
	}
	setPageHeaders(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}
