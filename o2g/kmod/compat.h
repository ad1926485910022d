/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between the kernels that the module is built for. */
#ifndef O2G_KMOD_COMPAT_H
#define O2G_KMOD_COMPAT_H

#include <linux/version.h>

#endif
