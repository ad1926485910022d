// SPDX-License-Identifier: MIT

package rolls

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
)

// A journal is the hub's audit log: who did what, when, and by which keys, in all rolls and
// with all nodes. It only grows, in a file with a line for each act; nodes follow its tree.
// Hub.mu guards it.
type journal struct {
	dir   string
	file  *os.File
	size  int64 // of the lines that are there for good
	lines []string
	last  *trust.Record
	tree  trust.Tree
	why   error // the log cannot be used
}

const (
	journalFile  = "audit.log"
	documentsDir = "signed"
)

// openJournal reads the log. One that is damaged is kept, and each addition fails. What
// follows the last whole line was never acknowledged, and is cut off.
func openJournal(dir string) *journal {
	j := &journal{dir: dir}
	path := filepath.Join(dir, journalFile)
	j.file, j.why = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if j.why != nil {
		return j
	}
	text, err := os.ReadFile(path)
	if err != nil {
		j.why = err
		return j
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		if j.why = j.take(string(bytes.TrimSuffix(line, []byte{'\n'}))); j.why != nil {
			j.why = fmt.Errorf("the audit log %s is damaged: restore it and restart the hub: %w", path, j.why)
			return j
		}
	}
	j.size = int64(len(whole))
	j.why = j.file.Truncate(j.size)
	return j
}

// take takes a line that is in the file.
func (j *journal) take(line string) error {
	a, err := trust.ParseRecord(line)
	if err != nil {
		return err
	}
	after := a
	if after.After(j.last); after.Number != a.Number || after.Before != a.Before {
		return fmt.Errorf("line %d does not follow line %d", a.Number, after.Number-1)
	}
	j.last = &a
	j.lines = append(j.lines, line)
	j.tree.Add(line)
	return nil
}

// add adds lines, and returns when they are on disk. If it fails, none is added.
func (j *journal) add(list ...trust.Record) error {
	if j.why != nil || len(list) == 0 {
		return j.why
	}
	var text []byte
	var lines []string
	last := j.last
	for i := range list {
		list[i].After(last)
		last = &list[i]
		lines = append(lines, last.String())
		text = append(append(text, last.String()...), '\n')
	}
	if _, err := j.file.WriteAt(text, j.size); err != nil {
		return errors.Join(fmt.Errorf("the audit log cannot be written: %w", err), j.file.Truncate(j.size))
	}
	if err := j.file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("the audit log cannot be written: %w", err), j.file.Truncate(j.size))
	}
	j.size += int64(len(text))
	for _, line := range lines {
		if j.why = j.take(line); j.why != nil {
			return j.why
		}
	}
	return nil
}

// documentKey names the document that a line of operators is about.
func documentKey(a *trust.Record) string {
	b := trust.Record{What: a.What, Line: a.Line, Sequence: a.Sequence, Content: a.Content, Keys: a.Keys}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// keep stores a document that operators signed, for those who verify the log, and returns
// the line about it.
func (j *journal) keep(text []byte, now time.Time) (trust.Record, error) {
	a, err := trust.Describe(text, now.Round(0).UTC())
	if err != nil {
		return a, err
	}
	dir := filepath.Join(j.dir, documentsDir)
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return a, err
	}
	return a, atomicfile.Write(filepath.Join(dir, documentKey(&a)), text, 0o600)
}

// document returns the document of a line, or nil if it is lost.
func (j *journal) document(a *trust.Record) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(j.dir, documentsDir, documentKey(a)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Growth shows a node that the log continues what the node has seen.
type Growth struct {
	From  uint64     `json:"from"` // what the node said it had seen
	Now   trust.Seen `json:"now"`
	Proof []string   `json:"proof,omitempty"`
}

// growth answers a node that has seen so many lines.
func (j *journal) growth(seen uint64) *Growth {
	return &Growth{seen, j.tree.Seen(), j.tree.Proof(seen)}
}

// since returns the lines from the last order of operators with one of these contents on.
func (j *journal) since(contents map[string]bool) (list []trust.Record) {
	for _, line := range slices.Backward(j.lines) {
		a, err := trust.ParseRecord(line)
		if err != nil {
			return nil // they were parsed before
		}
		if contents[a.Content] {
			list = append(list, a)
		}
		if contents[a.Content] && a.What == trust.VerbBegun {
			return list
		}
	}
	return nil
}
