// SPDX-License-Identifier: MIT

package agent

import (
	"io"
	"os"
)

// sendFile writes n bytes of a file.
func sendFile(to io.Writer, file *os.File, at, n int64) error {
	return writePart(to, file, at, n)
}
