// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"skep/grid/proto"
)

func mergedOf(s fakeStore, own string, parts ...proto.Part) *merged {
	l := proto.Lease{Length: uint64(len(own)), Data: parts}
	return &merged{own: io.NopCloser(strings.NewReader(own)), store: s, parts: parts, left: l.Total()}
}

// Blobs are put into the arguments where they belong, also at both ends and next to each other.
func TestMerged(t *testing.T) {
	s := fakeStore{tempDir(t)}
	a, b, empty := s.put(t, []byte("aaaa")), s.put(t, []byte("bbb")), s.put(t, nil)
	for _, r := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		for want, m := range map[string]*merged{
			"aaaa12bbbbbb3": mergedOf(s, "123", proto.Part{Length: 4, Blob: a}, proto.Part{Offset: 6, Length: 3, Blob: b}, proto.Part{Offset: 9, Length: 3, Blob: b}),
			"1aaaa":         mergedOf(s, "1", proto.Part{Offset: 1, Blob: empty}, proto.Part{Offset: 1, Length: 4, Blob: a}),
			"bbb":           mergedOf(s, "", proto.Part{Length: 3, Blob: b}),
		} {
			got, err := io.ReadAll(r(m))
			if string(got) != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			m.Close()
		}
	}
}

// The last bytes of data that was changed are not passed on, and it is fetched again.
func TestMergedChanged(t *testing.T) {
	for name, content := range map[string]string{"changed": "aaab", "short": "aaa"} {
		s := fakeStore{tempDir(t)}
		a := s.put(t, []byte("aaaa"))
		if err := os.WriteFile(filepath.Join(s.dir, a), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		m := mergedOf(s, "", proto.Part{Length: 4, Blob: a})
		got, err := io.ReadAll(m)
		if len(got) == 4 || err == nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := s.Path(a); err == nil {
			t.Errorf("%s: it is still there", name)
		}
		m.Close()
	}
}

// The parts of a result that are wanted later are stored, and the result is passed on unchanged.
func TestKeepParts(t *testing.T) {
	s := fakeStore{tempDir(t)}
	l := &lease{area: &area{store: s}}
	l.Keep = []proto.Part{{Offset: 1, Length: 3}, {Offset: 4, Length: 2}, {Offset: 7}, {Offset: 7, Length: 1}}
	r, end := (&Agent{}).keepParts(l, iotest.HalfReader(bytes.NewReader([]byte("0abcde6f"))))
	got, err := io.ReadAll(r)
	end()
	if string(got) != "0abcde6f" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	for _, want := range []string{"abc", "de", "f"} {
		sum := sha256.Sum256([]byte(want))
		if b, err := os.ReadFile(filepath.Join(s.dir, hex.EncodeToString(sum[:]))); string(b) != want || err != nil {
			t.Errorf("%q, %v; want %q", b, err, want)
		}
	}
}

// A lease whose parts lie anywhere else than in its bytes, in order, is refused.
func TestLeaseParts(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct {
		what       string
		data, keep []proto.Part
		length     uint64
		ok         bool
	}{
		{"none", nil, nil, 10, true},
		{"first and last", []proto.Part{{Offset: 0, Length: 5}, {Offset: 15, Length: 5}}, []proto.Part{{Offset: 3, Length: 4}}, 10, true},
		{"behind the end", []proto.Part{{Offset: 6, Length: 5}}, nil, 5, false},
		{"twice", []proto.Part{{Offset: 0, Length: 5}, {Offset: 4, Length: 5}}, nil, 10, false},
		{"beyond all numbers", []proto.Part{{Offset: most - 3, Length: 4}, {Offset: 0, Length: 4}}, nil, 10, false},
		{"too long", []proto.Part{{Offset: 0, Length: proto.DataMax + 1}}, nil, 10, false},
		{"arguments beyond all numbers", []proto.Part{{Offset: 0, Length: 5}}, nil, most - 2, false},
		{"as many as a hub lets", make([]proto.Part, partsMax), make([]proto.Part, partsMax), 10, true},
		{"too many", make([]proto.Part, partsMax+1), nil, 10, false},
		{"results twice", nil, []proto.Part{{Offset: 0, Length: 5}, {Offset: 4, Length: 5}}, 10, false},
		{"results beyond all numbers", nil, []proto.Part{{Offset: most - 3, Length: 4}}, 10, false},
		{"too many results", nil, make([]proto.Part, partsMax+1), 10, false},
	} {
		l := lease{Lease: proto.Lease{Session: "s", Length: c.length, Data: c.data, Keep: c.keep}}
		l.Worker.Module = strings.Repeat("0", 64)
		if err := l.check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
