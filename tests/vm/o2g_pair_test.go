// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"context"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// TestO2gPair runs jobs between two guests with different kernels: both with
// the module, then one of them without.
func TestO2gPair(t *testing.T) {
	kernels := lab.Series()
	a, b := vmtest.Pair(t,
		lab.Machine{Name: "o2g-one", Kernel: kernels[0], Modules: []string{"o2g"}},
		lab.Machine{Name: "o2g-two", Kernel: kernels[1], Modules: []string{"o2g"}},
		vmtest.Limit(6*time.Minute))
	one, two := newO2g(t, a), newO2g(t, b)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_, _ = b.Guest().Run(ctx, lab.Program{Args: []string{toolPath(t, "o2g_shell"), "serve"}, User: true}, lab.Streams{})
	}()
	defer func() {
		stop()
		<-served
	}()
	b.Output(shellProgram("until ss -Hltn 'sport = 7022' | grep -q .; do sleep 0.1; done"))
	job := func(words ...string) string {
		return one.startJob(lab.Program{User: true}, "-n 2 --launcher "+toolPath(t, "o2g_shell")+" --hosts o2g-one,o2g-two", words...)
	}
	text := job(one.appPath(), "talk")
	one.checkCounted("a program between two guests, both with the module", text, 10)
	text = job(one.appPath(), "posted", "8000000")
	one.checkCounted("8 MB between them", text, 3)

	two.unload(", with a job behind it")
	text = job(one.appPath(), "talk")
	checkGuest(t, "a host with the module and one without run one job",
		strings.Contains(text, "2 of 2 ranks reported") && strings.Contains(text, "kernel engine on 1, user engine on 1"), "%s", text)
	text = job(one.appPath(), "posted", "8000000")
	checkGuest(t, "8 MB go between a kernel engine and a user engine", strings.Contains(text, "8000000 bytes came") && strings.Contains(text, "2 of 2 ranks reported"), "%s", text)
	one.unload(", beside one without")
}
