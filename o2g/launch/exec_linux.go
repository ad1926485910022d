// SPDX-License-Identifier: MIT

package launch

import "syscall"

func execProgram(path string, args, env []string) error { return syscall.Exec(path, args, env) }

// dieWithUs makes the kernel send the launcher SIGTERM when this process is
// killed; the launcher then ends its ranks. The parent that PR_SET_PDEATHSIG
// watches is the thread that starts the launcher.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
