// SPDX-License-Identifier: MIT

package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"time"
)

// stateRevision is that of the state's file.
const stateRevision = 1

// A State is what a node remembers. The zero State trusts no key.
type State struct {
	Revision int             `json:"revision"`
	Pinned   string          `json:"keys"`  // the document of keys in force, with its signatures
	Lines    map[string]Mark `json:"lines"` // by line of updates
	// Revoked are keys that were revoked, by a document or by root of this node, and when.
	Revoked map[string]string `json:"revoked"`
	// Blocked are contents of updates that failed here, and how.
	Blocked map[string]string `json:"blocked"`
	Seen    int64             `json:"seen"` // the latest time seen, Unix seconds
	Audit   Head              `json:"audit"`
}

// A Mark is the highest sequence seen of a line of updates.
type Mark struct {
	Sequence uint64 `json:"sequence"`
	Content  string `json:"content,omitempty"` // "": a floor, or an order to revert
	Reverted bool   `json:"reverted,omitempty"`
}

// clone returns a copy that shares no map.
func (s State) clone() State {
	s.Revision = stateRevision
	s.Lines, s.Revoked, s.Blocked = cloneMap(s.Lines), cloneMap(s.Revoked), cloneMap(s.Blocked)
	s.Audit.Own = cloneMap(s.Audit.Own)
	return s
}

func cloneMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

// Keys returns the document of keys in force.
func (s *State) Keys() (Keys, *Signed, error) {
	if s.Pinned == "" {
		return Keys{}, nil, refusef(Unpinned, "this node has no keys of operators: 'skep update keys trust' pins them")
	}
	doc, err := ParseSigned([]byte(s.Pinned))
	if err != nil {
		return Keys{}, nil, err
	}
	k, err := ParseKeys(doc.Text)
	return k, doc, err
}

// Encode returns the bytes of the state's file.
func (s *State) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(s.clone(), "", "\t")
	return append(text, '\n'), err
}

// ParseState reads the bytes of a state's file. A damaged file is an error and never a
// state that has forgotten something.
func ParseState(text []byte) (State, error) {
	var s State
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return State{}, refusef(Malformed, "what this node remembers about operators' keys is damaged: %v", err)
	}
	if s.Revision != stateRevision {
		return State{}, refusef(Malformed, "what this node remembers about operators' keys has revision %d, and this skep knows %d", s.Revision, stateRevision)
	}
	if s.Pinned != "" {
		if _, _, err := s.Keys(); err != nil {
			return State{}, err
		}
	}
	if len(s.Lines) > maxLines || s.Lines == nil || s.Revoked == nil || s.Blocked == nil || s.Seen < 0 {
		return State{}, refusef(Malformed, "what this node remembers about operators' keys is damaged: a part is missing or too long")
	}
	return s.clone(), nil
}

// Tick records the time. It refuses a clock that was set back.
func (s State) Tick(now time.Time) (State, error) {
	next := s.clone()
	if err := next.tick(now); err != nil {
		return s, err
	}
	return next, nil
}

// tick moves the latest time seen. It refuses a clock that was set back.
func (s *State) tick(now time.Time) error {
	seen := time.Unix(s.Seen, 0)
	if now.Before(seen.Add(-clockSlack)) {
		return refusef(Clock, "this machine's clock says %s, but %s was seen already: it was set back, so nothing can expire; set it right, or as root pin the keys again with --forget-time",
			timeText(now), timeText(seen))
	}
	s.Seen = max(s.Seen, now.Unix())
	return nil
}

// mark records a sequence. There is a limit on lines, so that no hub fills the file.
func (s *State) mark(line string, m Mark) error {
	if _, known := s.Lines[line]; !known && len(s.Lines) >= maxLines {
		return refusef(Malformed, "this node remembers %d lines of updates already, and takes no other", maxLines)
	}
	s.Lines[line] = m
	return nil
}

// Name returns the name of a refusal, or "" of another error.
func Name(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Name
	}
	return ""
}
