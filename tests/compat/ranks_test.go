// SPDX-License-Identifier: MIT

package compat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/tests/watch"
)

// openRanks makes a folder with the programs of folder ranks, whose workers are MPI jobs of
// the MPI that this compiler belongs to.
func openRanks(t *testing.T, compiler string) (dir string) {
	t.Helper()
	dir = openTools(t)
	ranks, err := filepath.Abs("ranks")
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "ln -s "+ranks+" r && omrpc-cc-mpi -linker "+compiler+" r/ranks.idl && omrpc-cc r/plain.idl && "+
		"omrpc-cc -o master r/master.c && omrpc-cc -o failures r/failures.c", 0)
	if t.Failed() {
		t.FailNow()
	}
	return dir
}

// Functions run in MPI jobs, of both MPIs.
func TestRanks(t *testing.T) {
	for _, compiler := range []string{"mpicc.openmpi", "mpicc.mpich"} {
		t.Run(compiler, func(t *testing.T) {
			dir := openRanks(t, compiler)
			mustRun(t, dir, "skep gen --build --cc "+compiler+" r/marked.idl r/multiply.c", 0)
			// The one worker changes the number of its ranks.
			if out := mustRun(t, dir, "skep run --slots 1 -- ./master marked", 0); !strings.HasSuffix(out, "right\n") {
				t.Errorf("it printed\n%s", out)
			}
		})
	}
}

// Programs of ranks are linked from objects, and masters may use MPI.
func TestRanksTools(t *testing.T) {
	dir := openTools(t)
	ranks, _ := filepath.Abs("ranks")
	mustRun(t, dir, "ln -s "+ranks+" r && omrpc-cc-mpi -c r/marked.idl r/multiply.c && omrpc-cc-mpi -o marked.rex marked.rex.o multiply.o && "+
		"omrpc-cc-mpi r/ranks.idl && omrpc-cc r/plain.idl && omrpc-cc-mpi -o master r/master.c && omrpc-cc-mpi -o messages r/messages.c && omrpc-cc -o stack r/stack.c", 0)
	if out := mustRun(t, dir, "skep run -- ./master", 0); !strings.HasSuffix(out, "right\n") {
		t.Errorf("a program linked with MPI printed\n%s", out)
	}
	out := mustRun(t, dir, "skep run -- ./messages", 1)
	if !strings.Contains(out, "started 1\nresult 8\n") || strings.Count(out, "OmniRpcMpi_Send: the program and its workers have no communicator") != 1 {
		t.Errorf("messages between a program and ranks were not refused:\n%s", out)
	}
	for word, want := range map[string]string{"FJMPISend": "OmniRpcMpi_FJMPISend", "FJMPIRecv": "OmniRpcMpi_FJMPIRecv", "port": "OmniRpcMpiGetPort"} {
		if out := mustRun(t, dir, "skep run -- ./messages "+word, 1); strings.Count(out, want+": the program and its workers have no communicator") != 1 {
			t.Errorf("%s was not refused:\n%s", word, out)
		}
	}
	if out := mustRun(t, dir, "skep run -- ./stack", 0); !strings.HasSuffix(out, "right\n") || strings.Contains(out, "wrong") {
		t.Errorf("GridRPC's calls printed\n%s", out)
	}
	if out := mustRun(t, dir, "skep gen --manifest marked.rex", 0); !strings.Contains(out, "Define size(\n\tOUT int n) Backend \"MPI\"") || strings.Contains(out, "skep_ranks") {
		t.Errorf("the manifest is\n%s", out)
	}
}

// A rank that ends fails the call by name, and the next call is done well.
func TestRanksFailures(t *testing.T) {
	dir := openRanks(t, "mpicc")
	for name, want := range map[string]string{
		"1":      "fail: rank 1 of 2: it was ended by signal 11",
		"2":      "fail: rank 1 of 2: it called exit",
		"3":      "fail: rank 1 of 2 ended in the middle of the function",
		"few":    "pi: a job has 1 to 1024 ranks, not 0",
		"many":   "ranks: a job has 1 to 1024 ranks, not 1025",
		"other":  "fail: the handle has 2 ranks, not 3",
		"plain":  "plain.double_it: no MPI job runs it",
		"handle": "the handle was not made by OmniRpcMpiCreateHandle",
		"size":   "argument x of ranks.spread: its size or part is negative",
		"init":   "Initialize is module ranks's Initialize: use OmniRpcModuleInit",
		"one":    "ask: rank 1 of 2: it called tell of the master, which only rank 0 may do: send rank 0 what it needs",
		"large":  "tell of the master has 1048592 bytes of arguments in one direction, at most 1048560 travel",
		"asking": "ask: rank 1 of 2 ended in the middle of the function",
		"memory": "it exceeded its limit: it ", // of both ranks together
		"send":   "OmniRpcMpi_Send: the program and its workers have no communicator",
	} {
		t.Run(name, func(t *testing.T) {
			out := mustRun(t, dir, "skep run --slots 1 -- ./failures "+name, 1)
			if strings.Contains(out, "result") || strings.Count(out, want) != 1 {
				t.Errorf("it printed\n%s\nwithout one line with %q", out, want)
			}
			out = mustRun(t, dir, "SKEP_ERRORS=return skep run --slots 1 -- ./failures "+name, 0)
			if !strings.Contains(out, "result 3.142") {
				t.Errorf("the call after it went wrong:\n%s", out)
			}
		})
	}
}

// omrpc-cc-xmp uses xmpcc. The program that stands for it does what that is known for: main
// gets another name, and a main of its own begins and ends MPI.
func TestRanksGlobal(t *testing.T) {
	dir := openTools(t)
	ranks, _ := filepath.Abs("ranks")
	mustRun(t, dir, "ln -s "+ranks+" r && mkdir bin", 0)
	if out := mustRun(t, dir, "omrpc-cc-xmp r/ranks.idl", 4); !strings.Contains(out, "omrpc-cc-xmp: no compiler of XcalableMP: install Omni XcalableMP") {
		t.Errorf("without a compiler it said\n%s", out)
	}
	writeText(t, dir+"/outer.c", "#include <mpi.h>\nint xmpc_main(int, char **);\nint main(int c, char **v)\n{\n\tint r;\n\tMPI_Init(&c, &v);\n\tr = xmpc_main(c, v);\n\tMPI_Finalize();\n\treturn r;\n}\n")
	writeText(t, dir+"/bin/xmpcc", "#!/bin/sh\necho \"xmpcc $*\" >>"+dir+"/calls\ncase \" $* \" in\n*' -c '*) exec mpicc -Dmain=xmpc_main \"$@\";;\nesac\nexec mpicc -Dmain=xmpc_main \"$@\" "+dir+"/outer.o\n")
	mustRun(t, dir, "chmod +x bin/xmpcc && mpicc -c outer.c && export PATH=$PWD/bin:$PATH && omrpc-cc-xmp r/ranks.idl && omrpc-cc r/plain.idl && "+
		"omrpc-cc-xmp -c r/marked.idl r/multiply.c && omrpc-cc-xmp -o marked.rex marked.rex.o multiply.o && omrpc-cc -o master r/master.c && omrpc-cc -o stack r/stack.c", 0)
	if out := mustRun(t, dir, "grep -c . calls && skep run -- ./stack && skep run -- ./master", 0); !strings.HasPrefix(out, "4\n") || strings.Contains(out, "wrong") || strings.Count(out, "right\n") != 2 {
		t.Errorf("it printed\n%s", out)
	}
}

// The largest callback travels.
func TestRanksLargestCallback(t *testing.T) {
	dir := openRanks(t, "mpicc")
	out := mustRun(t, dir, "skep run --slots 1 -- ./failures largest", 0)
	if !strings.Contains(out, "heard 0, 1048544 bytes, the last is 0\n") || !strings.Contains(out, "result 3.142") {
		t.Errorf("it printed\n%s", out)
	}
}

func TestRanksExample(t *testing.T) { runExample(t, withMPI) }

// A node that runs programs under bee refuses them by name.
func TestRanksUnderBee(t *testing.T) {
	dir := openRanks(t, "mpicc")
	s, err := watch.NewStage("compat")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(func(a *watch.Actor) { a.End(10 * time.Second) })
	bee, state := filepath.Join(filepath.Dir(skepPath(t)), "bee"), filepath.Join(dir, "hub")
	_, err = s.Start("hub", exec.Command(skepPath(t), "up", "--state", state, "--listen", "127.0.0.1:0", "--bee", bee))
	if err != nil {
		t.Fatal(err)
	}
	out := mustRun(t, dir, "until skep nodes --state hub 2>/dev/null | grep bee >nodes; do :; done; skep run --state hub -- ./failures 0", 1)
	if !strings.Contains(out, "the node runs programs under bee, which cannot run MPI jobs") {
		t.Errorf("it printed\n%s", out)
	}
}

// findPrograms returns the processes of this name that work below dir.
func findPrograms(dir, name string) (list []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range found {
		comm, _ := os.ReadFile(p + "/comm")
		cwd, _ := os.Readlink(p + "/cwd")
		pid, _ := strconv.Atoi(filepath.Base(p))
		if string(bytes.TrimSpace(comm)) == name && strings.HasPrefix(cwd, dir) {
			list = append(list, pid)
		}
	}
	return list
}

func awaitPrograms(t *testing.T, dir, name string, fits func(n int) bool) []int {
	t.Helper()
	ctx, cancel := load.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list := findPrograms(dir, name)
		if fits(len(list)) {
			return list
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("%d processes %s:\n%s", len(list), name, log)
		}
		syscall.Nanosleep(&syscall.Timespec{Nsec: 1e7}, nil)
	}
}

// Without the worker no rank is left, whoever ends it.
func TestRanksAreKilled(t *testing.T) {
	dir := openRanks(t, "mpicc")
	start := func() *exec.Cmd {
		cmd := exec.Command(skepPath(t), "run", "--slots", "1", "--", "./failures", "hang")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir+"/tmp", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "SKEP_SOCKET=")
		log, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	none := func(n int) bool { return n == 0 }
	for name, end := range map[string]func(run *exec.Cmd){
		"run": func(run *exec.Cmd) { run.Process.Signal(syscall.SIGTERM) },
		"hub": func(run *exec.Cmd) { run.Process.Kill() },
		"worker": func(run *exec.Cmd) {
			for _, pid := range findPrograms(dir, "worker") {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			run.Process.Signal(syscall.SIGTERM)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := start()
			defer run.Process.Kill()
			ended := make(chan struct{})
			go func() {
				run.Wait()
				close(ended)
			}()
			ranks := awaitPrograms(t, dir, "skep-ranks", func(n int) bool {
				select {
				case <-ended:
					log, _ := os.ReadFile(filepath.Join(dir, "log"))
					t.Fatalf("the run ended before its ranks began:\n%s", log)
				default:
				}
				return n == 2
			})
			end(run)
			for _, pid := range ranks {
				ctx, cancel := load.WithTimeout(t.Context(), time.Minute)
				for syscall.Kill(pid, 0) == nil && ctx.Err() == nil {
					syscall.Nanosleep(&syscall.Timespec{Nsec: 1e7}, nil)
				}
				if ctx.Err() != nil {
					t.Errorf("rank %d lives", pid)
				}
				cancel()
			}
			<-ended
			awaitPrograms(t, dir, "skep-ranks", none)
		})
	}
}
