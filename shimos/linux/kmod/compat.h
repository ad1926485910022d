/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module is built for. */
#ifndef SHIMOS_GUEST_COMPAT_H
#define SHIMOS_GUEST_COMPAT_H

#include <linux/kmsg_dump.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
typedef int shimos_tty_result;
typedef int shimos_tty_size;
#else
typedef ssize_t shimos_tty_result;
typedef size_t shimos_tty_size;
#endif

/* The second parameter of a kmsg dumper, and the reason in it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define SHIMOS_DUMP_PARAMETER enum kmsg_dump_reason
#define SHIMOS_DUMP_REASON(parameter) (parameter)
#else
#define SHIMOS_DUMP_PARAMETER struct kmsg_dump_detail *
#define SHIMOS_DUMP_REASON(parameter) ((parameter)->reason)
#endif

#endif
