// SPDX-License-Identifier: MIT

package atomicfile

// SyncFolder does nothing: Windows has no call that writes the names in a folder to the disk
// for users without privileges. NTFS keeps a journal of them.
func SyncFolder(string) error { return nil }
