// SPDX-License-Identifier: MIT

// Package report reads and writes the file of `skep bench --report`: figures, versions and
// a log, without names. People run it on machines that this project does not have and send
// the file back. A received file is untrusted.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Each file has Format and Revision. If the meaning of a field changes,
	// Revision must change.
	Format   = "skep-bench-report"
	Revision = 1

	sizeMax   = 1 << 20
	entryMax  = 1000
	textMax   = 1000
	nestedMax = 8
)

// A Report is one file.
type Report struct {
	Format   string   `json:"format"`
	Revision int      `json:"revision"`
	Date     string   `json:"date"`
	Skep     Versions `json:"skep"`
	Machine  Machine  `json:"machine"`
	Seconds  float64  `json:"seconds"`
	Figures  []Figure `json:"figures"`
	Absent   []Absent `json:"absent"`
	Log      []string `json:"log"`
}

// Versions are the versions of the programs that measured.
type Versions struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Bee     string `json:"bee"`
}

// A Machine describes the machine, so that a reader can compare figures. It has no names.
type Machine struct {
	System    string `json:"system"`
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
}

// A Figure is one measured value, with that of a peer if there is one.
type Figure struct {
	Bar       string   `json:"bar"`
	Name      string   `json:"name"`
	Unit      string   `json:"unit"`
	Value     float64  `json:"value"`
	Peer      string   `json:"peer,omitempty"`
	PeerValue *float64 `json:"peer_value,omitempty"`
}

// Absent is a bar that was not measured, and the reason.
type Absent struct {
	Bar    string `json:"bar"`
	Reason string `json:"reason"`
}

// Write writes a report.
func Write(w io.Writer, r *Report) error {
	if err := r.check(); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // people read it; a page escapes by itself
	return e.Encode(r)
}

// Read reads and checks an untrusted file.
func Read(from io.Reader) (*Report, error) {
	text, err := io.ReadAll(io.LimitReader(from, sizeMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > sizeMax {
		return nil, fmt.Errorf("the file has more than %d bytes", sizeMax)
	}
	if depth(text) > nestedMax {
		return nil, errors.New("the file is nested too deep")
	}
	var head struct {
		Format   string `json:"format"`
		Revision int    `json:"revision"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("this is not JSON: %w", err)
	}
	if head.Format != Format || head.Revision != Revision {
		return nil, fmt.Errorf("this is no file of `skep bench --report` of revision %d", Revision)
	}
	r := &Report{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("text follows the report")
	}
	return r, r.check()
}

// depth returns the largest nesting depth of brackets. Brackets in strings count too.
func depth(text []byte) (most int) {
	open := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			open++
			most = max(most, open)
		case '}', ']':
			open--
		}
	}
	return most
}

// check returns an error for a report that a page cannot show.
func (r *Report) check() error {
	if r.Format != Format || r.Revision != Revision {
		return errors.New("the format is not named")
	}
	if len(r.Figures) > entryMax || len(r.Absent) > entryMax || len(r.Log) > entryMax {
		return fmt.Errorf("there are more than %d entries", entryMax)
	}
	texts := append([]string{r.Date, r.Skep.Version, r.Skep.Commit, r.Skep.Bee, r.Machine.System, r.Machine.Processor}, r.Log...)
	numbers := []float64{r.Seconds}
	for _, f := range r.Figures {
		texts = append(texts, f.Bar, f.Name, f.Unit, f.Peer)
		numbers = append(numbers, f.Value)
		if f.PeerValue != nil {
			numbers = append(numbers, *f.PeerValue)
		}
		if f.Bar == "" || f.Name == "" || (f.Peer == "") != (f.PeerValue == nil) {
			return fmt.Errorf("the figure %q of %q is incomplete", f.Name, f.Bar)
		}
	}
	for _, a := range r.Absent {
		texts = append(texts, a.Bar, a.Reason)
	}
	for _, text := range texts {
		if err := checkText(text); err != nil {
			return err
		}
	}
	for _, n := range numbers {
		if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 || n > 1e18 {
			return fmt.Errorf("%g is not a figure", n)
		}
	}
	if r.Machine.CPUs < 0 || r.Machine.CPUs > 1<<20 {
		return fmt.Errorf("%d CPUs", r.Machine.CPUs)
	}
	return nil
}

// checkText refuses characters that could change how a page is read: control characters and
// those that change the direction of text.
func checkText(text string) error {
	if len(text) > textMax || !utf8.ValidString(text) {
		return fmt.Errorf("a text is longer than %d bytes or no UTF-8", textMax)
	}
	if i := strings.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }); i >= 0 {
		return fmt.Errorf("a text has a control character: %q", text)
	}
	return nil
}
