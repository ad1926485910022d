// SPDX-License-Identifier: MIT
/*
 * What a program that is started takes along, for a host that starts it outside
 * of abi. Another process wrote the bytes, so nothing in them is trusted: all
 * that abi_exec_read hands out lies inside the record. No state.
 */
#include "exec.h"
#include "limits.h"
#include "abi/include/mem.h"
#include "base/errno.h"

_Static_assert(ABI_EXEC_NUMBERS == ABI_FD_MAX, "each number once");
_Static_assert(sizeof(struct abi_exec_state) % 8 == 0 &&
		       sizeof(struct abi_exec_record) % 8 == 0,
	       "records follow one another without padding");

static const struct abi_exec_record *record_at(const void *at, u32 i)
{
	return (const void *)((const u8 *)at + sizeof(struct abi_exec_state) +
			      (u64)i * sizeof(struct abi_exec_record));
}

/* Each number once, in order. */
static int numbers_are_good(const void *at, u32 count)
{
	const struct abi_exec_record *r;
	u32 i;

	for (i = 0; i < count; i++) {
		r = record_at(at, i);
		if (r->fd >= ABI_FD_MAX || (i && r->fd <= (r - 1)->fd) ||
		    !abi_is_string(r->desc.path, sizeof(r->desc.path)))
			return 0;
	}
	return 1;
}

/* As many strings as the head says, and no byte behind them. */
static int strings_are_good(const char *text, const struct abi_exec_head *head)
{
	u64 i, n = 0;

	for (i = 0; i < head->strings; i++)
		n += !text[i];
	return n == (u64)head->argc + head->envc &&
	       (!head->strings || !text[head->strings - 1]);
}

u64 abi_exec_len(const struct abi_exec_head *head)
{
	return (u64)head->size + head->strings +
	       (u64)head->signals * sizeof(struct abi_snap_signal);
}

int abi_exec_read(const void *at, u64 len, struct abi_exec_view *to)
{
	const struct abi_exec_state *s = at;
	const struct abi_exec_head *head = &s->head;

	if (len < sizeof(*s) ||
	    head->size != sizeof(*s) + (u64)head->numbers *
					       sizeof(struct abi_exec_record) ||
	    len < head->size || len != abi_exec_len(head) ||
	    !abi_is_string(s->cwd, sizeof(s->cwd)) ||
	    !numbers_are_good(at, head->numbers) ||
	    !strings_are_good((const char *)at + head->size, head))
		return -LINUX_EINVAL;
	*to = (struct abi_exec_view){.at = at,
				     .numbers = head->numbers,
				     .argc = head->argc,
				     .envc = head->envc,
				     .strings = (const char *)at + head->size,
				     .cwd = s->cwd,
				     .blocked = s->blocked,
				     .ignored = s->ignored,
				     .umask = s->umask & 0777,
				     .death_signal = s->death_signal,
				     .nice = s->nice};
	return 0;
}

static int has_handle(u32 kind)
{
	return kind == ABI_DESC_FILE || kind == ABI_DESC_DIR ||
	       kind == ABI_DESC_BLOCK || kind == ABI_DESC_STREAM ||
	       kind == ABI_DESC_SOCK || kind == ABI_DESC_COUNTER;
}

void abi_exec_view_number(const struct abi_exec_view *v, u32 i,
			  struct abi_exec_number *to)
{
	const struct abi_exec_record *r = record_at(v->at, i);

	*to = (struct abi_exec_number){
		.fd = r->fd,
		.handle = has_handle(r->desc.kind) ? r->desc.handle : -1,
		.flags = r->desc.flags,
		.path = r->desc.kind == ABI_DESC_NULL ? r->desc.path : 0};
}

int abi_exec_view_limit(const struct abi_exec_view *v, u32 which, u64 *cur,
			u64 *max)
{
	const struct abi_exec_state *s = v->at;
	struct abi_rlimit first;

	if (which >= ABI_RLIMITS)
		return 0;
	first = abi_limit_first(which);
	*cur = s->limit[which].cur;
	*max = s->limit[which].max;
	return *cur != first.cur || *max != first.max;
}
