// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/grid/engine"
)

// What the hub copies to its standby: first everything, and then each change.

// rollsCopy is how often what changed of rolls is copied.
const rollsCopy = 5 * time.Second

const (
	standingFile = "epoch" // which the hub does not copy: each has its own
	runFolder    = "runs/"
	resultFolder = "spool/"
	rollFolder   = "rolls/"
	rollsOwner   = "rolls" // of a blob that is a package of a roll
)

// copyRecord copies the record of a run after the blobs that it names, and waits for the standby.
func (h *Hub) copyRecord(v *runRecord, text []byte) {
	for _, digest := range v.blobs() {
		h.mirror.needBlob(digest, "")
	}
	h.mirror.put(runFolder+v.Key+".json", text)
	h.mirror.settle()
}

// blobs returns the digests of what a record names.
func (v *runRecord) blobs() (list []string) {
	for _, s := range v.Sessions {
		for _, m := range s.Modules {
			list = append(list, m.Digest)
			if m.Init != nil {
				list = append(list, m.Init.Blob)
			}
		}
	}
	return list
}

// copyResult copies a result that has arrived, if a later hub is to find it.
func (h *Hub) copyResult(s *spool) {
	if s != nil && s.name != "" && s.get() {
		h.mirror.add(copyItem{copyHead: copyHead{Op: copyResult, Name: resultFolder + filepath.Base(s.file.Name()), Size: s.want}, file: s})
	}
}

// A copyHello is what the standby says first.
type copyHello struct {
	Address string   `json:"address"` // where nodes will find it
	Blobs   []string `json:"blobs,omitempty"`
	Ledger  uint64   `json:"ledger"` // the last entry that it has
}

// copyTo copies everything to a standby that connected, and from then on each change.
func (h *Hub) copyTo(c net.Conn, v copyHello) error {
	m := h.mirror
	m.attach(c, v.Blobs)
	defer m.detach(c)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	h.served.Add(4)
	go func() { defer h.served.Done(); cancel(m.readAcks(c, c)) }()
	go func() {
		defer h.served.Done()
		m.watch(c, ctx.Done())
		cancel(errors.New("it did not answer"))
	}()
	go func() {
		defer h.served.Done()
		select {
		case <-h.stop:
			cancel(errStops)
		case <-ctx.Done():
		}
	}()
	to := copyWriter{m, c}
	go func() { defer h.served.Done(); h.copyLedger(ctx, c, v.Ledger, cancel) }()
	rolls, err := h.copyAll(to)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	m.finish(c)
	h.served.Add(1)
	go func() { defer h.served.Done(); h.copyRolls(ctx, rolls) }()
	beat := time.NewTicker(copyBeats)
	defer beat.Stop()
	for {
		i, err := m.next(c, beat.C)
		if err == nil {
			err = h.send(to, i)
		}
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// send sends a change.
func (h *Hub) send(to io.Writer, i copyItem) error {
	switch {
	case i.file != nil:
		defer i.file.put()
		return writeCopy(to, i.copyHead, io.NewSectionReader(i.file.file, 0, i.Size))
	case i.Op == copyBlob:
		return h.sendCopyOfBlob(to, i.copyHead)
	}
	return writeCopy(to, i.copyHead, bytes.NewReader(i.body))
}

// sendCopyOfBlob sends a blob. One that is not there any more was of a session that has ended.
func (h *Hub) sendCopyOfBlob(to io.Writer, head copyHead) error {
	digest, _, _ := strings.Cut(head.Name, " ")
	f, err := h.blobs.Open(digest)
	if errors.Is(err, fs.ErrNotExist) {
		return writeCopy(to, copyHead{Seq: head.Seq, Op: copyBeat}, bytes.NewReader(nil))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head.Size = info.Size()
	return writeCopy(to, head, f)
}

// copyAll sends what is stored now. What changes meanwhile is queued, and follows.
func (h *Hub) copyAll(to io.Writer) (rolls map[string]string, err error) {
	names, files, packages, err := h.readState()
	if err != nil {
		return nil, err
	}
	put := func(name string, text []byte) error {
		return writeCopy(to, copyHead{Op: copyPut, Name: name, Size: int64(len(text))}, bytes.NewReader(text))
	}
	rolls = map[string]string{}
	for _, name := range names {
		if name == standingFile {
			continue
		}
		if strings.HasPrefix(name, rollFolder) {
			rolls[name] = string(files[name])
		}
		if err := put(name, files[name]); err != nil {
			return nil, err
		}
	}
	blobs := func(list []string, owner string) error {
		for _, digest := range list {
			if h.mirror.claimBlob(digest) {
				if err := h.sendCopyOfBlob(to, copyHead{Op: copyBlob, Name: strings.TrimSpace(digest + " " + owner)}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := blobs(packages, rollsOwner); err != nil {
		return nil, err
	}
	list, _ := filepath.Glob(filepath.Join(h.cfg.State, runFolder, "*.json"))
	for _, path := range list {
		var v runRecord
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended
		}
		if err == nil && json.Unmarshal(text, &v) == nil {
			err = blobs(v.blobs(), "")
		}
		if err == nil {
			err = put(runFolder+filepath.Base(path), text)
		}
		if err != nil {
			return nil, err
		}
	}
	return rolls, h.copyResults(to)
}

// copyResults sends the results that are stored. One that is not complete comes again when it is.
func (h *Hub) copyResults(to io.Writer) error {
	list, _ := filepath.Glob(filepath.Join(h.cfg.Spool, "result-*"))
	for _, path := range list {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its master has it
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = writeCopy(to, copyHead{Op: copyResult, Name: resultFolder + filepath.Base(path), Size: info.Size()}, f)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// ledgerRoom is how much may wait for the standby before more of the ledger does.
const ledgerRoom = 4 << 20

// copyLedger sends the entries that the standby lacks, behind the calls, as they are stored here.
func (h *Hub) copyLedger(ctx context.Context, c net.Conn, after uint64, failed func(error)) {
	err := h.engine.Follow(ctx, after, func(last uint64, list []engine.Entry) error {
		b, err := json.Marshal(list)
		if err != nil {
			return err
		}
		if !h.mirror.room(c, ledgerRoom) {
			return context.Canceled
		}
		h.mirror.add(copyItem{copyHead: copyHead{Op: copyLedger, At: int64(last)}, body: b})
		return nil
	})
	if ctx.Err() == nil {
		failed(err)
	}
}

// copyRolls sends what changed of the rolls that are over, and of the audit log.
func (h *Hub) copyRolls(ctx context.Context, sent map[string]string) {
	tick := time.NewTicker(rollsCopy)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		files, packages, err := h.rolls.Backup()
		if err != nil {
			h.log.Warn("the standby does not get the rolls of kernel updates", "error", err)
			continue
		}
		for _, digest := range packages {
			h.mirror.needBlob(digest, rollsOwner)
		}
		now := map[string]string{}
		for _, f := range files {
			name := rollFolder + f.Name
			now[name] = string(f.Text)
			if old, had := sent[name]; !had || old != now[name] {
				h.mirror.put(name, f.Text)
			}
		}
		for name := range sent {
			if _, is := now[name]; !is {
				h.mirror.remove(name)
			}
		}
		sent = now
	}
}
