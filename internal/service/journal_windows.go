// SPDX-License-Identifier: MIT

package service

import "os"

// IsJournal says whether a stream is the one that systemd's journal reads.
func IsJournal(*os.File) bool { return false }
