/* SPDX-License-Identifier: MIT */
/*
 * The image cache: what rewriting changed in a program, in a file whose name is
 * the program's digest. Paths are the host's. Used only by bee's own thread,
 * before the guest runs.
 */
#ifndef BEE_CORE_CACHE_H
#define BEE_CORE_CACHE_H

#include "bee/core/bee.h"

struct bee_cache {
	const char *dir; /* NULL: no cache */
	const u8 *file;	 /* contents of the program or library */
	u64 file_len;
	u64 room, room_end; /* space for a library's stubs; else 0 */
};

/* The version of the rewriter: another one may make other text. */
u64 bee_rewriter_revision(void);

/* A valid image of a library, whose stubs do not fit here: keep the file. */
#define BEE_CACHE_ELSEWHERE 1

/*
 * Call it when segments are loaded, rw->text and rw->slot are set, and
 * image->sha_file is known. 0: the text is patched; stubs, sites, map, counts
 * and sha_load are as after bee_rewrite; the stubs are still writable.
 * Otherwise nothing was changed, and the text must be rewritten. A library may
 * be at another address than when its image was made.
 */
int bee_cache_load(const struct bee_cache *c, const struct abi_host *os,
		   struct bee_image *image);
/* Call it after rewriting. If the cache cannot be written, a message is
 * logged. */
void bee_cache_store(const struct bee_cache *c, const struct bee_image *image);

/*
 * Provided by each host. Reads a file into memory of bee's own, freed by
 * bee_os_free. The file must be regular, not behind a symbolic link, have at
 * most `max` bytes, belong to this user, and be writable by no other user. If
 * it is not, *why says so; then and after errors nothing remains allocated.
 */
s64 bee_os_cache_read(const char *path, u64 max, u8 **bytes, u64 *len,
		      const char **why);
/* Creates or replaces the file at path, completely or not at all; 0 or
 * -errno. */
s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len);

#endif
