// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"sync"
)

// A fan copies all bytes of one input to several readers. The slowest reader determines
// the speed; a reader that has ended does not delay others.
type fan struct {
	readers []*io.PipeReader
	writers []*io.PipeWriter
	in      io.Reader
	start   sync.Once
}

func newFan(in io.Reader, n int) *fan {
	f := &fan{in: in}
	if n == 1 {
		return f
	}
	for range n {
		r, w := io.Pipe()
		f.readers, f.writers = append(f.readers, r), append(f.writers, w)
	}
	return f
}

func (f *fan) newReader(i int) io.Reader {
	if len(f.readers) == 0 {
		return f.in
	}
	f.start.Do(func() { go f.copyInput() })
	return f.readers[i]
}

// releaseReader ends the copy for reader i.
func (f *fan) releaseReader(i int) {
	if len(f.readers) > 0 {
		f.readers[i].Close()
	}
}

func (f *fan) copyInput() {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.in.Read(buf)
		for _, w := range f.writers {
			w.Write(buf[:n]) // fails when its reader is gone
			if err != nil {
				w.CloseWithError(err)
			}
		}
		if err != nil {
			return
		}
	}
}
