// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's symbol table. kallsyms_lookup_name() is not exported: a kprobe
 * that is set on it and removed again gives its address. It finds these
 * symbols, which are not exported either:
 *
 *   kallsyms_lookup_size_offset    the size of a function
 *   kallsyms_on_each_match_symbol  which of several functions of one name
 *   ftrace_location                where ftrace may call in a function
 *   ftrace_find_rec_direct,
 *   direct_mutex                   whose trampoline a function calls
 *   klp_mutex, klp_patches         whose livepatch a function has
 *   stack_trace_save_tsk           the stack of a task that blocks a transition
 *   stack_trace_save_tsk_reliable,
 *   task_call_func                 the stack of a task that does not run
 *   __start_notes, __stop_notes    the running kernel's build-id
 *
 * They are only read or called, never written.
 *
 * Context: process.
 */
#include <linux/elf.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/string.h>

#include "jump.h"
#include "symbol.h"

#define BUILD_ID 20 /* bytes */

static void *lookup_name, *lookup_size, *on_each_match, *location;
static char build_id[2 * BUILD_ID + 1];

/* Depending on the kernel, the probe's address is that of the function or of
 * the instruction after its ENDBR; the symbol table has the start. */
static int find_lookup(void)
{
	struct kprobe probe = {.symbol_name = "kallsyms_lookup_name"};
	unsigned long start;
	int err = register_kprobe(&probe);

	if (err) {
		pr_err("kallsyms_lookup_name cannot be found (%d): is "
		       "kprobes off?\n",
		       err);
		return err;
	}
	start = (unsigned long)probe.addr & ~15ul;
	unregister_kprobe(&probe);
	lookup_name = (void *)start;
	if (dynamos_symbol_find("kallsyms_lookup_name") == start)
		return 0;
	pr_err("a probe of kallsyms_lookup_name is not at its address\n");
	return -ENOENT;
}

unsigned long dynamos_symbol_find(const char *name)
{
	return dynamos_jump((unsigned long)name, 0, 0, 0, 0, lookup_name);
}

static int resolve_symbol(void **to, const char *name)
{
	*to = (void *)dynamos_symbol_find(name);
	if (*to)
		return 0;
	pr_err("this kernel has no %s\n", name);
	return -ENOENT;
}

/* Reads the notes of the kernel's image, one after another. */
static int read_build_id(void)
{
	const u8 *at = (const u8 *)dynamos_symbol_find("__start_notes");
	const u8 *end = (const u8 *)dynamos_symbol_find("__stop_notes");
	const struct elf64_note *note;
	size_t name, desc;

	while (at && at + sizeof(*note) <= end) {
		note = (const struct elf64_note *)at;
		name = ALIGN((size_t)note->n_namesz, 4);
		desc = ALIGN((size_t)note->n_descsz, 4);
		at += sizeof(*note);
		if (name + desc > (size_t)(end - at))
			break;
		if (note->n_type == 3 && note->n_namesz == 4 &&
		    !memcmp(at, "GNU", 4) && note->n_descsz == BUILD_ID) {
			bin2hex(build_id, at + name, BUILD_ID);
			return 0;
		}
		at += name + desc;
	}
	pr_err("this kernel has no build-id\n");
	return -ENOENT;
}

int dynamos_symbol_init(void)
{
	int err = find_lookup();

	if (!err)
		err = resolve_symbol(&lookup_size,
				     "kallsyms_lookup_size_offset");
	if (!err)
		err = resolve_symbol(&on_each_match,
				     "kallsyms_on_each_match_symbol");
	if (!err)
		err = resolve_symbol(&location, "ftrace_location");
	return err ?: read_build_id();
}

int dynamos_symbol_size(unsigned long address, unsigned long *size)
{
	unsigned long offset = 0;

	if (!dynamos_jump(address, (unsigned long)size, (unsigned long)&offset,
			  0, 0, lookup_size) ||
	    offset)
		return -ENOENT;
	return 0;
}

struct match {
	u64 wanted, seen;
	unsigned long address;
};

static int match_symbol(void *data, unsigned long address)
{
	struct match *m = data;

	m->seen++;
	if (!m->wanted || m->seen == m->wanted)
		m->address = address;
	return 0;
}

int dynamos_symbol_function(const char *name, u64 sympos,
			    unsigned long *address)
{
	struct match m = {.wanted = sympos};

	dynamos_jump((unsigned long)match_symbol, (unsigned long)name,
		     (unsigned long)&m, 0, 0, on_each_match);
	if (!m.address)
		return -ENOENT;
	if (!sympos && m.seen > 1)
		return -ENOTUNIQ;
	*address = m.address;
	return 0;
}

unsigned long dynamos_symbol_place(unsigned long address, unsigned long size)
{
	unsigned long place = dynamos_jump(address, 0, 0, 0, 0, location);

	return place - address < size ? place : 0;
}

bool dynamos_symbol_kernel(const char *id)
{
	return !strcmp(id, build_id);
}

const char *dynamos_symbol_build_id(void)
{
	return build_id;
}
