// SPDX-License-Identifier: MIT
/* The smaller parts of the core. */
#include <stdlib.h>
#include <string.h>

#include "../apic.h"
#include "base/errno.h"
#include "../image.h"
#include "../map.h"
#include "../plan.h"
#include "../power.h"
#include "../state.h"
#include "../tables.h"
#include "tests/tap.h"
#include <skep/shimos.h>

#define MIB (1ull << 20)
#define TIB (1ull << 40)

static void test_text(void)
{
	u64 map[2] = {0x8000000000000006ull, 0x11};
	u64 last[2] = {0, 0x8000000000000000ull};
	u64 later[3] = {0};
	struct shimos_text t;
	char at[12];

	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_add(&t, "many words that do not fit");
	tap_ok(!strcmp(at, "many words "), "text: is cut off and ends");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_cpus(&t, map, 2);
	tap_ok(!strcmp(at, "1-2,63-64,6"), "text: CPUs as taskset has them");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_map_set(later, 64);
	shimos_map_set(later, 128);
	shimos_map_set(later, 129);
	shimos_text_cpus(&t, later, 3);
	tap_ok(!strcmp(at, "64,128-129"), "text: CPUs of later words");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_cpus(&t, last, 2);
	tap_ok(!strcmp(at, "127"), "text: the last CPU of a map");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_number(&t, 18446744073709551615ull);
	tap_ok(!strcmp(at, "18446744073"), "text: the largest number");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_bytes(&t, MIB);
	tap_ok(!strcmp(at, "1 MiB"), "text: whole MiB");
	shimos_text_begin(&t, at, sizeof(at));
	shimos_text_bytes(&t, 2 * MIB + 1);
	tap_ok(!strcmp(at, "2097153 byt"), "text: bytes that are no MiB");
	shimos_text_begin(&t, at, 1);
	shimos_text_cpus(&t, map + 2, 0);
	tap_ok(!*at, "text: a buffer of length 0");
}

/* From the manuals of Intel, volume 3, 11.6.1 and 11.12.9. */
static void test_apic(void)
{
	u32 high = 0;

	tap_ok(shimos_apic_low(SHIMOS_INIT, 0) == 0x4500, "apic: INIT");
	tap_ok(shimos_apic_low(SHIMOS_SIPI, 0x97) == 0x4697, "apic: SIPI");
	tap_ok(shimos_apic_low(SHIMOS_NMI, 0) == 0x4400, "apic: NMI");
	tap_ok(!shimos_apic_high(3, &high) && high == 0x3000000,
	       "apic: xAPIC has the id in the top byte");
	tap_ok(shimos_apic_high(255, &high) == -LINUX_EINVAL &&
		       shimos_apic_high(256, &high) == -LINUX_EINVAL,
	       "apic: xAPIC refuses ids from 255, which are all processors");
	tap_ok(shimos_apic_x2(SHIMOS_SIPI, 0x97, 3) == 0x300004697ull,
	       "apic: x2APIC has the id in the upper half");
	tap_ok(shimos_apic_x2(SHIMOS_INIT, 0, 0x12345) == 0x1234500004500ull,
	       "apic: x2APIC has ids of 32 bits");
	tap_ok(shimos_power_hwp(0x0107151e) == 0x1e1e,
	       "power: minimum and maximum are the highest performance, "
	       "preference 0");
}

static void test_state(void)
{
	int err = -LINUX_EINVAL, busy = -LINUX_EBUSY;
	const int want[4][SHIMOS_EVENTS] = {
		{SHIMOS_IDLE, busy, err, err, 0},
		{err, SHIMOS_RUNNING, err, err, 0},
		{err, busy, SHIMOS_STOPPING, err, busy},
		{err, busy, err, SHIMOS_IDLE, busy},
	};
	int s, e, wrong = 0;

	for (s = 0; s < 4; s++)
		for (e = 0; e < SHIMOS_EVENTS; e++)
			wrong += shimos_state_next(s + 1, e) != want[s][e];
	tap_ok(!wrong, "state: every event in every state");
	tap_ok(shimos_state_next(0, SHIMOS_READY) < 0 &&
		       shimos_state_next(5, SHIMOS_READY) < 0 &&
		       shimos_state_next(1, SHIMOS_EVENTS) < 0,
	       "state: unknown states and unknown events are refused");
}

static struct skep_image good_image(void)
{
	struct skep_image h = {.magic = SKEP_IMAGE_MAGIC,
			       .revision = SKEP_IMAGE_REVISION,
			       .partition = SKEP_PARTITION_REVISION,
			       .entry = 64,
			       .file_size = 100,
			       .memory = 3 * MIB,
			       .core_memory = 65536,
			       .name = "test"};

	return h;
}

static void expect_refused(const char *name, struct skep_image h, u64 length,
			   const char *words)
{
	char data[100] __attribute__((aligned(8))) = {0}, why[SHIMOS_WHY];
	struct shimos_text t;
	int err;

	memcpy(data, &h, sizeof(h));
	shimos_text_begin(&t, why, sizeof(why));
	err = shimos_image_check(data, length, &t);
	if (!tap_ok(err == -LINUX_EINVAL && strstr(why, words), "image: %s",
		    name))
		printf("# %d: %s\n", err, why);
}

#define WRONG(name, field, value, words)                                       \
	do {                                                                   \
		struct skep_image h_ = good_image();                           \
		h_.field = value;                                              \
		expect_refused(name, h_, 100, words);                          \
	} while (0)

static u64 image_memory(const struct skep_image *h, u32 cores, u32 ranges,
			u64 bytes)
{
	const struct shimos_size size = {cores, ranges, bytes};

	return shimos_image_memory(h, &size);
}

static void test_image(void)
{
	struct skep_image h = good_image();
	char data[100] __attribute__((aligned(8))) = {0}, why[SHIMOS_WHY];
	struct shimos_text t;

	memcpy(data, &h, sizeof(h));
	shimos_text_begin(&t, why, sizeof(why));
	tap_ok(!shimos_image_check(data, 100, &t) && !*why,
	       "image: a valid image is accepted");
	expect_refused("shorter than its header", h, 63, "SMS1");
	expect_refused("shorter than its header states", h, 99, "size");
	WRONG("another magic", magic, 1, "SMS1");
	WRONG("another header", revision, 7, "header revision 7");
	WRONG("another partition", partition, 7, "partition revision 7");
	WRONG("a size that is not the header's", file_size, 1ull << 63, "size");
	WRONG("entry in the header", entry, 63, "entry");
	WRONG("entry behind the end", entry, 100, "entry");
	WRONG("a name without an end", name[19], 'x', "name");
	WRONG("more memory than can be mapped", memory, ~0ull, "1 GiB");
	WRONG("more memory per core", core_memory, ~0u, "1 GiB");
	WRONG("an unknown flag", flags, 4, "flag");
	h.core_memory = 600 * MIB;
	memcpy(data, &h, sizeof(h));
	tap_ok(!shimos_image_check(data, 100, &t),
	       "image: accepted if there is memory for one core");
	h.core_memory = 65536;
	tap_ok(image_memory(&h, 2, 1, 0) == 4 * MIB,
	       "image: states how much memory it needs");
	h.memory = 0;
	tap_ok(image_memory(&h, 1, 1, 0) == 2 * MIB,
	       "image: at least the file and the description");
	tap_ok(!image_memory(&h, 257, 1, 0), "image: no more than 256 cores");
	h.core_memory = 8 * MIB;
	tap_ok(image_memory(&h, 127, 1, 0) && !image_memory(&h, 128, 1, 0),
	       "image: at most 1 GiB with all its cores");
	tap_ok(image_memory(NULL, 2, 1, 0) == 8 * MIB &&
		       image_memory(NULL, 2, 1, 2 * TIB) > 128 * MIB,
	       "image: a partition without an image needs memory as well");
	h.core_memory = 0;
	h.memory = h.gib_memory = 1024 * MIB;
	tap_ok(image_memory(&h, 1, 1, 0) == 1024 * MIB,
	       "image: 1 GiB is the largest");
	h.memory = 0;
	h.core_memory = 65536;
	h.gib_memory = 65536;
	tap_ok(image_memory(&h, 1, 1, 2 * TIB) >= 128 * MIB &&
		       image_memory(&h, 1, 1, 2 * TIB) < 136 * MIB &&
		       !image_memory(&h, 1, 1, 16 * TIB),
	       "image: more for each GiB, 1 GiB for itself at most");
	tap_ok(!image_memory(&h, 1, SKEP_PARTITION_RANGES + 1, 0) &&
		       image_memory(&h, 1, SKEP_PARTITION_RANGES, 2 * TIB),
	       "image: no more pieces than a list has");
}

/* The tables of the description, for 2 TiB in as many pieces as can be. */
static void test_layout(void)
{
	const struct shimos_size size = {1, SKEP_PARTITION_RANGES, 2 * TIB};
	const struct shimos_size most = {1, 1, 16 * TIB};
	struct skep_image h = good_image();
	u64 ranges = shimos_image_ranges(&h);
	u64 used = shimos_image_used(&h, size.ranges);

	tap_ok(shimos_image_partition(&h) == 4096 &&
		       ranges >= 4096 + sizeof(struct skep_partition),
	       "image: the description lies on the next page");
	tap_ok(used >= ranges + size.ranges * sizeof(struct
						     skep_partition_range) &&
		       shimos_image_free(&h, &size) >=
			       used + size.bytes / (2 * MIB) / 8,
	       "image: its tables lie behind it and do not meet");
	tap_ok(shimos_image_free(&h, &most) >=
		       shimos_image_used(&h, 1) + most.bytes / (2 * MIB) / 8,
	       "image: a bit for each 2 MiB of 16 TiB");
	tap_ok(used < ranges + 64 +
			       size.ranges *
				       sizeof(struct skep_partition_range),
	       "image: nothing lies between its tables");
	h.file_size = 4097;
	tap_ok(shimos_image_partition(&h) == 8192,
	       "image: one byte above a page takes a page more");
}

static int ranges_overlap(const struct skep_partition_range *a,
			  const struct skep_partition_range *b)
{
	return a->start < b->start + b->length &&
	       b->start < a->start + a->length;
}

static int plan_overlaps(struct shimos_plan *p)
{
	u32 i;

	for (i = 0; i < p->pool.count; i++)
		if (ranges_overlap(&p->pool.at[i], &p->kernel) ||
		    ranges_overlap(&p->pool.at[i], &p->mail))
			return 1;
	return ranges_overlap(&p->kernel, &p->mail);
}

/* Some of three ranges, divided. */
static int make_plan(struct shimos_plan *p, u32 from, u32 count, u64 kernel,
		     u32 node)
{
	static const struct skep_partition_range all[3] = {
		{.start = 64 * MIB, .length = 32 * MIB, .node = 0},
		{.start = 128 * MIB, .length = 6 * MIB, .node = 1},
		{.start = 256 * MIB, .length = 2 * MIB, .node = 1},
	};
	static struct skep_partition_range r[3];

	memcpy(r, all + from, count * sizeof(*r));
	p->pool = (struct shimos_ranges){r, count, 3};
	return shimos_plan_make(p, kernel * MIB, 2 * MIB, node);
}

static void test_plan(void)
{
	struct skep_partition_range rising[2] = {
		{.start = 64 * MIB, .length = 2 * MIB},
		{.start = 128 * MIB, .length = 32 * MIB}};
	struct shimos_plan p;

	tap_ok(!make_plan(&p, 0, 3, 6, 1) && p.kernel.start == 128 * MIB &&
		       p.kernel.node == 1 && p.mail.start == 256 * MIB &&
		       p.pool.count == 1 && p.bytes == 32 * MIB &&
		       !plan_overlaps(&p),
	       "plan: takes the smallest range of the node that is large "
	       "enough");
	tap_ok(!make_plan(&p, 0, 3, 8, 1) && p.kernel.start == 64 * MIB &&
		       p.mail.node == 1 && p.pool.count == 2 &&
		       p.pool.at[1].offset == 24 * MIB && !plan_overlaps(&p),
	       "plan: another node where this one has no range of that size");
	tap_ok(!make_plan(&p, 1, 2, 2, 1) && p.kernel.start == 256 * MIB &&
		       p.mail.start == 128 * MIB,
	       "plan: the smallest range is the last one");
	p.pool = (struct shimos_ranges){rising, 2, 2};
	tap_ok(!shimos_plan_make(&p, 2 * MIB, 2 * MIB, 0) &&
		       p.kernel.start == 64 * MIB && p.mail.start == 128 * MIB,
	       "plan: the smallest range is the first one");
	tap_ok(make_plan(&p, 0, 3, 34, 0) == -LINUX_ENOMEM,
	       "plan: too scattered");
	tap_ok(make_plan(&p, 2, 1, 2, 0) == -LINUX_ENOMEM &&
		       make_plan(&p, 1, 1, 4, 0) == -LINUX_ENOMEM,
	       "plan: refuses memory without space for the mail or the "
	       "program");
	tap_ok(shimos_plan_mail(1) == 2 * MIB &&
		       shimos_plan_mail(7) == 2 * MIB &&
		       shimos_plan_mail(8) == 4 * MIB &&
		       shimos_plan_mail(256) == 66 * MIB,
	       "plan: mail grows with the cores");
}

/* What the processor would find: physical address, 0 where nothing is. */
static u64 walk_tables(struct shimos_tables *t, u64 address)
{
	u64 *table = t->at[0], e;
	u32 shift;

	for (shift = 39;; shift -= 9) {
		e = table[address >> shift & 511];
		if ((e & 0xf7f) != 3) /* present and writable, no more */
			return 0;
		if (shift == 12 || (shift == 21 && e & 0x80))
			return (e & ~0xfffull) + (address & 0xfff) +
			       (shift == 21 ? address & 0x1ff000 : 0);
		table = t->at[((e & ~0xfffull) - t->start) / 4096];
	}
}

static void test_tables(void)
{
	void *at = aligned_alloc(4096, 11 * 4096);
	struct shimos_tables t;
	u64 i;
	int err = 0;

	memset(at, 0, 11 * 4096);
	shimos_tables_begin(&t, at, 0x7f000000, 11);
	err |= shimos_tables_map(&t, 0x97000, 0x97000, 0);
	for (i = 0; i < 16; i++)
		err |= shimos_tables_map(&t, 0x7eff0000 + i * 4096,
					 0x7eff0000 + i * 4096, 0);
	for (i = 0; i < 512; i++)
		err |= shimos_tables_map(&t, SKEP_PARTITION_BASE + i * 2 * MIB,
					 0x140000000ull + i * 2 * MIB, 1);
	tap_ok(!err && t.used == 8, "tables: what a core starts on fits");
	tap_ok(walk_tables(&t, 0x97123) == 0x97123 &&
		       !walk_tables(&t, 0x98000) && !walk_tables(&t, 0x96fff),
	       "tables: one page below 1 MiB");
	tap_ok(walk_tables(&t, 0x7eff0000) == 0x7eff0000 &&
		       walk_tables(&t, 0x7effffff) == 0x7effffff &&
		       !walk_tables(&t, 0x7f000000),
	       "tables: the stage across no more than its pages");
	tap_ok(walk_tables(&t, SKEP_PARTITION_BASE) == 0x140000000ull &&
		       walk_tables(&t, ~0ull - (1ull << 30)) == 0x17fffffffull,
	       "tables: the kernel region");
	for (i = 0; !err; i++)
		err = shimos_tables_map(&t, (i + 4) << 39, 0, 0);
	tap_ok(err == -LINUX_ENOSPC && t.used == 11, "tables: an end");
	free(at);
}

int main(void)
{
	test_text();
	test_apic();
	test_state();
	test_image();
	test_layout();
	test_plan();
	test_tables();
	return tap_done();
}
