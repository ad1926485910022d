// SPDX-License-Identifier: MIT

package lab

import (
	"slices"
	"strings"
	"testing"
)

func argumentsOf(t *testing.T, m Machine) []string {
	t.Helper()
	return argumentsOn(t, m, hardware{accel: "tcg", image: "/k/vmlinuz", mapping: "mapped-xattr", scale: 1, processors: 4})
}

func argumentsOn(t *testing.T, m Machine, h hardware) []string {
	t.Helper()
	m.Build = t.TempDir()
	m, err := m.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	args, err := m.qemuArgs(h)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// optionValues returns the values of all options with this name.
func optionValues(args []string, option string) (values []string) {
	for i := range args[:len(args)-1] {
		if args[i] == option {
			values = append(values, args[i+1])
		}
	}
	return values
}

func TestArguments_plain(t *testing.T) {
	args := argumentsOf(t, Machine{})
	for _, want := range []string{"-nodefaults", "-no-reboot", "-no-user-config"} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s", want)
		}
	}
	for option, want := range map[string]string{
		"-accel": "tcg,thread=multi", "-cpu": "max,la57=off,erms=off,cx16=off", "-smp": "2,sockets=1,cores=2,threads=1",
		"-m": "1024", "-kernel": "/k/vmlinuz", "-display": "none",
	} {
		if got := optionValues(args, option); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", option, got, want)
		}
	}
	if n := len(optionValues(args, "-netdev")) + len(optionValues(args, "-drive")) + len(optionValues(args, "-numa")); n != 0 {
		t.Errorf("%d devices that nobody asked for", n)
	}
}

// Only the emulator goes without ERMS and CMPXCHG16B, and not where instructions are counted.
func TestCPUModel(t *testing.T) {
	for want, of := range map[string]struct {
		m     Machine
		accel string
	}{
		"max,la57=off": {Machine{}, "kvm"}, "max,la57=off,erms=off,cx16=off": {Machine{}, "tcg,thread=single"},
		"max,la57=off,vendor=GenuineIntel": {Machine{Threads: 2, Count: &Count{}}, "tcg"},
	} {
		if got := of.m.cpuModel(of.accel); got != want {
			t.Errorf("%s is %q, want %q", of.accel, got, want)
		}
	}
}

// A guest can create only plain files on this computer.
func TestArguments_shares(t *testing.T) {
	shares := optionValues(argumentsOf(t, Machine{}), "-fsdev")
	if len(shares) != 2 {
		t.Fatalf("shares: %q", shares)
	}
	for _, s := range shares {
		if !strings.Contains(s, ",readonly=on") && !strings.Contains(s, ",security_model=mapped-") {
			t.Errorf("a share that a guest can put special files into: %s", s)
		}
	}
	if !strings.Contains(shares[0], "path=/,") || strings.Contains(shares[1], "path=/,") {
		t.Errorf("shares: %q", shares)
	}
}

func TestArguments_nodes(t *testing.T) {
	args := argumentsOf(t, Machine{CPUs: 4, NUMA: 2, Memory: 600})
	if got := optionValues(args, "-numa"); !slices.Equal(got, []string{
		"node,nodeid=0,memdev=memory0,cpus=0-1", "node,nodeid=1,memdev=memory1,cpus=2-3"}) {
		t.Errorf("-numa %q", got)
	}
	if got := optionValues(args, "-object"); len(got) != 2 || !strings.Contains(got[1], "size=300M") {
		t.Errorf("-object %q", got)
	}
	// The kernel warns if cores of one socket are on two NUMA nodes.
	if got := optionValues(args, "-smp"); got[0] != "4,sockets=2,cores=2,threads=1" {
		t.Errorf("-smp %q", got)
	}
}

func TestArguments_threads(t *testing.T) {
	args := argumentsOf(t, Machine{CPUs: 4, Threads: 2})
	if got := optionValues(args, "-smp"); got[0] != "4,sockets=1,cores=2,threads=2" {
		t.Errorf("-smp %q", got)
	}
	if got := optionValues(args, "-cpu"); got[0] != "max,la57=off,vendor=GenuineIntel,erms=off,cx16=off" {
		t.Errorf("-cpu %q", got)
	}
}

// With one thread for all CPUs, no CPU translates text while another changes it.
func TestArguments_inTurns(t *testing.T) {
	if got := optionValues(argumentsOf(t, Machine{InTurns: true}), "-accel"); !slices.Equal(got, []string{"tcg,thread=single"}) {
		t.Errorf("-accel %q", got)
	}
}

// Only the emulator needs a processor for each of its threads, and pays for programs at random
// addresses.
func TestArguments_hardware(t *testing.T) {
	for _, c := range []struct {
		accel      string
		processors int
		want       string
	}{{"tcg", 3, "tcg,thread=single"}, {"tcg", 4, "tcg,thread=multi"}, {"kvm", 2, "kvm"}} {
		args := argumentsOn(t, Machine{}, hardware{accel: c.accel, image: "/k/vmlinuz", mapping: "mapped-xattr", scale: 1, processors: c.processors})
		if got := optionValues(args, "-accel"); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s on %d processors: -accel %q", c.accel, c.processors, got)
		}
		if line := optionValues(args, "-append")[0]; strings.Contains(line, "norandmaps ") != (c.accel == "tcg") {
			t.Errorf("%s: %q", c.accel, line)
		}
	}
}

func TestArguments_disksAndWire(t *testing.T) {
	args := argumentsOf(t, Machine{Disks: []Disk{{MiB: 1}, {MiB: 1}}, Wire: &Wire{end: 2}})
	if got := optionValues(args, "-drive"); len(got) != 2 || !strings.HasSuffix(got[1], "/fd/6") {
		t.Errorf("-drive %q", got)
	}
	for _, drive := range optionValues(args, "-drive") {
		// Without werror=report QEMU would silently stop the guest if this disk is full.
		if !strings.Contains(drive, ",werror=report,") {
			t.Errorf("-drive %q", drive)
		}
	}
	if got := optionValues(args, "-netdev"); !slices.Equal(got, []string{"dgram,id=wire,local.type=fd,local.str=7"}) {
		t.Errorf("-netdev %q", got)
	}
	other := argumentsOf(t, Machine{Wire: &Wire{end: 1}})
	if a, b := args[len(args)-1], other[len(other)-1]; a == b || !strings.Contains(a, "mac=52:54:00") {
		t.Errorf("addresses of the two ends: %q, %q", a, b)
	}
}

func TestRootModules(t *testing.T) {
	plain := (&Machine{}).rootModules()
	for _, c := range []struct {
		m    Machine
		more []string
	}{
		{Machine{}, nil},
		{Machine{Disks: []Disk{{MiB: 1}}, Wire: &Wire{end: 1}}, []string{"virtio_blk", "virtio_net"}},
		{Machine{Nodes: 1}, []string{"bridge", "veth"}},
		{Machine{Nodes: 1, Loss: 0.1}, []string{"bridge", "veth", "sch_netem"}},
	} {
		if got := c.m.rootModules(); !slices.Equal(got, append(slices.Clone(plain), c.more...)) {
			t.Errorf("%+v: %q", c.m, got)
		}
	}
}

func TestCommandLine(t *testing.T) {
	m := Machine{Append: "debug  x=1"}
	line := m.commandLine(hardware{scale: 8})
	for _, want := range []string{"console=ttyS0 ", " panic=-1 ", " nokaslr ", " rcupdate.rcu_cpu_stall_timeout=300 "} {
		if !strings.Contains(" "+line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	if !strings.HasSuffix(line, " debug  x=1") {
		t.Errorf("%q does not end with what was appended", line)
	}
	// An oops must be reported, and not end the guest before the next one.
	if strings.Contains(line, "oops=panic") {
		t.Errorf("%q ends a guest at its first oops", line)
	}
}
