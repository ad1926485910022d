// SPDX-License-Identifier: MIT

package rolls

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
)

// A follower is how far a node has seen its hub's audit log. A hub that was taken over
// cannot show this node a log from which lines were cut, or in which some were changed.
type follower struct {
	file string
	at   trust.Seen
}

// SeenFile has no suffix of a roll.
const SeenFile = "audit-seen"

// errLag says that an order answers an earlier report. The next one will not.
var errLag = errors.New("the hub's order does not answer the last report, so the audit log was not compared")

// openFollower reads what this node has seen. A damaged file is an error: without it a log
// that was cut could not be noticed.
func openFollower(dir string) (*follower, error) {
	f := &follower{file: filepath.Join(dir, SeenFile)}
	return f, f.read()
}

func (f *follower) read() error {
	at, err := ReadSeen(f.file)
	if err == nil {
		f.at = at
	}
	return err
}

// ReadSeen reads how far a node has seen its hub's audit log, from the node's file. One that
// is not there has seen nothing.
func ReadSeen(file string) (at trust.Seen, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && (at.Lines == 0 || !isHex(at.Root, digestHex)) {
		err = errors.New("it names no line")
	}
	if err != nil {
		return at, fmt.Errorf("what this node has seen of the hub's audit log is damaged: as root remove %s, and compare the log by hand: %w", file, err)
	}
	return at, nil
}

// follow checks that the hub's log continues what this node has seen, and stores what it
// sees now before an order is obeyed. It may begin anew if root removed the file.
func (f *follower) follow(g *Growth) error {
	err := f.compare(g)
	if trust.Name(err) == "" {
		return err
	}
	if again := f.read(); again != nil {
		return again
	}
	if _, gone := os.Stat(f.file); errors.Is(gone, fs.ErrNotExist) {
		f.at = trust.Seen{}
		return f.compare(g)
	}
	return fmt.Errorf("%w; if the hub was set up anew, or is another one, root of this node removes %s", err, f.file)
}

func (f *follower) compare(g *Growth) error {
	switch {
	case g == nil && f.at.Lines == 0: // an older hub
		return nil
	case g == nil:
		return f.at.Follow(trust.Seen{}, nil)
	case g.Now == f.at:
		return nil
	case g.From != f.at.Lines:
		return errLag
	}
	if err := f.at.Follow(g.Now, g.Proof); err != nil {
		return err
	}
	if g.Now.Lines == 0 {
		return nil
	}
	if !isHex(g.Now.Root, digestHex) {
		return errors.New("the hub names no digest of its audit log")
	}
	text, err := json.Marshal(g.Now)
	if err == nil {
		err = atomicfile.Write(f.file, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("how far this node has seen the hub's audit log cannot be stored: %w", err)
	}
	f.at = g.Now
	return nil
}
