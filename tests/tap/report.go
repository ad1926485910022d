// SPDX-License-Identifier: MIT

package tap

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Report writes a report in the form that a Reader reads. Plan ends it.
type Report struct {
	Out    io.Writer
	Failed int // tests so far
	count  int
}

// Run runs the tests of a program and returns its exit status: 1 if a test failed. An error
// of run means that the tests cannot run or go on; the report then ends with it, without a
// plan, and the status is 2.
func Run(out io.Writer, run func(r *Report) error) int {
	r := &Report{Out: out}
	if err := run(r); err != nil {
		fmt.Fprintf(out, "Bail out! %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 2
	}
	r.Plan()
	if r.Failed > 0 {
		return 1
	}
	return 0
}

// Check writes a test. why is the cause of a failure.
func (r *Report) Check(good bool, why, format string, args ...any) {
	var err error
	if !good {
		err = errors.New(why)
	}
	r.Ok(fmt.Sprintf(format, args...), err)
}

// Ok writes a test, which failed when err is not nil.
func (r *Report) Ok(name string, err error) {
	r.count++
	if err == nil {
		fmt.Fprintf(r.Out, "ok %d - %s\n", r.count, name)
		return
	}
	r.Failed++
	fmt.Fprintf(r.Out, "not ok %d - %s\n", r.count, name)
	for line := range strings.Lines(err.Error()) {
		r.Note("%s", strings.TrimRight(line, "\r\n"))
	}
}

// Skip writes a skipped test and the reason.
func (r *Report) Skip(name, why string) {
	r.count++
	fmt.Fprintf(r.Out, "ok %d - %s # SKIP %s\n", r.count, name, why)
}

// Note writes a comment line for people.
func (r *Report) Note(format string, args ...any) {
	fmt.Fprintf(r.Out, "# "+format+"\n", args...)
}

// Plan writes the plan, the number of tests.
func (r *Report) Plan() { fmt.Fprintf(r.Out, "1..%d\n", r.count) }
