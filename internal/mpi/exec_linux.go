// SPDX-License-Identifier: MIT

package mpi

import "syscall"

func execute(path string, args, env []string) error { return syscall.Exec(path, args, env) }
