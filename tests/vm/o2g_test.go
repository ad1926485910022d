// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
	"skep/lab"
	"skep/tests/vmtest"
)

// partsVar names the parts of TestO2gKernel to run, for work on one of them:
// SKEP_O2G_PARTS="stop mpi". The module unloads in the end of each run.
const partsVar = "SKEP_O2G_PARTS"

// An o2gGuest is a machine with the kernel engine.
type o2gGuest struct {
	t        *testing.T
	vm       *vmtest.VM
	build    string
	slowness int // by how much slower than Debian's kernels its kernel is
}

// o2gParts run in this order, all in one machine of each kernel. What takes long runs on
// one kernel only, unless all is wanted (vmtest.BothVar, longVar).
var o2gParts = []struct {
	name string
	run  func(*o2gGuest)
	only string
}{
	{"device", func(g *o2gGuest) { g.run("o2g_device", 60) }, ""},
	// Two more where the kernel has KCM.
	{"sockets", func(g *o2gGuest) { g.check(lab.Program{Args: []string{toolPath(g.t, "o2g_ulp")}}, 69) }, ""},
	{"bent", func(g *o2gGuest) { g.check(lab.Program{Args: []string{toolPath(g.t, "o2g_bent")}}, 9) }, ""},
	{"stop", (*o2gGuest).stop, "6.12"},
	{"rings", func(g *o2gGuest) { g.run("o2g_hostile", 20, "rings") }, ""},
	{"area", func(g *o2gGuest) { g.run("o2g_hostile", 25, "area") }, ""},
	{"calls", func(g *o2gGuest) { g.run("o2g_hostile", 6, "calls") }, ""},
	{"buffers", func(g *o2gGuest) { g.run("o2g_hostile", 11, "buffers") }, ""},
	{"share", func(g *o2gGuest) { g.check(lab.Program{Args: []string{toolPath(g.t, "o2g_share")}}, 9) }, ""},
	{"frames", func(g *o2gGuest) { g.run("o2g_wreck", 25, "frames") }, ""},
	{"streams", func(g *o2gGuest) { g.run("o2g_wreck", 12, "streams") }, ""},
	{"records", func(g *o2gGuest) { g.run("o2g_wreck", 30, "records") }, ""},
	{"deaths", func(g *o2gGuest) { g.run("o2g_wreck", 30, "deaths") }, ""},
	{"busy", (*o2gGuest).testUnloadBusy, "6.12"},
	{"mpi", (*o2gGuest).testMPI, "6.12"},
	{"delay", (*o2gGuest).testDelay, "6.12"},
	{"mpi4py", (*o2gGuest).testMPI4Py, "6.12"},
	{"library", (*o2gGuest).testLibrary, "6.1"},
	{"sealed", (*o2gGuest).testSealed, "6.12"},
	{"choice", (*o2gGuest).testEngineChoice, "6.12"},
}

// longVar asks for every part on each kernel.
const longVar = "SKEP_O2G_LONG"

// TestO2gKernel holds the module to its promises on each kernel.
func TestO2gKernel(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		limit := 10 * time.Minute
		if os.Getenv(longVar) != "" {
			limit = 5 * time.Hour
		}
		g := bootO2g(t, lab.Machine{Kernel: kernel, Nodes: 3, Memory: 2048}, limit)
		g.runParts(kernel)
		g.unload("")
	})
}

func (g *o2gGuest) runParts(kernel string) {
	wanted := strings.Fields(os.Getenv(partsVar))
	for _, p := range o2gParts {
		named := slices.Contains(wanted, p.name)
		if !named && (len(wanted) > 0 || p.only != "" && !vmtest.IsLong(kernel, p.only) && os.Getenv(longVar) == "") {
			continue
		}
		began := time.Now()
		p.run(g)
		g.t.Logf("%s took %.1f s", p.name, time.Since(began).Seconds())
	}
}

func bootO2g(t *testing.T, m lab.Machine, limit time.Duration) *o2gGuest {
	t.Helper()
	m.Modules = []string{"o2g"}
	return newO2g(t, vmtest.Boot(t, m, vmtest.Limit(limit)))
}

func newO2g(t *testing.T, vm *vmtest.VM) *o2gGuest {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return &o2gGuest{t, vm, build, 1}
}

// run has the ordinary user run a program that prints TAP.
func (g *o2gGuest) run(name string, floor int, args ...string) {
	g.t.Helper()
	g.check(lab.Program{Args: append([]string{toolPath(g.t, name)}, args...), User: true}, floor)
}

// check runs a program that prints TAP and waits as long as this kernel needs, on a computer
// as busy as this one: the guest sees only its own load.
func (g *o2gGuest) check(p lab.Program, floor int) {
	g.t.Helper()
	slowness := float64(g.slowness) * load.Scale()
	p.Env = append(p.Env, fmt.Sprintf("SKEP_SLOWNESS=%d", int(math.Ceil(slowness))))
	g.vm.Run(p, floor)
}

// stop: the receiver stands still, and the kernel engine receives; the user
// engine, shown the same, does not.
func (g *o2gGuest) stop() {
	g.run("o2g_stop", 19, "kernel", "present")
	g.run("o2g_stop", 19, "user", "absent")
}

// testUnloadBusy tries to unload the module under traffic.
func (g *o2gGuest) testUnloadBusy() {
	in, hold := io.Pipe()
	said := &talking{begun: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		status, err := g.vm.Guest().Run(context.Background(),
			lab.Program{Args: []string{toolPath(g.t, "o2g_wreck"), "traffic"}, User: true}, lab.Streams{In: in, Out: said, Err: said})
		if err == nil && status != 0 {
			err = fmt.Errorf("status %d: %s", status, said.text)
		}
		done <- err
	}()
	select {
	case <-said.begun:
	case err := <-done:
		g.t.Fatalf("traffic ended by itself: %v", err)
	}
	text := g.vm.Output(shellProgram("for i in $(seq 15); do rmmod o2g 2>&1; echo status $?; done"))
	hold.Close()
	err := <-done
	checkGuest(g.t, "rmmod is refused under traffic", strings.Count(text, "status 1\n") == 15 && strings.Count(text, "in use") == 15,
		"15 times rmmod: %.400s", text)
	checkGuest(g.t, "the traffic goes on after the refused rmmod", err == nil, "%v", err)
}

// talking begins at a program's first line.
type talking struct {
	text  []byte
	begun chan struct{}
}

func (w *talking) Write(b []byte) (int, error) {
	if len(w.text) == 0 && len(b) > 0 {
		close(w.begun)
	}
	w.text = append(w.text, b...)
	return len(b), nil
}

// startJob starts an MPI program of this tree by skep mpirun and gives what it said.
func (g *o2gGuest) startJob(p lab.Program, options string, words ...string) string {
	g.t.Helper()
	args := []string{filepath.Join(g.build, "bin", "skep"), "mpirun", "--mpi", filepath.Join(g.build, "mpi", "mpich"), "--no-shm"}
	args = append(append(args, strings.Fields(options)...), "--")
	// Standard error is where the closing line goes.
	p.Args = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, append(args, words...)...)
	return g.vm.Output(p)
}

func (g *o2gGuest) appPath() string { return filepath.Join(g.build, "test", "o2g", "app-wheel") }

var overKernel = regexp.MustCompile(`(\d+) messages? over O2G \(kernel engine\)`)

// checkCounted: the closing line counts messages that the kernel engine carried.
func (g *o2gGuest) checkCounted(name, text string, least int) {
	g.t.Helper()
	n := 0
	if m := overKernel.FindStringSubmatch(text); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	checkGuest(g.t, name, n >= least, "%d messages over the kernel engine, want %d:\n%s", n, least, text)
}

// launcher makes what stands in for ssh: ranks run at the nodes, by the words
// that come before their command.
const launcher = "/run/o2g-launcher"

const asOrdinaryUser = "setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/skep"

func (g *o2gGuest) testLauncher(words string) {
	g.vm.Output(shellProgram(`cat >` + launcher + ` <<'END' && chmod +x ` + launcher + `
#!/bin/sh
set -eu
while [ "${1#-}" != "$1" ]; do shift; done
node=${1##*.}
shift
exec ip netns exec "node$node" ` + words + ` sh -c "$*"
END`))
}

// testMPI: stock MPICH, ranks in namespaces of their own and in one.
func (g *o2gGuest) testMPI() {
	g.testLauncher(asOrdinaryUser)
	text := g.startJob(lab.Program{}, "-n 2 --launcher "+launcher+" --hosts 10.77.0.1,10.77.0.2", g.appPath(), "talk")
	g.checkCounted("two ranks in separate namespaces", text, 10)
	text = g.startJob(lab.Program{}, "-n 3 --launcher "+launcher+" --hosts 10.77.0.1,10.77.0.2,10.77.0.3", g.appPath(), "talk")
	g.checkCounted("three ranks in separate namespaces", text, 20)
	text = g.startJob(lab.Program{User: true}, "-n 2", g.appPath(), "processes")
	g.checkCounted("ranks of an ordinary user fork and start programs", text, 2)
	text = g.startJob(lab.Program{User: true}, "-n 2", g.appPath(), "window", "65536")
	g.checkCounted("puts and gets of ranks with the kernel engine", text, 2)
	checkGuest(g.t, "and their bytes", strings.Contains(text, "put and got\n"), "%s", text)
	text = g.startJob(lab.Program{User: true}, "-n 3", g.appPath(), "tickets")
	g.checkCounted("sums and tickets of ranks with the kernel engine", text, 2)
	checkGuest(g.t, "and their numbers", strings.Contains(text, "tickets and sums\n"), "%s", text)
}

// testDelay: behind 20 ms, what is within credit takes no round trip, what is
// beyond takes one; counted in a capture of the wire.
func (g *o2gGuest) testDelay() {
	g.testLauncher(asOrdinaryUser)
	g.vm.Output(shellProgram("for n in 1 2 3; do tc -n node$n qdisc add dev eth0 root netem limit 100000 delay 20ms; done"))
	for _, c := range []struct{ bytes, requests string }{{"2000000", "0"}, {"8000000", "1"}} {
		g.vm.Run(lab.Program{Node: 1, Env: []string{"SKEP_O2G_CREDIT=4M"}, Args: []string{
			toolPath(g.t, "o2g_capture"), "eth0", c.bytes, c.requests,
			filepath.Join(g.build, "bin", "skep"), "mpirun", "--mpi", filepath.Join(g.build, "mpi", "mpich"), "--no-shm", "-n", "2",
			"--launcher", launcher, "--hosts", "10.77.0.1,10.77.0.2", "--", g.appPath(), "posted", c.bytes,
		}}, 5)
	}
	g.vm.Output(shellProgram("for n in 1 2 3; do tc -n node$n qdisc del dev eth0 root; done"))
}

// modulesVar names modules of mpi4py for the long form, instead of all, and
// ranksVar the numbers of ranks.
const (
	modulesVar = "SKEP_MPI4PY"
	ranksVar   = "SKEP_MPI4PY_RANKS"
)

// shortModules of mpi4py are those that take seconds in the emulator.
var shortModules = []string{"test_request"}

// testMPI4Py runs its tests, some modules or all of them beside the MPI's own TCP;
// as root, since the Python may be a link into a home that others can't enter.
func (g *o2gGuest) testMPI4Py() {
	tree := filepath.Dir(g.build)
	if os.Getenv(longVar) != "" {
		g.testLauncher("")
		modules, least := strings.Fields(os.Getenv(modulesVar)), "1100"
		if len(modules) > 0 {
			least = "1"
		}
		args := append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh", filepath.Join(g.build, "tool", "mpi"), "-engine", "kernel", "-scratch", "/skep",
			"-launcher", launcher, "-hosts", "10.77.0.1,10.77.0.2,10.77.0.3", "-ranks", cmp.Or(os.Getenv(ranksVar), "2,3"), "-together", "6",
			"-least", least, "-deadline", "40m", "mpi4py"}, modules...)
		g.vm.Run(lab.Program{Dir: tree, Args: args}, 2)
		return
	}
	// The guest covers all of /tmp but the build folder.
	suite := filepath.Join("/host", tree, "tests", "mpi", "suite.py")
	for _, m := range shortModules {
		text := g.startJob(lab.Program{Dir: "/skep"}, "-n 2", filepath.Join(g.build, "mpi", "mpich", "bin", "python"),
			suite, filepath.Join(g.build, "mpi", "mpi4py"), "/skep/rank", m)
		g.checkCounted("mpi4py's "+m, text, 1)
		g.checkPassed(m)
	}
}

// checkPassed reads what the ranks' suites noted.
func (g *o2gGuest) checkPassed(module string) {
	text := g.vm.Output(shellProgram("cat /skep/rank.0 /skep/rank.1"))
	good, bad := 0, ""
	for line := range strings.Lines(text) {
		switch what, name, _ := strings.Cut(strings.TrimSpace(line), " "); what {
		case "ok":
			good++
		case "bad":
			bad += name + " "
		}
	}
	checkGuest(g.t, "no test of "+module+" fails", good > 0 && bad == "", "%d passed; bad: %s", good, bad)
}

// unload: nothing holds the module any more. where ends the claims' names.
func (g *o2gGuest) unload(where string) {
	text := g.vm.Output(shellProgram(`
		for i in $(seq 600); do
			[ "$(cat /sys/module/o2g/refcnt)" = 0 ] && break
			sleep 0.1
		done
		grep -H . /sys/module/o2g/parameters/* /sys/module/o2g/refcnt
		grep o2g /proc/slabinfo
		rmmod o2g && ! grep -w o2g /proc/modules && test ! -e /dev/o2g && echo unloaded`))
	checkGuest(g.t, "the module unloads once nobody uses it"+where, strings.HasSuffix(text, "unloaded\n"), "%s", text)
	checkGuest(g.t, "the unloaded module had freed everything"+where, strings.Count(text, ":0\n") >= 5 && !regexp.MustCompile(`:[1-9]`).MatchString(text), "%s", text)
}
