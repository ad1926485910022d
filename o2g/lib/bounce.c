// SPDX-License-Identifier: MIT
/*
 * Buffers of sends with O2G_COPY, and tokens of those with O2G_QUIET: places of
 * three sizes, each with a free list. A place is taken and filled with `submit`
 * locked. Its address is the cookie, so a completion is recognized by a cookie
 * inside our memory, which no cookie of the program can be.
 */
#include "endpoint.h"
#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TOKEN, SMALL, LARGE, CLASSES };

static const struct {
	u32 size, count;
} class_of[CLASSES] = {{16, 4096}, {512, 1024}, {16384, 64}};

#define COUNT (4096 + 1024 + 64)
#define BYTES (16ull * 4096 + 512 * 1024 + 16384 * 64)
#define NONE COUNT

struct place {
	void *cookie; /* the program's cookie */
	u32 next;     /* next in its free list; NONE: the last one */
	u8 quiet;
};

struct o2g_bounce {
	u8 *memory;
	u32 first[CLASSES]; /* heads of the free lists */
	struct place place[COUNT];
};

size_t o2g_copy_max(const struct o2g *o2g)
{
	(void)o2g;
	return class_of[LARGE].size;
}

/* The class of a place, and the first place of that class. */
static int class_at(u32 index, u32 *first)
{
	int class = 0;

	*first = 0;
	while (index >= *first + class_of[class].count)
		*first += class_of[class ++].count;
	return class;
}

static u64 start_of(int class)
{
	u64 at = 0;

	for (int i = 0; i < class; i++)
		at += (u64)class_of[i].size * class_of[i].count;
	return at;
}

static u8 *buffer_address(const struct o2g_bounce *b, u32 index)
{
	u32 first;
	int class = class_at(index, &first);

	return b->memory + start_of(class) +
	       (u64)(index - first) * class_of[class].size;
}

static u32 index_of(const struct o2g_bounce *b, const void *copy)
{
	u64 at = (u64)((const u8 *)copy - b->memory);
	u32 first = 0;
	int class = 0;

	while (class < LARGE && at >= start_of(class + 1))
		first += class_of[class ++].count;
	return first + (u32)((at - start_of(class)) / class_of[class].size);
}

static void free_buffer(struct o2g_bounce *b, u32 index)
{
	u32 first;
	int class = class_at(index, &first);

	b->place[index].next = b->first[class];
	b->first[class] = index;
}

int o2g_bounce_make(struct o2g *o2g)
{
	struct o2g_bounce *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->memory = mmap(0, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->memory == MAP_FAILED) {
		free(b);
		return -ENOMEM;
	}
	madvise(b->memory, BYTES, MADV_DONTFORK);
	for (int class = 0; class < CLASSES; class ++)
		b->first[class] = NONE;
	for (u32 i = COUNT; i-- > 0;)
		free_buffer(b, i);
	o2g->bounce = b;
	return 0;
}

void o2g_bounce_free_all(struct o2g *o2g)
{
	if (!o2g->bounce)
		return;
	munmap(o2g->bounce->memory, BYTES);
	free(o2g->bounce);
}

void *o2g_bounce_take(struct o2g *o2g, const void *buffer, size_t length,
		      void *cookie, unsigned options)
{
	struct o2g_bounce *b = o2g->bounce;
	int class = !(options & O2G_COPY) ? TOKEN
		    : length <= class_of[SMALL].size && b->first[SMALL] != NONE
			    ? SMALL
			    : LARGE;
	u32 index = b->first[class];
	u8 *copy;

	o2g_assert_locked(&o2g->submit);
	if (index == NONE)
		return 0;
	b->first[class] = b->place[index].next;
	b->place[index].cookie = cookie;
	b->place[index].quiet = !!(options & O2G_QUIET);
	copy = buffer_address(b, index);
	if (class != TOKEN && length > 0)
		memcpy(copy, buffer, length);
	return copy;
}

void o2g_bounce_return(struct o2g *o2g, void *copy)
{
	o2g_assert_locked(&o2g->submit);
	free_buffer(o2g->bounce, index_of(o2g->bounce, copy));
}

int o2g_bounce_done(struct o2g *o2g, u64 *cookie)
{
	struct o2g_bounce *b = o2g->bounce;
	u64 first = (u64)(size_t)b->memory;
	int quiet;
	u32 index;

	if (*cookie < first || *cookie >= first + BYTES)
		return 0;
	pthread_mutex_lock(&o2g->submit);
	index = index_of(b, (void *)(size_t)*cookie);
	*cookie = (u64)(size_t)b->place[index].cookie;
	quiet = b->place[index].quiet;
	o2g_bounce_return(o2g, buffer_address(b, index));
	pthread_mutex_unlock(&o2g->submit);
	return quiet ? 2 : 1;
}
