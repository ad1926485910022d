// SPDX-License-Identifier: MIT

//go:build linux

package packages

import (
	"slices"
	"time"
)

// upgradeSteps are those of a system that gets two releases, one after the other, while hub,
// agents, a program, modules and an update are in use. A second agent stays in the former
// release.
var upgradeSteps = slices.Concat(
	stepsNamed("booted", "install", "dkms", "modules", "hello", "services", "kernel"),
	[]step{
		{"in_force", "the update changes the kernel for its user", time.Minute, 0, "update_in_force\n"},
		{"old_node", "a second node joins with its own copy of the former release", 5 * time.Minute, 0, `
mkdir -p /opt/former/bin /opt/former/lib
cp -a /usr/bin/skep /usr/bin/bee /opt/former/bin
cp -a /usr/lib/skep /opt/former/lib
cp /sys/module/dynamos/notes/.note.gnu.build-id /opt/former/module
skep token --state $state >/tmp/token-old
/opt/former/bin/skep join 127.0.0.1:4860 --token-file /tmp/token-old --only --name old --state /opt/former/state
start_old_node
use_old_node
`},
		{"begin_job", "a program runs that makes calls", 10 * time.Minute, 0, "begin_job\n"},
		{"upgrade", "an upgrade to this release ends neither the program nor the services nor the update", 40 * time.Minute, 0, `
upgrade_to second
# Until the next boot, this release works with the module of the former one.
cmp /sys/module/dynamos/notes/.note.gnu.build-id /opt/former/module
update_in_force
`},
		{"policy", "with the former module, skep update changes whom the update is for", time.Minute, 0, `
skep update policy links --uid 1003
update_in_force 1003 1000
skep update policy links --uid 1000
update_in_force
`},
		{"end_job", "the program ends with all results; then hub and agent are of this release", 10 * time.Minute, 0, `
end_job
! cmp /usr/bin/skep /opt/former/bin/skep || exit 1
`},
		{"apart", "the node of the former release works with the hub of this one", 10 * time.Minute, 0, "use_old_node\n"},
		{"restored", "after a reboot the update is in force with this release's module", 20 * time.Minute, 1, restored + `
update_in_force
! cmp /sys/module/dynamos/notes/.note.gnu.build-id /opt/former/module || exit 1
start_old_node
use_old_node
`},
		{"begin_job", "a program runs that makes calls", 10 * time.Minute, 1, "begin_job\n"},
		{"upgrade", "an upgrade to the next release ends neither the program nor the services nor the update", 40 * time.Minute, 1, `
upgrade_to third
update_in_force
`},
		{"end_job", "the program ends with all results; then hub and agent are of the next release", 10 * time.Minute, 1, `
end_job
use_old_node
`},
		{"restored", "after another reboot the next release has all of it", 20 * time.Minute, 2, restored + `
update_in_force
`},
	})

// stepsNamed returns the first step of each name of the other walk.
func stepsNamed(names ...string) (list []step) {
	for _, name := range names {
		list = append(list, steps[slices.IndexFunc(steps, func(s step) bool { return s.name == name })])
	}
	return list
}
