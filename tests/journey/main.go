// SPDX-License-Identifier: MIT

// Command journey tests what a new user does with skep, with the real binaries, and prints
// TAP: a hub, agents on Linux and under Wine, programs on each of them, and errors.
//
//	journey -on linux    needs build/bin/skep
//	journey -on wine     besides needs wine, skep.exe and bee.exe
//	journey -kill ...    runs of a master whose nodes end, stop or give false answers
package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"

	"skep/tests/tap"
	"skep/tests/wine/wineserver"
)

// A journey is a sequence of steps; every step is a test.
type journey struct {
	name string
	wine bool
	walk func(s *stage)
}

type options struct {
	on, bin, programs, prefix string
	former, old               string
	master, modules           string // of -kill
	only                      *regexp.Regexp
	keep, kill                bool
}

func parseOptions() options {
	var o options
	only := flag.String("only", "", "walk the journeys whose names match")
	flag.StringVar(&o.on, "on", "linux", "linux or wine")
	flag.StringVar(&o.bin, "bin", "build/bin", "where skep, skep.exe, bee and bee.exe are")
	flag.StringVar(&o.programs, "programs", "build/conformance", "where static test programs are")
	flag.StringVar(&o.old, "old", "build/test/journey/skep-old", "a skep two revisions behind")
	flag.StringVar(&o.former, "former", "build/test/journey/skep-former", "a skep one revision behind")
	flag.StringVar(&o.prefix, "prefix", "build/wine-journey", "WINEPREFIX")
	flag.BoolVar(&o.kill, "kill", false, "walk the journeys of runs that meet trouble")
	flag.StringVar(&o.master, "master", "build/test/kill/master", "the master program of -kill")
	flag.StringVar(&o.modules, "modules", "build/test/kill", "where its worker programs are")
	flag.BoolVar(&o.keep, "keep", false, "keep states and outputs")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	for _, path := range []*string{&o.bin, &o.programs, &o.former, &o.old, &o.prefix, &o.master, &o.modules} {
		*path, _ = filepath.Abs(*path)
	}
	return o
}

func main() {
	o := parseOptions()
	os.Exit(tap.Run(os.Stdout, func(t *tap.Report) error { return runJourneys(o, t) }))
}

func runJourneys(o options, t *tap.Report) error {
	if o.on == "wine" {
		if err := wineserver.Check(o.prefix); err != nil {
			return err
		}
		defer stopWine(o)
	}
	list := listJourneys()
	if o.kill {
		list = listTroubles()
	}
	for _, j := range list {
		if j.wine == (o.on == "wine") && o.only.MatchString(j.name) {
			runJourney(o, t, j)
		}
	}
	return nil
}

// runJourney runs a journey on a new stage and closes the stage afterwards. A step on which
// all later ones depend ends the journey by a panic with stop if it fails.
func runJourney(o options, t *tap.Report, j journey) {
	s := newStage(o, t, j.name)
	defer s.close()
	defer func() {
		if r := recover(); r != nil && r != stop {
			panic(r)
		}
	}()
	j.walk(s)
}
