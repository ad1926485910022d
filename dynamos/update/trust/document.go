// SPDX-License-Identifier: MIT

package trust

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// First words of documents. They are the namespaces of signatures too, so that no
// signature of one kind is valid for another.
const (
	kindPackage  = "skep-package"
	kindRevert   = "skep-revert"
	kindIncluded = "skep-included"
	kindKeys     = "skep-keys"
)

// format is the version of all documents.
const format = 1

// A Package is the statement of operators about one package.
type Package struct {
	Line            string // which updates replace each other: later sequences replace earlier ones
	Sequence        uint64
	Name, Class     string // of the update
	Content         string // digest of the package, pack.Package.Content
	Signed, Expires time.Time
	Trial           time.Duration // the longest trial, in whole seconds
	Widest          Policy
	// ObjectsExist is why objects do no harm that lack what the update relies on. Without
	// it, a hub cannot apply an update that relies on such.
	ObjectsExist string
}

// A Revert is the order of operators to revert a committed update.
type Revert struct {
	Line            string
	Sequence        uint64 // greater than that of the package
	Name, Content   string
	Signed, Expires time.Time
}

// An Included is the statement of operators that a kernel contains the change of a package
// already, so that it needs no such update. It has no sequence: it stays true.
type Included struct {
	Name, Content   string // of the package
	BuildID         string // of the kernel, 40 hex digits
	Version         string // of the kernel's package, of which the source was compared
	Signed, Expires time.Time
}

// Keys are the operators' keys. Floors are lowest sequences: an older package of that
// line is not taken.
type Keys struct {
	Fleet           string
	Version         uint64
	Threshold       int
	Signed, Expires time.Time
	Keys            []Key
	Revoked         []string // identities of keys, for good
	Floors          map[string]uint64
}

// Encode returns the canonical text.
func (p *Package) Encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\nline %s\nsequence %d\nname %s\nclass %s\ncontent %s\n", kindPackage, format,
		p.Line, p.Sequence, p.Name, p.Class, p.Content)
	fmt.Fprintf(&b, "signed %s\nexpires %s\ntrial %d\n", timeText(p.Signed), timeText(p.Expires), int64(p.Trial/time.Second))
	if p.ObjectsExist != "" {
		fmt.Fprintf(&b, "objects-exist %s\n", p.ObjectsExist)
	}
	p.Widest.encode(&b)
	return []byte(b.String())
}

// ParsePackage reads a statement about a package.
func ParsePackage(text []byte) (p Package, err error) {
	r := newTextReader(text)
	r.number(kindPackage, format, format)
	p.Line, p.Sequence = r.word("line"), r.number("sequence", 1, 1<<53)
	p.Name, p.Class, p.Content = r.word("name"), r.word("class"), r.digest("content")
	p.Signed, p.Expires = r.validity()
	p.Trial = time.Duration(r.number("trial", 1, uint64(maxTrial/time.Second))) * time.Second
	if r.has("objects-exist") {
		p.ObjectsExist = r.value("objects-exist")
		if strings.TrimSpace(p.ObjectsExist) != p.ObjectsExist || p.ObjectsExist == "" || len(p.ObjectsExist) > maxPath {
			r.fail("objects-exist says nothing, or too much")
		}
	}
	p.Widest.decode(r)
	return p, r.end(text, p.Encode())
}

// Encode returns the canonical text.
func (v *Revert) Encode() []byte {
	return fmt.Appendf(nil, "%s %d\nline %s\nsequence %d\nname %s\ncontent %s\nsigned %s\nexpires %s\n", kindRevert, format,
		v.Line, v.Sequence, v.Name, v.Content, timeText(v.Signed), timeText(v.Expires))
}

// ParseRevert reads an order to revert.
func ParseRevert(text []byte) (v Revert, err error) {
	r := newTextReader(text)
	r.number(kindRevert, format, format)
	v.Line, v.Sequence = r.word("line"), r.number("sequence", 1, 1<<53)
	v.Name, v.Content = r.word("name"), r.digest("content")
	v.Signed, v.Expires = r.validity()
	return v, r.end(text, v.Encode())
}

// Encode returns the canonical text.
func (i *Included) Encode() []byte {
	return fmt.Appendf(nil, "%s %d\nname %s\ncontent %s\nkernel %s\nversion %s\nsigned %s\nexpires %s\n", kindIncluded, format,
		i.Name, i.Content, i.BuildID, i.Version, timeText(i.Signed), timeText(i.Expires))
}

// ParseIncluded reads a statement that a kernel contains a change.
func ParseIncluded(text []byte) (i Included, err error) {
	r := newTextReader(text)
	r.number(kindIncluded, format, format)
	i.Name, i.Content = r.word("name"), r.digest("content")
	i.BuildID, i.Version = r.buildID("kernel"), r.version("version")
	i.Signed, i.Expires = r.validity()
	return i, r.end(text, i.Encode())
}

// Encode returns the canonical text.
func (k *Keys) Encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\nfleet %s\nversion %d\nthreshold %d\n", kindKeys, format, k.Fleet, k.Version, k.Threshold)
	fmt.Fprintf(&b, "signed %s\nexpires %s\n", timeText(k.Signed), timeText(k.Expires))
	keys := slices.SortedFunc(slices.Values(k.Keys), func(x, y Key) int { return strings.Compare(x.String(), y.String()) })
	for _, key := range keys {
		fmt.Fprintf(&b, "key %s\n", key)
	}
	for _, id := range slices.Sorted(slices.Values(k.Revoked)) {
		fmt.Fprintf(&b, "revoked %s\n", id)
	}
	for _, line := range slices.Sorted(maps.Keys(k.Floors)) {
		fmt.Fprintf(&b, "floor %s %d\n", line, k.Floors[line])
	}
	return []byte(b.String())
}

// ParseKeys reads a document of keys.
func ParseKeys(text []byte) (k Keys, err error) {
	r := newTextReader(text)
	r.number(kindKeys, format, format)
	k.Fleet, k.Version = r.word("fleet"), r.number("version", 1, 1<<53)
	k.Threshold = int(r.number("threshold", 1, maxKeys))
	k.Signed, k.Expires = r.validity()
	k.readKeys(r)
	k.Floors = map[string]uint64{}
	for r.has("floor") {
		line, number, _ := strings.Cut(r.value("floor"), " ")
		floor := &textReader{lines: []string{"line " + line, "floor " + number}}
		k.Floors[floor.word("line")] = floor.number("floor", 1, 1<<53)
		if floor.err != nil || len(k.Floors) > maxLines {
			r.fail("a floor is wrong")
		}
	}
	return k, r.end(text, k.Encode())
}

func (k *Keys) readKeys(r *textReader) {
	seen := map[string]bool{}
	for r.has("key") {
		key, err := ParseKey(r.value("key"))
		if err != nil {
			r.fail("a line of key: %v", err)
			return
		}
		if seen[key.ID()] || len(k.Keys) == maxKeys {
			r.fail("a key is listed twice, or there are more than %d", maxKeys)
		}
		seen[key.ID()] = true
		k.Keys = append(k.Keys, key)
	}
	for r.has("revoked") {
		id := r.value("revoked")
		if !validID(id) || seen[id] || len(k.Revoked) == maxLines {
			r.fail("%.80q cannot be revoked: it is not the identity of a key, or the key is listed as valid too", id)
		}
		seen[id] = true
		k.Revoked = append(k.Revoked, id)
	}
	if k.Threshold > len(k.Keys) {
		r.fail("%d of %d keys can never sign", k.Threshold, len(k.Keys))
	}
}

// find returns the key with an identity.
func (k *Keys) find(id string) (Key, bool) {
	for _, key := range k.Keys {
		if key.ID() == id {
			return key, true
		}
	}
	return Key{}, false
}
