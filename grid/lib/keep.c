// SPDX-License-Identifier: MIT
/*
 * What a session keeps to send it again to the next hub: up to KEEP_MAX bytes
 * in memory. A detached program, whose holder sets SKEP_KEEP, has no limit but
 * the disk: what does not fit into memory is in files without a name, which the
 * system removes with the program.
 */
#define _GNU_SOURCE /* mkostemp */
#include <skep/assert.h>

#include "client.h"
#include "grid/core/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define KEEP_MAX 0x10000000 /* bytes in memory */

static const char no_room[] =
	"a detached program's arguments are kept until the call ends, and %s "
	"has no room for %llu bytes: %s";

/* A file of that many bytes, in a folder whose disk stays a tenth free; or
 * -errno. The bytes are reserved: a later write must not fail. */
static int make_file(const char *dir, u64 size)
{
	struct statvfs disk;
	char name[4096];
	int fd, err;

	if (statvfs(dir, &disk))
		return -errno;
	if (size > (u64)disk.f_bavail * disk.f_frsize / 10 * 9)
		return -ENOSPC;
	if (snprintf(name, sizeof(name), "%s/.kept-XXXXXX", dir) >=
	    (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	err = posix_fallocate(fd, 0, (off_t)size);
	if (!err)
		return fd;
	close(fd);
	return -err;
}

/* Memory that is a file's; NULL with errno. */
static void *map_file(const char *dir, u64 size)
{
	int fd = make_file(dir, size);
	void *at;

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static int fits_memory(struct grid_client *c, u64 len)
{
	int room;

	if (!len)
		return 1;
	pthread_mutex_lock(&c->lock);
	room = c->stream.keeps && len <= KEEP_MAX &&
	       c->kept_bytes + len <= KEEP_MAX;
	pthread_mutex_unlock(&c->lock);
	return room;
}

int grid_kept_new(struct grid_client *c, u16 type, const void *head,
		  u32 head_len, u64 len, struct grid_kept **kept)
{
	u64 size = sizeof(struct grid_kept) + head_len + len, mapped = 0;
	struct grid_kept *k = NULL;

	*kept = NULL;
	if (fits_memory(c, len)) {
		k = malloc(size);
		if (k)
			grid_pages_advise(k, size);
	} else if (c->keep && c->stream.keeps) {
		k = map_file(c->keep, size);
		mapped = size;
	}
	if (!k && mapped)
		return grid_error_set(OMRPC_E_NO_MEMORY, no_room, c->keep,
				      (unsigned long long)len, strerror(errno));
	if (!k)
		return 0;
	k->type = type;
	k->mapped = mapped;
	k->head_len = head_len;
	k->len = len;
	memcpy(k->head, head, head_len);
	k->bytes = k->head + head_len;
	*kept = k;
	return 0;
}

void grid_kept_free(struct grid_kept *k)
{
	if (k && k->mapped)
		munmap(k, k->mapped);
	else
		free(k);
}

void grid_request_keep(struct grid_client *c, struct skep_request *r,
		       struct grid_kept *kept)
{
	pthread_mutex_lock(&c->lock);
	r->kept = kept;
	if (kept && !kept->mapped)
		c->kept_bytes += kept->len;
	pthread_mutex_unlock(&c->lock);
}

void grid_request_drop_kept(struct grid_client *c, struct skep_request *r)
{
	skep_assert(pthread_mutex_trylock(&c->lock));
	if (!r->kept)
		return;
	if (!r->kept->mapped)
		c->kept_bytes -= r->kept->len;
	grid_kept_free(r->kept);
	r->kept = NULL;
}
