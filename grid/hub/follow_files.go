// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/grid/blob"
	"skep/grid/engine"
	"skep/internal/atomicfile"
)

// What a standby stores of its hub.

// take stores a change as a hub stores it.
func (s *Standby) take(head copyHead, body io.Reader) error {
	switch head.Op {
	case copyBeat:
		return nil
	case copyWhole:
		err := s.finish()
		if err == nil {
			s.tell()
		}
		return err
	case copyBlob:
		return s.takeBlob(head.Name, body)
	case copyLedger:
		return s.takeLedger(uint64(head.At), body)
	case copyPut, copyRemove, copyResult, copySeal:
		if copyName().MatchString(head.Name) {
			return s.takeFile(head, body)
		}
	}
	return fmt.Errorf("the hub sent %q of %.80q, which this version does not know: update this machine", head.Op, head.Name)
}

func (s *Standby) takeFile(head copyHead, body io.Reader) error {
	path := filepath.Join(s.cfg.State, filepath.FromSlash(head.Name))
	if base, ok := strings.CutPrefix(head.Name, resultFolder); ok {
		path = filepath.Join(s.cfg.Spool, base)
	}
	key, isRun := strings.CutPrefix(head.Name, runFolder)
	key = strings.TrimSuffix(key, ".json")
	s.seen[head.Name] = head.Op != copyRemove
	switch head.Op {
	case copyRemove:
		if isRun {
			s.blobs.Unpin(key)
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	case copyResult:
		return s.takeResult(path, body)
	case copySeal:
		return takeSeal(path, head.At, body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if isRun {
		if err := s.pinRun(key, text); err != nil {
			return err
		}
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return diskFull(s.cfg.State, atomicfile.Write(path, text, 0o600))
}

// pinRun keeps the blobs of a run until its record is removed.
func (s *Standby) pinRun(key string, text []byte) error {
	var v runRecord
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	for _, digest := range v.blobs() {
		s.blobs.Pin(digest, key)
		s.blobs.UnpinOne(digest, ownerComing)
	}
	return nil
}

const ownerComing = "coming" // of a blob whose record follows

func (s *Standby) takeBlob(name string, body io.Reader) error {
	digest, owner, _ := strings.Cut(name, " ")
	if owner == "" {
		owner = ownerComing
	}
	got, _, err := s.blobs.Put(body, owner)
	if err == nil && got != digest {
		err = &blob.Mismatch{Want: digest, Got: got}
	}
	return err
}

// takeResult stores a result, whole or not at all. It is not synchronised, as on the hub: it is on
// two machines.
func (s *Standby) takeResult(path string, body io.Reader) error {
	f, err := os.CreateTemp(s.cfg.Spool, ".spool-*")
	if err != nil {
		return diskFull(s.cfg.Spool, err)
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return diskFull(s.cfg.Spool, err)
}

func takeSeal(path string, at int64, body io.Reader) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return nil // its master has it already
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, at)
	return errors.Join(err, f.Close())
}

// ledgerIn bounds the storing of a part of the ledger.
const ledgerIn = time.Minute

func (s *Standby) takeLedger(last uint64, body io.Reader) error {
	var list []engine.Entry
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return err
	}
	if err := s.startEngine(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, ledgerIn)
	defer cancel()
	return s.engine.RecordCopy(ctx, last, list)
}

// startEngine opens the ledger, if the engine's keys are there.
func (s *Standby) startEngine() (err error) {
	dir := filepath.Join(s.cfg.State, "engine")
	if _, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil {
		return err
	}
	if s.engine == nil {
		s.engine, err = engine.Start(engine.Config{Dir: dir})
	}
	return err
}

// lastEntry is the number at the hub of the last entry of the ledger that is here.
func (s *Standby) lastEntry() (uint64, error) {
	if err := s.startEngine(); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, ledgerIn)
	defer cancel()
	return s.engine.LastCopy(ctx)
}
