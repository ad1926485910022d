// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skep/grid/blob"
	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/rolls"
	"skep/internal/atomicfile"
)

// Restore makes the state directory of a hub from a backup. An existing one is an error, or
// with replace gets another name, which is returned. If Restore fails, nothing has changed.
func Restore(ctx context.Context, from io.Reader, state string, replace bool) (info BackupInfo, old string, err error) {
	parent := filepath.Dir(state)
	if err := atomicfile.MkdirAll(parent, 0o700); err != nil {
		return info, "", err
	}
	unlock, err := claimState(state, replace)
	if err != nil {
		return info, "", err
	}
	defer func() { unlock() }()
	dir, err := os.MkdirTemp(parent, ".restore-")
	if err != nil {
		return info, "", err
	}
	defer os.RemoveAll(dir)
	if info, err = unpack(ctx, from, dir); err != nil {
		return info, "", diskFull(parent, err)
	}
	if err := giveToOwner(dir, parent); err != nil {
		return info, "", err
	}
	if _, err := os.Lstat(state); err == nil {
		old = fmt.Sprintf("%s.before-%s", state, time.Now().UTC().Format("20060102T150405.000"))
		unlock() // Windows renames no folder with an open file
		unlock = func() {}
		if err := os.Rename(state, old); err != nil {
			return info, "", err
		}
	}
	if err := atomicfile.Rename(dir, state); err != nil {
		return info, "", errors.Join(err, putBack(old, state))
	}
	return info, old, nil
}

func putBack(old, state string) error {
	if old == "" {
		return nil
	}
	return os.Rename(old, state)
}

// claimState takes the lock of a state directory that exists, so that no hub has it.
func claimState(state string, replace bool) (unlock func(), err error) {
	list, err := os.ReadDir(state)
	if os.IsNotExist(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if unlock, err = ident.TryLock(filepath.Join(state, lockFile)); err != nil {
		return nil, fmt.Errorf("a hub uses %s: stop it first: %w", state, err)
	}
	for _, e := range list {
		if e.Name() != lockFile && !replace {
			unlock()
			return nil, fmt.Errorf("%s has the state of a hub: --replace renames it and puts the backup in its place, or give another --state", state)
		}
	}
	return unlock, nil
}

// unpack writes the files of a backup into a new state directory, and checks that a hub can
// use them.
func unpack(ctx context.Context, from io.Reader, dir string) (BackupInfo, error) {
	u := &unpacker{ctx: ctx, dir: dir}
	defer u.close()
	info, err := ReadBackup(from, u.take)
	if err != nil {
		return info, err
	}
	return info, u.check(info)
}

type unpacker struct {
	ctx    context.Context
	dir    string
	engine *engine.Engine // once there are entries for its ledger
}

func (u *unpacker) close() {
	if u.engine != nil {
		u.engine.Close()
	}
}

func (u *unpacker) take(name string, body io.Reader) error {
	if digest, ok := strings.CutPrefix(name, packageFolder); ok {
		return u.takePackage(digest, body)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(name, ledgerFolder):
		return u.takeLedger(b)
	case name == numbersFile:
		return u.writeNumbers(b)
	}
	path := filepath.Join(u.dir, filepath.FromSlash(name))
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, b, 0o600)
}

func (u *unpacker) takePackage(digest string, body io.Reader) error {
	s, err := blob.Open(filepath.Join(u.dir, "blobs"), blobDefault)
	if err != nil {
		return err
	}
	got, _, err := s.Put(body, "")
	if err == nil && got != digest {
		err = fmt.Errorf("the backup is damaged: the package %s has the digest %s", digest, got)
	}
	return err
}

// writeNumbers makes sure that the hub gives no number that the one of before gave, even after
// the backup.
func (u *unpacker) writeNumbers(b []byte) error {
	return writeSkipped(filepath.Join(u.dir, numbersFile), b, time.Now())
}

// skipNumbers makes sure that the hub of a copy gives no number that the one it was copied from gives.
func skipNumbers(file string, now time.Time) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return writeSkipped(file, b, now)
}

func writeSkipped(file string, b []byte, now time.Time) error {
	stored, ok := parseNumbers(b)
	if !ok {
		return errors.New("the copy is damaged: it has no number of a last lease")
	}
	next := max(stored, uint64(now.UnixMilli())*1000) + numbersRestored
	return atomicfile.Write(file, []byte(strconv.FormatUint(next, 10)+"\n"), 0o600)
}

func (u *unpacker) takeLedger(b []byte) error {
	if err := u.startEngine(); err != nil {
		return err
	}
	var list []engine.Entry
	for in := json.NewDecoder(bytes.NewReader(b)); in.More(); {
		var e engine.Entry
		if err := in.Decode(&e); err != nil {
			return fmt.Errorf("the backup is damaged: an entry of the ledger cannot be read: %w", err)
		}
		list = append(list, e)
	}
	return u.engine.Record(u.ctx, list...)
}

// startEngine starts the engine with the keys of the backup, which come before the ledger.
func (u *unpacker) startEngine() (err error) {
	if u.engine != nil {
		return nil
	}
	dir := filepath.Join(u.dir, "engine")
	if _, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil {
		return errors.New("the backup is damaged: its ledger comes before the engine's keys")
	}
	u.engine, err = engine.Start(engine.Config{Dir: dir})
	return err
}

// check opens everything as a hub does.
func (u *unpacker) check(info BackupInfo) error {
	ca, err := ident.OpenCA(u.dir)
	if err != nil {
		return err
	}
	if sum := ca.Digest(); hex.EncodeToString(sum[:]) != info.CA {
		return errors.New("the backup is damaged: its CA is not the one that it names")
	}
	tokens, err := ident.OpenTokens(u.dir, ca.Digest())
	if err != nil {
		return err
	}
	if _, err := tokens.List(); err != nil {
		return err
	}
	users, err := ident.OpenUserTokens(u.dir, ca.Digest())
	if err != nil {
		return err
	}
	if _, err := users.List(); err != nil {
		return err
	}
	if _, err := openAccounts(filepath.Join(u.dir, usersFile)); err != nil {
		return err
	}
	if _, err := openRoster(filepath.Join(u.dir, rosterFile)); err != nil {
		return err
	}
	if err := rolls.CheckFolder(filepath.Join(u.dir, "rolls")); err != nil {
		return err
	}
	return u.startEngine()
}
