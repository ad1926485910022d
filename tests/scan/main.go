// SPDX-License-Identifier: MIT

// Scan searches programs for sites that bee's rewriter missed. bee loads each program and
// stores its rewritten text. objdump, which shares no code with bee's decoder, decodes this
// text. It must contain no instruction that reaches Linux or the host's own thread pointer
// without bee. Then sites are restored one at a time, and the search must find each.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"skep/tests/tap"
)

type options struct {
	bee    string // command that starts bee
	leak   string // the same for a bee that leaves sites
	twin   string // command that starts the bee of another host
	prefix string // of Wine
	tables string
	build  string
	plant  string // program to plant leaks in
	memory string // program that does cat
	// Runs Python and loads libraries, or is not there.
	dynamic string
	oneIn   int // of how many programs of a large folder one is searched
}

func main() {
	var o options
	flag.StringVar(&o.bee, "bee", "", "`command` that starts bee")
	flag.StringVar(&o.leak, "leak", "", "`command` that starts a bee that leaves sites")
	flag.StringVar(&o.twin, "twin", "", "`command` that starts a bee whose images are searched elsewhere: equal ones are not searched again")
	flag.StringVar(&o.prefix, "prefix", "", "WINEPREFIX; empty: no Wine")
	flag.StringVar(&o.tables, "tables", "tests/scan/tables.tbl", "gaps that may be tables")
	flag.StringVar(&o.plant, "plant", "build/conformance/glibc/cpu", "`program` to plant leaks in")
	flag.StringVar(&o.memory, "busybox", "/bin/busybox", "`program` whose memory is compared")
	flag.StringVar(&o.dynamic, "dynamic", "/usr/bin/python3", "dynamic `program` whose libraries are searched")
	flag.StringVar(&o.build, "build", "build", "the build folder")
	flag.IntVar(&o.oneIn, "one-in", 1, "search one of this `many` programs of a folder, in the order of their names, if it has more than four times as many")
	flag.Parse()
	if o.prefix != "" {
		o.prefix, _ = filepath.Abs(o.prefix)
	}
	os.Exit(tap.Run(os.Stdout, func(t *tap.Report) error { return scanPrograms(t, o, flag.Args()) }))
}

func scanPrograms(report *tap.Report, o options, programs []string) error {
	dir, err := os.MkdirTemp("", "scan")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	reasons, err := readTables(o.tables)
	if err != nil {
		return err
	}
	stop, err := startHost(o)
	if err != nil {
		return err
	}
	defer stop()
	scanGroups(o, report, dir, programs, reasons)
	scanLibraries(o, report, dir, reasons)
	for _, kind := range []string{"fs", "gs", "cpuid", "xgetbv", "syscall"} {
		report.Ok("planted: "+kind+" is found", findPlanted(o, dir, kind))
	}
	for _, kind := range []string{"fs", "cpuid", "xgetbv", "syscall"} {
		report.Ok("left by the rewriter: "+kind+" is found", findLeft(o, dir, kind))
	}
	if o.twin != "" {
		report.Ok("left by the rewriter: the image is not the other host's", findTwin(o, dir, "cpuid"))
	}
	report.Ok("planted: what a branch reaches in a table is found", followTable(dir))
	report.Ok("what is scanned is what lies in memory", compareMemory(o, dir))
	return nil
}

// A verdict is the result of searching one program.
type verdict struct {
	program string
	scan    *scan // nil: not searched
	twin    bool  // its image is searched elsewhere
	err     error
}

// scanGroups makes one test of each folder of programs.
func scanGroups(o options, report *tap.Report, dir string, programs []string, reasons tables) {
	programs = slices.DeleteFunc(slices.Clone(programs), func(program string) bool {
		_, err := os.Stat(program)
		missing := err != nil && !strings.HasPrefix(program, o.build+"/")
		if missing {
			report.Skip("no leak in "+program, "not installed")
		}
		return missing
	})
	verdicts := scanAll(o, dir, thinOut(programs, o.oneIn), reasons)
	for len(verdicts) > 0 {
		folder := filepath.Dir(verdicts[0].program)
		n := slices.IndexFunc(verdicts, func(v verdict) bool { return filepath.Dir(v.program) != folder })
		if n < 0 {
			n = len(verdicts)
		}
		reportGroup(o, report, folder, verdicts[:n])
		verdicts = verdicts[n:]
	}
	for _, name := range reasons.unusedRows() {
		if o.twin != "" {
			break // the programs that need them are searched elsewhere
		}
		report.Note("no program that was scanned needs the exception %s", name)
	}
}

func reportGroup(o options, report *tap.Report, folder string, group []verdict) {
	var errs []error
	var insns, own, sites, twins int
	var tables uint64
	for _, v := range group {
		if v.twin {
			twins++
			continue
		}
		if v.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.program, v.err))
			continue
		}
		insns += v.scan.insns
		own += v.scan.own
		tables += v.scan.tables
		sites += len(v.scan.img.sites)
	}
	if twins > 0 {
		report.Note("%s: %d images are byte for byte those of the other host, and not searched here", folder, twins)
	}
	if twins < len(group) {
		report.Note("%s: %d programs, %d instructions, %d sites, %d accesses to thread slots, %d bytes of tables",
			folder, len(group)-twins, insns, sites, own, tables)
	}
	report.Ok("no leak in the programs of "+strings.TrimPrefix(folder, o.build+"/"), errors.Join(errs...))
}

// thinOut sorts the programs by folder and name, and of a folder with more than four times n
// leaves one in n: the programs of such a folder share most of their text, a C library.
func thinOut(programs []string, n int) (left []string) {
	slices.SortFunc(programs, func(a, b string) int {
		return strings.Compare(filepath.Dir(a)+"\x00"+a, filepath.Dir(b)+"\x00"+b)
	})
	for len(programs) > 0 {
		folder := filepath.Dir(programs[0])
		end := slices.IndexFunc(programs, func(p string) bool { return filepath.Dir(p) != folder })
		if end < 0 {
			end = len(programs)
		}
		for i, p := range programs[:end] {
			if end <= 4*n || i%n == 0 {
				left = append(left, p)
			}
		}
		programs = programs[end:]
	}
	return left
}

func scanAll(o options, dir string, programs []string, reasons tables) []verdict {
	verdicts := make([]verdict, len(programs))
	next := make(chan int)
	var workers sync.WaitGroup
	for w := range runtime.NumCPU() {
		workers.Add(1)
		go func() {
			defer workers.Done()
			own := filepath.Join(dir, fmt.Sprint("worker", w))
			for i := range next {
				verdicts[i] = scanProgram(o, own, programs[i], reasons)
			}
		}()
	}
	for i := range programs {
		next <- i
	}
	close(next)
	workers.Wait()
	return verdicts
}

func scanProgram(o options, dir, program string, reasons tables) verdict {
	file, err := os.ReadFile(program)
	if err != nil {
		return verdict{program: program, err: err}
	}
	stored, err := storeImage(o, o.bee, dir, program, file, nil)
	if err != nil {
		return verdict{program: program, err: err}
	}
	if twin, err := hasTwin(o, dir, program, file, stored); twin || err != nil {
		return verdict{program: program, twin: twin, err: err}
	}
	img, err := readImage(file, stored)
	if err != nil {
		return verdict{program: program, err: err}
	}
	s, err := scanImage(img, program, dir, reasons)
	if err == nil {
		err = s.checkClean(reasons, program)
	}
	s.img.texts, s.img.first = nil, nil // only the counts are still needed
	return verdict{program: program, scan: s, err: err}
}

func scanImage(img *image, program, dir string, reasons tables) (*scan, error) {
	s, err := newScan(img, program, dir, reasons)
	if err != nil {
		return s, err
	}
	return s, s.run()
}

// checkClean returns an error if something was found, or if a table row has no reason.
func (s *scan) checkClean(reasons tables, program string) error {
	var errs []error
	for _, h := range s.hits {
		errs = append(errs, errors.New(h.String()))
	}
	if len(errs) > 20 {
		errs = append(errs[:20], fmt.Errorf("and %d more", len(errs)-20))
	}
	for _, g := range s.gaps {
		if g.table && !reasons.hasReason(filepath.Base(program)) {
			errs = append(errs, fmt.Errorf("%#x to %#x is not code, and the table has no reason why", g.start, g.end))
			break
		}
	}
	// A dynamic program may have all its sites in libraries.
	isDynamic := slices.ContainsFunc(s.img.file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if s.insns == 0 || len(s.img.sites) == 0 && !isDynamic {
		errs = append(errs, errors.New("nothing was decoded"))
	}
	return errors.Join(errs...)
}
