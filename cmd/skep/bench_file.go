// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"skep/internal/atomicfile"
	"skep/internal/report"
)

// reportRoom is more than a report has. It is taken before the measuring.
const reportRoom = 1 << 20

// A reportFile is a file to be replaced by a report. Its replacement is created before the
// measuring, with room on the disk, so that what cannot be written is found at once. Until then
// the old file stays.
type reportFile struct {
	name string
	next *os.File
}

func createReport(name string) (*reportFile, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: give --report the name of one", name)
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		target = name // it does not exist
	}
	next := fmt.Sprintf("%s.%016x", target, rand.Uint64())
	file, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%s can't be written: %w", name, reasonOf(err))
	}
	f := &reportFile{name: target, next: file}
	if _, err := file.Write(make([]byte, reportRoom)); err != nil {
		f.remove()
		return nil, fmt.Errorf("%s can't be written: %w; nothing was measured", name, reasonOf(err))
	}
	return f, nil
}

// remove removes the replacement. It does nothing after save.
func (f *reportFile) remove() {
	if f.next != nil {
		f.next.Close()
		os.Remove(f.next.Name())
		f.next = nil
	}
}

// save replaces the file by a report. If it can't, the report goes elsewhere, and the error says
// where.
func (f *reportFile) save(r *report.Report) error {
	var text bytes.Buffer
	err := report.Write(&text, r)
	if err == nil {
		err = f.replace(text.Bytes())
	} else if raw, lost := json.MarshalIndent(r, "", "  "); lost == nil {
		text.Reset()
		text.Write(append(raw, '\n'))
	}
	if err == nil {
		return nil
	}
	f.remove()
	return fmt.Errorf("%s can't be written: %w; the figures are %s", f.name, reasonOf(err), keepFigures(text.Bytes()))
}

func (f *reportFile) replace(text []byte) error {
	if _, err := f.next.WriteAt(text, 0); err != nil {
		return err
	}
	if err := f.next.Truncate(int64(len(text))); err != nil {
		return err
	}
	if err := errors.Join(f.next.Sync(), f.next.Close()); err != nil {
		return err
	}
	if err := atomicfile.Rename(f.next.Name(), f.name); err != nil {
		return err
	}
	f.next = nil
	return nil
}

// keepFigures writes a report that its file did not take into the folder for temporary files,
// else to standard output, and says which.
func keepFigures(text []byte) string {
	file, err := os.CreateTemp("", "skep-bench-report-*.json")
	if err == nil {
		_, err = file.Write(text)
		if err = errors.Join(err, file.Close()); err == nil {
			return "in " + file.Name()
		}
		os.Remove(file.Name())
	}
	os.Stdout.Write(text)
	return "the last lines of standard output"
}
