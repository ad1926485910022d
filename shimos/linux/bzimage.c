// SPDX-License-Identifier: MIT
#include "bzimage.h"

#include "base/errno.h"
#include "bytes.h"

/* Offsets in the file. */
#define SECTORS 0x1f1
#define BOOT_FLAG 0x1fe
#define JUMP 0x201 /* distance from the next byte to the header's end */
#define MAGIC 0x202
#define VERSION 0x206
#define LOAD_FLAGS 0x211
#define ALIGNMENT 0x230
#define RELOCATABLE 0x234
#define MORE_FLAGS 0x236
#define COMMAND_SIZE 0x238
#define PREFERRED 0x258
#define INIT_SIZE 0x260

#define SECTOR 512
#define LOADED_HIGH 1
#define ENTRY_64 1
#define ABOVE_4G 2
#define ALIGN_LEAST 0x200000ull
#define ALIGN_MOST 0x40000000ull
#define ROOM_MOST 0x40000000ull

static int refuse_file(struct shimos_text *why, const char *what)
{
	shimos_text_add(why, "the kernel file ");
	shimos_text_add(why, what);
	return -LINUX_EINVAL;
}

static int check_flags(const u8 *h, struct shimos_text *why)
{
	u64 flags = shimos_bytes_get(h + MORE_FLAGS, 2);

	if (shimos_bytes_get(h + VERSION, 2) < 0x20c)
		return refuse_file(why, "is older than Linux 3.8");
	if (!(h[LOAD_FLAGS] & LOADED_HIGH) || !h[RELOCATABLE])
		return refuse_file(why,
				   "can't be moved in memory: it was built "
				   "without CONFIG_RELOCATABLE");
	if (!(flags & ENTRY_64) || !(flags & ABOVE_4G))
		return refuse_file(why, "is not of 64 bits");
	return 0;
}

static int check_sizes(const struct shimos_bzimage *b, struct shimos_text *why)
{
	if (b->align < ALIGN_LEAST || b->align > ALIGN_MOST ||
	    b->align & (b->align - 1) || b->room > ROOM_MOST ||
	    b->code_length > b->room || b->command_max < 256)
		return refuse_file(why, "has sizes that can't be right");
	return 0;
}

int shimos_bzimage_read(const void *head, u64 length, struct shimos_bzimage *b,
			struct shimos_text *why)
{
	const u8 *h = head;
	u32 sectors;
	int err;

	if (length < SHIMOS_BZIMAGE_HEAD ||
	    shimos_bytes_get(h + BOOT_FLAG, 2) != 0xaa55 ||
	    shimos_bytes_get(h + MAGIC, 4) != 0x53726448)
		return refuse_file(why, "is not a bzImage, as "
					"/boot/vmlinuz-... is");
	err = check_flags(h, why);
	if (err)
		return err;
	sectors = h[SECTORS] ? h[SECTORS] : 4;
	b->setup_end = JUMP + 1 + h[JUMP];
	b->code = (u64)(sectors + 1) * SECTOR;
	if (b->code + SECTOR >= length)
		return refuse_file(why, "is cut off");
	if (b->setup_end < INIT_SIZE + 4 ||
	    b->setup_end > SHIMOS_BZIMAGE_SETUP_MAX)
		return refuse_file(why, "has a header of unknown length");
	b->code_length = length - b->code;
	b->room = shimos_bytes_get(h + INIT_SIZE, 4);
	b->align = shimos_bytes_get(h + ALIGNMENT, 4);
	b->least = shimos_bytes_get(h + PREFERRED, 8);
	b->command_max = (u32)shimos_bytes_get(h + COMMAND_SIZE, 4);
	shimos_bytes_copy(b->head, h, b->setup_end);
	return check_sizes(b, why);
}
