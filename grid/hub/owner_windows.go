// SPDX-License-Identifier: MIT

package hub

// giveToOwner does nothing: files in a folder inherit its permissions.
func giveToOwner(string, string) error { return nil }
