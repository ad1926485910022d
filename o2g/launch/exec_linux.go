// SPDX-License-Identifier: MIT

package launch

import "syscall"

func execProgram(path string, args, env []string) error { return syscall.Exec(path, args, env) }

// dieWithUs makes the launcher end its ranks when this process is killed. The
// kernel means the thread that starts it.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
