/* SPDX-License-Identifier: MIT */
/* The header of a kernel file of Linux: Documentation/arch/x86/boot.rst. */
#ifndef SHIMOS_LINUX_BZIMAGE_H
#define SHIMOS_LINUX_BZIMAGE_H

#include <skep/types.h>

#include "shimos/core/text.h"

#define SHIMOS_BZIMAGE_HEAD 4096   /* bytes that are read */
#define SHIMOS_BZIMAGE_SETUP 0x1f1 /* the setup header begins here */
#define SHIMOS_BZIMAGE_SETUP_MAX 0x290

struct shimos_bzimage {
	u64 code, code_length; /* what runs: offset in the file, bytes */
	u64 room;	       /* bytes that it needs where it is put, */
	u64 align;	       /* aligned so, */
	u64 least;	       /* and not below this address */
	u32 command_max;       /* bytes of a command line, without its NUL */
	u32 setup_end;	       /* where the setup header ends */
	u8 head[SHIMOS_BZIMAGE_SETUP_MAX]; /* of the file: its first bytes */
};

/* `head` are the first SHIMOS_BZIMAGE_HEAD bytes of a file of this length, or
 * all of a shorter one; untrusted. 0, or -errno with the reason in `why`. */
int shimos_bzimage_read(const void *head, u64 length,
			struct shimos_bzimage *out, struct shimos_text *why);

#endif
