// SPDX-License-Identifier: MIT
/*
 * A manifest from nowhere, and arguments for each of its functions. What a
 * worker takes, it must be able to send back to the master's memory.
 */
#include <errno.h>
#include <grid/core/marshal.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#define MEMORY_MAX 0x10000

struct bytes {
	struct grid_mover mover;
	const u8 *at;
	u64 left;
};

static int receive_bytes(struct grid_mover *mover, void *to, u64 len, int own)
{
	struct bytes *b = (struct bytes *)mover;

	(void)own;
	if (len > b->left)
		return -EPIPE;
	memcpy(to, b->at, len);
	b->at += len;
	b->left -= len;
	return 0;
}

static int count_moved(struct grid_mover *mover, void *bytes, u64 len, int own)
{
	static volatile u8 sum;
	struct bytes *b = (struct bytes *)mover;
	u64 i;

	(void)own;
	for (i = 0; i < len; i += 64)
		sum += ((u8 *)bytes)[i];
	sum += ((u8 *)bytes)[len - 1];
	b->left += len;
	return 0;
}

static void *alloc_bounded(struct grid_memory *memory, u64 len)
{
	return len > MEMORY_MAX ? NULL : grid_memory_heap.alloc(memory, len);
}

static void call_function(const struct grid_module *m, u32 f, const u8 *data,
			  u64 size)
{
	struct grid_memory memory = {alloc_bounded, grid_memory_heap.free, 0};
	struct bytes in = {{receive_bytes}, data, size},
		     out = {{count_moved}, NULL, 0};
	struct grid_shape shape[SKEP_PARAMS_MAX];
	struct grid_call c;
	u64 length;

	memset(shape, 0, sizeof(shape));
	grid_call_init(&c, m, f);
	if (size & 1)
		c.shape = shape;
	if (!grid_call_take(&c, &in.mover, &memory, size) &&
	    !grid_call_measure(&c, SKEP_OUT, &length)) {
		if (grid_call_send(&c, SKEP_OUT, &out.mover) ||
		    out.left != length)
			abort();
		/* Into the same memory, as a master would. */
		in = (struct bytes){{receive_bytes}, data, size};
		grid_call_accept(&c, &in.mover, size);
	}
	grid_call_drop(&c, &memory);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct grid_module m;
	const char *why;
	u64 *bytes;
	u16 len;
	u32 f;

	if (size < 2)
		return 0;
	memcpy(&len, data, 2);
	data += 2;
	size -= 2;
	if (len > size)
		len = (u16)size;
	bytes = malloc(len + 1u);
	memcpy(bytes, data, len);
	if (!grid_module_open(&m, bytes, len, &why)) {
		for (f = 0; f < m.head.functions && f < 16; f++)
			call_function(&m, f, data + len, size - len);
	}
	free(bytes);
	return 0;
}
