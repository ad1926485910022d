// SPDX-License-Identifier: MIT
/* What a kernel on a partition is given: its own place, memory map, ACPI tables
 * and command line. */
#include <stdlib.h>
#include <string.h>

#include "../acpi.h"
#include "../bytes.h"
#include "../params.h"
#include "../place.h"
#include "base/errno.h"
#include "tests/tap.h"

#define MIB (1ull << 20)
#define WHY 192
#define FILE_BYTES (8 * MIB)

static char reason[WHY];
static struct shimos_text why;

static void begin_reason(void)
{
	shimos_text_begin(&why, reason, sizeof(reason));
}

/* The first bytes of a kernel file, as Debian's are. */
static void make_head(u8 *h)
{
	memset(h, 0, SHIMOS_BZIMAGE_HEAD);
	h[0x1f1] = 39;
	shimos_bytes_put(h + 0x1fe, 0xaa55, 2);
	h[0x201] = 0x6a;
	memcpy(h + 0x202, "HdrS", 4);
	shimos_bytes_put(h + 0x206, 0x20f, 2);
	h[0x211] = 1;
	shimos_bytes_put(h + 0x230, 2 * MIB, 4);
	h[0x234] = 1;
	shimos_bytes_put(h + 0x236, 0x7f, 2);
	shimos_bytes_put(h + 0x238, 2047, 4);
	shimos_bytes_put(h + 0x258, 16 * MIB, 8);
	shimos_bytes_put(h + 0x260, 50 * MIB + 4096, 4);
}

static void test_good_file(void)
{
	static u8 h[SHIMOS_BZIMAGE_HEAD];
	struct shimos_bzimage b;
	int err;

	make_head(h);
	begin_reason();
	err = shimos_bzimage_read(h, FILE_BYTES, &b, &why);
	tap_ok(!err && !*reason && b.code == 40 * 512 &&
		       b.code_length == FILE_BYTES - 40 * 512 &&
		       b.room == 50 * MIB + 4096 && b.align == 2 * MIB &&
		       b.least == 16 * MIB && b.command_max == 2047,
	       "kernel file: read as the boot protocol says");
	tap_ok(b.setup_end == 0x26c && !memcmp(b.head, h, 0x26c),
	       "kernel file: the header is kept to its end");
	h[0x1f1] = 0;
	err = shimos_bzimage_read(h, FILE_BYTES, &b, &why);
	tap_ok(!err && b.code == 5 * 512,
	       "kernel file: no number of sectors means four");
}

static const struct spoil {
	u32 at, bytes;
	u64 value;
	const char *what, *says;
} spoils[] = {
	{0x1fe, 2, 0, "no boot flag", "not a bzImage"},
	{0x202, 4, 0, "no magic", "not a bzImage"},
	{0x206, 2, 0x20b, "an old protocol", "older"},
	{0x211, 1, 0, "code in low memory", "moved"},
	{0x234, 1, 0, "not relocatable", "moved"},
	{0x236, 2, 2, "no entry of 64 bits", "64 bits"},
	{0x236, 2, 1, "not above 4 GiB", "64 bits"},
	{0x230, 4, MIB, "a small alignment", "sizes"},
	{0x230, 4, 3 * MIB, "an alignment that is no power of 2", "sizes"},
	{0x230, 4, 0x80000000, "a huge alignment", "sizes"},
	{0x260, 4, 0x40000001, "more than 1 GiB", "sizes"},
	{0x260, 4, 6 * MIB, "less room than code", "sizes"},
	{0x238, 4, 255, "a short command line", "sizes"},
	{0x201, 1, 0x61, "a short header", "unknown length"},
	{0x201, 1, 0x8f, "a header over what follows it", "unknown length"},
};

static void test_bad_files(void)
{
	static u8 h[SHIMOS_BZIMAGE_HEAD];
	const struct spoil *s = spoils;
	struct shimos_bzimage b;
	int err;

	for (; s < spoils + sizeof(spoils) / sizeof(*spoils); s++) {
		make_head(h);
		shimos_bytes_put(h + s->at, s->value, s->bytes);
		begin_reason();
		err = shimos_bzimage_read(h, FILE_BYTES, &b, &why);
		tap_ok(err == -LINUX_EINVAL && strstr(reason, s->says),
		       "kernel file: %s is refused: %s", s->what, reason);
	}
	make_head(h);
	begin_reason();
	err = shimos_bzimage_read(h, 41 * 512, &b, &why);
	tap_ok(err == -LINUX_EINVAL && strstr(reason, "cut off"),
	       "kernel file: no code behind the header is refused");
	begin_reason();
	err = shimos_bzimage_read(h, SHIMOS_BZIMAGE_HEAD - 1, &b, &why);
	tap_ok(err == -LINUX_EINVAL && strstr(reason, "not a bzImage"),
	       "kernel file: one of less than a page is refused");
}

static int sums_to_zero(const u8 *at, u64 length)
{
	u8 sum = 0;

	while (length--)
		sum = (u8)(sum + *at++);
	return !sum;
}

static int is_table(const u8 *at, const char *name, u64 length)
{
	return !memcmp(at, name, 4) && shimos_bytes_get(at + 4, 4) == length &&
	       sums_to_zero(at, length);
}

static void test_acpi(void)
{
	static u8 at[SHIMOS_ACPI_BYTES];
	struct skep_partition_core core[3] = {
		{.apic_id = 3}, {.apic_id = 254}, {.apic_id = 255}};
	const u64 start = 0x123450000;
	const u8 *x, *f, *m;

	shimos_acpi_write(at, start, core, 3, 9, 0);
	x = at + (shimos_bytes_get(at + 24, 8) - start);
	tap_ok(!memcmp(at, "RSD PTR ", 8) && at[15] == 2 &&
		       shimos_bytes_get(at + 20, 4) == 36 &&
		       sums_to_zero(at, 20) && sums_to_zero(at, 36),
	       "acpi: the root pointer has both checksums");
	tap_ok(is_table(x, "XSDT", 36 + 2 * 8), "acpi: a list of two tables");
	f = at + (shimos_bytes_get(x + 36, 8) - start);
	m = at + (shimos_bytes_get(x + 44, 8) - start);
	tap_ok(is_table(f, "FACP", 276) && f[8] == 6 && f[131] >= 3 &&
		       f[112 + 2] == 0x18 && f[109] == 0x2c,
	       "acpi: no fixed hardware, physical mode, no VGA, MSI, CMOS");
	tap_ok(is_table(at + (shimos_bytes_get(f + 140, 8) - start), "DSDT",
			36),
	       "acpi: no devices");
	tap_ok(is_table(m, "APIC", 44 + 8 + 8 + 8 + 16) && m[8] == 5 &&
		       shimos_bytes_get(m + 36, 4) == 0xfee00000 && !m[40],
	       "acpi: local APICs where they are, and nothing of a PC");
	m += 44;
	tap_ok(!m[0] && m[1] == 8 && m[2] == 3 && m[3] == 9 && m[4] == 2,
	       "acpi: the machine's boot processor first, and not enabled");
	m += 8;
	tap_ok(!m[0] && m[1] == 8 && m[2] == 0 && m[3] == 3 && m[4] == 1 &&
		       !m[8] && m[10] == 1 && m[11] == 254 && m[12] == 1,
	       "acpi: the cores in order, the first first");
	tap_ok(m[16] == 9 && m[17] == 16 &&
		       shimos_bytes_get(m + 20, 4) == 255 && m[24] == 1 &&
		       shimos_bytes_get(m + 28, 4) == 2,
	       "acpi: a long id has the long entry");
}

static void test_most_cores(void)
{
	static struct skep_partition_core core[SKEP_PARTITION_CORES];
	u8 *at = calloc(1, SHIMOS_ACPI_BYTES);
	const u8 *m;
	u32 i;

	for (i = 0; i < SKEP_PARTITION_CORES; i++)
		core[i].apic_id = 1000 + i;
	shimos_acpi_write(at, 16, core, SKEP_PARTITION_CORES, 0x10000,
			  0xfe000000);
	m = at + (shimos_bytes_get(
			  at + (shimos_bytes_get(at + 24, 8) - 16) + 44, 8) -
		  16);
	tap_ok(is_table(m, "APIC", 44 + 16 + 16 * SKEP_PARTITION_CORES) &&
		       shimos_bytes_get(m + 36, 4) == 0xfe000000,
	       "acpi: as many cores as a partition can have, and an APIC that "
	       "was moved");
	free(at);
}

int main(void)
{
	test_good_file();
	test_bad_files();
	test_acpi();
	test_most_cores();
	return tap_done();
}
