// SPDX-License-Identifier: MIT

package agent

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A keeper saves the output of one worker in files of bounded size: its beginning and its end,
// because errors may be in both. Its owner's lock guards it.
type keeper struct {
	base  string // of the files' names
	head  *os.File
	tail  *os.File
	bytes int // in the file that is written now
	lines [2]int
	lost  int // lines between beginning and end
}

const (
	keptHead = 256 << 10
	keptTail = 256 << 10 // of each of two
	keptMax  = 64        // workers
)

// Ends of the files' names, in the order in which they are shown.
var keptParts = []string{".head", ".gap", ".before", ".tail"}

func newKeeper(dir, session string) (*keeper, error) {
	pruneKept(dir, keptMax-1)
	name := fmt.Sprintf("%013d-%s-%04x", time.Now().UnixMilli(), keptName(session), newNonce()&0xffff)
	k := &keeper{base: filepath.Join(dir, name)}
	var err error
	k.head, err = os.OpenFile(k.base+keptParts[0], os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	return k, err
}

// keptName is a session as a part of a file's name, at most 64 bytes.
func keptName(session string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, session[:min(len(session), 64)])
}

// add keeps a line. A full disk does not end a call.
func (k *keeper) add(line string) {
	n := len(line) + 1
	if k.tail == nil && k.bytes+n <= keptHead {
		k.bytes += n
		io.WriteString(k.head, line+"\n")
		return
	}
	if k.tail == nil || k.bytes+n > keptTail {
		if k.rotate() != nil {
			return
		}
	}
	k.bytes += n
	k.lines[1]++
	io.WriteString(k.tail, line+"\n")
}

// rotate begins another file for the end; the last but one is lost.
func (k *keeper) rotate() (err error) {
	if k.tail != nil {
		k.tail.Close()
		if k.lost += k.lines[0]; k.lost > 0 {
			os.WriteFile(k.base+".gap", fmt.Appendf(nil, "(%d lines were here and are lost)\n", k.lost), 0o600)
		}
		os.Remove(k.base + ".before")
		os.Rename(k.base+".tail", k.base+".before")
	}
	k.lines, k.bytes = [2]int{k.lines[1], 0}, 0
	k.tail, err = os.OpenFile(k.base+".tail", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	return err
}

// close ends it. Without output there is no file.
func (k *keeper) close() {
	k.head.Close()
	if k.tail != nil {
		k.tail.Close()
	} else if k.bytes == 0 {
		os.Remove(k.base + keptParts[0])
	}
}

// keptBases lists workers by their files, the oldest first.
func keptBases(dirs ...string) (list []string) {
	for _, dir := range dirs {
		some, _ := filepath.Glob(filepath.Join(dir, "*"+keptParts[0]))
		list = append(list, some...)
	}
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], keptParts[0])
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	return list
}

func pruneKept(dir string, most int) {
	list := keptBases(dir)
	for _, base := range list[:max(len(list)-most, 0)] {
		for _, part := range keptParts {
			os.Remove(base + part)
		}
	}
}

// showKept writes the saved output of a session's workers; "" means the latest session.
func showKept(dirs []string, session string, to io.Writer) error {
	bases := keptBases(dirs...)
	if session == "" && len(bases) > 0 {
		session = strings.Split(filepath.Base(bases[len(bases)-1]), "-")[1]
	}
	for _, base := range bases {
		f := strings.Split(filepath.Base(base), "-")
		if len(f) != 3 || f[1] != keptName(session) {
			continue
		}
		var ms int64
		fmt.Sscan(strings.TrimLeft(f[0], "0"), &ms)
		if _, err := fmt.Fprintf(to, "== worker %s of session %s, started %s\n", f[2], f[1], time.UnixMilli(ms).Format(time.DateTime)); err != nil {
			return err
		}
		for _, part := range keptParts {
			text, _ := os.ReadFile(base + part)
			if _, err := to.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}
