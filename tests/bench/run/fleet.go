// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/lab"
)

// cycleTimes is how often the update cycle of one machine is measured, with cycleUpdate.
const (
	cycleTimes  = 30
	cycleUpdate = "arp"
)

// cycleProgram prints, for each time, the nanoseconds that an update takes to be in force, from
// the start of the command on, and those until it is reverted and unloaded.
const cycleProgram = `set -e; skep=$1 package=$2 name=$3 times=$4
while [ $times -gt 0 ]; do
	a=$(date +%s%N); $skep update apply $package --all >/dev/null 2>&1
	b=$(date +%s%N); $skep update revert --remove $name >/dev/null 2>&1
	c=$(date +%s%N); echo $((b-a)) $((c-b)); times=$((times-1))
done`

// benchCycle measures in a virtual machine how long one machine takes to load an update and to
// put it in force, which the paper calls a patching cycle, and how long to take it back. The
// seconds of the first go into a file, for the roll over simulated machines. There is no peer: a
// livepatch of the same patch needs a build of the whole kernel by another builder.
func (b *bench) benchCycle() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	kernel := "6.1.176-1"
	if flag.NArg() > 1 {
		kernel = flag.Arg(1)
	}
	g, err := lab.Start(ctx, lab.Machine{Name: "bench-cycle", Kernel: kernel, Build: b.build, CPUs: 1, Memory: 1024, Modules: []string{"dynamos"}})
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	if err := tellGuest(ctx, g); err != nil {
		return err
	}
	text, err := readOutput(ctx, g, lab.Program{Args: []string{"/bin/sh", "-c", cycleProgram, "sh", b.binPath("skep"),
		filepath.Join(b.build, "update", kernel, cycleUpdate+".skepup"), cycleUpdate, strconv.Itoa(cycleTimes)}})
	if err != nil {
		return err
	}
	all, err := b.printCycles(cycleUpdate, strings.Fields(text))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.build, "bench", "update-cycles"), []byte(strings.Join(all, "\n")+"\n"), 0o644)
}

// printCycles prints the figures of one update, and returns the seconds until it was in force.
func (b *bench) printCycles(name string, words []string) (seconds []string, err error) {
	if len(words) != 2*cycleTimes {
		return nil, fmt.Errorf("%s: %q", name, words)
	}
	for way, what := range []string{"in force after", "reverted and unloaded after"} {
		var list []float64
		for i := way; i < len(words); i += 2 {
			ns, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, err
			}
			list = append(list, ns/1e9)
			if way == 0 {
				seconds = append(seconds, fmt.Sprintf("%.4f", ns/1e9))
			}
		}
		slices.Sort(list)
		fmt.Printf("%-6s %-28s %.2f s at least, median %.2f s, %.2f s at most\n", name, what, list[0], list[len(list)/2], list[len(list)-1])
		b.writeRecord("result update-cycle %s skep %s %.3f s", name, strings.ReplaceAll(what, " ", "-"), list[len(list)/2])
	}
	return seconds, nil
}
