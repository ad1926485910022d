// SPDX-License-Identifier: MIT

//go:build linux

package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/tap"
)

// Limits on the output of a program in a guest.
const (
	lineMax   = 4 << 10
	outputMax = 16 << 20
)

// Run runs a program that prints TAP on its standard output. Each line becomes a subtest. The
// test fails without a plan, with a status other than 0, or if fewer than floor tests passed. A
// skipped test has not passed.
func (vm *VM) Run(p lab.Program, floor int) {
	vm.t.Helper()
	if floor < 1 {
		vm.t.Fatalf("a floor of %d: a program of which no test must pass shows nothing", floor)
	}
	tests, alive := vm.report(p)
	for _, test := range tests {
		if test.Name == tap.Itself {
			for _, line := range test.Detail {
				vm.t.Logf("| %s", cleanText(line))
			}
			vm.t.Errorf("%s: %s", p.Args[0], cleanText(test.Reason))
			continue
		}
		vm.t.Run(cleanText(test.Name), func(t *testing.T) { passTest(t, test) })
	}
	if n := tap.CountStatus(tests, tap.Passed); n < floor {
		vm.t.Errorf("%s: %d tests passed, the floor is %d", p.Args[0], n, floor)
	}
	if !alive {
		vm.t.Fatalf("console: %s", vm.path("console.log"))
	}
}

func passTest(t *testing.T, test tap.Test) {
	for _, line := range test.Detail {
		t.Logf("| %s", cleanText(line))
	}
	switch test.Status {
	case tap.Skipped:
		t.Skip(cleanText(test.Reason))
	case tap.Failed:
		t.Error("not ok " + cleanText(test.Reason))
	}
}

// report runs p until its end or the end of the machine.
func (vm *VM) report(p lab.Program) (tests []tap.Test, alive bool) {
	vm.t.Helper()
	f, err := os.Open(vm.path("results.tap"))
	if err != nil {
		vm.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		vm.t.Fatal(err)
	}
	r := &results{file: f, seen: time.Now()}
	status, err := vm.waitForProgram(p, lab.Streams{Results: true}, r)
	r.read()
	r.flush()
	return r.tap.Finish(vm.describeExit(status, err, r)), !vm.dead
}

// waitForProgram runs p; r, if not nil, reads its output. At the machine's deadline the program
// is ended, and the error is that of the context.
func (vm *VM) waitForProgram(p lab.Program, s lab.Streams, r *results) (int, error) {
	over := time.NewTimer(time.Until(vm.deadline))
	defer over.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	type end struct {
		status int
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		status, err := vm.guest.Run(context.Background(), p, s)
		ended <- end{status, err}
	}()
	for {
		select {
		case e := <-ended:
			return e.status, e.err
		case <-over.C:
			vm.dead = true
			vm.guest.Kill()
			<-ended
			return 0, context.DeadlineExceeded
		case <-tick.C:
			if r != nil {
				r.read()
			}
		}
	}
}

// describeExit describes how a program ended; it is empty for status 0. If the machine ended,
// it says why.
func (vm *VM) describeExit(status int, err error, r *results) string {
	switch {
	case err == nil && status > 128:
		return fmt.Sprintf("killed by signal %d (%v)", status-128, syscall.Signal(status-128))
	case err == nil && status != 0:
		return fmt.Sprintf("exit status %d", status)
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return vm.describeHang(r)
	}
	if isDead(err) {
		vm.dead = true
	}
	return err.Error()
}

// describeHang describes a machine that exceeded its deadline.
func (vm *VM) describeHang(r *results) string {
	text := fmt.Sprintf("the machine's time of %v is over", vm.allowed)
	if r != nil {
		text = fmt.Sprintf("no result line for %.0f s; last line: %s", time.Since(r.seen).Seconds(), orNone(r.line))
	}
	return text + "; console: " + orNone(lastLine(vm.path("console.log")))
}

func orNone(line string) string {
	if line = cleanText(line); line == "" {
		return "(none)"
	}
	return line
}

// Output returns the standard output of p, which must exit with 0.
func (vm *VM) Output(p lab.Program) string {
	vm.t.Helper()
	out, said := &bounded{max: outputMax}, &bounded{max: lineMax}
	status, err := vm.waitForProgram(p, lab.Streams{Out: out, Err: said}, nil)
	if exit := vm.describeExit(status, err, nil); exit != "" {
		vm.t.Fatalf("%s: %s\n%s%s", strings.Join(p.Args, " "), exit, cleanText(tailOf(out.String())), cleanText(said.String()))
	}
	if out.more {
		vm.t.Fatalf("%s wrote more than %d MiB", p.Args[0], outputMax>>20)
	}
	return out.String()
}

// bounded keeps the first bytes of an output.
type bounded struct {
	bytes.Buffer
	max  int
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.max-b.Len())
	b.more = b.more || n < len(p)
	b.Buffer.Write(p[:n])
	return len(p), nil
}

// results follows results.tap while a program runs.
type results struct {
	file *os.File
	tap  tap.Reader
	part []byte    // an incomplete line
	line string    // the last complete line
	seen time.Time // when that line arrived
}

func (r *results) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.file.Read(buf)
		r.splitLines(buf[:n])
		if n == 0 || err != nil {
			return
		}
	}
}

// splitLines splits bytes into lines; bytes beyond a line's limit are dropped.
func (r *results) splitLines(b []byte) {
	for len(b) > 0 {
		at := bytes.IndexByte(b, '\n')
		piece := b
		if at >= 0 {
			piece = b[:at]
		}
		r.part = append(r.part, piece[:min(len(piece), lineMax-len(r.part))]...)
		if at < 0 {
			return
		}
		b = b[at+1:]
		r.flush()
	}
}

// flush passes the line on.
func (r *results) flush() {
	if len(r.part) == 0 {
		return
	}
	r.line, r.seen = string(r.part), time.Now()
	r.part = r.part[:0]
	before := r.tap.Count()
	r.tap.AddLine(r.line)
	if r.tap.Count() > before {
		firstLine(r.seen)
	}
}

func tailOf(text string) string {
	return text[max(0, len(text)-lineMax):]
}

// lastLine returns the last line of a log that is not blank.
func lastLine(path string) string {
	data, err := endOf(path)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// endOf reads the end of a log.
func endOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, size-lineMax), io.SeekStart)
	}
	return io.ReadAll(io.LimitReader(f, lineMax))
}

// cleanText removes control characters from a guest's text.
func cleanText(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	return strings.Map(func(c rune) rune {
		// C1 controls are a terminal's too.
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return '?'
		}
		return c
	}, text)
}
