// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/shimos/part"
	"skep/tests/vmtest"
)

// linuxAnswer is what guest/linux_user.c computes: the sum of the squares below 300,000.
const linuxAnswer = 8999955000050000

// A linuxMachine boots a second kernel on two of its processors.
type linuxMachine struct {
	vm   *vmtest.VM
	head string // of a command that boots it
}

func bootLinuxMachine(t *testing.T, kernel string) *linuxMachine {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	user, err := os.ReadFile(toolPath(t, "linux_user"))
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(build, "test", "vm", "linux_user-"+kernel+".cpio")
	archive := part.Archive(part.ArchiveFile{Name: "init", Mode: 0o100755, Data: user})
	if err := os.WriteFile(files, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	machine := lab.Machine{Name: "linux-" + kernel, Kernel: kernel, CPUs: 4, Memory: 1024, Modules: []string{"shimos", "tun"}}
	vm := vmtest.Boot(t, machine, vmtest.Limit(6*time.Minute))
	head := fmt.Sprintf(`exec 2>&1; B=%[1]s/bin; KERNEL=%[1]s/kernel/%[2]s/vmlinuz; FILES=%[3]s
		MODULES=$(echo %[1]s/kernel/%[2]s/lib/modules/*); USER=%[1]s/test/vm/linux_user; R=/run/root
		boot() { s=0; $B/skep part linux --kernel $KERNEL --initrd $FILES "$@" || s=$?; echo status $s; }
		root() { s=0; $B/skep part linux --kernel $KERNEL --modules $MODULES --root "$@" || s=$?; echo status $s; }
		await() { until grep -qs "$1" "$2"; do sleep 0.2; done; }
		TWO='--cpus 2-3 --mem 160M'; export HOME=/run
		`, build, kernel, files)
	return &linuxMachine{vm: vm, head: head}
}

func (m *linuxMachine) shell(text string) string { return m.vm.Output(shellProgram(m.head + text)) }

// linuxState prints what a run must leave as it was.
const linuxState = "grep MemTotal /proc/meminfo; cat /sys/devices/system/cpu/online; ls /sys/class/net; $B/skep part list"

var linuxMemory = regexp.MustCompile(`(?m)^memory: +(\d+) kB$`)

// checkBoot looks at the console of a kernel that had two CPUs and 160 MiB.
func checkBoot(t *testing.T, text string, more ...string) {
	t.Helper()
	checkUser(t, text, append(more, "Linux version ")...)
}

// checkUser looks at the output of a program in such a kernel.
func checkUser(t *testing.T, text string, more ...string) {
	t.Helper()
	kb := 0
	if m := linuxMemory.FindStringSubmatch(text); m != nil {
		kb, _ = strconv.Atoi(m[1])
	}
	if kb < 80<<10 || kb > 160<<10 {
		t.Errorf("its memory is %d KiB", kb)
	}
	for _, want := range append(more, "cpus: 2\n", fmt.Sprintf("\nanswer: %d\n", linuxAnswer)) {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("its console:\n%s", text)
	}
}

// linuxParts run in this order. The long form is for `make test-full T=vm-both`.
var linuxParts = []struct {
	name  string
	run   func(*linuxMachine, *testing.T)
	short bool
}{
	{"first", (*linuxMachine).testDetached, true},
	{"killed", (*linuxMachine).testKilled, true},
	{"root", (*linuxMachine).testRoot, true},
	{"net", (*linuxMachine).testNet, true},
	{"spoiled", (*linuxMachine).testSpoiledLink, false},
	{"deleted", (*linuxMachine).testDeletedLink, false},
	{"size", (*linuxMachine).testSize, false},
	{"second", (*linuxMachine).testAgain, false},
	{"flood", (*linuxMachine).testFlood, false},
	{"lost", (*linuxMachine).testKilledHolder, false},
	{"init", (*linuxMachine).testRootInit, false},
	{"panic", (*linuxMachine).testPanic, false},
	{"emergency", (*linuxMachine).testEmergency, false},
	{"interrupted", (*linuxMachine).testInterrupted, false},
	{"one", (*linuxMachine).testOneAtATime, false},
	{"refused", (*linuxMachine).testRefusals, false},
}

// A stock Debian kernel boots on lent cores to its user space, and they come back
// however it ends. This Linux's own log stays clean: the machine's test sees to it.
func TestLinux(t *testing.T) {
	vmtest.EachLong(t, "6.1", func(t *testing.T, kernel string) {
		m := bootLinuxMachine(t, kernel)
		before := m.shell(linuxState)
		for _, p := range linuxParts {
			if !p.short && !vmtest.Both {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				p.run(m, t)
				if after := m.shell(linuxState); after != before {
					t.Errorf("before it was %q, and is %q", before, after)
				}
			})
		}
		checkRestored(t, m.vm)
	})
}

// testDetached shows the console of a kernel elsewhere than where it was booted: a console
// that is killed, one that is refused meanwhile, and one that types a line.
func (m *linuxMachine) testDetached(t *testing.T) {
	text := m.shell(`boot $TWO --detach --name two --append end=echo </dev/null; mkfifo /run/keys
		$B/skep part console two </run/keys >/run/first & it=$!
		exec 3>/run/keys; await answer: /run/first; s=0; $B/skep part console </dev/null || s=$?; echo status $s
		s=0; $B/skep part console three </dev/null || s=$?; echo status $s
		kill -9 $it; wait $it || :; echo 'it goes on'; $B/skep part list
		s=0; echo typed | $B/skep part console two >/run/second || s=$?; echo status $s; exec 3>&-
		s=0; $B/skep part console two </dev/null || s=$?; echo status $s
		cat /run/first /run/second; rm /run/keys; ls /run/skep-linux`)
	checkBoot(t, text, "\nread: typed\n", "\nskep: the kernel ended: it restarted\nstatus 0\nskep: there is no partition \"two\"",
		"shows the console of partition", "and one at a time can", "there is no partition \"three\"", "it goes on\n", "'skep part console ")
	checkGuest(t, "refusals have a code", strings.Count(text, "\nstatus 4\n") == 3, "it says %q", text)
	checkGuest(t, "nothing is left of the console", strings.HasSuffix(text, "\nlock\n"), "it says %q", text)
}

// testKilled kills the command while the kernel boots: the list waits for the start's end.
func (m *linuxMachine) testKilled(t *testing.T) {
	text := m.shell(`$B/skep part linux --kernel $KERNEL --initrd $FILES --modules $MODULES --net $TWO </dev/null >/run/killed & it=$!
		until $B/skep part list | grep -q running; do sleep 0.2; done
		kill -9 $it; s=0; wait $it || s=$?; echo status $s; cat /run/killed`)
	checkGuest(t, "a boot that is killed gives all back", strings.HasSuffix(text, "status 137\n") && !strings.Contains(text, "answer"), "it says %q", text)
}

// testFlood lets a program print more than is kept. A console on a full disk shows none of
// it and loses none; the next one has the newest part, and the program's end.
func (m *linuxMachine) testFlood(t *testing.T) {
	text := m.shell(makeRoot + `root $R $TWO --detach --name two -- sh -c 'seq 100000; echo done >/flooded; read line; echo got $line; exit 9' </dev/null
		await done $R/flooded; mkfifo /run/keys; exec 3<>/run/keys
		s=0; $B/skep part console two </run/keys >/dev/full || s=$?; echo status $s; exec 3>&-; rm /run/keys
		s=0; echo line | $B/skep part console two >/run/flood || s=$?; echo status $s
		wc -c </run/flood; tail -n 3 /run/flood; rm -r $R`)
	checkGuest(t, "a full disk is an error", strings.Contains(text, "skep: the output: write /dev/stdout: no space left on device\nstatus 1\n"), "it says %q", text)
	checkGuest(t, "what is lost is counted", regexp.MustCompile(`skep: \d+ bytes of output before this are lost`).MatchString(text), "it says %q", text)
	checkGuest(t, "the rest and the end are there", strings.Contains(text, "\nstatus 9\n") && strings.HasSuffix(text, "\n100000\nline\ngot line\n"), "it says %q", text)
}

// testKilledHolder kills the process that holds a console which is shown.
func (m *linuxMachine) testKilledHolder(t *testing.T) {
	text := m.shell(`boot $TWO --detach --net --modules $MODULES --append end=stay </dev/null; mkfifo /run/keys; $B/skep part console </run/keys >/run/lost & it=$!
		exec 3>/run/keys; await answer: /run/lost; kill -9 $($B/skep part list --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
		s=0; wait $it || s=$?; echo status $s; exec 3>&-; s=0; $B/skep part console </dev/null || s=$?; echo status $s
		s=0; $B/skep part console </dev/null || s=$?; echo status $s; rm /run/keys; cat /run/lost`)
	const killed = ` was killed, and its kernel ended with it: the output that nobody has read is lost
status 1
`
	checkBoot(t, text, killed, "skep: there is no kernel without a console: 'skep part linux --detach' boots a kernel whose console can be shown\nstatus 4\n")
	checkGuest(t, "it is told once more to who asks next", strings.Count(text, killed) == 2, "it says %q", text)
}

// makeRoot makes a root file system. A link in it leads out of it, to a secret.
const makeRoot = `mkdir -p $R/bin $R/dev $R/proc $R/sys $R/out; cp /bin/busybox $USER $R/bin; $R/bin/busybox --install $R/bin
	dd if=/dev/urandom of=$R/data bs=64k count=8 2>/dev/null; echo secret >/run/secret; ln -s ../../run $R/up
	`

// inRoot is what a kernel's program does in its root. Four files are written at once.
const inRoot = `linux_user; cat | sed "s/^/read: /"
	for i in 1 2 3 4; do cat /data >/out/$i & done; wait; mkdir /out/d; echo more >>/out/4; mv /out/4 /out/d/e; ln /out/1 /out/l; rm /out/2
	chown 5:6 /out/3; chmod 4710 /out/3; ln -s nowhere /out/s; mkfifo /out/p; (echo through >/out/p &); cat /out/p
	cat /up/secret /secret || echo closed; ls /out | wc -l; sha256sum </out/1; exit 7`

// testRoot runs a program on a folder of this Linux, on a partition that stays.
func (m *linuxMachine) testRoot(t *testing.T) {
	text := m.shell(makeRoot + `$B/skep part create $TWO --name stays; echo typed | root $R --on stays --append end=return -- sh -c '` + inRoot + `'
		$B/skep part list --json; $B/skep part release stays; cd $R/out; sha256sum <$R/data; cmp $R/data 3; cmp 1 l; cat d/e | tail -c 5
		stat -c '%n %F %a %u %h %N' *; rm -r $R`)
	checkUser(t, text, "\nread: typed\n", "\nthrough\n", "\nclosed\n", "\n6\n", "\nstatus 7\n", `"state": "idle"`, "\nmore\n",
		"1 regular file 644 0 2", "3 regular file 4710 5 1", "d directory 755 0", "p fifo 644 0", "'s' -> 'nowhere'")
	sums := regexp.MustCompile(`(?m)^([0-9a-f]{64})  -$`).FindAllStringSubmatch(text, -1)
	checkGuest(t, "both kernels read the same file", len(sums) == 2 && sums[0][1] == sums[1][1], "it says %q", text)
	checkGuest(t, "a link leads to nothing of this Linux", !strings.Contains(text, "secret\n"), "it says %q", text)
}

// testNet reads the same 4 MiB over TCP in both directions at once. The kernel has a disk too,
// and copies the bytes that it gets there.
func (m *linuxMachine) testNet(t *testing.T) {
	text := m.shell(makeRoot + `dd if=/dev/urandom of=$R/big bs=64k count=64 2>/dev/null; mkfifo /run/keys; exec 3<>/run/keys
		busybox httpd -f -p 4000 -h $R & web=$!; truncate -s 5M /run/disk
		root $R $TWO --disk /run/disk --net --address 10.9.8.1/30 -- sh -c 'httpd -p 4000 -h /; wget -q -O /copy http://10.9.8.1:4000/big; sha256sum </copy; dd if=/copy of=/dev/vda bs=64k seek=8 conv=fsync 2>/dev/null
			wc -c </dev/vda; echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda bs=64k skip=8 count=64 2>/dev/null | sha256sum
			ifconfig eth0 | grep -o "inet addr.*"; ifconfig lo | grep -o "inet addr.*"; read line' </run/keys >/run/net & it=$!
		while kill -0 $it && ! busybox wget -q -O /run/got http://10.9.8.2:4000/big 2>/dev/null; do sleep 0.2; done
		ls /sys/class/net | grep skep; echo >&3; wait $it; kill $web; wait $web || :; exec 3>&-
		cat /run/net; sha256sum </run/got; sha256sum <$R/big
		dd if=/run/disk bs=64k skip=8 count=64 2>/dev/null | sha256sum; rm -r $R /run/keys /run/got /run/disk`)
	sums := regexp.MustCompile(`(?m)^([0-9a-f]{64})  -$`).FindAllStringSubmatch(text, -1)
	same := len(sums) == 5
	for i := range sums {
		same = same && sums[i][1] == sums[0][1]
	}
	checkGuest(t, "both kernels have the same bytes", same, "it says %q", text)
	for _, want := range []string{"\n5242880\n", "10.9.8.1 here, 10.9.8.2 in the kernel\n", "\nskep", "inet addr:10.9.8.2  Bcast:10.9.8.3  Mask:255.255.255.252", "inet addr:127.0.0.1", "\nstatus 0\n"} {
		checkGuest(t, "the link: "+want, strings.Contains(text, want), "it says %q", text)
	}
}

// testSpoiledLink lets a program in the kernel point the card's queue out of its memory.
func (m *linuxMachine) testSpoiledLink(t *testing.T) {
	text := m.shell(`boot $TWO --net --modules $MODULES --append end=spoil </dev/null`)
	checkBoot(t, text, "\naddress: 169.254.64.", "skep: its link: the kernel spoiled a queue: an address, a length or an index is outside of what it has\nstatus 1\n")
}

// testDeletedLink deletes the interface while the kernel runs, which goes on.
func (m *linuxMachine) testDeletedLink(t *testing.T) {
	text := m.shell(makeRoot + `mkfifo /run/keys; exec 3<>/run/keys
		root $R $TWO --net -- sh -c 'echo there >/there; read line; ping -c 1 -W 1 169.254.64.1; read line; echo got $line; exit 5' </run/keys >/run/deleted & it=$!
		until [ -e $R/there ]; do sleep 0.2; done; ip link delete $(ls /sys/class/net | grep skep); echo first >&3; echo second >&3
		wait $it; exec 3>&-; cat /run/deleted; rm -r $R /run/keys`)
	checkGuest(t, "the kernel goes on", strings.Contains(text, "\ngot second\n") && strings.HasSuffix(text, "\nstatus 5\n"), "it says %q", text)
	checkGuest(t, "a deleted link is said", regexp.MustCompile(`skep: the link skep\d+ was deleted while the kernel ran\n`).MatchString(text), "it says %q", text)
}

// A resizer is the output of a terminal whose size changes when a text has come.
type resizer struct {
	bytes.Buffer
	after string
	sizes chan lab.Size
}

func (r *resizer) Write(p []byte) (int, error) {
	came := strings.Contains(r.String(), r.after)
	r.Buffer.Write(p)
	if !came && strings.Contains(r.String(), r.after) {
		r.sizes <- lab.Size{Rows: 30, Columns: 100}
	}
	return len(p), nil
}

// testSize runs a kernel on a terminal. A program in it hears of the size and of its change.
func (m *linuxMachine) testSize(t *testing.T) {
	out := &resizer{after: "at first 24 80", sizes: make(chan lab.Size, 1)}
	const program = `echo at first $(stty size); until [ "$(stty size)" = "30 100" ]; do usleep 50000; done; echo then $(stty size); exit 6`
	p := shellProgram(m.head + makeRoot + `root $R $TWO -- sh -c '` + program + `'; rm -r $R`)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	status, err := m.vm.Guest().Run(ctx, p, lab.Streams{Out: out, Terminal: &lab.Size{Rows: 24, Columns: 80}, Resize: out.sizes})
	checkGuest(t, "a terminal's size reaches the kernel", err == nil && status == 0 && strings.Contains(out.String(), "then 30 100\r\n") && strings.HasSuffix(out.String(), "status 6\r\n"), "it says %q, %d, %v", out.String(), status, err)
}

// testRootInit boots a root file system with an init of its own.
func (m *linuxMachine) testRootInit(t *testing.T) {
	text := m.shell(makeRoot + `mkdir $R/sbin; cp $USER $R/sbin/init; root $R $TWO --append end=off </dev/null; rm -r $R`)
	checkBoot(t, text, "the kernel ended: it halted\nstatus 0\n")
}

// testAgain boots on a partition that stays, and powers off: a kernel without a switch halts.
func (m *linuxMachine) testAgain(t *testing.T) {
	text := m.shell(`$B/skep part create $TWO --name stays; boot --on stays --append end=off </dev/null
		$B/skep part list --json; $B/skep part release stays`)
	checkBoot(t, text, "the kernel ended: it halted\nstatus 0\n", `"state": "idle"`)
}

func (m *linuxMachine) testPanic(t *testing.T) {
	text := m.shell(`boot $TWO --append end=crash </dev/null`)
	checkBoot(t, text, "Kernel panic - not syncing: sysrq triggered crash", "the kernel ended: it panicked\nstatus 1\n")
}

func (m *linuxMachine) testEmergency(t *testing.T) {
	text := m.shell(`boot $TWO --append end=emergency </dev/null`)
	checkBoot(t, text, "the kernel ended: it restarted\nstatus 0\n")
}

// testInterrupted sends what Ctrl-C sends.
func (m *linuxMachine) testInterrupted(t *testing.T) {
	text := m.shell(`$B/skep part linux --kernel $KERNEL --initrd $FILES $TWO --append end=stay </dev/null >/run/stays & it=$!
		await answer: /run/stays; kill -TERM $it; s=0; wait $it || s=$?; echo status $s; cat /run/stays`)
	checkBoot(t, text, "the kernel was stopped\nstatus 130\n")
}

func (m *linuxMachine) testOneAtATime(t *testing.T) {
	text := m.shell(`$B/skep part linux --kernel $KERNEL --initrd $FILES $TWO --append end=stay </dev/null >/run/one & it=$!
		until $B/skep part list | grep -q running; do sleep 0.2; done
		boot --cpus 1 --mem 128M </dev/null; kill -TERM $it; wait $it || :`)
	checkGuest(t, "a second kernel at once is refused", strings.Contains(text, "another partition runs a Linux kernel: only one at a time can\nstatus 4\n"),
		"it says %q", text)
}

// testRefusals asks for what cannot be, in user space, in the module and in the boot image.
func (m *linuxMachine) testRefusals(t *testing.T) {
	for _, c := range []struct{ what, ask, want string }{
		{"no files", `s=0; $B/skep part linux || s=$?; echo status $s`, "--initrd is expected"},
		{"a file that is no kernel", `boot --kernel /bin/sh $TWO`, "/bin/sh: it is not a bzImage"},
		{"a module of another kernel", `boot --module $B/../kmod/6.1.176-1/dynamos/dynamos.ko $TWO`, "is for Linux"},
		{"CPUs without memory", `boot --cpus 2`, "--cpus and --mem are expected"},
		{"less memory than the files", `boot --cpus 2-3 --mem 16M`, "create one with more memory\nstatus 4\n"},
		{"less memory than the kernel", `boot --cpus 2-3 --mem 32M`, "in one piece for the kernel: create one with more memory\nstatus 4\n"},
		{"words that hide ours", `boot $TWO --append 'a -- b'`, "words for init are not supported\nstatus 4\n"},
		{"a root that is none", `root /run/none $TWO`, "the root: stat /run/none: no such file or directory\nstatus 4\n"},
		{"a root that is a file", `root /bin/sh $TWO`, "/bin/sh is not a folder\nstatus 4\n"},
		{"an address in use", `ip address add 10.9.8.2/32 dev lo; boot --net --modules $MODULES --address 10.9.8.1/30 $TWO; ip address del 10.9.8.2/32 dev lo`, "this Linux has 10.9.8.2 in it: choose another one with --address\nstatus 4\n"},
		{"a disk that is none", `boot --disk /dev/null --modules $MODULES $TWO`, "the disk: /dev/null is neither a regular file nor a block device\nstatus 4\n"},
		{"no modules", `MODULES=/run; root /run $TWO`, "/run/modules.dep: no such file"},
		{"a root without /dev", `mkdir /run/empty; root /run/empty $TWO; rmdir /run/empty`, "in the kernel: the folder /dev of the root: No such file or directory\nstatus 4\n"},
		{"a root without init", `mkdir -p $R/dev $R/proc $R/sys; root $R $TWO; rm -r $R`, "in the kernel: /sbin/init: No such file or directory\nstatus 4\n"},
		{"a program that is not there", `mkdir -p $R/dev $R/proc $R/sys; root $R $TWO -- /none; rm -r $R`, "skep: /none: No such file or directory\nstatus 127\n"},
		{"CPU 0", `boot --cpus 0 --mem 160M`, "CPU 0"},
	} {
		text := m.shell(c.ask + " </dev/null")
		checkGuest(t, "refused: "+c.what, strings.Contains(text, c.want), "it says %q", text)
	}
}
