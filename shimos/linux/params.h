/* SPDX-License-Identifier: MIT */
/* What a kernel gets from who boots it: struct boot_params, a page, and its
 * command line. */
#ifndef SHIMOS_LINUX_PARAMS_H
#define SHIMOS_LINUX_PARAMS_H

#include "bzimage.h"
#include "shimos/core/ranges.h"

#define SHIMOS_PARAMS_BYTES 4096
#define SHIMOS_PARAMS_RANGES 126 /* of the pool, most */

/* Physical addresses. */
struct shimos_params {
	u64 command;
	u64 initrd, initrd_length;
	u64 low, low_length; /* memory below 1 MiB: else no other core starts */
	u64 acpi, acpi_length;
};

/* Writes the page, which is zero. 0, or -errno with the reason in `why`. */
int shimos_params_write(void *page, const struct shimos_bzimage *b,
			const struct shimos_params *p,
			const struct shimos_ranges *pool,
			struct shimos_text *why);

/* Builds the command line from the user's words (untrusted, `size` bytes with
 * a NUL among them) and from those without which the kernel would use devices
 * of the machine. Ours come last, and so override. */
int shimos_params_command(char *to, u32 most, const char *user, u32 size,
			  u32 tsc_khz, u64 mail, struct shimos_text *why);

#endif
