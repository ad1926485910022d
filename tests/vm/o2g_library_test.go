// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"os"
	"path/filepath"
	"strings"

	"skep/lab"
)

// libo2gSuites are the tests of libo2g, which work with each engine, and the least number of their
// tests. The test of unauthenticated peers is long, since it waits for seconds, and concerns only the
// library.
var libo2gSuites = []struct {
	name  string
	floor int
	long  bool
}{
	{"message", 89, false}, {"life", 91, false}, {"fork", 10, false}, {"trace", 30, false}, {"death", 20, false}, {"access", 150, false}, {"unauthenticated", 57, true},
}

// testLibrary: libo2g's own tests, over the kernel engine.
func (g *o2gGuest) testLibrary() {
	// For the test that lets a page of a region wait.
	g.vm.Output(shellProgram("echo 1 >/proc/sys/vm/unprivileged_userfaultfd"))
	for _, s := range libo2gSuites {
		if s.long && os.Getenv(longVar) == "" {
			continue
		}
		g.vm.Run(lab.Program{Args: []string{toolPath(g.t, "o2g_lib_"+s.name)}, User: true,
			Env: []string{"SKEP_O2G_ENGINE=kernel"}}, s.floor)
	}
}

// testSealed: encrypted connections of the kernel engine, also with one of the user engine at the
// other end. The module's words are in the kernel's log, which root may read. Then MPI programs.
func (g *o2gGuest) testSealed() {
	for _, engines := range [][]string{{"kernel"}, {"user", "kernel"}, {"kernel", "user"}} {
		g.check(lab.Program{Args: append([]string{toolPath(g.t, "o2g_lib_sealed")}, engines...),
			Env: []string{longVar + "=" + os.Getenv(longVar)}}, 29)
	}
	for _, s := range libo2gSuites {
		if s.name != "message" && os.Getenv(longVar) == "" {
			continue
		}
		g.vm.Run(lab.Program{Args: []string{toolPath(g.t, "o2g_lib_"+s.name)}, User: true,
			Env: []string{"SKEP_O2G_ENGINE=kernel", "SKEP_O2G_ENCRYPT=yes"}}, s.floor)
	}
	g.checkCounted("encrypted messages of an MPI program", g.startJob(lab.Program{}, "-n 3 --encrypt", g.appPath(), "talk"), 20)
}

// asUser runs a script as the ordinary user; skep and the job's options are
// its variables.
func (g *o2gGuest) asUser(script string) string {
	g.t.Helper()
	p := shellProgram(script)
	p.User = true
	p.Env = []string{"skep=" + filepath.Join(g.build, "bin", "skep"),
		"job=mpirun --mpi " + filepath.Join(g.build, "mpi", "mpich") + " --no-shm -n 2",
		"app=" + g.appPath()}
	return g.vm.Output(p)
}

// testEngineChoice: which engine a program gets, and how a user sees it.
func (g *o2gGuest) testEngineChoice() {
	says := func(name, text string, words ...string) {
		g.t.Helper()
		for _, w := range words {
			checkGuest(g.t, name+": "+w, strings.Contains(text, w), "%s", text)
		}
	}
	says("doctor", g.asUser(`$skep doctor || :`), "the kernel module matches")
	says("asked for the user engine", g.asUser(`$skep $job --engine user -- "$app" talk 2>&1`), "over O2G (user engine)")
	says("status", g.asUser(`$skep $job -- "$app" traffic >/dev/null 2>&1 & job=$!
out= tries=0
while [ $tries -lt 600 ]; do
	out=$($skep o2g status) tries=$((tries + 1))
	case $out in *SOFTIRQ*kB*) break ;; esac
	sleep 0.1
done
kill $job; wait $job || :
echo "$out"`), "kernel", "SOFTIRQ", "kB")
	g.vm.Output(shellProgram("chmod 600 /dev/o2g"))
	text := g.asUser(`$skep $job -- "$app" talk 2>&1`)
	says("without the right to the device", text, "Permission denied; ask root for access to /dev/o2g; using the engine 'user' instead", "over O2G (user engine)")
	text = g.asUser(`$skep $job --engine kernel -- "$app" talk 2>&1 || echo refused`)
	says("and the kernel's insisted on", text, "ask root for access to /dev/o2g", "refused")
	says("doctor", g.asUser(`$skep doctor || :`), "ask root for access to it")
	g.vm.Output(shellProgram("chmod 666 /dev/o2g"))
}
