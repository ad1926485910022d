// SPDX-License-Identifier: MIT

//go:build linux

package packages

import "time"

// A step is one step of the walk: commands for a shell that has sourced booted.sh. limit is what
// they may take on an idle computer in the emulator.
type step struct {
	name, promise string
	limit         time.Duration
	boots         int // after this reboot
	commands      string
}

var steps = []step{
	{"booted", "the system boots with its own kernel and systemd, and no unit fails", 10 * time.Minute, 0, `
[ "$(systemctl is-system-running --wait)" = running ] || {
	systemctl --failed --no-pager
	exit 1
}
uname -r
list_files >/var/tmp/files-before
getent passwd | sort >/var/tmp/users-before
`},
	{"install", "apt installs the packages", 30 * time.Minute, 0, `
apt-get install -y --no-install-recommends "$test"/first/*.deb
dpkg --audit
`},
	{"dkms", "DKMS built the modules for the running kernel, and signed them", time.Minute, 0, `
version=$(dpkg-query -W -f '${Version}' skep-dkms)
have_text ': installed' dkms status -m skep -v "$version" -k "$(uname -r)"
for name in dynamos o2g shimos; do
	file=$(modinfo -n "$name")
	echo "$file"
	case $file in */updates/*) ;; *) exit 1 ;; esac
	modinfo -F sig_id "$file" | grep -q .
done
`},
	{"modules", "modprobe loads the modules", 2 * time.Minute, 0, `
modprobe o2g user_megabytes=48
modprobe shimos
modprobe dynamos
lsmod | grep -E '^(o2g|shimos|dynamos) '
`},
	{"doctor", "skep doctor says ok", 5 * time.Minute, 0, `
skep doctor
skep doctor >/tmp/doctor
grep -q '^o2g  *ok ' /tmp/doctor
grep -q '^bee  *ok ' /tmp/doctor
`},
	{"hello", "hello runs without the source tree", 10 * time.Minute, 0, `
rm -rf /opt/walk
mkdir /opt/walk
cd /opt/walk
sh -eu "$test/walk.sh" /usr >/tmp/walked
cat /tmp/walked
cmp /tmp/walked "$test/walk.want"
`},
	{"services", "hub and agent are installed as services, and connect", 5 * time.Minute, 0, `
skep service install hub -- --listen 127.0.0.1:4860
skep token --state $state >/tmp/token
skep service install agent 127.0.0.1:4860 --token-file /tmp/token
until_true services_ready
skep service status
skep nodes --state $state
systemd-analyze security skep-hub skep-agent --no-pager | tail -n 3 || true
`},
	{"service_run", "programs run on the node of the service", 5 * time.Minute, 0, `
run_programs
`},
	{"kernel", "modules, an allowance and a committed update are stored for the next boot", 5 * time.Minute, 0, `
groupadd -f lenders
skep part allow --group lenders --cpus 2 --mem 128M
skep update apply "$test/links.skepup" --uid 1000
skep update commit links
skep service install kernel
skep service status
ls -a /var/lib/skep-kernel
`},
	{"killed", "systemd restarts a hub and an agent that were killed", 10 * time.Minute, 0, `
for name in hub agent; do
	old=$(ask_unit MainPID skep-$name)
	kill -9 "$old"
	until_true has_other skep-$name "$old"
done
until_true services_ready
[ "$(ask_unit NRestarts skep-hub)" -ge 1 ]
[ "$(ask_unit NRestarts skep-agent)" -ge 1 ]
run_programs
`},
	{"watchdog", "systemd restarts a hub and an agent that hang", 30 * time.Minute, 0, `
for name in hub agent; do
	ask_unit MainPID skep-$name >/tmp/pid-$name
	kill -STOP "$(cat /tmp/pid-$name)"
done
for name in hub agent; do
	old=$(cat /tmp/pid-$name)
	until_true has_other skep-$name "$old"
	journalctl -u skep-$name --no-pager | grep -i watchdog
done
until_true services_ready
run_programs
`},
	{"mpirun", "skep mpirun runs a program of Debian's MPI", 20 * time.Minute, 0, `
mkdir -p /opt/mpi
cd /opt/mpi
mpicc -o program "$test/program.c"
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
	skep mpirun --no-shm -n 2 --oversubscribe -- ./program | tee /tmp/mpirun 2>&1
[ "$(grep -c '^not ok' /tmp/mpirun)" = 0 ]
grep -q '^ok - waiting' /tmp/mpirun
`},
	{"restored", "after a reboot modules with settings, allowance, update and services are back", 20 * time.Minute, 1, restored},
	{"begin_job", "a program runs that makes calls", 10 * time.Minute, 1, "begin_job\n"},
	{"upgrade", "an upgrade ends neither the program nor the services nor the update", 40 * time.Minute, 1, "upgrade_to second\n"},
	{"end_job", "the program ends with all results; then the services restart", 10 * time.Minute, 1, "end_job\n"},
	{"restored", "after another reboot the new version has all of it", 20 * time.Minute, 2, restored},
	{"remove", "apt removes the packages, and the services with them", 10 * time.Minute, 2, `
list_packages >/tmp/names
apt-get remove -y $(cat /tmp/names)
[ ! -e /etc/systemd/system/skep-hub.service.d ]
[ -z "$(systemctl --no-legend list-units 'skep-*')" ]
[ -d $state ]
`},
	{"purge", "a purge leaves no file and no user", 10 * time.Minute, 2, `
dpkg -P $(cat /tmp/names)
groupdel lenders
list_files >/var/tmp/files-after
getent passwd | sort >/var/tmp/users-after
diff /var/tmp/files-before /var/tmp/files-after
diff /var/tmp/users-before /var/tmp/users-after
`},
}

// restored checks what a reboot must bring back.
const restored = `
until_true settled
until_true services_ready
lsmod | grep -E '^(o2g|shimos|dynamos) '
[ "$(cat /sys/module/o2g/parameters/user_megabytes)" = 48 ]
skep part allow
have_text 'lenders' skep part allow
skep update status
run_programs
`
