// SPDX-License-Identifier: MIT

package trust

import "time"

// CheckKeys decides whether a newer document of keys replaces the one in force: enough
// of the keys in force must have signed it, and enough of its own.
func (s State) CheckKeys(text []byte, now time.Time) (State, Keys, error) {
	old, _, err := s.Keys()
	if err != nil {
		return s, Keys{}, err
	}
	doc, err := ParseSigned(text)
	if err != nil {
		return s, Keys{}, err
	}
	k, err := ParseKeys(doc.Text)
	if err != nil {
		return s, k, err
	}
	next := s.clone()
	if err := next.tick(now); err != nil {
		return s, k, err
	}
	switch {
	case k.Fleet != old.Fleet:
		return s, k, refusef(OtherKeys, "the document of keys is of fleet %s, and this node belongs to %s", k.Fleet, old.Fleet)
	case k.Version <= old.Version:
		return s, k, refusef(Older, "the document of keys has version %d, and version %d is in force", k.Version, old.Version)
	}
	if _, err := next.signedBy(doc, &old); err != nil {
		return s, k, err
	}
	next, err = next.adopt(doc, &k, now)
	if err != nil {
		return s, k, err
	}
	return next, k, nil
}

// Pin makes a document of keys the one in force because root of this node says so. Marks
// of lines are kept, because a replay is one whoever asks. forgetTime sets the latest
// time seen to now.
func (s State) Pin(text []byte, now time.Time, forgetTime bool) (State, Keys, error) {
	doc, err := ParseSigned(text)
	if err != nil {
		return s, Keys{}, err
	}
	k, err := ParseKeys(doc.Text)
	if err != nil {
		return s, k, err
	}
	next := s.clone()
	if forgetTime {
		next.Seen = 0
	}
	if err := next.tick(now); err != nil {
		return s, k, err
	}
	next, err = next.adopt(doc, &k, now)
	if err != nil {
		return s, k, err
	}
	return next, k, nil
}

// adopt puts a document of keys in force. Its own keys must have signed it too, so that no
// document comes into force that its operators cannot replace.
func (s State) adopt(doc *Signed, k *Keys, now time.Time) (State, error) {
	if err := inTime("the document of keys", k.Signed, k.Expires, now); err != nil {
		return s, err
	}
	for _, id := range k.Revoked {
		if s.Revoked[id] == "" {
			s.Revoked[id] = timeText(k.Signed) + ", by operators"
		}
	}
	if _, err := s.signedBy(doc, k); err != nil {
		return s, err
	}
	for line, floor := range k.Floors {
		if s.Lines[line].Sequence < floor {
			if err := s.mark(line, Mark{Sequence: floor}); err != nil {
				return s, err
			}
		}
	}
	s.Pinned = string(doc.Encode())
	return s, nil
}

// Revoke makes a key invalid on this node, because root of this node says so. left is the
// number of keys that can still sign.
func (s State) Revoke(id string, now time.Time) (next State, left int, err error) {
	k, _, err := s.Keys()
	if err != nil {
		return s, 0, err
	}
	if _, known := k.find(id); !known {
		return s, 0, refusef(Malformed, "%.80q is not a key of %s: 'skep update keys show' lists them", id, k.Fleet)
	}
	next = s.clone()
	if next.Revoked[id] == "" {
		next.Revoked[id] = timeText(now) + ", by root of this node"
	}
	for _, key := range k.Keys {
		if next.Revoked[key.ID()] == "" {
			left++
		}
	}
	return next, left, nil
}

// Block records that an update failed on this node.
func (s State) Block(content, why string) State {
	next := s.clone()
	next.Blocked[content] = why
	return next
}
