// SPDX-License-Identifier: MIT

// Run is the test runner behind `make test`, `make check` and `make style`.
//
// It runs suites, each with a deadline: some alone, then one after the other those that boot
// machines, while parallel lanes run the others. The runner judges only the suites' reports
// (TAP, or `go test -json`), and ends with one line `N passed, N failed, N skipped`. A suite
// fails, and the cause is named, if it ends without a plan, reports fewer tests than planned,
// exits with an error although every test passed, reports nothing, or leaves anything behind:
// a process, a file in TMPDIR and, if the runner is root, a mount or shared memory.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

type options struct {
	suites string // file with one suite per line
	logs   string // directory for logs and results
	tsv    string // name of the file of results in it
	end    string // file for the closing line, or empty
	floor  string // FILE:KEY, or empty
	spec   string // SPEC.md, or empty
	part   bool   // judge only promises whose suites all ran
	again  int    // how many failed suites may be run again
	lane   bool   // be a parallel lane of another runner
	apart  bool   // this process has namespaces of its own

	forecast bool // only say whether the floor would be too low
}

func main() {
	var o options
	flag.StringVar(&o.suites, "suites", "", "`file` with name, kind, deadline, command per line")
	flag.StringVar(&o.logs, "logs", "build/test", "`directory` for logs and results")
	flag.StringVar(&o.tsv, "results", "results.tsv", "`name` of the file of results")
	flag.StringVar(&o.end, "closing", "", "`file` that takes the closing line instead of standard output")
	flag.StringVar(&o.floor, "floor", "", "`file:key` with the least number of passed tests")
	flag.StringVar(&o.spec, "spec", "", "`file` of promises to hold against the results")
	flag.BoolVar(&o.part, "spec-part", false, "judge only promises whose suites all ran")
	flag.IntVar(&o.again, "again", 0, "run up to `N` suites again that failed; none if more of them did")
	flag.BoolVar(&o.lane, "lane", false, "run suites for another runner, which names each by its index")
	flag.BoolVar(&o.apart, "apart", false, "see what suites leave in the namespaces that unshare(1) made for this process")
	flag.BoolVar(&o.forecast, "forecast", false, "run nothing: fail if a whole run would ask for a higher floor, by the newest results")
	flag.Parse()
	sealDescriptors()
	if o.suites == "" || o.again < 0 || o.forecast && o.floor == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	rep := &reporter{out: os.Stdout, tty: isTerminal(os.Stdout)}
	if o.apart {
		if err := useNamespaces(); err != nil {
			fmt.Fprintf(os.Stderr, "tests/run: %v\n", err)
			os.Exit(2)
		}
	} else if o.forecast {
		// starts no suite, so nothing can be left
	} else if err := enterNamespaces(); !o.lane {
		rep.reportShared(err)
	}
	if o.lane {
		if err := runLane(o, os.Stdin, os.Stdout, notifyInterrupts()); err != nil {
			fmt.Fprintf(os.Stderr, "tests/run: %v\n", err)
			os.Exit(2)
		}
		return
	}
	ok, err := runAll(o, rep)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tests/run: %v\n", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func notifyInterrupts() chan os.Signal {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	return stop
}

// runAll runs every suite, failed ones perhaps again, and prints the report. It returns false
// if a failure remains.
func runAll(o options, rep *reporter) (bool, error) {
	suites, err := readSuites(o.suites)
	if err != nil {
		return false, err
	}
	if o.spec != "" { // find errors in it before the suites run
		if _, err := readSpec(o.spec); err != nil {
			return false, err
		}
	}
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return false, err
	}
	if low, err := reportForecast(o, suites, rep); err != nil || o.forecast {
		return !low, err
	}
	becomeReaper()
	forgetMake()
	stop := notifyInterrupts()
	defer signal.Stop(stop)

	outs := make([]outcome, len(suites))
	if err := runFirst(o, suites, outs, rep, stop); err != nil {
		return false, err
	}
	saved, err := runAgain(o, suites, outs, rep, stop)
	if err != nil {
		return false, err
	}
	var all []result
	for _, out := range outs {
		all = append(all, out.results...)
	}
	return concludeRun(o, rep, suites, all, saved)
}

// reportForecast says whether the floor would be too low at the end of a whole run.
func reportForecast(o options, suites []suite, rep *reporter) (low bool, err error) {
	if o.floor == "" {
		return false, nil
	}
	text, err := forecastFloor(o, suites)
	if text != "" {
		fmt.Fprintf(rep.out, "  %s\n", text)
	}
	return text != "", err
}

// forgetMake drops the settings of an outer make, since its job slots and options are not
// meant for a make that a suite starts.
func forgetMake() {
	for _, name := range []string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL"} {
		os.Unsetenv(name)
	}
}

// runFirst runs every suite once, first those that run alone.
func runFirst(o options, suites []suite, outs []outcome, rep *reporter, stop <-chan os.Signal) error {
	single, first, second := splitLanes(suites)
	var err error
	for _, i := range single {
		if outs[i], err = runOne(o, suites[i], rep, stop, nil); err != nil {
			return err
		}
	}
	if len(second) == 0 {
		return nil
	}
	lanes, err := startLanes(o, suites, second)
	if err != nil {
		return err
	}
	for _, i := range first {
		if outs[i], err = runOne(o, suites[i], rep, stop, nil); err != nil {
			lanes.stop()
			return err
		}
		lanes.poll(outs, rep)
	}
	return lanes.wait(outs, rep, stop)
}

// runOne runs one suite; first are the results of an earlier run, if there was
// one.
func runOne(o options, s suite, rep *reporter, stop <-chan os.Signal, first []result) (outcome, error) {
	if first == nil {
		os.Remove(o.firstLog(s)) // left by an earlier run
	}
	rep.start(s)
	out := s.run(o.log(s), stop)
	if first != nil && !out.interrupted {
		out.results = append(out.results, lostTests(first, out.results)...)
	}
	rep.reportSuite(s, out)
	if out.interrupted {
		return out, fmt.Errorf("interrupted in suite %s", s.name)
	}
	return out, nil
}

// concludeRun judges floor and promises, writes the results and closes the report.
func concludeRun(o options, rep *reporter, suites []suite, all []result, saved []retake) (bool, error) {
	if len(all) == 0 {
		rep.reportEmpty(o.suites)
		all = []result{{suite: suiteItself, name: "number of tests", status: failed, reason: "there is no suite to run"}}
	}
	if o.spec != "" {
		judged, err := judgeSpec(o.spec, suites, all, o.part)
		if err != nil {
			return false, err
		}
		rep.reportSpec(judged)
		all = append(all, judged.results()...)
	}
	if o.floor != "" {
		least, err := readFloor(o.floor)
		if err != nil {
			return false, err
		}
		all = append(all, judgeFloor(least, o.floor, all)...)
	}
	all = append(all, judgeUnsteady(saved)...)
	for _, r := range saved {
		all = append(all, r.result())
	}
	if err := writeResults(filepath.Join(o.logs, o.tsv), all); err != nil {
		return false, err
	}
	line, ok := rep.close(all, saved)
	if o.end != "" {
		return ok, os.WriteFile(o.end, []byte(line), 0o644)
	}
	_, err := io.WriteString(rep.out, line)
	return ok, err
}
