// SPDX-License-Identifier: MIT

package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeProgram writes an executable shell script.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mustRun runs a shell command in dir, where PATH has skep and the tools, and temporary
// files are below dir/tmp.
func mustRun(t *testing.T, dir, command string, want int) string {
	t.Helper()
	bin := filepath.Dir(skepPath(t))
	out, code := runProgram(t, dir, "sh", "-c", "export PATH="+bin+":$PATH TMPDIR="+dir+"/tmp OMRPC_RSH="+dir+"/rsh; unset SKEP_SOCKET; "+command)
	if code != want {
		t.Errorf("%s ended with %d, not %d:\n%s", command, code, want, out)
	}
	return out
}

// openTools makes a folder with the workers and masters that the tests type commands for,
// built with the tools of OmniRPC's names.
func openTools(t *testing.T) (dir string) {
	t.Helper()
	dir = shortDir(t)
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs("programs")
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "ln -s "+programs+" p", 0)
	// The stand-in for rsh: a host is a shell of this computer.
	writeProgram(t, filepath.Join(dir, "rsh"), `[ "$1" = -l ] && shift 2
[ "$1" = dead ] && { echo "no route to dead" >&2; exit 255; }
shift
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$*"
`)
	return dir
}

func hostFile(t *testing.T, dir, inside string) {
	t.Helper()
	writeText(t, filepath.Join(dir, "hosts.xml"), "<OmniRpcConfig>\n"+inside+"\n</OmniRpcConfig>\n")
}

// A master that is started alone has a hub of its own, with the hosts of a file or with
// this computer, and leaves nothing.
func TestHosts(t *testing.T) {
	dir := openTools(t)
	mustRun(t, dir, "omrpc-cc p/calls/calls.idl && omrpc-cc -o master p/calls/all.c && omrpc-cc -o named p/calls/handle.c", 0)
	for name, c := range map[string]struct {
		file, command, want string
		code                int
	}{
		"alone":   {"", "./master", "right", 0},
		"hosts":   {`<Host name="localhost"/><Host name="far" user="me"><Agent invoker="rsh" mxio="on"/><JobScheduler type="fork" maxjob="2"/></Host>`, "./master --hostfile hosts.xml", "right", 0},
		"current": {`<Host name="far" arch="x86_64" os="Linux"><Agent invoker="ssh"/></Host>`, "./master", "right", 0},
		"shown":   {`<Host name="far"><Agent invoker="ssh"/></Host>`, "skep run --hostfile hosts.xml -- sh -c 'skep nodes | grep ^far && ./named'", "right", 0},
		"arch":    {`<Host name="far" arch="sparc"/>`, "./master --hostfile hosts.xml", "hosts.xml:2:1: the host far: ssh has ended: the host is x86_64 with Linux, not sparc", 1},
		"here":    {`<Host name="localhost" os="solaris"/>`, "./master", "hosts.xml:2:1: this computer is x86_64 with Linux, not solaris", 1},
		"dead":    {`<Host name="localhost"/><Host name="dead"/>`, "./master", "the host dead: ssh has ended: no route to dead", 1},
		"wrong":   {`<Host name="far"><Agent invoker="fax"/></Host>`, "./master", `hosts.xml:2:18: there is no invoker "fax": write ssh`, 1},
		"missing": {"", "./master --hostfile none.xml", "none.xml: no such file", 1},
		"empty":   {"", "./master --hostfile", "--hostfile needs the name of a file", 1},
		"both":    {`<Host name="far"/>`, "skep run --slots 1 --hostfile hosts.xml -- ./master", "leave --state and --slots out", 2},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(filepath.Join(dir, "hosts.xml"))
			if c.file != "" {
				hostFile(t, dir, c.file)
			}
			out := mustRun(t, dir, c.command, c.code)
			if !strings.Contains(out, c.want) {
				t.Errorf("it printed\n%s\nwithout %q", out, c.want)
			}
			if list, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(list) > 0 {
				t.Errorf("%v: it left %v", err, list)
			}
		})
	}
	out := mustRun(t, dir, "SKEP_PROGRAM=/nowhere/skep ./master", 1)
	if !strings.Contains(out, "SKEP_PROGRAM") {
		t.Errorf("without skep it said:\n%s", out)
	}
}

// The tools build and register programs as they do in OmniRPC's makefiles.
func TestTools(t *testing.T) {
	dir := openTools(t)
	for _, c := range []struct {
		command, want string
		code          int
	}{
		{"omrpc-cc -c p/bodies/bodies.idl p/bodies/worker_bodies.c && omrpc-cc -o bodies.rex bodies.rex.o worker_bodies.o", "", 0},
		{"omrpc-cc -c p/bodies/called.c -o called.o && omrpc-cc -o called called.o && skep run -- ./called", "right", 0},
		{"omrpc-fc p/fortran/fortran.idl p/fortran/worker_dotted.f && omrpc-fc p/fortran/wide.f && skep run -- ./a.out", "right", 0},
		{"omrpc-fc -c p/fortran/worker_dotted.f p/fortran/subroutines.f && omrpc-fc p/fortran/fortran.idl worker_dotted.o && omrpc-fc -o old subroutines.o && skep run -- ./old", "right", 0},
		{"omrpc-gen p/calls/calls.idl && head -n 1 calls.rex.c && omrpc-gen p/calls/calls.idl other.c && wc -l other.c", "Made by skep gen", 0},
		{"omrpc-cc -show -DX=1 p/calls/calls.idl more.c -lm", "skep gen --build p/calls/calls.idl -o calls.rex more.c -lm -- -DX=1", 0},
		{"omrpc-cc -help", "the worker program FILE.rex", 0},
		{"omrpc-cc", "omrpc-cc: name a file", 2},
		{"omrpc-cc a.idl b.idl", "one interface file makes one program", 2},
		{"omrpc-cc -E x.c", "the option -E is not supported", 2},
		{"omrpc-gen", "omrpc-gen: write omrpc-gen FILE.idl", 2},
		{"omrpc-register-yml some.yapp", "omrpc-register-yml: skep reads no applications of YML: build the interface file", 4},
		{"tlogview some.log", "tlogview: skep writes no logs for tlogview, so some.log is not read", 4},
		{"OmrpcMonitor some", "OmrpcMonitor: it takes no words", 2},
		{"skep run -- sh -c 'OmrpcMonitor | head -n 1'", "1 of 1 nodes up", 0},
		{"skep run -- sh -c 'tlogview >link & until grep http link; do :; done; kill $!; wait $!'", "http://127.0.0.1:", 0},
		{"omrpc-register -frob", "omrpc-register: write", 2},
		{"omrpc-register -register a.out", "a.out", 1},
		// A program whose file is not named like its module is found in the registry.
		{"mkdir deep && omrpc-cc -o deep/odd.rex p/calls/calls.idl && omrpc-cc -o all p/calls/all.c && omrpc-register -register deep/odd.rex", "squared:calls was registered. (stub='", 0},
		{"skep run -- ./all", "right", 0},
		{"omrpc-register -show", "squared\tcalls\t", 0},
		{"omrpc-register -register deep/odd.rex", "was updated", 0},
		{"omrpc-register -remove deep/odd.rex", "calls was removed", 0},
		{"omrpc-register -remove deep/odd.rex", "is not registered", 4},
		{"OMRPC_REG_PATH=$PWD/reg omrpc-register -register deep/odd.rex && OMRPC_REG_PATH=$PWD/reg skep run -- ./all && omrpc-register -path reg -clear && omrpc-register -path reg -show", "right", 0},
		{"skep run -- ./all", "no worker program", 1},
	} {
		if out := mustRun(t, dir, c.command, c.code); !strings.Contains(out, c.want) {
			t.Errorf("%s printed\n%s\nwithout %q", c.command, out, c.want)
		}
	}
}

// shortDir returns a folder for a test. t.TempDir has the test's name, with which the path of
// a socket may be too long.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
