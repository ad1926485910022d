// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// lendingVar names the parts of TestShimos to run, for work on one of them:
// SKEP_SHIMOS_PARTS="rules force".
const lendingVar = "SKEP_SHIMOS_PARTS"

// lendingParts run in this order, all in one machine of each kernel.
var lendingParts = []struct {
	name  string
	floor int
	more  []string // arguments after the image
	brief []string // the same, for the short form and for a kernel that takes its time
}{
	{"rules", 78, nil, nil},
	{"force", 66, nil, nil},
	{"cycle", 4, []string{"25", "10"}, []string{"3", "100"}},
	{"race", 4, []string{"4"}, []string{"2"}},
	{"storm", 6, []string{"2"}, []string{"1", "hotplug"}},
}

// lendingMachine returns a machine that can lend CPUs 1 to 3, two of them on a second node. Linux clears no memory there
// by itself, so that the module must.
func lendingMachine(kernel string) lab.Machine {
	return lab.Machine{Kernel: kernel, CPUs: 4, NUMA: 2, Modules: []string{"shimos"}, Append: "init_on_alloc=0"}
}

// listStorms lists the storms that a kernel supports: see guest/lend_storm.c for what 6.12 lacks.
func listStorms(kernel string) []string {
	if kernel == "6.12" {
		return nil
	}
	return []string{"hotplug"}
}

// Cores and memory are lent to images, and come back whatever happens.
func TestShimos(t *testing.T) {
	chosen := strings.Fields(os.Getenv(lendingVar))
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, lendingMachine(kernel), vmtest.Limit(6*time.Minute))
		long := vmtest.IsLong(kernel, "6.12")
		for _, p := range lendingParts {
			if len(chosen) > 0 && !slices.Contains(chosen, p.name) || !long && p.name == "force" {
				continue
			}
			began, more := time.Now(), p.more
			if !long {
				more = p.brief
			}
			args := append([]string{toolPath(t, "lend_"+p.name), toolPath(t, "image")}, more...)
			if p.name == "storm" && long {
				args = append(args, listStorms(kernel)...)
			}
			vm.Run(lab.Program{Args: args}, p.floor)
			t.Logf("%s took %v", p.name, time.Since(began).Round(time.Second))
		}
		if len(chosen) == 0 || slices.Contains(chosen, "walk") {
			t.Run("walk", func(t *testing.T) { walkPartition(t, vm) })
		}
		if len(chosen) == 0 || slices.Contains(chosen, "bound") {
			t.Run("bound", func(t *testing.T) { testBoundThread(t, vm) })
		}
		if len(chosen) == 0 || slices.Contains(chosen, "lockdown") { // for good
			vm.Run(lab.Program{Args: []string{toolPath(t, "lend_rules"), toolPath(t, "image"), "lockdown"}}, 3)
		}
		checkRestored(t, vm)
	})
}

// scatteredMin is how much of a pool a program fills: more than 256 pieces of 2 MiB.
const scatteredMin = 400

// Memory of which every other block is in use is lent as well, and a program fills it.
func TestShimosScattered(t *testing.T) {
	vmtest.EachLong(t, vmtest.Full, func(t *testing.T, kernel string) {
		machine := lab.Machine{Name: "scattered-" + kernel, Kernel: kernel, CPUs: 4, Memory: 2048, Modules: []string{"shimos"}}
		vm := vmtest.Boot(t, machine, vmtest.Limit(4*time.Minute))
		build := filepath.Dir(skepOf(t))
		vm.Output(shellProgram("install -o 0 -g 0 -m 644 " + build + "/sms.image /run && echo /run/sms.image >/sys/module/shimos/parameters/image"))
		vm.Run(lab.Program{Args: []string{toolPath(t, "lend_scatter"), toolPath(t, "image")}}, 7)
		text := vm.Output(shellProgram(fmt.Sprintf(`exec 2>&1; export HOME=/run; s=0
			%s/skep part run --on scattered -- %s fill %d || s=$?; echo status $s
			%[1]s/skep part release scattered`, build, toolPath(t, "sms_wreck"), scatteredMin)))
		checkGuest(t, "a program fills it", strings.HasPrefix(text, fmt.Sprintf("filled %d MiB\nstatus 0\n", scatteredMin)), "it says %q", text)
		checkRestored(t, vm)
	})
}

func skepOf(t *testing.T) string {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(build, "bin", "skep")
}

// walkPartition types a user's commands: root allows a group, a member creates a partition.
func walkPartition(t *testing.T, vm *vmtest.VM) {
	skep := skepOf(t)
	allowed := vm.Output(shellProgram(skep + " part allow --group 1000 --cpus 2-3 --mem 64M && " + skep + " part allow"))
	checkGuest(t, "root allows a group", strings.Contains(allowed, "2-3   1     64M"), "it says %q", allowed)
	text := vm.Output(lab.Program{User: true, Args: []string{"/bin/sh", "-c", `
		skep="$0 part"
		$skep create --cpus 1 --mem 8M 2>&1 || echo "exit $?"
		$skep create --cpus 2-3 --mem 64M --name mine
		$skep list --json
		$skep release nothing 2>&1 || echo "exit $?"
		$skep release mine
		$skep list`, skep}})
	for _, want := range []string{
		"CPU 1 is not in the allowance; these can be lent: 2-3\nexit 4\n", ": CPUs 2-3\n",
		`"name": "mine"`, `"state": "idle"`, `"cpus": "2-3"`,
		"there is no partition \"nothing\"", "there is no partition:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// testBoundThread: a thread bound to lent CPUs only is named, and has lost its place if
// it ran; one of a control group has it again. docs/design/shimos.md says so.
func testBoundThread(t *testing.T, vm *vmtest.VM) {
	text := vm.Output(shellProgram("skep=" + skepOf(t) + `
		exec 2>&1
		where() {
			while read -r key value; do
				[ "$key" != Cpus_allowed_list: ] || echo "$1 $value"
			done </proc/$2/status
		}
		lend() {
			$skep part create --cpus 2-3 --mem 64M --name bound 2>&1 | sed "s/ ($1)/ (it)/"
			where while $1
			$skep part release bound
			where after $1
			kill $1
			wait $1 || :
		}
		taskset -c 2-3 sh -c 'while :; do :; done' & it=$!
		until grep -q 'list:.2-3' /proc/$it/status; do :; done
		lend $it
		lent=/sys/fs/cgroup/lent
		echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
		mkdir $lent
		echo 2-3 >$lent/cpuset.cpus
		sleep 3600 & it=$!
		echo $it >$lent/cgroup.procs
		where before $it
		lend $it
		echo effective $(cat $lent/cpuset.cpus.effective)
		until rmdir $lent; do :; done
		echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control`))
	message, grouped, _ := strings.Cut(text, "before 2-3\n")
	checkGuest(t, "a thread bound to lent CPUs only is named", strings.Contains(message, "warning: sh (it): may run only on these CPUs"), "it says %q", text)
	checkGuest(t, "the named thread does not return to its CPUs", strings.Contains(message, "\nafter ") && !strings.Contains(message, "after 2-3\n"), "it says %q", text)
	checkGuest(t, "a control group has its CPUs again", strings.Contains(grouped, "after 2-3\n") && strings.Contains(grouped, "effective 2-3\n") &&
		!strings.Contains(grouped, "warning"), "it says %q", text)
}

// checkRestored looks at a machine whose partitions are gone.
func checkRestored(t *testing.T, vm *vmtest.VM) {
	text := vm.Output(shellProgram("rmmod shimos && cat /sys/devices/system/cpu/online && ! grep shimos /proc/interrupts && " +
		"for n in 0 1 2 3; do taskset -c $n echo $n; done"))
	checkGuest(t, "the module unloads, and every CPU works", text == "0-3\n0\n1\n2\n3\n", "it says %q", text)
}

// soakVar is how many cycles TestSoakShimos does: make soak ROOM=shimos.
const soakVar = "SKEP_SOAK_CYCLES"

func TestSoakShimos(t *testing.T) {
	cycles, err := strconv.Atoi(os.Getenv(soakVar))
	if err != nil {
		t.Skip(soakVar + " is not set: run make soak ROOM=shimos")
	}
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, lendingMachine(kernel), vmtest.Limit(10*time.Minute+time.Duration(cycles)*5*time.Second))
		vm.Run(lab.Program{Args: []string{toolPath(t, "lend_cycle"), toolPath(t, "image"), strconv.Itoa(cycles), "100"}}, 4)
		vm.Run(lab.Program{Args: append([]string{toolPath(t, "lend_storm"), toolPath(t, "image"), "40"}, listStorms(kernel)...)}, 6)
		vm.Run(lab.Program{Args: []string{toolPath(t, "lend_wild"), toolPath(t, "image"), strconv.Itoa(10 * cycles)}}, 4)
		checkRestored(t, vm)
	})
}
