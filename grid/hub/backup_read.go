// SPDX-License-Identifier: MIT

package hub

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"skep/dynamos/update/pack"
	"skep/internal/lazy"
)

const (
	partMax  = 64 << 20 // bytes of an entry that is not a package
	partsMax = 1 << 20
)

// backupName is a name between backup.json and sums. It leads to no other folder.
var backupName = lazy.Regexp(`^(ca\.key|ca\.crt|fences|epoch|engine/keys\.json|(user-)?tokens\.json|nodes\.json|users\.json|` +
	`rolls/(audit\.log|harmed|signed/[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.json)|packages/[0-9a-f]{64}|ledger/[0-9]{8})$`)

// needed are the files without which a backup is none.
var needed = []string{"ca.key", "ca.crt", numbersFile, "engine/keys.json"}

var errBackupEnds = errors.New("the backup is cut off: it ends before the sums that a whole one ends with")

// ReadBackup reads a backup to its end, checks its form and its sums, and passes each entry
// between backup.json and the sums to take, which reads all of it. Only when ReadBackup returns
// without an error is what take got complete and as it was written.
func ReadBackup(from io.Reader, take func(name string, body io.Reader) error) (BackupInfo, error) {
	r := &backupReader{tar: tar.NewReader(from), seen: map[string]bool{}}
	about, err := r.readAll(backupAbout)
	if err != nil {
		return BackupInfo{}, err
	}
	var info BackupInfo
	if json.Unmarshal(about, &info) != nil || info.Format < 1 {
		return info, errors.New("it is not a backup of a hub")
	}
	if info.Format != backupFormat {
		return info, fmt.Errorf("the backup has format %d, and this skep reads %d: use the version %.40q that wrote it, or a newer one", info.Format, backupFormat, info.Version)
	}
	for {
		head, err := r.next()
		if err != nil {
			return info, err
		}
		if head.Name == backupSums {
			return info, r.checkSums(from)
		}
		if !backupName().MatchString(head.Name) || r.seen[head.Name] {
			return info, fmt.Errorf("the backup has an entry %.80q, which this skep does not expect there", head.Name)
		}
		if err := r.pass(head.Name, take); err != nil {
			return info, err
		}
	}
}

// A backupReader adds up the sums of what it reads.
type backupReader struct {
	tar  *tar.Reader
	seen map[string]bool
	sums bytes.Buffer
}

// next goes to the next entry, a plain file of bounded size.
func (r *backupReader) next() (*tar.Header, error) {
	head, err := r.tar.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errBackupEnds
	}
	if err != nil {
		return nil, fmt.Errorf("the backup is damaged: %w", err)
	}
	most := int64(partMax)
	if strings.HasPrefix(head.Name, packageFolder) {
		most = pack.MaxPackage
	}
	if head.Typeflag != tar.TypeReg || head.Size > most || len(r.seen) > partsMax {
		return nil, fmt.Errorf("the backup has an entry %.80q that no backup has: %d bytes, type %q", head.Name, head.Size, head.Typeflag)
	}
	return head, nil
}

// Read reads the body of the entry.
func (r *backupReader) Read(b []byte) (int, error) {
	n, err := r.tar.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errBackupEnds
	}
	return n, err
}

// pass gives the body of an entry to take.
func (r *backupReader) pass(name string, take func(string, io.Reader) error) error {
	r.seen[name] = true
	sum := sha256.New()
	body := io.TeeReader(r, sum)
	if err := take(name, body); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	fmt.Fprintf(&r.sums, "%x  %s\n", sum.Sum(nil), name)
	return nil
}

// readAll reads the next entry, which has this name.
func (r *backupReader) readAll(name string) (b []byte, err error) {
	head, err := r.next()
	if err != nil {
		return nil, err
	}
	if head.Name != name {
		return nil, errors.New("it is not a backup of a hub")
	}
	return b, r.pass(name, func(_ string, body io.Reader) error {
		b, err = io.ReadAll(body)
		return err
	})
}

// checkSums compares the sums, behind which nothing follows.
func (r *backupReader) checkSums(from io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, r.sums.Bytes()) {
		return errors.New("the backup is damaged: its sums are not those of its files")
	}
	for _, name := range needed {
		if !r.seen[name] {
			return fmt.Errorf("the backup lacks %s, which each hub has", name)
		}
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return errors.New("the backup is damaged: something follows its sums")
	}
	if n, err := io.Copy(io.Discard, from); n > 0 || err != nil {
		return errors.Join(errors.New("the backup is damaged: something follows its end"), err)
	}
	return nil
}
