// SPDX-License-Identifier: MIT
#include "params.h"

#include "base/errno.h"
#include "bytes.h"

/* Offsets in struct boot_params. */
#define ACPI_ROOT 0x70
#define INITRD_HIGH 0xc0
#define INITRD_LENGTH_HIGH 0xc4
#define COMMAND_HIGH 0xc8
#define MAP_COUNT 0x1e8
#define LOADER 0x210
#define INITRD 0x218
#define INITRD_LENGTH 0x21c
#define COMMAND 0x228
#define MAP 0x2d0
#define MAP_ENTRY 20

#define LOADER_UNKNOWN 0xff
#define TYPE_RAM 1
#define TYPE_ACPI 3

static void add_memory(u8 *page, u64 start, u64 length, u32 type)
{
	u8 *e = page + MAP + page[MAP_COUNT]++ * MAP_ENTRY;

	shimos_bytes_put(e, start, 8);
	shimos_bytes_put(e + 8, length, 8);
	shimos_bytes_put(e + 16, type, 4);
}

/* A number whose halves are in two places. */
static void put_halves(u8 *page, u32 low, u32 high, u64 n)
{
	shimos_bytes_put(page + low, n, 4);
	shimos_bytes_put(page + high, n >> 32, 4);
}

int shimos_params_write(void *to, const struct shimos_bzimage *b,
			const struct shimos_params *p,
			const struct shimos_ranges *pool,
			struct shimos_text *why)
{
	u8 *page = to;
	u32 i;

	if (pool->count > SHIMOS_PARAMS_RANGES) {
		shimos_text_add(why, "the partition's memory has ");
		shimos_text_number(why, pool->count);
		shimos_text_add(why, " pieces, a Linux kernel takes 126: "
				     "create it again");
		return -LINUX_ENOSPC;
	}
	shimos_bytes_copy(page + SHIMOS_BZIMAGE_SETUP,
			  b->head + SHIMOS_BZIMAGE_SETUP,
			  b->setup_end - SHIMOS_BZIMAGE_SETUP);
	page[LOADER] = LOADER_UNKNOWN;
	shimos_bytes_put(page + ACPI_ROOT, p->acpi, 8);
	put_halves(page, COMMAND, COMMAND_HIGH, p->command);
	put_halves(page, INITRD, INITRD_HIGH, p->initrd);
	put_halves(page, INITRD_LENGTH, INITRD_LENGTH_HIGH, p->initrd_length);
	add_memory(page, p->low, p->low_length, TYPE_RAM);
	add_memory(page, p->acpi, p->acpi_length, TYPE_ACPI);
	for (i = 0; i < pool->count; i++)
		add_memory(page, pool->at[i].start, pool->at[i].length,
			   TYPE_RAM);
	return 0;
}

static int refuse_words(struct shimos_text *why, const char *what)
{
	shimos_text_add(why, "the words for the kernel ");
	shimos_text_add(why, what);
	return -LINUX_EINVAL;
}

/* Words that would hide ours: those behind a quote or behind "--". */
static int check_words(const char *user, u32 size, struct shimos_text *why)
{
	u32 i = 0;

	for (; i < size && user[i]; i++) {
		if (user[i] < ' ' || user[i] > '~' || user[i] == '"')
			return refuse_words(why, "have a quote, or a character "
						 "that is not printable");
		if (user[i] == '-' && (!i || user[i - 1] == ' ') &&
		    i + 1 < size && user[i + 1] == '-' &&
		    (i + 2 == size || !user[i + 2] || user[i + 2] == ' '))
			return refuse_words(why, "have '--': words for init "
						 "are not supported");
	}
	return i < size ? 0 : refuse_words(why, "are too long");
}

int shimos_params_command(char *to, u32 most, const char *user, u32 size,
			  u32 tsc_khz, u64 mail, struct shimos_text *why)
{
	struct shimos_text t;
	int err = check_words(user, size, why);

	if (err)
		return err;
	shimos_text_begin(&t, to, most);
	shimos_text_add(&t, user);
	shimos_text_add(
		&t, " console=ttyL0 rdinit=/skep/init noapic acpi=noirq "
		    "acpi_sci=edge pci=off nokaslr no5lvl no_ipi_broadcast=1 "
		    "tsc=reliable 8250.nr_uarts=0 dis_ucode_ldr nowatchdog "
		    "panic=0 tsc_early_khz=");
	shimos_text_number(&t, tsc_khz);
	shimos_text_add(&t, " shimos_guest.mail=");
	shimos_text_number(&t, mail);
	/* full: cut off, or just so long that it might be */
	if (t.length + 1 >= most)
		return refuse_words(why, "are too long");
	return 0;
}
