// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"strings"
	"testing"
	"time"

	"skep/tests/vmtest"
)

// shareUnits are as many users, and as many cgroups, of shareEach processes.
const shareUnits, shareEach = 100, 4

// shareProgram has each process follow a link. A process that the update refuses prints its
// unit: its user, and its cgroup. Perl needs no new program for a process, which an emulated
// processor is slow at.
const shareProgram = `cat >/tmp/share.pl <<'END'
use POSIX;
for my $unit (3000 .. 3099) {
	my $group = "/sys/fs/cgroup/$unit";
	mkdir $group or die "$group: $!";
	if (!(fork // die $!)) {
		open my $procs, ">", "$group/cgroup.procs" or die $!;
		syswrite $procs, $$ or die $!;
		setgid $unit and setuid $unit or die $!;
		for (1 .. 4) {
			if (!(fork // die $!)) {
				open my $link, "<", "/tmp/open/link" or syswrite STDOUT, "$unit\n";
				_exit 0;
			}
		}
		1 until wait < 0;
		_exit 0;
	}
	wait;
	die "$unit: $?" if $?;
	1 until rmdir $group;
}
END
perl /tmp/share.pl`

// A tenth of the users, of the cgroups, or of the processes takes an update. All processes of one
// user or cgroup have the same version.
func TestUpdateShares(t *testing.T) {
	t.Run(walkKernel, func(t *testing.T) {
		w := newWalker(t, vmtest.Boot(t, updateMachine(walkKernel), vmtest.Limit(8*time.Minute)), walkKernel)
		w.openLinks()
		w.runUpdate("apply "+w.filePath("links")+" --share 10%:uid --confirm 0", "on trial for share 10% of users")
		w.checkUnits("a tenth of the users takes it", true)
		w.runUpdate("policy links --share 10%:cgroup", "for share 10% of cgroups")
		w.checkUnits("a tenth of the cgroups takes it", true)
		w.runUpdate("policy links --share 10%", "for share 10%")
		w.checkUnits("a tenth of the processes takes it", false)
		w.runUpdate("revert links --remove", "unloaded")
		w.vm.Output(shellProgram("until rmmod dynamos 2>/dev/null; do :; done"))
	})
}

// checkUnits counts the processes that take the update. In whole units all of a unit do, or none.
func (w *walker) checkUnits(name string, whole bool) {
	w.t.Helper()
	taken := map[string]int{}
	for unit := range strings.FieldsSeq(w.vm.Output(shellProgram(shareProgram))) {
		taken[unit]++
	}
	calls, parts := 0, 0
	for _, n := range taken {
		calls += n
		if n != shareEach {
			parts++
		}
	}
	all := shareUnits * shareEach
	checkGuest(w.t, name, calls > all/100 && calls < all/3 && (parts == 0) == whole, "%d of %d processes, %v", calls, all, taken)
}
