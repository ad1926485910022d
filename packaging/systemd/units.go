// SPDX-License-Identifier: MIT

// Package systemd contains the units of Skep's services. Packages install them
// unchanged. 'skep service install' replaces the program's path by its own.
package systemd

import "embed"

// Files are the units of the system, those of a user, and the sysusers file.
//
//go:embed system user sysusers
var Files embed.FS

// Program is the path of the program in the units.
const Program = "/usr/bin/skep"
