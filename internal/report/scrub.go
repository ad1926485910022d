// SPDX-License-Identifier: MIT

package report

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"skep/internal/lazy"
)

// A Scrubber removes names of people, hosts and folders from texts.
type Scrubber struct {
	names []secret
}

type secret struct {
	text, instead string
	word          bool // remove it only as a whole word
}

var (
	addressV4 = lazy.Regexp(`\b\d{1,3}(\.\d{1,3}){3}\b`)
	addressV6 = lazy.Regexp(`(?i)\b[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}(%\w+)?`)
	hardware  = lazy.Regexp(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5,7}\b`)
	mail      = lazy.Regexp(`[\w.+-]+@[\w-]+(\.[\w-]+)*`)
	homes     = lazy.Regexp(`(?i)(/home/|/Users/|\\Users\\)[^/\\\s"':]+`)
)

// NewScrubber returns a Scrubber for the names of this host, its user and the user's
// folders, and for the given hosts.
func NewScrubber(hosts ...string) *Scrubber {
	s := &Scrubber{}
	if host, err := os.Hostname(); err == nil {
		hosts = append(hosts, host)
	}
	hosts = append(hosts, os.Getenv("COMPUTERNAME"), os.Getenv("USERDOMAIN"), os.Getenv("USERDNSDOMAIN"))
	users := []string{os.Getenv("USER"), os.Getenv("LOGNAME"), os.Getenv("USERNAME")}
	places := []string{os.Getenv("HOME"), os.Getenv("USERPROFILE")}
	if u, err := user.Current(); err == nil {
		users = append(users, u.Username, u.Name)
		if _, name, ok := strings.Cut(u.Username, `\`); ok {
			users = append(users, name)
		}
		places = append(places, u.HomeDir)
	}
	if here, err := os.Getwd(); err == nil {
		places = append(places, here)
	}
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Dir(self))
	}
	for _, place := range append(places, os.TempDir()) {
		s.add(place, "<folder>", false)
		s.add(filepath.ToSlash(place), "<folder>", false)
	}
	for _, host := range hosts {
		s.add(host, "<host>", true)
		short, _, _ := strings.Cut(host, ".")
		s.add(short, "<host>", true)
	}
	for _, name := range users {
		s.add(name, "<user>", true)
	}
	// The longest first, because a folder's path contains the user's name.
	slices.SortStableFunc(s.names, func(a, b secret) int { return cmp.Compare(len(b.text), len(a.text)) })
	return s
}

// common are names that occur in every report and so reveal nothing.
var common = []string{"", ".", "/", "localhost", "root", "linux", "windows", "wine", "bee", "skep"}

func (s *Scrubber) add(text, instead string, word bool) {
	if !slices.Contains(common, strings.ToLower(text)) && len(text) > 1 {
		s.names = append(s.names, secret{text, instead, word})
	}
}

// Text removes names and addresses from a text, and characters that a report must not have.
func (s *Scrubber) Text(text string) string {
	for _, n := range s.names {
		text = n.replace(text)
	}
	text = homes().ReplaceAllString(text, "${1}<user>")
	text = mail().ReplaceAllString(text, "<mail>")
	text = hardware().ReplaceAllString(text, "<address>")
	text = addressV6().ReplaceAllStringFunc(text, func(a string) string {
		if strings.Count(a, ":") < 3 && !strings.Contains(a, "::") { // a time of day
			return a
		}
		return "<address>"
	})
	text = addressV4().ReplaceAllString(text, "<address>")
	return plain(text)
}

// replace replaces the text in upper or lower case, and a word only if no letter is
// adjacent to it.
func (n secret) replace(text string) string {
	re := regexp.QuoteMeta(n.text)
	if n.word {
		re = `(^|[^\pL\pN])` + re + `($|[^\pL\pN])`
		for range 2 { // adjacent matches share the character between them
			text = regexp.MustCompile("(?i)"+re).ReplaceAllString(text, "${1}"+n.instead+"${2}")
		}
		return text
	}
	return regexp.MustCompile("(?i)"+re).ReplaceAllLiteralString(text, n.instead)
}

// plain removes characters that a report must not have.
func plain(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax-3], "") + "..."
	}
	return strings.TrimSpace(text)
}

// Scrub removes names from all texts of a report.
func (s *Scrubber) Scrub(r *Report) {
	for _, text := range []*string{&r.Machine.System, &r.Machine.Processor, &r.Skep.Version, &r.Skep.Commit, &r.Skep.Bee} {
		*text = s.Text(*text)
	}
	for i := range r.Figures {
		f := &r.Figures[i]
		f.Bar, f.Name, f.Unit, f.Peer = s.Text(f.Bar), s.Text(f.Name), s.Text(f.Unit), s.Text(f.Peer)
	}
	for i := range r.Absent {
		r.Absent[i].Reason = s.Text(r.Absent[i].Reason)
	}
	for i := range r.Log {
		r.Log[i] = s.Text(r.Log[i])
	}
}

// Plain removes characters that a report must not have from the texts of programs. It does
// not remove names.
func Plain(r *Report) {
	for i := range r.Log {
		r.Log[i] = plain(r.Log[i])
	}
	for i := range r.Absent {
		r.Absent[i].Reason = plain(r.Absent[i].Reason)
	}
}
