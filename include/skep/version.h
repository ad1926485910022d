/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* The product's version; cmd/skep/version.go has the same. */
#ifndef SKEP_VERSION_H
#define SKEP_VERSION_H

#define SKEP_VERSION "0.1.0"

#endif
