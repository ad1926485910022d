// SPDX-License-Identifier: MIT
/*
 * The image that puts a Linux kernel where it can run and enters it, on the
 * first core of a partition. The other cores wait; the kernel starts them.
 *
 * The mailbox is hostile: what the command wrote is copied once and checked.
 * What the command asks for that can't be done is refused there in words, and
 * the core halts: nothing else was changed then but the pool.
 */
#include <skep/linux.h>
#include <skep/partition.h>

#include "base/errno.h"
#include "shimos/core/tables.h"
#include "shimos/linux/acpi.h"
#include "shimos/linux/bytes.h"
#include "shimos/linux/params.h"
#include "shimos/linux/place.h"

#define LARGE 0x200000ull
#define LOW_4G 0x100000000ull
#define TABLES 64

_Static_assert(SHIMOS_PARAMS_RANGES <= SKEP_LINUX_RANGES,
	       "the mailbox names fewer ranges than a kernel takes");

void shimos_boot_main(struct skep_partition *p);
void shimos_boot_map(u64 tables);
void shimos_boot_jump(u64 entry, u64 params, u64 descriptors);

/* Pages, so that each is found by its own physical address. */
static u64 tables[TABLES][512] __attribute__((aligned(4096)));
static u8 params[SHIMOS_PARAMS_BYTES] __attribute__((aligned(4096)));
static u8 acpi[(SHIMOS_ACPI_BYTES + 4095) & ~4095]
	__attribute__((aligned(4096)));
static char command[4096] __attribute__((aligned(4096)));
static struct shimos_bzimage kernel_file;

/* Selector 8 is what the module's interrupt table refers to, 0x10 and 0x18 are
 * what a kernel expects. */
static struct {
	u64 at[4];
	u16 zero[3], limit;
	u64 base;
} descriptors __attribute__((aligned(16))) = {
	.at = {0, 0x00209b0000000000, 0x00af9b000000ffff, 0x00cf93000000ffff},
	.limit = 4 * 8 - 1};

/* What the command asks for, copied once. */
struct request {
	struct shimos_place_file kernel, initrd;
	char command[SKEP_LINUX_COMMAND];
};

static u64 physical_of(const struct skep_partition *p, const void *at)
{
	return p->kernel_start + ((u64)at - SKEP_PARTITION_BASE);
}

static void *pointer_to(u64 physical)
{
	return (void *)physical;
}

static int map_area(struct shimos_tables *t, u64 start, u64 length)
{
	u64 at = start & ~(LARGE - 1);
	int err = 0;

	for (; at < start + length && !err; at += LARGE)
		if (at >= LOW_4G)
			err = shimos_tables_map(t, at, at, 1);
	return err;
}

/* All below 4 GiB as it is, and this image where it runs. */
static int map_memory(struct shimos_tables *t, struct skep_partition *p)
{
	u64 at;
	int err = 0;

	shimos_tables_begin(t, tables, physical_of(p, tables), TABLES);
	for (at = 0; at < LOW_4G && !err; at += LARGE)
		err = shimos_tables_map(t, at, at, 1);
	for (at = 0; at < p->kernel_size && !err; at += LARGE)
		err = shimos_tables_map(t, SKEP_PARTITION_BASE + at,
					p->kernel_start + at, 1);
	if (!err)
		err = map_area(t, p->kernel_start, p->kernel_size);
	return err ? err : map_area(t, p->mail_start, p->mail_size);
}

static int map_file(struct shimos_tables *t, const struct shimos_ranges *pool,
		    const struct shimos_place_file *f)
{
	u64 done, left, at;
	int err = 0;

	for (done = 0; done < f->length && !err; done += left) {
		at = shimos_ranges_place(pool, f->offset + done, &left);
		if (left > f->length - done)
			left = f->length - done;
		err = map_area(t, at, left);
	}
	return err;
}

static void copy_file(u64 to, const struct shimos_ranges *pool, u64 offset,
		      u64 length)
{
	u64 done, left, at;

	for (done = 0; done < length; done += left) {
		at = shimos_ranges_place(pool, offset + done, &left);
		if (left > length - done)
			left = length - done;
		__builtin_memcpy(pointer_to(to + done), pointer_to(at), left);
	}
}

static int read_request(const struct skep_linux *mail, struct request *r,
			struct shimos_text *why)
{
	const volatile struct skep_linux *m = mail;
	u32 i;

	if (m->magic != SKEP_LINUX_MAGIC ||
	    m->revision != SKEP_LINUX_REVISION) {
		shimos_text_add(why, "the command is of another version than "
				     "its boot image: use those of one build");
		return -LINUX_EINVAL;
	}
	r->kernel.offset = m->kernel;
	r->kernel.length = m->kernel_length;
	r->initrd.offset = m->initrd;
	r->initrd.length = m->initrd_length;
	for (i = 0; i < sizeof(r->command); i++)
		r->command[i] = m->command[i];
	return 0;
}

/* Everything that the kernel finds, but for its own code. */
static int write_tables(struct skep_partition *p, const struct request *r,
			const struct shimos_ranges *pool, u64 initrd,
			struct shimos_text *why)
{
	struct shimos_params a = {.command = physical_of(p, command),
				  .initrd = initrd,
				  .initrd_length = r->initrd.length,
				  .low = p->low_start,
				  .low_length = p->low_size,
				  .acpi = physical_of(p, acpi),
				  .acpi_length = sizeof(acpi)};
	u32 most = kernel_file.command_max;
	int err;

	if (most >= sizeof(command))
		most = sizeof(command) - 1;
	err = shimos_params_command(command, most + 1, r->command,
				    sizeof(r->command), p->tsc_khz,
				    p->mail_start, why);
	if (err)
		return err;
	shimos_acpi_write(acpi, a.acpi, p->core, p->cores, p->doorbell_apic_id,
			  p->apic_base);
	return shimos_params_write(params, &kernel_file, &a, pool, why);
}

/* For the command, which finds the kernel's memory by physical addresses. */
static void write_ranges(struct skep_linux *mail,
			 const struct shimos_ranges *pool)
{
	u32 i;

	for (i = 0; i < pool->count; i++)
		mail->range[i] =
			(struct skep_linux_range){.start = pool->at[i].start,
						  .length = pool->at[i].length,
						  .offset = pool->at[i].offset};
	mail->ranges = pool->count;
}

/* 0, or -errno with the reason in `why`. */
static int prepare_kernel(struct skep_partition *p, struct skep_linux *mail,
			  struct shimos_tables *t, struct shimos_text *why,
			  u64 *entry)
{
	static struct request r;
	struct shimos_ranges pool = {.at = skep_partition_ranges(p),
				     .count = p->ranges};
	struct shimos_place place;
	u64 left;
	int err = read_request(mail, &r, why);

	if (!err)
		err = shimos_place_check(&pool, &r.kernel, why);
	if (!err)
		err = shimos_place_check(&pool, &r.initrd, why);
	if (err)
		return err;
	err = map_file(t, &pool, &r.kernel);
	if (!err)
		err = map_file(t, &pool, &r.initrd);
	if (err)
		goto full;
	err = shimos_bzimage_read(
		pointer_to(shimos_ranges_place(&pool, r.kernel.offset, &left)),
		r.kernel.length, &kernel_file, why);
	if (!err)
		err = shimos_place_make(&pool, &kernel_file, &r.kernel,
					&r.initrd, &place, why);
	if (!err)
		err = write_tables(p, &r, &pool, place.initrd, why);
	if (err)
		return err;
	err = map_area(t, place.kernel, kernel_file.room);
	if (!err)
		err = map_area(t, place.initrd, r.initrd.length);
	if (err)
		goto full;
	copy_file(place.kernel, &pool, r.kernel.offset + kernel_file.code,
		  kernel_file.code_length);
	if (place.move)
		copy_file(place.initrd, &pool, r.initrd.offset,
			  r.initrd.length);
	write_ranges(mail, &pool);
	*entry = place.kernel + 0x200;
	return 0;
full:
	shimos_text_add(why, "the files lie in too many pieces of memory: "
			     "create the partition again");
	return err;
}

void shimos_boot_main(struct skep_partition *p)
{
	struct skep_linux *mail = pointer_to(p->mail_start + SKEP_LINUX_MAIL);
	struct shimos_tables t;
	struct shimos_text why;
	u64 entry = 0;
	int err = map_memory(&t, p);

	if (err)
		return; /* TABLES is enough for what a partition has */
	shimos_boot_map(physical_of(p, tables));
	shimos_text_begin(&why, mail->why, sizeof(mail->why));
	err = prepare_kernel(p, mail, &t, &why, &entry);
	if (err) {
		__atomic_store_n(&mail->state, SKEP_LINUX_REFUSED,
				 __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&mail->state, SKEP_LINUX_BOOTING, __ATOMIC_RELEASE);
	descriptors.base = physical_of(p, descriptors.at);
	shimos_boot_jump(entry, physical_of(p, params),
			 physical_of(p, &descriptors.limit));
}
