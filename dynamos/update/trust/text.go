// SPDX-License-Identifier: MIT

package trust

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// A textReader reads the lines "KEY VALUE" of a document in their order. After the first
// error it returns zero values.
type textReader struct {
	lines []string
	err   error
}

func newTextReader(text []byte) *textReader {
	r := &textReader{}
	body, ended := bytes.CutSuffix(text, []byte("\n"))
	for _, c := range body {
		if c != '\n' && (c < ' ' || c > '~') {
			r.fail("it contains a byte that is not printable ASCII")
		}
	}
	if !ended {
		r.fail("its last line is not ended")
	}
	r.lines = strings.Split(string(body), "\n")
	return r
}

func (r *textReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = refusef(Malformed, "the document is malformed: "+format, args...)
	}
}

// has reports whether the next line has this key.
func (r *textReader) has(key string) bool {
	return r.err == nil && len(r.lines) > 0 && strings.HasPrefix(r.lines[0], key+" ")
}

func (r *textReader) value(key string) string {
	if r.err != nil {
		return ""
	}
	if !r.has(key) {
		r.fail("the line %q is expected", key)
		return ""
	}
	v := strings.TrimPrefix(r.lines[0], key+" ")
	r.lines = r.lines[1:]
	return v
}

func (r *textReader) number(key string, from, to uint64) uint64 {
	v := r.value(key)
	n, err := strconv.ParseUint(v, 10, 64)
	if r.err == nil && (err != nil || n < from || n > to) {
		r.fail("%s is %.40q, not a number from %d to %d", key, v, from, to)
	}
	return n
}

func (r *textReader) word(key string) string {
	v := r.value(key)
	if r.err == nil && !ValidLine(v) {
		r.fail("%s is %.80q: lower case letters, digits, _ and -, at most %d", key, v, maxWord)
	}
	return v
}

func (r *textReader) digest(key string) string {
	v := r.value(key)
	if r.err == nil && !validDigest(v) {
		r.fail("%s is not a SHA-256", key)
	}
	return v
}

func (r *textReader) buildID(key string) string {
	v := r.value(key)
	_, err := hex.DecodeString(v)
	if r.err == nil && (err != nil || len(v) != 40 || strings.ToLower(v) != v) {
		r.fail("%s is not the build-id of a kernel", key)
	}
	return v
}

func (r *textReader) version(key string) string {
	v := r.value(key)
	if r.err == nil && (v == "" || len(v) > maxWord || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+~:-") != "") {
		r.fail("%s is %.80q, not the version of a package", key, v)
	}
	return v
}

func (r *textReader) time(key string) time.Time {
	v := r.value(key)
	t, err := time.Parse(time.RFC3339, v)
	if r.err == nil && (err != nil || timeText(t) != v || t.Year() < 2000 || t.Year() > 9999) {
		r.fail("%s is %.40q, not a time such as 2026-11-26T11:00:00Z", key, v)
	}
	return t
}

// validity reads when a document was signed and when it expires.
func (r *textReader) validity() (signed, expires time.Time) {
	signed, expires = r.time("signed"), r.time("expires")
	if r.err == nil && (!expires.After(signed) || expires.Sub(signed) > maxValid) {
		r.fail("it must expire after it was signed, within %d days", int(maxValid.Hours())/24)
	}
	return signed, expires
}

// end checks that no line is left, and that the text is what its contents encode to.
func (r *textReader) end(text, encoded []byte) error {
	if r.err == nil && len(r.lines) > 0 {
		r.fail("%.80q is not expected", r.lines[0])
	}
	if r.err == nil && !bytes.Equal(text, encoded) {
		r.fail("it is not written in the canonical form")
	}
	return r.err
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func validDigest(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 64 && strings.ToLower(s) == s
}

// ValidLine reports whether s is the name of a line of updates, or of a fleet.
func ValidLine(s string) bool {
	return s != "" && len(s) <= maxWord && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
