// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

const machineWords = "MACHINE OPTIONS are --kernel, --cpus, --memory, --numa, --nodes, --delay, --loss, --swap and --module."

var labFiles = []manual.Entry{{Name: "~/.cache/skep", Text: "kernel packages that were downloaded"}, {Name: "build/lab", Text: "sockets and logs of the machines"}}

const labVariables = "SKEP_ACCEL SKEP_BUILD XDG_CACHE_HOME SHELL TERM"

func labTexts() map[string]text {
	return map[string]text{
		"lab": {
			text:        []string{"A machine runs a stock Debian kernel under QEMU. It can read this computer's files but not change them. Files that it writes are lost when it ends. " + machineWords},
			examples:    []manual.Entry{{Name: "skep lab up --kernel 6.12 --cpus 4", Text: "boot a machine and open a shell in it"}},
			files:       labFiles,
			environment: labVariables,
			exit:        "0 1 2 3", see: "skep-lab-up(1) skep-lab-run(1)",
		},
		"lab up": {
			text:        []string{machineWords, "The shell belongs to root unless --user is given. The machine ends with the shell unless --detach is given."},
			examples:    []manual.Entry{{Name: "skep lab up --kernel 6.12 --cpus 4 --nodes 3", Text: "four processors, and three nodes of a network"}, {Name: "skep lab up --detach --name try", Text: "leave a machine running"}},
			files:       labFiles,
			environment: labVariables,
			exit:        "0 1 2 3 program", see: "skep-lab(1) skep-lab-shell(1) skep-lab-down(1)",
		},
		"lab shell": {
			text:        []string{"Without NAME it uses the only machine that runs."},
			examples:    []manual.Entry{{Name: "skep lab shell --node 2", Text: "in the network of node 2"}},
			files:       labFiles,
			environment: labVariables,
			exit:        "0 1 2 3 program", see: "skep-lab(1)",
		},
		"lab run": {
			text:        []string{"If a machine runs, the command runs there. Otherwise a machine is booted for this command only. " + machineWords, "Streams and exit code are those of the command."},
			examples:    []manual.Entry{{Name: "skep lab run -- uname -r", Text: "one command, with its exit code"}, {Name: "skep lab run --module o2g -- build/bin/skep doctor", Text: "with Skep's module o2g loaded"}},
			files:       labFiles,
			environment: labVariables,
			exit:        "0 1 2 3 126 127 128+N 130 program", see: "skep-lab(1)",
		},
		"lab list": {
			text:        []string{"A machine that died is listed once, with the cause."},
			examples:    []manual.Entry{{Name: "skep lab list --json", Text: "for programs"}},
			files:       labFiles,
			environment: "SKEP_BUILD",
			exit:        "0 1 2", see: "skep-lab(1)",
		},
		"lab down": {
			text:        []string{"Without NAME it ends the only machine that runs."},
			examples:    []manual.Entry{{Name: "skep lab down --all", Text: "end every machine"}},
			files:       labFiles,
			environment: "SKEP_BUILD",
			exit:        "0 1 2 3", see: "skep-lab(1)",
		},
	}
}

var partFiles = []manual.Entry{{Name: "/dev/shimos", Text: "the module's device"}}

var ledgerFile = manual.Entry{Name: "$XDG_RUNTIME_DIR/skep/partition-N.ledger", Text: "what the last run on partition N recorded; below ~/.cache if the variable is not set"}

func partTexts() map[string]text {
	return map[string]text{
		"part": {
			text:     []string{"A partition is cores and memory that Linux lends to a compute kernel. No timer, interrupt or other program disturbs the program that runs there. This needs the module shimos, for which an administrator has set the image that partitions boot."},
			examples: []manual.Entry{{Name: "skep part create --cpus 2-3 --mem 512M --name two", Text: "lend two cores"}, {Name: "skep part run -- ./app", Text: "run a static program there"}, {Name: "skep part release two", Text: "return them"}},
			files:    partFiles,
			exit:     "0 1 2 4", see: "skep-part-create(1) skep-part-run(1) shimos(4)",
		},
		"part create": {
			text:     []string{"Whole cores are taken, with their hyperthreads, unless --split is given. CPU 0 stays with Linux. Users other than root may create partitions within the limits of skep part allow."},
			examples: []manual.Entry{{Name: "skep part create --cpus 2-3 --mem 512M", Text: "two CPUs and 512 MiB"}, {Name: "skep part create --cpus 1,4-7 --mem 0=256M,1=256M", Text: "memory of two NUMA nodes"}},
			files:    partFiles,
			exit:     "0 1 2 4 130", see: "skep-part(1) skep-part-allow(1) shimos(4)",
		},
		"part list": {
			text:     []string{"One line per partition: its number, name, owner, CPUs, memory and state."},
			examples: []manual.Entry{{Name: "skep part list --json", Text: "for programs"}},
			files:    partFiles,
			exit:     "0 1 2 4", see: "skep-part(1)",
		},
		"part run": {
			text:        []string{"The program must be static. It uses the files and streams of this Linux, and its exit code is passed on. It may have threads. OpenMP and Go programs get one thread for each core. fork and dynamic linking are not supported. Ctrl-C ends it."},
			examples:    []manual.Entry{{Name: "skep part run -- ./app 1000", Text: "on the only partition"}, {Name: "skep part run --on two --ledger run.ledger -- ./app", Text: "on one of several partitions, with the ledger in a file"}},
			files:       []manual.Entry{partFiles[0], ledgerFile},
			environment: "OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_WAIT_POLICY GOMP_SPINCOUNT GOMAXPROCS PATH XDG_RUNTIME_DIR",
			exit:        "0 1 2 4 126 127 128+N program", see: "skep-part-stats(1) shimos(4)",
		},
		"part linux": {
			text: []string{"It boots an unmodified kernel of Debian beside this one, with a console on the standard streams. Ctrl-C, a reboot and a panic there end it; cores and memory come back. With --cpus and --mem they are lent for the run only.",
				"With --detach it prints the partition's number and returns when the kernel has a console. skep part console shows it; kill with the process of skep part list stops the kernel.",
				"With --root a FOLDER of this Linux is its root file system, and it runs PROGRAM there, or /sbin/init. It can change the folder, and sees nothing else of this Linux. PROGRAM's exit code is passed on. With --initrd a file has all that it gets.",
				"With --net there is a network link between the two kernels, whose addresses are printed: the interface skepN here, N being the partition's number, and eth0 there. Nothing is forwarded. The link goes away with the kernel. What it drops is counted and said at the end.",
				"With --disk a FILE of this Linux is a disk there, /dev/vda. Its size is a multiple of 512 bytes. One kernel at a time can use it; another program that does so at the same time destroys what is on it.",
				"Only root can do this. Nothing keeps that kernel from the rest of the machine: it can address all memory. One such kernel can run at a time."},
			examples: []manual.Entry{{Name: "skep part linux --cpus 2-3 --mem 1G --root /srv/debian -- make -C /src", Text: "a program in a second kernel, on two CPUs"}, {Name: "skep part linux --cpus 2-3 --mem 1G --initrd files.cpio", Text: "the running kernel's own file, with an initial file system alone"}, {Name: "skep part linux --detach --cpus 2-3 --mem 1G --root /srv/debian", Text: "its init, and the console later"}, {Name: "skep part linux --net --address 10.9.8.1/30 --cpus 2-3 --mem 1G --root /srv/debian", Text: "with a link to 10.9.8.2, the kernel"}, {Name: "skep part linux --on two --kernel vmlinuz --initrd files.cpio --append quiet", Text: "another kernel, on a partition that stays"}},
			files:    []manual.Entry{partFiles[0], {Name: "/dev/net/tun", Text: "of the module tun, with --net"}, {Name: "/boot/vmlinuz-RELEASE", Text: "the kernel that is booted by default"}, {Name: "/lib/modules/RELEASE/updates/dkms/shimos_guest.ko", Text: "the module for its console and its end"}, {Name: "/lib/modules/RELEASE/updates/dkms/shimos_virtio.ko", Text: "the module for its devices, for --root, --net and --disk"}},
			exit:     "0 1 2 4 126 127 128+N 130 program", see: "skep-part(1) skep-part-console(1) shimos(4)",
		},
		"part console": {
			text: []string{"It shows what the kernel printed since a console was last there, and what it prints, and types what it reads. On a terminal each key goes to the kernel, also Ctrl-C; ~. at the beginning of a line leaves the console, and ~~ types ~. The end of other input is Ctrl-D for the kernel. One console at a time can show a kernel.",
				"Without a console the newest 256 KiB of output are kept; the next console says how many bytes are lost. A console that does not read makes programs in the kernel wait.",
				"When the kernel ends, the command ends as skep part linux without --detach does. A kernel that has ended waits for a console to show its end; its cores and memory are back already."},
			examples: []manual.Entry{{Name: "skep part console", Text: "of the only kernel"}, {Name: "skep part console two <commands", Text: "type a file, and show the output until the kernel ends"}},
			files:    []manual.Entry{partFiles[0], {Name: "/run/skep-linux/N", Text: "the socket of the process that holds the console of partition N"}},
			exit:     "0 1 2 4 126 127 128+N 130 program", see: "skep-part-linux(1)",
		},
		"part stats": {
			text:        []string{"It shows entries into the kernel by cause, and system calls by number."},
			examples:    []manual.Entry{{Name: "skep part stats two", Text: "the last run on this partition"}, {Name: "skep part stats --ledger run.ledger", Text: "a run whose ledger was kept"}},
			files:       []manual.Entry{partFiles[0], ledgerFile},
			environment: "XDG_RUNTIME_DIR",
			exit:        "0 1 2 4", see: "skep-part-run(1)",
		},
		"part release": {
			text:     []string{"It is refused while a program runs there; skep part list shows its process."},
			examples: []manual.Entry{{Name: "skep part release --all", Text: "every partition"}},
			files:    partFiles,
			exit:     "0 1 2 4", see: "skep-part(1)",
		},
		"part allow": {
			text:     []string{"Without options it shows the allowance. Only root can change it. It is valid until the module is unloaded."},
			examples: []manual.Entry{{Name: "skep part allow --group hpc --cpus 2-7 --mem 4G", Text: "members of hpc may create partitions of these"}, {Name: "skep part allow --nobody", Text: "only root"}},
			files:    partFiles,
			exit:     "0 1 2 4", see: "skep-part-create(1)",
		},
	}
}

var trustFiles = []manual.Entry{{Name: "/var/lib/skep-trust", Text: "the keys in force on this machine, and the sequences that it has seen"}}

var updateFiles = []manual.Entry{{Name: "/dev/dynamos", Text: "the module's device, for root"}}

const whomWords = "FOR WHOM is one or more of --all, --pid, --tgid, --comm, --uid, --gid, --cgroup, --cpus, --share, --window and --program. All of them must hold for a task. --or begins another rule for tasks that get the update. --except begins a rule for tasks that do not get it."

func updateTexts() map[string]text {
	return map[string]text{
		"update": {
			text:     []string{"An update replaces functions of a running stock Debian kernel, for the selected tasks; other tasks keep the old version. Both versions are measured. The update is reverted on command, or automatically if it fails. All commands but build and inspect need root and the module dynamos."},
			examples: []manual.Entry{{Name: "skep update build fix.patch --kernel 6.12", Text: "make fix.skepup"}, {Name: "skep update apply fix.skepup --tgid 4711", Text: "apply it on trial, for one process"}, {Name: "skep update policy fix --all", Text: "then for all"}, {Name: "skep update commit fix", Text: "keep it"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-build(1) skep-update-apply(1) skep-package(5) dynamos(4)",
		},
		"update build": {
			text: []string{"It compiles the files that the patch changes, before and after the patch. The code from before the patch must equal the kernel's image. Changes that cannot be applied are refused, with the reason and the line. The first build for a kernel downloads the kernel's source and prepares it.",
				"The class says how far the versions may mix: any (each call takes its version), task (a task that is inside keeps its version), object (an object keeps its version), together (all tasks change together)."},
			examples: []manual.Entry{{Name: "skep update build fix.patch --kernel 6.1 --kernel 6.12", Text: "one package for two kernels"}, {Name: "skep update build fix.patch --class task --because 'both read the count'", Text: "with a class of your own"}},
			files: []manual.Entry{{Name: "NAME.skepup", Text: "the package; skep-package(5) describes it"},
				{Name: "~/.cache/skep", Text: "kernel packages and sources that were downloaded"}},
			environment: "XDG_CACHE_HOME SKEP_BUILD PATH TMPDIR",
			exit:        "0 1 2 4", see: "skep-update(1) skep-update-inspect(1) skep-package(5)",
		},
		"update inspect": {
			text:     []string{"It only reads the file, and needs neither root nor the module."},
			examples: []manual.Entry{{Name: "skep update inspect fix.skepup", Text: "its class, reasons, functions and kernels"}},
			files:    []manual.Entry{{Name: "NAME.skepup", Text: "a package"}},
			exit:     "0 1 2 4", see: "skep-update-build(1) skep-package(5)",
		},
		"update apply": {
			text: []string{whomWords, "The update is on trial: it is reverted after --confirm unless skep update commit keeps it, or when it exceeds one of the limits of errors, latency or time. Instead of a file, give the name of an update that was reverted and is still loaded, to apply it again.",
				"An update that relies on what existing objects lack (skep update inspect) is refused while there may be such objects: while its module is loaded, or always if it changes the kernel's image. --objects-exist says why they do no harm; the reason holds for the boots that follow."},
			examples: []manual.Entry{{Name: "skep update apply fix.skepup --cgroup job7 --max-errors 10", Text: "for one job; reverted at ten more errors per 1000 calls"}, {Name: "skep update apply new.skepup --all --supersede", Text: "on top of an older update of the same functions, which the commit reverts"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-policy(1) skep-update-status(1) skep-update-commit(1) skep-policy(5)",
		},
		"update policy": {
			text:     []string{whomWords, "With --nobody the update stays applied, and new calls take the older version."},
			examples: []manual.Entry{{Name: "skep update policy fix --share 10%", Text: "a tenth of all processes"}, {Name: "skep update policy fix --all --except --comm backup", Text: "all but one program"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-apply(1) skep-policy(5)",
		},
		"update status": {
			text:     []string{"For one update it also shows both versions of each function, with calls, errors and latency, and the last events."},
			examples: []manual.Entry{{Name: "skep update status fix", Text: "one update"}, {Name: "skep update status --json", Text: "all, for programs"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update(1)",
		},
		"update probe": {
			text: []string{"It counts calls of functions of the kernel's image that begin from now on, with their errors, and times one call in 64, or with --each-call every one, which also prints a histogram. It ends when the program ends, after --for, or with Ctrl-C, and prints what it counted. The probes end with the command, also if it is killed.",
				"FUNCTION is a name, or NAME,N for the N-th function of this name in the order of addresses. Functions are refused by name whose calls cannot be passed on (more than six arguments, variable arguments, structures in memory), that cannot be traced, in which tasks stay for good, that run in NMIs, or of which probes are made, or whose name belongs to several functions of which the kernel's types (BTF) describe fewer."},
			examples: []manual.Entry{{Name: "skep update probe --for 10s vfs_read vfs_write", Text: "for ten seconds"}, {Name: "skep update probe --each-call do_sys_openat2 -- ls -R /usr", Text: "while a program runs, with a histogram"}},
			files:    []manual.Entry{{Name: "/dev/dynamos", Text: "the module"}, {Name: "/sys/kernel/btf/vmlinux", Text: "how functions take arguments"}},
			exit:     "0 1 2 4", see: "skep-update-status(1) dynamos(4)",
		},
		"update commit": {
			text:     []string{"The trial ends, and the update stays until it is reverted or the machine reboots. With the service kernel it is restored after a reboot; the command says whether."},
			examples: []manual.Entry{{Name: "skep update commit fix", Text: "keep it"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-apply(1)",
		},
		"update roll": {
			text: []string{"The hub gives the package to nodes that have the service kernel, or whose agents run as root. Each node verifies the operators' signatures with its own keys. Waves say how many nodes run the update; a wave begins when the previous one has run it for the time of --settle. At the first sign of harm on any node, all nodes that have not committed revert it. Signs of harm are a WARN or oops, an exceeded limit, a boot, and silence.",
				"On each node, a tenth of --policy runs the update first: a tenth of the processes, or with --per a tenth of the users or of the cgroups, whose processes all have the same version.", "POLICY has the form of skep update sign --widest. Ctrl-C ends the display, not the roll.", "With --supersede, older updates of the same functions stay in force during the trial, and are reverted when the new one is committed.", "Several packages are of one update, each for other kernels; a node takes the one for its kernel."},
			examples: []manual.Entry{{Name: "skep update roll fix.skepup", Text: "in four waves, with the widest signed policy"}, {Name: "skep update roll fix.skepup --per cgroup", Text: "on each node first for a tenth of its cgroups"}, {Name: "skep update roll fix.skepup --waves 1,10,all --canary uid=1000 --max-errors 10", Text: "first for one user; stopped at ten more errors per 1000 calls"}},
			files:    []manual.Entry{{Name: "NAME.skepup", Text: "a package that operators signed"}},
			exit:     "0 1 2 3 4 130", environment: "SKEP_STATE", see: "skep-update-rolls(1) skep-update-sign(1) skep-update-keys(1)",
		},
		"update rolls": {
			text:     []string{"For one roll it also shows each node and the log. A paused roll adds no nodes and commits nothing; nodes that run the update keep it. A roll that is done still applies the update on nodes that join later, until it is forgotten.", "--audit needs the keys of operators on this machine, see skep-update-keys(1). A line has its number, the digest of the line before, the time, who, what, the line of updates, the sequence, the digest of the content, and the keys. The keys prove who ordered the roll. Users of the hub are named user:UID:NAME. The log is one for all rolls of the hub, and nodes follow it: one from which lines they saw were cut, or in which lines were changed, is refused. On a node it is compared with what this node has seen; elsewhere keep the digest that is printed."},
			examples: []manual.Entry{{Name: "skep update rolls fix", Text: "one roll"}, {Name: "skep update rolls --audit fix", Text: "who did what"}, {Name: "skep update rolls --stop fix", Text: "revert it on every node that has not committed it"}},
			exit:     "0 1 2 3", environment: "SKEP_STATE", see: "skep-update-roll(1)",
		},
		"update keys": {
			text:     []string{"Operators sign packages with private keys, which no hub has. A document of keys lists the public keys, how many of them must sign, and when it expires. A node that has pinned such a document applies only updates that enough operators signed."},
			examples: []manual.Entry{{Name: "skep update keys new alice.key", Text: "an operator's key"}, {Name: "skep update keys rotate --fleet lab --threshold 2 --add alice.key.pub --add bob.key.pub -o keys", Text: "the first document"}, {Name: "skep update sign keys --key alice.key", Text: "each operator signs it"}, {Name: "skep update keys trust keys", Text: "on each node"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-sign(1) skep-update-verify(1) skep-join(1) skep-signed(5)",
		},
		"update keys new": {
			text:     []string{"The key is an ed25519 key in OpenSSH's format, in a file that only its owner may read. It is encrypted with a passphrase unless --no-passphrase is given. The public key is in FILE.pub."},
			examples: []manual.Entry{{Name: "skep update keys new alice.key --name alice", Text: "asks for a passphrase"}},
			files:    []manual.Entry{{Name: "FILE", Text: "the private key, of mode 0600"}, {Name: "FILE.pub", Text: "the public key"}},
			exit:     "0 1 2 130", see: "skep-update-keys(1) skep-update-sign(1)",
		},
		"update keys show": {
			text:     []string{"Without FILE it shows the document in force on this machine, the keys that were revoked, and the highest sequence seen for each line of updates. FILE is a public key or a document of keys."},
			examples: []manual.Entry{{Name: "skep update keys show", Text: "of this machine"}, {Name: "skep update keys show alice.key.pub", Text: "the identity of a key"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-keys(1)",
		},
		"update keys rotate": {
			text:     []string{"It writes the next version of a document, without signatures. It is in force on a node when enough keys of the version before it and enough of its own signed it. Without FILE it writes the first version. Give a newer document to the nodes before the last one expires, because they accept no update after that."},
			examples: []manual.Entry{{Name: "skep update keys rotate keys --revoke SHA256:8xS --add carol.key.pub -o keys2", Text: "after a theft"}, {Name: "skep update keys rotate keys -o keys2 --floor arp=9", Text: "nodes take no package of line arp below sequence 9"}},
			exit:     "0 1 2 4", see: "skep-update-keys(1) skep-update-sign(1) skep-signed(5)",
		},
		"update keys trust": {
			text:     []string{"On a machine without keys, root can pin any document that enough of its own keys signed. Later documents need enough signatures of the keys in force, or --replace. The machine never forgets the sequences that it has seen."},
			examples: []manual.Entry{{Name: "skep update keys trust keys", Text: "as root; skep join --update-keys does the same"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-keys(1) skep-join(1)",
		},
		"update keys revoke": {
			text:     []string{"It takes effect at once, on this machine only. A document of skep update keys rotate --revoke has the same effect on every node that gets it."},
			examples: []manual.Entry{{Name: "skep update keys revoke SHA256:8xS", Text: "the key's identity, from skep update keys show"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-keys(1)",
		},
		"update sign": {
			text: []string{"The first signature states what is signed: the contents of the package, its class, its sequence in a line of updates, the widest policy, the longest trial and the expiry. Later operators sign the same text, which is shown. --print and --add let ssh-keygen sign, with its agent or a hardware key.",
				"--sign-module signs the modules in the package for a kernel with Secure Boot. That changes the contents, so it comes before the operators' signatures.",
				"--included compares the source of a kernel with the package's patch, as skep update build does. If the source contains each change, it writes a signed statement of that, so that nodes with this kernel do without the update; otherwise it refuses."},
			examples: []manual.Entry{{Name: "skep update sign fix.skepup --key alice.key --sequence 7 --widest all", Text: "the first operator"}, {Name: "skep update sign fix.skepup --key bob.key", Text: "the second one"}, {Name: "skep update sign fix.skepup --revert --key alice.key -o fix.skeprevert", Text: "an order to revert it"}, {Name: "skep update sign fix.skepup --sign-module MOK.pem", Text: "for Secure Boot"}},
			files:    []manual.Entry{{Name: "NAME.skepup", Text: "a package, which is replaced"}, {Name: "NAME.skeprevert", Text: "an order to revert one"}, {Name: "NAME-VERSION.skepincluded", Text: "a statement that a kernel contains its change"}},
			exit:     "0 1 2 4 130", see: "skep-update-verify(1) skep-update-keys(1) skep-signed(5)",
		},
		"update verify": {
			text:     []string{"It prints the signed text, and for each signature whether it is valid and counts here. The exit code is 4 if a node with these keys would refuse the file now. Nothing is changed."},
			examples: []manual.Entry{{Name: "skep update verify fix.skepup", Text: "by the keys of this machine"}, {Name: "skep update verify fix.skepup --keys keys", Text: "by a document of keys"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-sign(1) skep-signed(5)",
		},
		"update revert": {
			text: []string{"A file whose name ends in .skeprevert is an order of operators. Its sequence is recorded, so packages with a lower one are not accepted again.", "New calls take the older version at once. It waits for calls that are still inside, at most as long as --wait says; --remove then unloads it.",
				"With --to, the older update that this one superseded is committed again in the same step, for whom it was in force before. Its module is still loaded, or its package is stored by the service kernel, so nothing is built. Only root of the machine can do that.",
				"An update that was built with --state is not reverted while there may be objects that its code has set up: while its module is loaded, or never for the kernel's image. --objects-exist says why they do no harm. To unload the module reverts the update. Orders of operators, rolls, and whatever reverts an update by itself do not ask."},
			examples: []manual.Entry{{Name: "skep update revert fix --remove", Text: "revert and unload"}, {Name: "skep update revert fix2 --to fix", Text: "back to the older update"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-remove(1)",
		},
		"update serve": {
			text:     []string{"Nodes ask over HTTP for packages for their kernels, which it builds one after the other and keeps. It builds only packages that operators signed, by the keys that this machine has pinned. What it built is unsigned: operators compare, sign and offer it, see skep-update-builds(1). It needs what skep update build needs."},
			examples: []manual.Entry{{Name: "skep update serve --listen :4870", Text: "for all nodes that reach this machine"}},
			files:    []manual.Entry{{Name: "builds", Text: "in the state directory: what was built"}},
			exit:     "0 1 2 4 130", environment: stateNames, see: "skep-update-builds(1) skep-update-build(1) skep-update-keys(1)",
		},
		"update builds": {
			text: []string{"Without an option it lists what the service built. A package that is unsigned waits for operators: each builds it too with skep update build PACKAGE --kernel VERSION, compares the bytes, signs, and --offer gives it back. What is included waits for the statement of skep update sign --included, which --offer gives too.",
				"--take is for root of a node on which another kernel runs than updates were committed on. It asks for them, and stores those that enough operators signed, with their policies; the service kernel puts them on trial when it starts. Unsigned bytes are refused, and so is the word that the kernel needs no update, whatever the service says."},
			examples: []manual.Entry{{Name: "skep update builds --at http://builder:4870", Text: "what waits for signatures"}, {Name: "skep update builds --at http://builder:4870 --take", Text: "on a node, after an upgrade of the kernel"}},
			files:    trustFiles,
			exit:     "0 1 2 4", see: "skep-update-serve(1) skep-update-sign(1) skep-service(1)",
		},
		"update hold": {
			text: []string{"The update must be committed on this machine, operators must have signed a policy that includes the cgroup, and the service kernel must run. The update is in force before the program begins, and until no process is in the job's cgroup; a rule of the kernel ends it, whatever ends the job.",
				"The program is moved into a child of its own cgroup. With --cgroup, skep waits until that cgroup is gone; it must belong to the user, or root asks."},
			examples: []manual.Entry{{Name: "skep update hold fix -- ./program", Text: "for one program"}, {Name: "skep update hold --cgroup /sys/fs/cgroup/job7 fix", Text: "as root, for a batch system's job"}},
			files:    []manual.Entry{{Name: "/run/skep-updates.sock", Text: "where the service kernel listens"}},
			exit:     "0 1 2 4 126 127 130 program", see: "skep-update-policy(1) skep-exec(1) skep-mpirun(1) skep-service(1)",
		},
		"update remove": {
			text:     []string{"It is refused while a task is inside, and for an update that is held: the kernel may still have a pointer to it."},
			examples: []manual.Entry{{Name: "skep update remove fix", Text: "unload it"}},
			files:    updateFiles,
			exit:     "0 1 2 4", see: "skep-update-revert(1)",
		},
	}
}
