// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"skep/grid/hub"
	"skep/internal/atomicfile"
	"skep/internal/cli"
)

// backup writes what another hub needs to take the place of this one.
type backup struct{ state string }

func (b *backup) options(f *cli.Flags) {
	f.StringVar(&b.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (b *backup) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, err := oneFile(f, words, "a file")
	if err != nil {
		return err
	}
	c, err := openControl(b.state)
	if err != nil {
		return err
	}
	body, err := c.Backup(ctx)
	if err != nil {
		return withExitCode(err)
	}
	defer body.Close()
	size, err := storeBackup(name, body)
	if err != nil {
		return fmt.Errorf("the backup was not made: %w", err)
	}
	fmt.Fprintf(os.Stderr, "skep: %s has %s; whoever can read it can act as this hub, so keep it secret\n", name, cli.FormatBytes(size))
	return nil
}

// storeBackup writes a backup to a file, which is replaced when the backup is whole and on the
// disk.
func storeBackup(name string, from io.Reader) (size uint64, err error) {
	next := filepath.Join(filepath.Dir(name), fmt.Sprintf(".new-%016x", rand.Uint64()))
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer os.Remove(next)
	_, err = hub.ReadBackup(io.TeeReader(from, f), func(string, io.Reader) error { return nil })
	if err == nil {
		err = f.Sync()
	}
	if info, e := f.Stat(); e == nil {
		size = uint64(info.Size())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, atomicfile.Rename(next, name)
}

// restore makes the state of a hub from a backup.
type restore struct {
	state   string
	replace bool
}

func (r *restore) options(f *cli.Flags) {
	f.StringVar(&r.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&r.replace, "replace", false, "rename the state that is there, and put the backup in its place")
}

func (r *restore) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, err := oneFile(f, words, "a file")
	if err != nil {
		return err
	}
	dir, err := stateDir(r.state)
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if isExposed(file) {
		fmt.Fprintf(os.Stderr, "skep: other users can read %s, and with it act as this hub: chmod 600 it\n", name)
	}
	info, old, err := hub.Restore(ctx, file, hubState(dir), r.replace)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	if old != "" {
		fmt.Fprintf(os.Stderr, "skep: the state that was there is %s now\n", old)
	}
	_, err = fmt.Printf("%s has the state of the hub as of %s\n", hubState(dir), info.Time.Format("2006-01-02 15:04:05 UTC"))
	return err
}
