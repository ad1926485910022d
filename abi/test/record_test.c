// SPDX-License-Identifier: MIT
/* The record of execve, as a host reads it that trusts nothing in it. */
#include "record.h"
#include "tests/tap.h"

static struct record r;
static struct abi_exec_view view;

static void make_record(void)
{
	free(r.state);
	r = record_new("/tmp");
	record_number(&r, 0, ABI_DESC_STREAM, 5)->flags = 1;
	record_number(&r, 3, ABI_DESC_NULL, 0);
	strcpy(record_at(&r, 1)->desc.path, "/dev/null");
	record_number(&r, 9, ABI_DESC_EPOLL, 7);
	record_string(&r, "sh", 1);
	record_string(&r, "", 1);
	record_string(&r, "A=b", 0);
}

/* In memory that ends where the record does. */
static int read_record(void)
{
	static void *copy;

	free(copy);
	copy = malloc(r.len);
	memcpy(copy, r.state, r.len);
	return abi_exec_read(copy, r.len, &view);
}

static void test_good(void)
{
	struct abi_exec_number n[3];
	u64 cur = 1, max = 1;
	u32 i;

	make_record();
	r.state->blocked = 5;
	r.state->ignored = 6;
	r.state->umask = 0xffffffff;
	r.state->death_signal = 9;
	r.state->nice = 3;
	r.state->limit[ABI_RLIMIT_NOFILE].cur = 100;
	tap_ok(!read_record() && view.argc == 2 && view.envc == 1 &&
		       !strcmp(view.strings, "sh") &&
		       !strcmp(view.strings + 4, "A=b") &&
		       !strcmp(view.cwd, "/tmp"),
	       "good: arguments, environment, folder");
	tap_ok(view.blocked == 5 && view.ignored == 6 && view.umask == 0777 &&
		       view.death_signal == 9 && view.nice == 3,
	       "good: signals, umask, priority");
	for (i = 0; i < 3; i++)
		abi_exec_view_number(&view, i, &n[i]);
	tap_ok(n[0].fd == 0 && n[0].handle == 5 && n[0].flags == 1 &&
		       !n[0].path && n[1].fd == 3 && n[1].handle == -1 &&
		       !strcmp(n[1].path, "/dev/null") && n[2].fd == 9 &&
		       n[2].handle == -1 && !n[2].path,
	       "good: what has a handle, a device of abi, and neither");
	tap_ok(abi_exec_view_limit(&view, ABI_RLIMIT_NOFILE, &cur, &max) &&
		       cur == 100 && max == ABI_FD_MAX &&
		       !abi_exec_view_limit(&view, ABI_RLIMIT_STACK, &cur,
					    &max) &&
		       !abi_exec_view_limit(&view, ABI_RLIMITS, &cur, &max) &&
		       !abi_exec_view_limit(&view, ~0u, &cur, &max),
	       "good: a limit that was changed, and no other");
	r.len--;
	tap_ok(read_record(), "good: but a byte less is not");
	make_record();
	r.state->head.signals = 2;
	r.len += 2 * sizeof(struct abi_snap_signal);
	tap_ok(!read_record() && view.argc == 2, "good: pending signals");
	r.len -= sizeof(struct abi_snap_signal);
	tap_ok(read_record(), "good: but one less is not");
}

/* Each change alone makes the record a bad one. */
#define BAD(what, ...)                                                         \
	do {                                                                   \
		make_record();                                                 \
		__VA_ARGS__;                                                   \
		tap_ok(read_record(), "bad: " what);                           \
	} while (0)

static void test_bad(void)
{
	BAD("no byte", r.len = 0);
	BAD("less than the state", r.len = sizeof(struct abi_exec_state) - 1);
	BAD("a byte more", r.len++);
	BAD("a number more", r.state->head.numbers++);
	BAD("a number less", r.state->head.numbers--);
	BAD("as many numbers as wrap", r.state->head.numbers = ~0u);
	BAD("more numbers than a process has",
	    r.state->head.numbers = ABI_FD_MAX + 1,
	    r.state->head.size =
		    (u32)(sizeof(struct abi_exec_state) +
			  (ABI_FD_MAX + 1) * sizeof(struct abi_exec_record)));
	BAD("a size that is not the numbers'", r.state->head.size -= 8);
	BAD("strings that are longer", r.state->head.strings++);
	BAD("strings that are shorter", r.state->head.strings--);
	BAD("a string more", r.state->head.argc++);
	BAD("a string less", r.state->head.envc--);
	BAD("counts that wrap", r.state->head.argc = ~0u,
	    r.state->head.envc = 4);
	BAD("a last string without an end", ((char *)r.state)[r.len - 1] = 'x',
	    r.state->head.envc--);
	BAD("a folder without an end",
	    memset(r.state->cwd, '/', sizeof(r.state->cwd)));
	BAD("a path without an end",
	    memset(record_at(&r, 2)->desc.path, '/', 4096));
	BAD("a number behind the last", record_at(&r, 2)->fd = ABI_FD_MAX);
	BAD("a number twice", record_at(&r, 2)->fd = 3);
	BAD("a number out of order", record_at(&r, 2)->fd = 2);
}

int main(void)
{
	test_good();
	test_bad();
	make_record();
	r.state->head.strings = r.state->head.argc = r.state->head.envc = 0;
	r.len = r.state->head.size;
	tap_ok(!read_record() && !view.argc && !view.envc,
	       "a program without arguments");
	free(r.state);
	return tap_done();
}
