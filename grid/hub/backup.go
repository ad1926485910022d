// SPDX-License-Identifier: MIT

package hub

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"skep/grid/engine"
)

// A backup of a hub's state is a tar archive:
//
//	backup.json       BackupInfo
//	ca.key …          files of the state directory, by their names
//	packages/DIGEST   packages of rolls that are over
//	ledger/NUMBER     entries of the ledger, one JSON value a line
//	sums              a line with the SHA-256 and the name of each entry before it
//
// Nothing follows the sums. What only a hub that goes on can use is left out: runs, sessions,
// arguments, results, and rolls that are not over.

const (
	backupFormat  = 1
	backupAbout   = "backup.json"
	backupSums    = "sums"
	ledgerFolder  = "ledger/"
	packageFolder = "packages/"
)

// BackupInfo says what a backup is of.
type BackupInfo struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the hub's program, for people
	Time    time.Time `json:"time"`
	CA      string    `json:"ca"` // SHA-256 of the hub's CA certificate, hex
}

// A backupWriter writes the entries of a backup and what their sums are.
type backupWriter struct {
	tar  *tar.Writer
	time time.Time
	sums bytes.Buffer
}

func (w *backupWriter) add(name string, size int64, from io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: w.time}
	if err := w.tar.WriteHeader(head); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, sum), from)
	if err == nil && n != size {
		err = fmt.Errorf("%s has %d bytes, not %d", name, n, size)
	}
	fmt.Fprintf(&w.sums, "%x  %s\n", sum.Sum(nil), name)
	return err
}

func (w *backupWriter) addBytes(name string, b []byte) error {
	return w.add(name, int64(len(b)), bytes.NewReader(b))
}

func (w *backupWriter) close() error {
	if err := w.addBytes(backupSums, w.sums.Bytes()); err != nil {
		return err
	}
	return w.tar.Close()
}

// WriteBackup writes a backup of the state as it is at one moment; the ledger has what was
// recorded until then, or a little later. The locks are free while it writes.
func (h *Hub) WriteBackup(ctx context.Context, to io.Writer) error {
	names, files, packages, err := h.readState()
	if err != nil {
		return err
	}
	ca := h.ca.Digest()
	about, err := json.Marshal(BackupInfo{backupFormat, h.cfg.Version, h.cfg.Now().UTC(), hex.EncodeToString(ca[:])})
	if err != nil {
		return err
	}
	w := &backupWriter{tar: tar.NewWriter(to), time: h.cfg.Now()}
	if err := w.addBytes(backupAbout, about); err != nil {
		return err
	}
	for _, name := range names {
		if err := w.addBytes(name, files[name]); err != nil {
			return err
		}
	}
	for _, digest := range packages {
		if err := h.backUpPackage(w, digest); err != nil {
			return fmt.Errorf("a package of a roll is not stored whole: 'skep update rolls' lists them, and --forget removes one: %w", err)
		}
	}
	if err := h.backUpLedger(ctx, w); err != nil {
		return err
	}
	return w.close()
}

// readState reads the files of a backup at one moment: no node joins, no user changes and no roll moves
// meanwhile. names has them in the order of the backup.
func (h *Hub) readState() (names []string, files map[string][]byte, packages []string, err error) {
	files = map[string][]byte{}
	read := func(name string) error {
		b, err := os.ReadFile(filepath.Join(h.cfg.State, name))
		if os.IsNotExist(err) && (name == rosterFile || name == tokensFile || name == usersFile || name == userTokensFile || name == standingFile) {
			return nil // nothing joined yet
		}
		if err == nil {
			names, files[name] = append(names, name), b
		}
		return err
	}
	hold := func(f func() error) error { return h.tokens.Hold(func() error { return h.userTokens.Hold(f) }) }
	err = hold(func() error {
		h.roster.mu.Lock()
		defer h.roster.mu.Unlock()
		h.accounts.mu.Lock()
		defer h.accounts.mu.Unlock()
		for _, name := range []string{"ca.key", "ca.crt", standingFile, numbersFile, "engine/keys.json", tokensFile, userTokensFile, rosterFile, usersFile} {
			if err := read(name); err != nil {
				return err
			}
		}
		kept, digests, err := h.rolls.Backup()
		for _, f := range kept {
			name := "rolls/" + f.Name
			names, files[name] = append(names, name), f.Text
		}
		packages = digests
		return err
	})
	return names, files, packages, err
}

func (h *Hub) backUpPackage(w *backupWriter, digest string) error {
	f, err := h.blobs.Open(digest)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.add(packageFolder+digest, info.Size(), f)
}

// backUpLedger writes the ledger in parts, because it is not in memory as a whole.
func (h *Hub) backUpLedger(ctx context.Context, w *backupWriter) error {
	part := 0
	return h.engine.All(ctx, func(list []engine.Entry) error {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		for _, e := range list {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		part++
		return w.addBytes(fmt.Sprintf("%s%08d", ledgerFolder, part), b.Bytes())
	})
}

// serveBackup sends a backup. One that cannot be completed breaks off, so that its reader does
// not take it for whole.
func (h *Hub) serveBackup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-tar")
	if err := h.WriteBackup(r.Context(), w); err != nil {
		h.log.Error("a backup failed", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// Backup returns a backup of the hub's state, to be read by ReadBackup and closed.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, "/v1/backup", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
