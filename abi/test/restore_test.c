/* SPDX-License-Identifier: MIT */
/*
 * Records of a snapshot: what a hostile one may not set, and that a freeze ends
 * a call which abi_tick then makes again.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/include/snapshot.h"
#include "abi/test/internal.h"
#include "abi/uapi/linux.h"
#include "host_fake.h"
#include "tests/tap.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define NR_PAUSE 34

static struct abi_proc *p;
static struct abi_snap_process process;
static struct abi_snap_thread thread;
static struct abi_snap_desc desc;

static void fill_records(void)
{
	memset(&process, 0, sizeof(process));
	process.pid = 5000;
	process.high = process.cursor = 2;
	process.brk = SKEP_BRK_START;
	strcpy(process.cwd, "/");
	strcpy(process.exe, "/bin/x");
	memset(&thread, 0, sizeof(thread));
	thread.tid = 5000;
	thread.alt_flags = ABI_SS_DISABLE;
	memset(&desc, 0, sizeof(desc));
	desc.kind = ABI_SNAP_NULL;
	strcpy(desc.path, "/dev/null");
}

/* Sets one field of a record that is right, and wants it to be refused. */
#define WRONG(call, field, value)                                              \
	do {                                                                   \
		fill_records();                                                \
		field = (value);                                               \
		tap_ok((call) == -LINUX_EINVAL, "%s = %s is refused", #field,  \
		       #value);                                                \
	} while (0)

static void check_process(void)
{
	p = fake_proc();
	WRONG(abi_restore_process(p, &process), process.pid, 1);
	WRONG(abi_restore_process(p, &process), process.pid, 0x40000000);
	WRONG(abi_restore_process(p, &process), process.high, 0);
	WRONG(abi_restore_process(p, &process), process.high,
	      ABI_THREADS_MAX + 1);
	WRONG(abi_restore_process(p, &process), process.cursor,
	      ABI_THREADS_MAX + 1);
	WRONG(abi_restore_process(p, &process), process.brk, 0);
	WRONG(abi_restore_process(p, &process), process.cwd[0], 'x');
	WRONG(abi_restore_process(p, &process), process.exe[0], 'x');
	WRONG(abi_restore_process(p, &process), process.itimer[0].signo, 65);
	WRONG(abi_restore_process(p, &process), process.timer[31].source, 4);
	WRONG(abi_restore_process(p, &process), process.timer[0].thread,
	      ABI_THREADS_MAX);
	WRONG(abi_restore_process(p, &process), process.timer[0].used, 2);
	WRONG(abi_restore_process(p, &process), process.timer[0].used, 1);
	fill_records();
	memset(process.cwd, '/', sizeof(process.cwd));
	tap_ok(abi_restore_process(p, &process) == -LINUX_EINVAL,
	       "a folder without an end is refused");
	fill_records();
	tap_ok(!abi_restore_process(p, &process), "a right one is accepted");
	WRONG(abi_restore_thread(p, &thread), thread.index, 2);
	WRONG(abi_restore_thread(p, &thread), thread.tid, 0x40000000);
	WRONG(abi_restore_thread(p, &thread), thread.alt_flags, 16);
	WRONG(abi_restore_thread(p, &thread), thread.tp, SKEP_ARENA_END);
	fill_records();
	memset(thread.comm, 'x', sizeof(thread.comm));
	tap_ok(abi_restore_thread(p, &thread) == -LINUX_EINVAL,
	       "a thread's name without an end is refused");
	tap_ok(abi_restore_finish(p) == -LINUX_EINVAL,
	       "without a first thread there is no process");
	fill_records();
	tap_ok(!abi_restore_thread(p, &thread) &&
		       abi_restore_thread(p, &thread) == -LINUX_EINVAL,
	       "a thread is accepted once");
	fake_free(p);
}

static int restore_area(u64 start, u64 end, u32 prot, u32 bits)
{
	struct abi_snap_area a = {start, end, prot, bits};

	return abi_restore_area(p, &a);
}

static void check_areas(void)
{
	u64 at = SKEP_MMAP_START, page = SKEP_PAGE_SIZE;
	const u32 bad[][2] = {{8, 1},  {RW | 4, 1}, {4, 1},   {RW, 0},
			      {RW, 3}, {RW, 0x201}, {1, 129}, {7, 129}};
	u32 i;

	p = fake_proc();
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		tap_ok(restore_area(at, at + page, bad[i][0], bad[i][1]) ==
			       -LINUX_EINVAL,
		       "an area with protection %u and bits %u is refused",
		       bad[i][0], bad[i][1]);
	tap_ok(restore_area(at + 1, at + page, RW, 1) == -LINUX_EINVAL &&
		       restore_area(at, at, RW, 1) == -LINUX_EINVAL &&
		       restore_area(0x1000, 0x2000, RW, 1) == -LINUX_EINVAL &&
		       restore_area(SKEP_ARENA_END - page,
				    SKEP_ARENA_END + page, RW,
				    1) == -LINUX_EINVAL,
	       "an area outside of the guest's ranges is refused");
	tap_ok(!restore_area(at, at + page, RW, 1) &&
		       restore_area(at, at + page, RW, 1) == -LINUX_EINVAL,
	       "an area is accepted once");
	p->space.limit = p->space.committed + page;
	tap_ok(restore_area(at + 2 * page, at + 4 * page, RW, 1) ==
		       -LINUX_ENOMEM,
	       "an area above the limit of memory is refused");
	fake_free(p);
}

static void check_files(void)
{
	struct abi_snap_number number = {.fd = 7};
	struct abi_snap_signal signal = {.thread = ABI_NONE};

	p = fake_proc();
	WRONG(abi_restore_desc(p, &desc, -1), desc.index, 1u << 20);
	WRONG(abi_restore_desc(p, &desc, -1), desc.kind, 0);
	WRONG(abi_restore_desc(p, &desc, -1), desc.kind, ABI_SNAP_SIGNAL + 1);
	WRONG(abi_restore_desc(p, &desc, -1), desc.path[1], 'x');
	WRONG(abi_restore_desc(p, &desc, -1), desc.std, 3);
	fill_records();
	tap_ok(!abi_restore_desc(p, &desc, -1) &&
		       abi_restore_desc(p, &desc, -1) == -LINUX_EINVAL,
	       "a description is accepted once");
	number.desc = 1;
	tap_ok(abi_restore_number(p, &number) == -LINUX_EINVAL,
	       "a number without a description is refused");
	number.desc = ABI_DESC_MAX;
	tap_ok(abi_restore_number(p, &number) == -LINUX_EINVAL,
	       "a number beyond all descriptions is refused");
	number.desc = 0;
	tap_ok(!abi_restore_number(p, &number) &&
		       abi_restore_number(p, &number) == -LINUX_EINVAL,
	       "a number is accepted once");
	number.fd = ABI_FD_MAX;
	tap_ok(abi_restore_number(p, &number) == -LINUX_EINVAL,
	       "a number above the highest is refused");
	tap_ok(abi_restore_signal(p, &signal) == -LINUX_EINVAL,
	       "signal 0 is refused");
	signal.info.signo = 65;
	tap_ok(abi_restore_signal(p, &signal) == -LINUX_EINVAL,
	       "signal 65 is refused");
	signal.info.signo = 10;
	signal.thread = 3;
	tap_ok(abi_restore_signal(p, &signal) == -LINUX_EINVAL,
	       "a signal of no thread is refused");
	fake_free(p);
}

/* Makes description `index` of a kind, with the number 10 + index. */
static int restore_kind(u32 index, u32 kind, u64 pos)
{
	struct abi_snap_number number = {.fd = 10 + index, .desc = index};

	fill_records();
	desc.index = index;
	desc.kind = kind;
	desc.pos = pos;
	return abi_restore_desc(p, &desc, -1) ?: abi_restore_number(p, &number);
}

static void check_watches(void)
{
	struct abi_snap_watch right = {.epoll = 1, .desc = 2, .fd = 12}, w;

	p = fake_proc();
	tap_ok(restore_kind(0, ABI_SNAP_EVENT, ~0ull) == -LINUX_EINVAL,
	       "a counter above the highest is refused");
	fill_records();
	desc.kind = ABI_SNAP_TIMER;
	desc.clock = 2;
	tap_ok(abi_restore_desc(p, &desc, -1) == -LINUX_EINVAL,
	       "a timer of another clock is refused");
	fake_free(p);
	p = fake_proc();
	tap_ok(!restore_kind(0, ABI_SNAP_EPOLL, 0) &&
		       !restore_kind(1, ABI_SNAP_EPOLL, 0) &&
		       !restore_kind(2, ABI_SNAP_EVENT, ~1ull) &&
		       !restore_kind(3, ABI_SNAP_NULL, 0),
	       "an epoll, and the highest counter");
#define WRONG_WATCH(field, value)                                              \
	do {                                                                   \
		w = right;                                                     \
		w.field = (value);                                             \
		tap_ok(abi_restore_watch(p, &w) == -LINUX_EINVAL,              \
		       "an entry with %s = %s is refused", #field, #value);    \
	} while (0)
	WRONG_WATCH(epoll, ABI_DESC_MAX);
	WRONG_WATCH(epoll, 2);
	WRONG_WATCH(epoll, 5);
	WRONG_WATCH(desc, ABI_DESC_MAX);
	WRONG_WATCH(desc, 1);
	WRONG_WATCH(desc, 5);
	WRONG_WATCH(fd, ABI_FD_MAX);
	w = right;
	tap_ok(!abi_restore_watch(p, &w) &&
		       abi_restore_watch(p, &w) == -LINUX_EEXIST,
	       "an entry is accepted once");
	w = (struct abi_snap_watch){.epoll = 0, .desc = 1, .fd = 11};
	tap_ok(!abi_restore_watch(p, &w), "a list in a list");
	w = (struct abi_snap_watch){.epoll = 1, .desc = 0, .fd = 10};
	tap_ok(abi_restore_watch(p, &w) == -LINUX_ELOOP,
	       "a circle of lists is refused");
	fake_free(p);
}

static void check_redo(void)
{
	struct abi_regs r = {.rax = NR_PAUSE, .rbx = 77};
	struct abi_thread *t;

	p = fake_proc();
	t = abi_thread_get(p, 0);
	abi_freeze(p, 1);
	tap_ok(fake.kicks == 1, "a freeze kicks the thread");
	abi_syscall(p, 0, &r);
	tap_ok(t->redo && r.rax == NR_PAUSE && r.rbx == 77,
	       "a freeze ends a wait, which is to be made again");
	tap_ok(abi_tick(p, 0, &r) == ABI_RETURN_FULL && t->redo &&
		       r.rax == NR_PAUSE && abi_count_calls(p) == 1,
	       "it waits again, ends again, and counts as one call");
	abi_freeze(p, 0);
	fake_free(p);
}

int main(void)
{
	check_process();
	check_areas();
	check_files();
	check_watches();
	check_redo();
	return tap_done();
}
