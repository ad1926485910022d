/* SPDX-License-Identifier: MIT */
/* A host that places shared mappings of files itself (Windows). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "abi/uapi/linux.h"
#include "abi/test/internal.h"
#include "build/gen/abi/numbers.h"
#include "host_fake.h"
#include "mem_call.h"
#include "tests/tap.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define ANON (ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS)
#define WINDOW (SKEP_MMAP_END - 0x1000000)
#define FIRST (WINDOW + 0x30000) /* a hole before it */

static u64 place; /* the next one */
static s64 fixed; /* what a fixed place is answered; 0: granted */
static s64 reach; /* what mem_reach answers */
static u32 reached, faulted, synced;

static u32 mapped_prot; /* by mem_file */

static s64 mem_place(const struct abi_mem_file *m)
{
	u64 at = place;

	if (m->addr)
		return fixed ? fixed : (s64)m->addr;
	place += (m->len + 0xffff) & ~0xffffull;
	return (s64)at;
}

static s64 mem_file(const struct abi_mem_file *m)
{
	mapped_prot = m->prot;
	return mmap((void *)m->addr, m->len, (int)m->prot,
		    MAP_SHARED | MAP_FIXED |
			    (m->handle < 0 ? MAP_ANONYMOUS : 0),
		    m->handle, (off_t)m->offset) == MAP_FAILED
		       ? -LINUX_EINVAL
		       : 0;
}

static s64 mem_reach(u64 addr, u64 len, u32 fault)
{
	reached += addr >= WINDOW && addr + len <= SKEP_MMAP_END;
	faulted += fault;
	return reach;
}

static s64 mem_sync(u64 addr, u64 len)
{
	synced += addr >= WINDOW && len == 8192;
	return 0;
}

static char path[] = "/tmp/abi-window-XXXXXX";

/* A process whose descriptor 3 is a file of four pages 'f'. */
static void reset_proc(void)
{
	char page[4096];
	int fd, i;

	fake_reset();
	fake.host.mem_place = mem_place;
	fake.host.mem_file = mem_file;
	fake.host.mem_reach = mem_reach;
	fake.host.mem_sync = mem_sync;
	fake.info.file_window = WINDOW;
	p = calloc(1, abi_proc_size());
	if (!p || abi_proc_init(p, &fake.host))
		exit(1);
	memset(page, 'f', sizeof(page));
	fd = open(path, O_RDWR | O_TRUNC);
	for (i = 0; i < 4; i++)
		if (write(fd, page, sizeof(page)) != sizeof(page))
			exit(1);
	abi_fd_attach(p, 3, fd, S_IFREG, O_RDWR);
	place = FIRST;
	fixed = reach = 0;
	reached = faulted = synced = 0;
}

static void test_places(void)
{
	u64 shared, private, plain;

	reset_proc();
	shared = (u64)MMAP(0, 8192, RW, ABI_MAP_SHARED, 3, 4096);
	private = (u64)MMAP(shared, 8192, RW, ABI_MAP_PRIVATE, 3, 4096);
	plain = (u64)MMAP(FIRST - 0x10000, 8192, RW, ANON, -1, 0);
	tap_ok(shared == FIRST && *(u8 *)shared == 'f',
	       "a shared mapping is placed by the host");
	tap_ok(private + 8192 <= WINDOW && plain + 8192 <= WINDOW,
	       "no other mapping is placed in the window, whatever the hint");
	*(u8 *)private = 'p';
	tap_ok(*(u8 *)shared == 'f' && *(u8 *)private == 'p',
	       "a private mapping is a copy");
	tap_ok(MMAP(shared, 4096, RW, ANON | ABI_MAP_FIXED, -1, 0) ==
			       -LINUX_ENOMEM &&
		       strstr(fake.last_log, "MAP_FIXED refused (ENOMEM)") &&
		       *(u8 *)shared == 'f',
	       "other memory in the window is refused by name");
	fixed = -LINUX_EINVAL;
	tap_ok(MMAP(plain, 4096, RW, ABI_MAP_SHARED | ABI_MAP_FIXED, 3, 0) ==
			       -LINUX_EINVAL &&
		       !(*(u8 *)plain = 0),
	       "a fixed address that the host refuses leaves the old mapping");
	fixed = 0;
	tap_ok(MMAP(shared, 4096, RW, ABI_MAP_SHARED | ABI_MAP_FIXED, 3, 0) ==
		       (s64)shared,
	       "a fixed address that the host accepts is used");
	tap_ok(!CALL(munmap, shared, 8192, 0) &&
		       !abi_space_check(p, shared, 1, 0),
	       "munmap in the window");
	fake_free(p);
}

#define TEXT (ABI_PROT_READ | ABI_PROT_EXEC)

static void text_stays(void)
{
	u64 a;

	reset_proc();
	a = (u64)MMAP(0, 4096, TEXT, ABI_MAP_SHARED, 3, 0);
	tap_ok(a == FIRST && abi_space_check(p, a, 4096, TEXT) &&
		       mapped_prot == ABI_PROT_READ && !fake.seals,
	       "shared text of a file that can be written does not execute");
	fake.host.mem_place = 0;
	fake.host.mem_file = 0;
	tap_ok(MMAP(0, 4096, TEXT, ABI_MAP_SHARED, 3, 0) == -LINUX_EACCES &&
		       strstr(fake.last_log, "mmap refused (EACCES)") &&
		       !fake.seals,
	       "shared text of a file that can be written is refused by name");
	fake_free(p);
	reset_proc();
	abi_fd_attach(p, 4, open(path, O_RDONLY), S_IFREG, O_RDONLY);
	a = (u64)MMAP(0, 4096, TEXT, ABI_MAP_SHARED, 4, 0);
	tap_ok((s64)a > 0 && fake.seals == 1, "shared text is a copy");
	tap_ok(CALL(mprotect, a, 4096, RW) == -LINUX_EACCES,
	       "a shared copy never becomes writable");
	fake_free(p);
}

static void test_moves(void)
{
	u64 a, b;

	reset_proc();
	a = (u64)MMAP(0, 4096, RW, ABI_MAP_SHARED, 3, 0);
	tap_ok(make_call(ABI_NR_mremap, a, 4096, 16384, 0, 0, 0) ==
		       -LINUX_ENOMEM,
	       "a shared mapping does not grow in place");
	b = (u64)make_call(ABI_NR_mremap, a, 4096, 16384, 1, 0, 0);
	*(u8 *)(b + 12288) = 'm';
	tap_ok(b == FIRST + 0x10000 && !abi_space_check(p, a, 1, 0) &&
		       abi_space_check(p, b, 16384, RW),
	       "a shared mapping grows at another address of the host's");
	a = (u64)MMAP(0, 4096, RW, ANON, -1, 0);
	tap_ok(make_call(ABI_NR_mremap, a, 4096, 4096, 3, WINDOW + 0x100000,
			 0) == -LINUX_ENOMEM,
	       "other memory does not move into the window");
	tap_ok(!CALL(msync, b, 8192, ABI_MS_ASYNC) && !synced &&
		       !CALL(msync, b, 8192, ABI_MS_SYNC) && synced == 1,
	       "MS_SYNC is passed to the host");
	fake_free(p);
}

static void test_faults(void)
{
	struct abi_fault f = {ABI_SIGSEGV, 2, 0, 14, 4};
	struct abi_regs regs = {.rip = 0x1234, .rsp = 0x5678};
	u64 a, act[4] = {0x77000, ABI_SA_RESTORER, 0x88000, 0}, stack;

	reset_proc();
	stack = (u64)MMAP(0, 1 << 16, RW, ANON, -1, 0);
	memcpy((void *)stack, act, sizeof(act));
	make_call(ABI_NR_rt_sigaction, ABI_SIGBUS, stack, 0, 8, 0, 0);
	a = (u64)MMAP(0, 8192, ABI_PROT_READ, ABI_MAP_SHARED, 3, 0);
	f.addr = a + 4096;
	regs.rsp = stack + 60000;
	abi_fault(p, 0, &regs, &f);
	tap_ok(faulted == 1 && regs.rip == 0x1234,
	       "a fault on a page that the file has gained is retried");
	reach = -LINUX_EFAULT;
	tap_ok(make_call(ABI_NR_pread64, 3, a, 1, 0, 0, 0) == -LINUX_EFAULT &&
		       make_call(ABI_NR_pwrite64, 3, a + 4096, 1, 0, 0, 0) ==
			       -LINUX_EFAULT,
	       "calls get EFAULT for pages behind the end");
	abi_fault(p, 0, &regs, &f);
	tap_ok(faulted == 2 && regs.rip == 0x77000 && regs.rdi == ABI_SIGBUS &&
		       *(s32 *)(regs.rsi + 8) == ABI_BUS_ADRERR &&
		       *(u64 *)(regs.rsi + 16) == a + 4096,
	       "a page behind the end is SIGBUS");
	fake_free(p);
}

/* An access that the map does not allow never reaches the file. */
static void test_protection(void)
{
	struct abi_fault f = {ABI_SIGSEGV, 2, 0, 14, 6};
	struct abi_regs regs = {.rip = 0x1234};
	u64 a, act[4] = {0x77000, ABI_SA_RESTORER, 0x88000, 0}, stack;

	reset_proc();
	stack = (u64)MMAP(0, 1 << 16, RW, ANON, -1, 0);
	memcpy((void *)stack, act, sizeof(act));
	make_call(ABI_NR_rt_sigaction, ABI_SIGSEGV, stack, 0, 8, 0, 0);
	a = (u64)MMAP(0, 8192, ABI_PROT_READ, ABI_MAP_SHARED, 3, 0);
	f.addr = a;
	regs.rsp = stack + 60000;
	abi_fault(p, 0, &regs, &f);
	tap_ok(!faulted && regs.rip == 0x77000 && regs.rdi == ABI_SIGSEGV,
	       "a store to read-only pages is SIGSEGV");
	reached = 0;
	tap_ok(make_call(ABI_NR_pwrite64, 3, stack, 1, 0, 0, 0) == 1 &&
		       !reached,
	       "faults outside the window are not passed to the host");
	fake_free(p);
}

static s64 host_family(struct abi_family_op *op, u32 thread)
{
	(void)op;
	(void)thread;
	return -LINUX_ENOSYS;
}

#define SHARED (ABI_MAP_SHARED | ABI_MAP_ANONYMOUS)

static void test_without_file(void)
{
	struct abi_area area;
	u64 a, b, before, after, mapped;

	reset_proc();
	a = (u64)MMAP(0, 4096, RW, SHARED, -1, 0);
	tap_ok(a && a < WINDOW, "shared memory of a lone process is its own");
	fake.host.family = host_family;
	p->info.spawns = 1;
	abi_space_count(p, &before, &mapped);
	a = (u64)MMAP(0, 8192, RW, SHARED, -1, 0);
	abi_space_count(p, &after, &mapped);
	tap_ok(a == FIRST && abi_space_next(p, a, &area) &&
		       abi_space_is_common(p, &area),
	       "memory that a child will share is placed by the host");
	tap_ok(after == before + 8192, "its bytes count as committed");
	*(u32 *)a = 77;
	tap_ok(!CALL(madvise, a, 8192, ABI_MADV_DONTNEED) &&
		       !CALL(msync, a, 8192, ABI_MS_SYNC) && *(u32 *)a == 77,
	       "it keeps its contents, and has nothing to write");
	b = (u64)make_call(ABI_NR_mremap, a, 8192, 16384, 1, 0, 0);
	tap_ok(b > a && *(u32 *)b == 77, "it moves before the first fork");
	p->forked = 1;
	tap_ok(make_call(ABI_NR_mremap, b, 16384, 32768, 1, 0, 0) ==
		       -LINUX_ENOMEM,
	       "and not after it, which is named");
	a = (u64)MMAP(0, 4096, RW, ANON, -1, 0);
	tap_ok(MMAP(a, 4096, RW, SHARED | ABI_MAP_FIXED, -1, 0) == (s64)a &&
		       abi_space_next(p, a, &area) &&
		       !abi_space_is_common(p, &area),
	       "at a fixed address it is the process's own");
	tap_ok(MMAP(0, 4096, 0, SHARED, -1, 0) < (s64)WINDOW,
	       "addresses that are only reserved are the process's own");
	fake_free(p);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	test_places();
	text_stays();
	test_moves();
	test_faults();
	test_protection();
	test_without_file();
	unlink(path);
	return tap_done();
}
