// SPDX-License-Identifier: MIT
#include "request.h"
#include "base/errno.h"
#include "map.h"

#define CPUS (SHIMOS_CPU_WORDS * 64)

static void add_text(struct shimos_text *why, const char *s)
{
	shimos_text_add(why, s);
}

u32 shimos_request_cores(const struct shimos_create *r)
{
	u32 i, n = 0;

	for (i = 0; i < CPUS; i++)
		n += shimos_map_has(r->cpus, i);
	return n;
}

/* Appends to the message what may be requested, if anything. */
static int describe_choice(const struct shimos_machine *m,
			   const struct shimos_allow *allow,
			   struct shimos_text *why)
{
	u64 map[SHIMOS_CPU_WORDS];
	u32 i, any = 0;

	for (i = 0; i < SHIMOS_CPU_WORDS; i++) {
		map[i] = m->online[i] & ~m->lent[i];
		if (!i)
			map[i] &= ~1ull;
		if (!m->root)
			map[i] &= allow->cpus[i];
		any |= map[i] != 0;
	}
	if (!any) {
		add_text(why, "; no CPU can be lent now");
		return -LINUX_EBUSY;
	}
	add_text(why, "; these can be lent: ");
	shimos_text_cpus(why, map, SHIMOS_CPU_WORDS);
	return -LINUX_EINVAL;
}

static int refuse_cpu(u32 cpu, const char *what, const struct shimos_machine *m,
		      const struct shimos_allow *allow, struct shimos_text *why)
{
	add_text(why, "CPU ");
	shimos_text_number(why, cpu);
	add_text(why, what);
	return describe_choice(m, allow, why);
}

static int check_cpu(u32 cpu, const struct shimos_allow *allow,
		     const struct shimos_machine *m, struct shimos_text *why)
{
	const char *what = (void *)0;

	if (!cpu)
		what = " stays with Linux";
	else if (cpu >= m->cpus || !shimos_map_has(m->present, cpu))
		what = " is not in this machine";
	else if (shimos_map_has(m->lent, cpu))
		what = " belongs to another partition";
	else if (!shimos_map_has(m->online, cpu))
		what = " is offline";
	else if (!m->root && !shimos_map_has(allow->cpus, cpu))
		what = " is not in the allowance";
	return what ? refuse_cpu(cpu, what, m, allow, why) : 0;
}

/* A hyperthread that remains with Linux would disturb the lent core and could
 * spy on it. */
static int check_halves(const struct shimos_create *r,
			const struct shimos_machine *m, struct shimos_text *why)
{
	/* indexed by the first CPU of the core */
	u64 asked[SHIMOS_CPU_WORDS] = {0};
	u32 cpu;

	for (cpu = 0; cpu < m->cpus; cpu++)
		if (shimos_map_has(r->cpus, cpu))
			shimos_map_set(asked, m->core[cpu]);
	for (cpu = 0; cpu < m->cpus; cpu++) {
		if (shimos_map_has(r->cpus, cpu) ||
		    !shimos_map_has(m->online, cpu) ||
		    !shimos_map_has(asked, m->core[cpu]))
			continue;
		add_text(why, "CPU ");
		shimos_text_number(why, cpu);
		add_text(why, " is the hyperthread sibling of a requested CPU: "
			      "request both, or allow split cores (--split)");
		return -LINUX_EINVAL;
	}
	return 0;
}

static int check_cpus(const struct shimos_create *r,
		      const struct shimos_allow *allow,
		      const struct shimos_machine *m, struct shimos_text *why)
{
	u32 cpu, n = shimos_request_cores(r);
	int err;

	if (!n) {
		add_text(why, "no CPU was requested");
		return describe_choice(m, allow, why);
	}
	if (n > SKEP_PARTITION_CORES) {
		add_text(why, "a partition has at most 256 CPUs");
		return -LINUX_EINVAL;
	}
	for (cpu = 0; cpu < CPUS; cpu++) {
		if (!shimos_map_has(r->cpus, cpu))
			continue;
		err = check_cpu(cpu, allow, m, why);
		if (err)
			return err;
	}
	return r->flags & SHIMOS_SPLIT ? 0 : check_halves(r, m, why);
}

static int too_much(u32 node, u64 bytes, const char *what,
		    struct shimos_text *why)
{
	add_text(why, "node ");
	shimos_text_number(why, node);
	add_text(why, what);
	shimos_text_bytes(why, bytes & ~(SKEP_PARTITION_ALIGN - 1ull));
	add_text(why, ": request less there");
	return -LINUX_ENOMEM;
}

static int check_node(const struct shimos_create *r, u32 node,
		      const struct shimos_allow *allow,
		      const struct shimos_machine *m, struct shimos_text *why)
{
	u64 bytes = r->bytes[node], left;

	if (!bytes)
		return 0;
	if (!(m->nodes >> node & 1)) {
		add_text(why, "node ");
		shimos_text_number(why, node);
		add_text(why,
			 " has no memory; 'numactl --hardware' lists those "
			 "that have");
		return -LINUX_EINVAL;
	}
	if (bytes % SKEP_PARTITION_ALIGN) {
		add_text(why,
			 "memory is lent in multiples of 2 MiB on each node");
		return -LINUX_EINVAL;
	}
	left = 0;
	if (allow->bytes[node] > m->used[node])
		left = allow->bytes[node] - m->used[node];
	if (!m->root && bytes > left)
		return too_much(node, left, " has an allowance of another ",
				why);
	if (bytes > m->spare[node])
		return too_much(node, m->spare[node], " could spare about ",
				why);
	return 0;
}

static int check_kind(enum shimos_machine_kind kind, struct shimos_text *why)
{
	static const char *const text[] = {
		[SHIMOS_XEN] = "this Linux runs on Xen, which starts and stops "
			       "CPUs itself: use bare metal or KVM",
		[SHIMOS_CONFIDENTIAL] =
			"this is a confidential guest (SEV or TDX), whose CPUs "
			"start only where its firmware says: use another "
			"machine",
		[SHIMOS_ENCRYPTED] =
			"Linux encrypts this machine's memory (SME): boot with "
			"mem_encrypt=off",
		[SHIMOS_NO_TSC] =
			"Linux's clock source is not the TSC, so a lent core "
			"would have no clock: see clocksource in /sys",
	};

	if (kind == SHIMOS_PLAIN)
		return 0;
	add_text(why, text[kind]);
	return -LINUX_EOPNOTSUPP;
}

static int check_revision(u32 revision, struct shimos_text *why)
{
	if (revision == SHIMOS_REVISION)
		return 0;
	add_text(why, "the program speaks revision ");
	shimos_text_number(why, revision);
	add_text(why, " and the module ");
	shimos_text_number(why, SHIMOS_REVISION);
	add_text(why, ": use both from one build of skep");
	return -LINUX_EINVAL;
}

static int check_name(const char *name, struct shimos_text *why)
{
	u32 i;

	for (i = 0; i < SHIMOS_NAME && name[i]; i++)
		if (name[i] <= ' ' || name[i] > '~' || name[i] == '/')
			break;
	if (i < SHIMOS_NAME && !name[i])
		return 0;
	add_text(why,
		 "a partition's name has at most 31 printable characters, no "
		 "blank and no slash");
	return -LINUX_EINVAL;
}

int shimos_request_check(const struct shimos_create *r,
			 const struct shimos_allow *allow,
			 const struct shimos_machine *m,
			 struct shimos_text *why)
{
	u32 node;
	int err = check_revision(r->revision, why);

	if (!err)
		err = check_kind(m->kind, why);
	if (!err && (r->flags & ~(SHIMOS_SPLIT | SHIMOS_FILE) || r->zero)) {
		add_text(why, "a flag is set that this module does not know");
		err = -LINUX_EINVAL;
	}
	if (!err)
		err = check_name(r->name, why);
	if (!err && !m->root && !m->member) {
		add_text(why,
			 "you have no allowance: root gives one with 'skep "
			 "part allow'");
		err = -LINUX_EPERM;
	}
	if (!err)
		err = check_cpus(r, allow, m, why);
	for (node = 0; !err && node < SHIMOS_NODES; node++)
		err = check_node(r, node, allow, m, why);
	return err;
}

int shimos_request_memory(const struct shimos_create *r, u64 needed,
			  struct shimos_text *why)
{
	u64 sum = 0;
	u32 node;

	for (node = 0; node < SHIMOS_NODES; node++)
		sum += r->bytes[node];
	if (sum >= needed + SKEP_PARTITION_ALIGN)
		return 0;
	add_text(why, "a partition of these CPUs needs ");
	shimos_text_bytes(why, needed);
	add_text(why,
		 " for itself and some for the program: request more than ");
	shimos_text_bytes(why, needed);
	return -LINUX_EINVAL;
}

int shimos_allow_check(const struct shimos_allow *allow,
		       struct shimos_text *why)
{
	int err = check_revision(allow->revision, why);

	if (!err && allow->cpus[0] & 1) {
		add_text(why, "CPU 0 stays with Linux: leave it out");
		err = -LINUX_EINVAL;
	}
	return err;
}
