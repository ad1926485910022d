/* SPDX-License-Identifier: MIT */
/*
 * The image cache: what rewriting changed in a program, kept in a file named
 * by the program's digest. Host paths; bee's own thread, before the guest.
 */
#ifndef BEE_CORE_CACHE_H
#define BEE_CORE_CACHE_H

#include "bee/core/bee.h"

struct bee_cache {
	const char *dir; /* NULL: no cache */
	const u8 *file;	 /* the program, or a library */
	u64 file_len;
	u64 room, room_end; /* of a library's stubs; else 0 */
};

/* A good image of a library, whose stubs do not fit here: keep it. */
#define BEE_CACHE_ELSEWHERE 1

/*
 * Segments are loaded, rw->text and rw->slot are described, image->sha_file is
 * known. 0: the text is patched, stubs, sites, map, counts and sha_load are as
 * after bee_rewrite; the stubs are still writable. Else nothing was changed,
 * and the text must be rewritten. A library may be at another address than when
 * the image was made.
 */
int bee_cache_load(const struct bee_cache *c, const struct abi_host *os,
		   struct bee_image *image);
/* After rewriting; if the cache cannot be written, a message is logged. */
void bee_cache_store(const struct bee_cache *c, const struct bee_image *image);

/*
 * What each host provides. The file's bytes in memory of bee's own, freed by
 * bee_os_free. Only of a regular file, not behind a link, of at most `max`
 * bytes, that belongs to this user and that no other user may write: *why says
 * what it is instead, and then and on errors nothing is left.
 */
s64 bee_os_cache_read(const char *path, u64 max, u8 **bytes, u64 *len,
		      const char **why);
/* A whole new file at path, or none; 0 or -errno. */
s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len);

#endif
