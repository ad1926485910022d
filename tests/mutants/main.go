// SPDX-License-Identifier: MIT

// Mutants changes one place of a room's code at a time and checks whether the room's quick
// suites detect the change. `make mutants ROOM=NAME` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"skep/tests/mutants/mirror"
	"skep/tests/mutants/mutate"
	"skep/tests/mutants/rooms"
	"skep/tests/mutants/sandbox"
)

type options struct {
	root  string // top of the tree
	work  string // folder of the copy and of results
	rooms string // file: room, needs, name, kind, deadline, command per line
	equal string // equal.tbl
	run   string // the runner
	seed  string
	n     int
	jobs  int
	marks string // of the only mutants to try
	skip  string // files that only suites in machines see
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "top of the tree")
	flag.StringVar(&o.work, "work", "build/mutants", "`folder` of the copy and of results")
	flag.StringVar(&o.rooms, "rooms", "", "`file` with room, needs, suite, kind, deadline, command per line")
	flag.StringVar(&o.equal, "equal", "tests/mutants/equal.tbl", "`file` of mutants that change nothing")
	flag.StringVar(&o.run, "runner", "build/tool/run", "the `program` that runs suites")
	flag.StringVar(&o.seed, "seed", "1", "another one chooses other mutants")
	flag.IntVar(&o.n, "n", 100, "mutants of each room")
	flag.IntVar(&o.jobs, "jobs", 1, "mutants at a time")
	flag.StringVar(&o.marks, "marks", "", "try only the mutants with these `marks`")
	flag.StringVar(&o.skip, "without", "", "leave these `files` as they are")
	inside := flag.Bool("inside", false, "be process 1 of a sandbox")
	flag.Parse()
	if *inside {
		sandbox.RunInside()
		return
	}
	if o.rooms == "" || o.n < 1 || o.jobs < 1 || o.seed == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { <-signals; close(stop) }()
	if err := runRooms(o, stop); err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(2)
	}
}

// runRooms prepares the copy, then tries the mutants of each room.
func runRooms(o options, stop <-chan struct{}) error {
	list, err := rooms.Read(o.rooms)
	if err != nil {
		return err
	}
	equal, err := mutate.ReadEqual(o.equal)
	if err != nil {
		return err
	}
	if err := mutate.CheckEqual(o.root, o.equal, equal); err != nil {
		return err
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	unlock, err := lockWork(o.work)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := prepareCampaign(o, stop)
	if err != nil {
		return err
	}
	c.equal = equal
	var tallies []*tally
	var failed error
	for _, r := range list {
		t, err := c.runCampaign(r)
		if t != nil {
			tallies = append(tallies, t)
		}
		if errors.Is(err, sandbox.ErrStopped) {
			failed = errors.New("stopped: the same command goes on from here")
			break
		}
		failed = errors.Join(failed, err) // go on with the next room
	}
	fmt.Print(formatReport(tallies))
	return failed
}

// lockWork locks the folder against a second run.
func lockWork(work string) (unlock func(), err error) {
	file, err := os.Create(filepath.Join(work, "lock"))
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		file.Close()
		return nil, fmt.Errorf("another run uses %s", work)
	}
	return func() { file.Close() }, nil
}

// prepareCampaign copies the tree and finds Go's cache.
func prepareCampaign(o options, stop <-chan struct{}) (*campaigner, error) {
	work, err := filepath.Abs(o.work)
	if err != nil {
		return nil, err
	}
	c := &campaigner{n: o.n, jobs: o.jobs, marks: strings.Fields(o.marks), skip: strings.Fields(o.skip), seed: o.seed, work: work, stop: stop}
	c.box = sandbox.Box{Tree: work + "/tree", Warm: work + "/warm"}
	for _, dir := range []string{c.box.Tree, c.box.Warm + "/upper", c.box.Warm + "/work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if c.sources, err = mirror.Tree(o.root, c.box.Tree); err != nil {
		return nil, err
	}
	if c.digest, err = mirror.Digest(c.box.Tree, c.sources); err != nil {
		return nil, err
	}
	c.runner = c.box.Warm + "/run"
	if err := mirror.File(o.run, c.runner, 0o755); err != nil {
		return nil, err
	}
	if c.box.Cache, err = goPaths(); err != nil {
		return nil, err
	}
	return c, os.MkdirAll(c.box.Cache, 0o755)
}

// goPaths fixes Go's folders, which otherwise follow HOME.
func goPaths() (cache string, err error) {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	values := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(values) != len(names) {
		return "", fmt.Errorf("go env said %q", out)
	}
	for i, name := range names {
		os.Setenv(name, values[i])
	}
	return values[0], nil
}
