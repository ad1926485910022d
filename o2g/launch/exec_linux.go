// SPDX-License-Identifier: MIT

package launch

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func execProgram(path string, args, env []string) error { return syscall.Exec(path, args, env) }

// dieWithUs makes the kernel send the launcher SIGTERM when this process is
// killed; the launcher then ends its ranks. The parent that PR_SET_PDEATHSIG
// watches is the thread that starts the launcher.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

// removeSession removes the folder in which Open MPI's launcher with this process id kept the
// sockets of its job: a launcher that was killed, as one that does not end in time is, leaves
// it behind. Open MPI 5 names it ompi.PID; 4 makes pid.PID in ompi.HOST.UID.
func removeSession(pid int) {
	tmp := cmp.Or(os.Getenv("TMPDIR"), os.Getenv("TEMP"), os.Getenv("TMP"), "/tmp") // as the launcher chooses
	id, uid := strconv.Itoa(pid), strconv.Itoa(os.Getuid())
	older, _ := filepath.Glob(filepath.Join(tmp, "ompi.*."+uid, "pid."+id)) // fails only for a bad pattern
	if dir := filepath.Join(tmp, "ompi."+id); isOwnFolder(dir) {            // anyone may make a folder of this name
		os.RemoveAll(dir)
	}
	for _, dir := range older {
		if parent := filepath.Dir(dir); isOwnFolder(parent) {
			os.RemoveAll(dir)
			os.Remove(parent) // stays while it has other jobs
		}
	}
}

// isOwnFolder reports whether path is a folder of this user, and not a link.
func isOwnFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && isOwn(info)
}
