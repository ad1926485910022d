// SPDX-License-Identifier: MIT

// Package systemd holds the units of Skep's services. Packages install them as
// they are, 'skep service install' with the path of the program that runs.
package systemd

import "embed"

// Files are the units of the system, those of a user, and the account.
//
//go:embed system user sysusers
var Files embed.FS

// Program is what the units start.
const Program = "/usr/bin/skep"
