// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT

// Package skep holds the headers that the module of a kernel update is
// compiled with, so that it can be built without this source tree.
package skep

import "embed"

// Headers are files as <skep/NAME> includes them.
//
//go:embed dynamos.h dynamos_update.h types.h
var Headers embed.FS
