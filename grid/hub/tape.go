// SPDX-License-Identifier: MIT

package hub

import (
	"fmt"
	"io"
	"os"
)

// A tape holds bytes of a job's streams on the disk, in a file without a name. It has no lock.
type tape struct {
	dir  string
	file *os.File // nil: it is empty
	size int64
}

// tapeMax bounds what a tape holds.
const tapeMax = 1 << 30

func (t *tape) append(p []byte) error {
	if t.size+int64(len(p)) > tapeMax {
		return fmt.Errorf("more than %d bytes", tapeMax)
	}
	if t.file == nil {
		f, err := os.CreateTemp(t.dir, "tape")
		if err != nil {
			return err
		}
		os.Remove(f.Name())
		t.file = f
	}
	n, err := t.file.WriteAt(p, t.size)
	if err == nil {
		t.size += int64(n)
	}
	return err
}

// part returns the bytes from a position on, at most as many as buf has.
func (t *tape) part(at int64, buf []byte) ([]byte, error) {
	n, err := t.file.ReadAt(buf[:min(int64(len(buf)), t.size-at)], at)
	if err == io.EOF {
		err = nil
	}
	return buf[:n], err
}

// cut passes the first n bytes on and forgets them, also if that failed.
func (t *tape) cut(w io.Writer, n int64) error {
	if n == 0 {
		return nil
	}
	_, err := io.Copy(w, io.NewSectionReader(t.file, 0, n))
	rest := &tape{dir: t.dir}
	if n < t.size {
		if _, failed := io.Copy(tapeWriter{rest}, io.NewSectionReader(t.file, n, t.size-n)); failed != nil {
			return failed
		}
	}
	t.close()
	*t = *rest
	return err
}

type tapeWriter struct{ t *tape }

func (w tapeWriter) Write(p []byte) (int, error) { return len(p), w.t.append(p) }

// close forgets all of it.
func (t *tape) close() {
	if t.file != nil {
		t.file.Close()
	}
	t.file, t.size = nil, 0
}
