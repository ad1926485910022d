// SPDX-License-Identifier: MIT

package main

// A worker is an interface file of the tree, and the files that the tree's own makefile
// links with it.
type worker struct {
	idl   string
	files []string
}

// A program is a client of the tree, compiled like by its makefile.
type program struct {
	name    string
	source  string
	more    []string // linked with it
	defines []string
	workers []worker // registered before it runs
	files   []string // copied to the folder in which it runs
	data    string   // contents of a file `data` there, written by us
	args    []string
	need    []string // what it prints when its answers are right
	never   []string // what it prints when they are wrong
}

var (
	sample = worker{"test/stub-test/sample.idl", []string{"test/stub-test/sample-lib.c"}}
	initia = worker{"test/stub-test/init_sample.idl", nil}
	matrix = []string{"test/stub-test/sample-lib.c"}
	right  = []string{"sin(1.234)=0.943818", "mmul verified!!", "test end ..."}
	wrong  = []string{"invalid!", "failed", "not verified"}
	epLibs = []string{"example/ep/c_print_results.c", "example/ep/c_randdp.c", "example/ep/c_timers.c", "example/ep/wtime.c"}
	useRPC = []string{"-DUSE_OMRPC"}
	second = []string{"example/knap/second.c"}
	knapsa = []string{"example/knap/knap_dfs.c"}
)

// items is the input of the knapsack program, sorted as its bound requires. It replaces that
// of the tree, which takes minutes. The best price is 329, by dynamic programming.
const items = "18 150 " +
	"23 17 13 10 22 9 21 12 26 31 8 7 11 5 14 28 19 16 " +
	"61 40 30 22 47 19 44 24 51 59 15 13 20 9 25 50 33 27\n"

// programs are all C files of the tree that include OmniRpc.h and have a main, except those
// of the part about quantum computers.
var programs = []program{
	{name: "stub-test/local-exec-test", source: "test/stub-test/local-exec-test.c", more: matrix,
		workers: []worker{sample}, need: right, never: wrong},
	{name: "call-test/rpc-call-test1", source: "test/call-test/rpc-call-test1.c", more: matrix,
		workers: []worker{sample}, need: right, never: wrong},
	{name: "call-test/rpc-call-test2", source: "test/call-test/rpc-call-test2.c", more: matrix,
		workers: []worker{sample}, args: []string{"localhost"}, need: right, never: wrong},
	{name: "call-test/rpc-call-test3", source: "test/call-test/rpc-call-test3.c",
		workers: []worker{sample, initia}, need: []string{"x = 10, y = ", "call work i=9", "test end ..."}, never: []string{"x = 0"}},
	{name: "call-test/rpc-async-test1", source: "test/call-test/rpc-async-test1.c",
		workers: []worker{sample}, need: []string{"1: 0.943818 0.943818", "test end ..."}, never: wrong},
	{name: "exec-test/remote-exec-test1", source: "test/exec-test/remote-exec-test1.c", more: matrix,
		workers: []worker{sample}, args: []string{"localhost", "."}, need: right, never: wrong},
	{name: "exec-test/remote-exec-test2", source: "test/exec-test/remote-exec-test2.c", more: matrix,
		workers: []worker{sample}, args: []string{"localhost", "."}, need: right, never: wrong},
	{name: "comm-test/test1", source: "test/comm-test/test1.c",
		workers: []worker{sample}, need: []string{"' r=0", "1000 time=", "test1 end ..."}, never: []string{"hostname =''"}},
	{name: "comm-test/test2", source: "test/comm-test/test2.c",
		workers: []worker{sample}, need: []string{"9900 ", "test2 end ..."}},
	{name: "comm-test/test3", source: "test/comm-test/test3.c",
		workers: []worker{sample}, need: []string{"' r=0", "9900 ", "test3 end ..."}, never: []string{"hostname =''"}},
	{name: "cpi/cpi-omrpc", source: "example/cpi/cpi-omrpc.c",
		workers: []worker{{"example/cpi/cpi.idl", []string{"example/cpi/cpi-lib.c"}}},
		need:    []string{"pi is approximately 3.1416009869231"}},
	{name: "ep/ep", source: "example/ep/ep.c", more: epLibs, defines: useRPC,
		workers: []worker{{"example/ep/ep.idl", epLibs}}, need: []string{" -3.247834652034", "-6.958407078382"}},
	{name: "file/testfile", source: "example/file/testfile.c", files: []string{"example/file/testfile.c", "example/file/testfilep.c"},
		workers: []worker{{"example/file/testfile.idl", nil}}, need: []string{"OUTPUT:0\n", "OUTPUT:255\n"}},
	{name: "file/testfilep", source: "example/file/testfilep.c", files: []string{"example/file/testfilep.c"},
		workers: []worker{{"example/file/testfilep.idl", nil}}, need: []string{"OUTPUT :  hogehoge: "}},
	{name: "intro/ex", source: "example/intro/ex.c",
		workers: []worker{{"example/intro/calc_sin.idl", nil}}, need: []string{"sin(199)=-0.881799", "cos(199)=-0.471626"}},
	{name: "knap/knap-par", source: "example/knap/knap-par.c", more: second, defines: useRPC,
		workers: []worker{{"example/knap/knap.idl", knapsa}}, data: items,
		args: []string{"data", "16"}, need: []string{"Opt = 329"}},
	{name: "knap/knap1-par", source: "example/knap/knap1-par.c", more: second, defines: useRPC,
		workers: []worker{{"example/knap/knap1.idl", knapsa}}, data: items,
		args: []string{"data", "16"}, need: []string{"Opt = 329"}},
}
