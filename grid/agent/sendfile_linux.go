// SPDX-License-Identifier: MIT

package agent

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendFile writes n bytes of a file. Where the system cannot pass on the file's pages, it copies
// them.
func sendFile(to io.Writer, file *os.File, at, n int64) error {
	if out, ok := to.(*os.File); ok {
		raw, err := out.SyscallConn()
		if err != nil {
			return err
		}
		raw.Write(func(fd uintptr) bool {
			for n > 0 {
				var sent int
				sent, err = unix.Sendfile(int(fd), int(file.Fd()), &at, int(n))
				if err != nil || sent == 0 {
					return err != unix.EAGAIN
				}
				n -= int64(sent)
			}
			return true
		})
	}
	return writePart(to, file, at, n)
}
