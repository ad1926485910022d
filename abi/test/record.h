/* SPDX-License-Identifier: MIT */
/* Makes the file that execve writes, for tests of those that read it. */
#ifndef ABI_TEST_RECORD_H
#define ABI_TEST_RECORD_H

#include <stdlib.h>
#include <string.h>

#include "abi/proc/exec.h"
#include "abi/proc/limits.h"

#define RECORD_NUMBERS 8
#define RECORD_SIZE                                                            \
	(sizeof(struct abi_exec_state) +                                       \
	 RECORD_NUMBERS * sizeof(struct abi_exec_record) + 0x1000)

struct record {
	struct abi_exec_state *state;
	u64 len;
};

/* Without numbers and strings. */
__attribute__((unused)) static struct record record_new(const char *cwd)
{
	struct record r = {calloc(1, RECORD_SIZE),
			   sizeof(struct abi_exec_state)};
	u32 i;

	if (!r.state)
		abort();
	strcpy(r.state->cwd, cwd);
	r.state->umask = 022;
	for (i = 0; i < ABI_RLIMITS; i++)
		r.state->limit[i] = abi_limit_first(i);
	r.state->head.size = (u32)r.len;
	return r;
}

__attribute__((unused)) static struct abi_exec_record *
record_at(const struct record *r, u32 i)
{
	return (struct abi_exec_record *)(r->state + 1) + i;
}

/* Before the strings. */
__attribute__((unused)) static struct abi_desc *
record_number(struct record *r, u32 fd, u32 kind, s32 handle)
{
	struct abi_exec_record *to = record_at(r, r->state->head.numbers++);

	to->fd = fd;
	to->desc.kind = kind;
	to->desc.handle = handle;
	r->len += sizeof(*to);
	r->state->head.size = (u32)r->len;
	return &to->desc;
}

/* First all arguments. */
__attribute__((unused)) static void
record_string(struct record *r, const char *text, u32 is_argument)
{
	u64 n = strlen(text) + 1;

	memcpy((char *)r->state + r->len, text, n);
	r->len += n;
	r->state->head.strings += (u32)n;
	if (is_argument)
		r->state->head.argc++;
	else
		r->state->head.envc++;
}

#endif
