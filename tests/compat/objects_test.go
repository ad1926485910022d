// SPDX-License-Identifier: MIT

package compat

import (
	"strings"
	"testing"
)

// The commands name the objects of a program while it runs, and the ledger names them for good.
func TestObjectsAreListed(t *testing.T) {
	dir := openTools(t)
	mustRun(t, dir, "omrpc-cc p/objects/objects.idl && omrpc-cc -o listed p/../listed/master.c", 0)
	const live = "1 object of a program lives there, and is lost if the node ends\n"
	writeProgram(t, dir+"/look", `skep nodes
skep nodes --drain $(skep nodes 2>/dev/null | awk 'NR == 2 { print $1 }')
`)
	writeProgram(t, dir+"/all", `./listed ./look 2>&1
until [ $(skep ledger | grep -c "object  *ended") = 2 ]; do sleep 0.1; done
skep ledger | sed "s/   */ /g"
`)
	out := mustRun(t, dir, "skep run -- ./all", 0)
	for want, times := range map[string]int{
		live: 2, ": drained; ": 1, " object made ": 2, " object ended ": 2, " object lost ": 1,
		" the object of the class sum on the node ": 3, // of the program, of the object and of its method
	} {
		if n := strings.Count(out, want); n != times {
			t.Errorf("%q is there %d times, not %d:\n%s", want, n, times, out)
		}
	}
	if out = mustRun(t, dir, `skep run -- sh -c './listed true 2>/dev/null; skep ledger --json'`, 0); strings.Count(out, `"object":`) < 10 {
		t.Errorf("methods do not name their objects:\n%s", out)
	}
}
