// SPDX-License-Identifier: MIT
/*
 * A plugin for QEMU that counts what each processor of a guest executes
 * between marks (include/skep/mark.h): exactly, and whatever the load of the
 * computer is. What counts as one instruction is said in tally.h.
 *
 *	-plugin file=skep-count.so,out=PATH[,range=NAME:LOW:HIGH][,at=ADDRESS]
 *
 * Up to 16 ranges, which may overlap (HIGH is the first address after), and
 * up to 32 addresses. Numbers are hexadecimal, without 0x.
 *
 * PATH is replaced as a whole after each end mark and when QEMU ends. It has
 * one figure a line, numbers decimal unless they are addresses:
 *
 *	skep-count 1
 *	VCPU lost N			marks that did not fit: begun twice,
 *					or ended without a begin
 *	VCPU INTERVAL times N		how often it ended
 *	VCPU INTERVAL open N		1 if it has begun again and not ended;
 *					its figures do not hold that part
 *	VCPU INTERVAL user N		instructions at lower-half addresses
 *	VCPU INTERVAL kernel N		instructions at upper-half addresses
 *	VCPU INTERVAL restarts N
 *	VCPU INTERVAL entries N		passages from user to kernel
 *	VCPU INTERVAL entry:ADDRESS N	those that reached this address first
 *	VCPU INTERVAL entry:other N	those beyond the first 64 addresses
 *	VCPU INTERVAL range:NAME N	instructions in a range
 *	VCPU INTERVAL restarts:NAME N	those of the restarts in it
 *	VCPU INTERVAL at:ADDRESS N	executions of that address
 *	end
 *
 * A processor has a lost line if it met a mark; an interval appears if it
 * ended or is open; an entry address if it is not zero.
 *
 * Each processor is a thread of QEMU with a tally of its own. `lock` guards
 * the kinds while instructions are translated, the parts of tallies that
 * others read, and the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <skep/assert.h>
#include "qemu.h"
#include "tally.h"

#define KINDS 4096 /* more than ranges, points and marks can combine to */
#define BYTES_MAX 15

struct range {
	const char *name;
	uint64_t low, high;
};

static struct {
	const char *path;
	char *path_new;
	struct range ranges[TALLY_RANGES];
	unsigned int range_count;
	uint64_t points[TALLY_POINTS];
	unsigned int point_count;
	struct tally_kind kinds[KINDS];
	unsigned int kind_count;
	struct tally **tallies; /* by processor; NULL before its first mark */
	unsigned int tally_count;
	pthread_mutex_t lock;
} count = {.lock = PTHREAD_MUTEX_INITIALIZER};

int qemu_plugin_version = COUNT_PLUGIN_API;

/* The file --------------------------------------------------------------- */

static void write_interval(FILE *f, unsigned int vcpu, const struct tally *t,
			   unsigned int n)
{
	const struct tally_sum *s = &t->sum[n];
	unsigned int i;

	fprintf(f, "%u %u times %" PRIu64 "\n", vcpu, n, t->times[n]);
	fprintf(f, "%u %u open %d\n", vcpu, n, t->open >> n & 1);
	fprintf(f, "%u %u user %" PRIu64 "\n", vcpu, n, s->user);
	fprintf(f, "%u %u kernel %" PRIu64 "\n", vcpu, n, s->kernel);
	fprintf(f, "%u %u restarts %" PRIu64 "\n", vcpu, n, s->restarts);
	fprintf(f, "%u %u entries %" PRIu64 "\n", vcpu, n, s->entries);
	for (i = 0; i < t->entry_count; i++)
		if (s->entry[i])
			fprintf(f, "%u %u entry:%" PRIx64 " %" PRIu64 "\n",
				vcpu, n, t->entry_address[i], s->entry[i]);
	fprintf(f, "%u %u entry:other %" PRIu64 "\n", vcpu, n,
		s->entries_other);
	for (i = 0; i < count.range_count; i++) {
		fprintf(f, "%u %u range:%s %" PRIu64 "\n", vcpu, n,
			count.ranges[i].name, s->range[i]);
		fprintf(f, "%u %u restarts:%s %" PRIu64 "\n", vcpu, n,
			count.ranges[i].name, s->range_restarts[i]);
	}
	for (i = 0; i < count.point_count; i++)
		fprintf(f, "%u %u at:%" PRIx64 " %" PRIu64 "\n", vcpu, n,
			count.points[i], s->point[i]);
}

static void write_tally(FILE *f, unsigned int vcpu, const struct tally *t)
{
	fprintf(f, "%u lost %" PRIu64 "\n", vcpu, t->lost);
	for (unsigned int n = 0; n < TALLY_INTERVALS; n++)
		if (t->times[n] || t->open >> n & 1)
			write_interval(f, vcpu, t, n);
}

static int write_new(void)
{
	FILE *f = fopen(count.path_new, "we");
	int bad;

	if (!f)
		return -1;
	fputs("skep-count 1\n", f);
	for (unsigned int i = 0; i < count.tally_count; i++)
		if (count.tallies[i])
			write_tally(f, i, count.tallies[i]);
	fputs("end\n", f);
	bad = ferror(f);
	return fclose(f) || bad ? -1 : 0;
}

/* The lock is held. Old figures are removed if new ones cannot be written. */
static void write_file(void)
{
	skep_assert(pthread_mutex_trylock(&count.lock));
	if (!write_new() && !rename(count.path_new, count.path))
		return;
	fprintf(stderr, "skep-count: cannot write %s: %s\n", count.path,
		strerror(errno));
	remove(count.path_new);
	remove(count.path);
}

static void at_exit(uint64_t id, void *userdata)
{
	(void)id;
	(void)userdata;
	pthread_mutex_lock(&count.lock);
	write_file();
	pthread_mutex_unlock(&count.lock);
}

/* Execution -------------------------------------------------------------- */

/*
 * What an instruction's callback is given: its address, of which 48 bits are
 * kept and sign-extended, MARK if it is one, and the index of its kind.
 */
#define MARK 0x8000

static void *pack_address(uint64_t address, unsigned int index)
{
	bool mark = count.kinds[index].mark;

	return (void *)(uintptr_t)(address << 16 | (mark ? MARK : 0) | index);
}

/* A processor's tally, made at its first mark. */
static struct tally *make_tally(unsigned int vcpu)
{
	size_t size = (sizeof(struct tally) + 63) & ~(size_t)63;
	struct tally *t = aligned_alloc(64, size);

	if (!t) {
		fputs("skep-count: out of memory\n", stderr);
		abort();
	}
	memset(t, 0, size);
	pthread_mutex_lock(&count.lock);
	count.tallies[vcpu] = t;
	pthread_mutex_unlock(&count.lock);
	return t;
}

static void step_tally(struct tally *t, uintptr_t packed)
{
	uint64_t address = (uint64_t)((int64_t)packed >> 16);
	const struct tally_kind *kind = &count.kinds[packed & (MARK - 1)];

	if (count_tally_quiet(t, address, kind)) {
		count_tally_step(t, address, kind);
		return;
	}
	pthread_mutex_lock(&count.lock);
	count_tally_step(t, address, kind);
	if (kind->end)
		write_file();
	pthread_mutex_unlock(&count.lock);
}

/* Before each instruction of the guest; most are outside of all intervals. */
static void execute_instruction(unsigned int vcpu, void *userdata)
{
	uintptr_t packed = (uintptr_t)userdata;
	struct tally *t;

	if (vcpu >= count.tally_count)
		return;
	t = count.tallies[vcpu];
	if (!(packed & MARK) && (!t || !t->open))
		return;
	step_tally(t ? t : make_tally(vcpu), packed);
}

/* Translation ------------------------------------------------------------ */

static size_t read_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes)
{
	size_t size = qemu_plugin_insn_size(insn);

	if (size > BYTES_MAX)
		size = BYTES_MAX;
#if COUNT_PLUGIN_API >= 3
	return qemu_plugin_insn_data(insn, bytes, size);
#else
	memcpy(bytes, qemu_plugin_insn_data(insn), size);
	return size;
#endif
}

static struct tally_kind classify_instruction(uint64_t address,
					      const uint8_t *bytes, size_t size)
{
	struct tally_kind kind;

	memset(&kind, 0, sizeof(kind)); /* kinds are compared with memcmp */
	kind.point = -1;
	count_tally_read_mark(&kind, bytes, size);
	kind.self_branch = count_tally_self_branch(bytes, size);
	for (unsigned int i = 0; i < count.range_count; i++)
		if (address >= count.ranges[i].low &&
		    address < count.ranges[i].high)
			kind.ranges |= 1U << i;
	for (unsigned int i = 0; i < count.point_count; i++)
		if (address == count.points[i])
			kind.point = i;
	return kind;
}

/* The index of a kind. Kinds are never removed: code that runs holds them. */
static unsigned int intern_kind(const struct tally_kind *kind)
{
	unsigned int i;

	pthread_mutex_lock(&count.lock);
	for (i = 0; i < count.kind_count; i++)
		if (!memcmp(&count.kinds[i], kind, sizeof(*kind)))
			break;
	if (i == KINDS) {
		fputs("skep-count: more kinds of instructions than the "
		      "arguments allow for\n",
		      stderr);
		abort();
	}
	if (i == count.kind_count)
		count.kinds[count.kind_count++] = *kind;
	pthread_mutex_unlock(&count.lock);
	return i;
}

static void translate_block(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		uint8_t bytes[BYTES_MAX];
		size_t size = read_bytes(insn, bytes);
		struct tally_kind kind =
			classify_instruction(address, bytes, size);

		qemu_plugin_register_vcpu_insn_exec_cb(
			insn, execute_instruction, QEMU_PLUGIN_CB_NO_REGS,
			pack_address(address, intern_kind(&kind)));
	}
}

/* Arguments -------------------------------------------------------------- */

/* A hexadecimal number that ends at `stop`; where it ends, or NULL. */
static const char *read_number(const char *text, char stop, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789abcdef");

	if (!digits || digits > 16 || text[digits] != stop)
		return NULL;
	*value = strtoull(text, NULL, 16);
	return text + digits;
}

static bool add_range(char *text)
{
	struct range *r = &count.ranges[count.range_count];
	char *colon = strchr(text, ':');
	const char *end;

	if (count.range_count == TALLY_RANGES || !colon || colon == text)
		return false;
	end = read_number(colon + 1, ':', &r->low);
	if (!end || !read_number(end + 1, '\0', &r->high) || r->low >= r->high)
		return false;
	*colon = '\0';
	r->name = text;
	count.range_count++;
	return true;
}

static bool add_point(char *text)
{
	if (count.point_count == TALLY_POINTS ||
	    !read_number(text, '\0', &count.points[count.point_count]))
		return false;
	count.point_count++;
	return true;
}

static bool set_path(const char *text)
{
	if (!*text || count.path)
		return false;
	count.path = text;
	return asprintf(&count.path_new, "%s.new", text) > 0;
}

static bool read_argument(char *arg)
{
	if (!strncmp(arg, "out=", 4))
		return set_path(arg + 4);
	if (!strncmp(arg, "range=", 6))
		return add_range(arg + 6);
	if (!strncmp(arg, "at=", 3))
		return add_point(arg + 3);
	return false;
}

static int refuse_option(const char *what, const char *which)
{
	fprintf(stderr, "skep-count: %s%s\n", what, which);
	return -1;
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc,
			char **argv)
{
	if (!info->system_emulation || strcmp(info->target_name, "x86_64"))
		return refuse_option(
			"counts in qemu-system-x86_64 alone, not for ",
			info->target_name);
	for (int i = 0; i < argc; i++)
		if (!read_argument(argv[i]))
			return refuse_option("cannot take the argument ",
					     argv[i]);
	if (!count.path)
		return refuse_option("say where to write: out=PATH", "");
	count.tally_count = info->system.max_vcpus;
	count.tallies = calloc(count.tally_count, sizeof(*count.tallies));
	if (!count.tallies)
		return refuse_option("out of memory", "");
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate_block);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
