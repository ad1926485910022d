// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"skep/internal/cli"
	"skep/internal/report"
)

// bench runs the measurements that this machine supports and writes one file. It is for
// people who have machines that this project does not have.
type bench struct {
	file, folder, hosts, mpi, program string
	names                             bool
	state                             string
}

func (b *bench) options(f *cli.Flags) {
	f.StringVar(&b.file, "report", "", "write figures, versions and the log to `FILE`")
	f.StringVar(&b.folder, "kit", "", "the unpacked kit, in `DIR`; else the folder of skep")
	f.StringVar(&b.hosts, "hosts", "", "measure O2G between the hosts `A,B`, over ssh")
	f.StringVar(&b.mpi, "mpi", "", "the MPI in `PREFIX`, for --hosts")
	f.StringVar(&b.program, "measure", "", "the MPI `PROGRAM` that measures, for --hosts")
	f.BoolVar(&b.names, "names", false, "leave names of hosts, users and folders in the log")
}

const (
	benchTime = 10 * time.Minute
	barTime   = 3 * time.Minute
)

// An unshownError says why a bar cannot be measured on this machine.
type unshownError string

func (e unshownError) Error() string { return string(e) }

// A bar is one measurement. It adds figures and log lines to the report.
type bar struct {
	name    string
	measure func(ctx context.Context, m *measuring) error
}

// measuring is a report that is being made.
type measuring struct {
	*report.Report
	bench
	bee  string
	work string // an empty folder
}

func (m *measuring) logf(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		m.Log = append(m.Log, strings.TrimRight(line, "\r\n"))
	}
}

func listBars() []bar {
	return []bar{
		{"programs", measurePrograms}, {"calls", measureCalls}, {"start", measureStart},
		{"eigen", measureEigen}, {"join", measureJoin}, {"noise", measureNoise},
		{"update", measureUpdate}, {"o2g", measureO2G},
	}
}

func (b *bench) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if b.file == "" {
		return f.Expectf("--report FILE is expected")
	}
	if b.hosts != "" && b.program == "" {
		return f.Usagef("--hosts needs --measure PROGRAM, an MPI program that prints lines 'result NAME VALUE UNIT'")
	}
	out, err := createReport(b.file)
	if err != nil {
		return err
	}
	defer out.remove()
	m, err := b.measureAll(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cli.Errorf(exitStopped, "it was interrupted; %s was not written", b.file)
	}
	if b.names {
		report.Plain(m)
	} else {
		report.NewScrubber(strings.Split(b.hosts, ",")...).Scrub(m)
	}
	if err := out.save(m); err != nil {
		return err
	}
	fmt.Printf("%s: %d figures; not shown here: %d bars\n", b.file, len(m.Figures), len(m.Absent))
	return nil
}

func (b *bench) measureAll(ctx context.Context) (*report.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, benchTime)
	defer cancel()
	bee, err := beePath()
	if err != nil {
		return nil, err
	}
	if b.folder == "" {
		b.folder = filepath.Dir(bee)
	}
	folder, err := filepath.Abs(b.folder)
	if err != nil {
		return nil, err
	}
	b.folder = folder
	work, err := os.MkdirTemp("", "skep-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	begin := time.Now()
	m := &measuring{Report: newReport(ctx, begin), bench: *b, bee: bee, work: work}
	for _, bar := range listBars() {
		m.measureBar(ctx, bar)
	}
	m.Seconds = time.Since(begin).Round(time.Millisecond).Seconds()
	return m.Report, nil
}

// measureBar runs one measurement. It records the reason if the bar cannot be measured
// here or fails.
func (m *measuring) measureBar(ctx context.Context, bar bar) {
	fmt.Println("measuring:", bar.name)
	ctx, cancel := context.WithTimeout(ctx, barTime)
	defer cancel()
	begin, before := time.Now(), len(m.Figures)
	err := bar.measure(ctx, m)
	var unshown unshownError
	switch {
	case errors.As(err, &unshown):
		m.Absent = append(m.Absent, report.Absent{Bar: bar.name, Reason: unshown.Error()})
	case err != nil:
		m.Absent = append(m.Absent, report.Absent{Bar: bar.name, Reason: "it failed: " + err.Error()})
	}
	m.logf("%s: %d figures in %v", bar.name, len(m.Figures)-before, time.Since(begin).Round(time.Millisecond))
}

// newReport returns a report whose log has skep doctor's lines about the machine.
func newReport(ctx context.Context, now time.Time) *report.Report {
	r := &report.Report{Format: report.Format, Revision: report.Revision, Date: now.Format(time.DateOnly),
		Skep:    report.Versions{Version: version, Commit: commit},
		Machine: report.Machine{CPUs: runtime.NumCPU(), Processor: findProcessor()}, Absent: []report.Absent{}, Figures: []report.Figure{}}
	for _, c := range append(checkSystem(), checkBee(ctx)...) {
		switch c.Name {
		case "system":
			r.Machine.System = c.Found
		case "bee":
			r.Skep.Bee = c.Found
		}
		r.Log = append(r.Log, fmt.Sprintf("%s: %s: %s", c.Name, c.State, c.Found))
	}
	return r
}

// findProcessor returns the processor's model. It contains no names of people.
func findProcessor() string {
	if name := os.Getenv("PROCESSOR_IDENTIFIER"); name != "" {
		return name
	}
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
