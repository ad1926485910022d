/* SPDX-License-Identifier: MIT */
/* Text that a guest maps from a file, and its stubs. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/uapi/linux.h"
#include "abi/test/internal.h"
#include "build/gen/abi/numbers.h"
#include "host_fake.h"
#include "mem_call.h"
#include "tests/tap.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define RX (ABI_PROT_READ | ABI_PROT_EXEC)
#define FIXED (ABI_MAP_PRIVATE | ABI_MAP_FIXED)
#define PAGES 4
#define TEXT_LEN 0x2000ull /* of the file; what follows is no text */
#define GIB (1ull << 30)

static char path[] = "/tmp/abi-text-XXXXXX";
static s64 answer;	     /* of the host, to MAP */
static u64 stubs_len, least; /* what it wants, and gets */
static struct abi_text_file seen;
static u32 maps, drops;
static u64 dropped, all; /* bytes */

static s64 map_text(struct abi_text_file *t)
{
	maps++;
	seen = *t;
	if (answer)
		return answer;
	if (t->room_end - t->room < least) {
		t->need = least;
		return -LINUX_ENOMEM;
	}
	if (stubs_len > t->most) {
		t->need = stubs_len;
		return -LINUX_ENOMEM;
	}
	memset((void *)t->addr, 't', TEXT_LEN);
	t->len = TEXT_LEN;
	t->stubs_len = stubs_len;
	t->stubs = t->room_end - stubs_len;
	all += TEXT_LEN;
	fake.host.mem_commit(t->stubs, t->stubs_len, RW);
	fake.host.mem_protect(t->stubs, t->stubs_len, RX);
	seen = *t;
	return 0;
}

static s64 text_file(struct abi_text_file *t)
{
	switch (t->verb) {
	case ABI_TEXT_MAP:
		return map_text(t);
	case ABI_TEXT_DROP:
		drops++;
		dropped += t->len;
		return 0;
	case ABI_TEXT_REAP:
		break;
	}
	if (!all || dropped != all)
		return 0;
	all = dropped = 0;
	t->stubs = seen.stubs;
	t->stubs_len = seen.stubs_len;
	return 1;
}

/* A process whose descriptor 3 is a file of four pages 'f'. */
static void reset_proc(void)
{
	char page[4096];
	int fd, i;

	fake_reset();
	fake.host.text_file = text_file;
	free(p);
	p = calloc(1, abi_proc_size());
	if (!p || abi_proc_init(p, &fake.host))
		exit(1);
	memset(page, 'f', sizeof(page));
	fd = open(path, O_RDWR | O_TRUNC);
	for (i = 0; i < PAGES; i++)
		if (write(fd, page, sizeof(page)) != sizeof(page))
			exit(1);
	abi_fd_attach(p, 3, fd, S_IFREG, O_RDWR);
	answer = 0;
	stubs_len = least = 0x3000;
	maps = drops = 0;
	dropped = all = 0;
}

static u64 map_library(u64 at)
{
	return (u64)MMAP(at, PAGES * 4096, RX,
			 ABI_MAP_PRIVATE | (at ? ABI_MAP_FIXED : 0), 3, 0);
}

static int is_mapped(u64 addr, u64 len, u32 prot)
{
	return abi_space_check(p, addr, len, prot);
}

static void test_areas(void)
{
	u64 at;

	reset_proc();
	at = map_library(0);
	tap_ok((s64)at > 0 && *(u8 *)at == 't' && seen.offset == 0 &&
		       is_mapped(at, TEXT_LEN, RX),
	       "text of a file is what the host makes of it");
	tap_ok(*(u8 *)(at + TEXT_LEN) == 'f' &&
		       is_mapped(at + TEXT_LEN, 0x2000, ABI_PROT_READ) &&
		       !is_mapped(at + TEXT_LEN, 1, ABI_PROT_EXEC),
	       "what the mapping has behind the text is the file's, and does "
	       "not run");
	tap_ok(seen.stubs + stubs_len == at &&
		       is_mapped(seen.stubs, stubs_len, RX),
	       "stubs lie right below");
	tap_ok(!fake.seals, "no run-time code is sealed for it");
	TAP(!abi_space_wrong(&p->space));
}

static void test_unmap(void)
{
	u64 at, mapped;

	reset_proc();
	mapped = p->space.mapped;
	at = map_library(0);
	tap_ok(CALL(munmap, at, 4096, 0) == 0 && dropped == 4096 &&
		       is_mapped(seen.stubs, stubs_len, RX),
	       "half of the text goes and the stubs stay");
	tap_ok(CALL(munmap, at, 4096, 0) == 0 && drops == 1,
	       "what is gone is not dropped again");
	tap_ok(CALL(munmap, seen.stubs, 4096, 0) == -LINUX_EINVAL &&
		       strstr(fake.last_log, "stubs of a library") &&
		       MMAP(seen.stubs, 4096, RW, FIXED | ABI_MAP_ANONYMOUS, -1,
			    0) == -LINUX_EINVAL,
	       "stubs can be neither unmapped nor covered");
	tap_ok(CALL(munmap, at + 4096, 3 * 4096, 0) == 0 &&
		       !is_mapped(seen.stubs, 1, 0) &&
		       p->space.mapped == mapped,
	       "with the last page of text its stubs go");
	TAP(!abi_space_wrong(&p->space));
	at = map_library(0);
	tap_ok((u64)MMAP(at, PAGES * 4096, RW, FIXED | ABI_MAP_ANONYMOUS, -1,
			 0) == at &&
		       !is_mapped(seen.stubs, 1, 0) && !*(u8 *)at,
	       "text that is mapped over takes its stubs along");
}

static void test_protect(void)
{
	u64 at;

	reset_proc();
	at = map_library(0);
	tap_ok(CALL(mprotect, at, 4096, RW) == -LINUX_EACCES &&
		       strstr(fake.last_log, "DT_TEXTREL"),
	       "rewritten text cannot become writable");
	tap_ok(!CALL(mprotect, at, 4096, ABI_PROT_READ) &&
		       !is_mapped(at, 1, ABI_PROT_EXEC) &&
		       CALL(madvise, at, 4096, ABI_MADV_DONTNEED) == 0 &&
		       *(u8 *)at == 't' && !CALL(mprotect, at, 4096, RX) &&
		       is_mapped(at, TEXT_LEN, RX) && !fake.seals,
	       "it may stop to run and run again, and stays as it is");
	CALL(mprotect, at, 4096, ABI_PROT_READ);
	tap_ok(make_call(ABI_NR_mremap, at, 4096, 8192, 1, 0, 0) ==
		       -LINUX_EACCES,
	       "it cannot be moved, also while it does not run");
	tap_ok(CALL(mprotect, seen.stubs, 4096, ABI_PROT_READ) == -LINUX_EACCES,
	       "stubs keep their protection");
	TAP(!abi_space_wrong(&p->space));
}

static void test_room(void)
{
	u64 at, high;

	reset_proc();
	least = 0x200000;
	at = SKEP_MMAP_START + 8 * GIB;
	MMAP(at - 0x140000, 0x100000, 0, FIXED | ABI_MAP_ANONYMOUS, -1, 0);
	at = map_library(at);
	tap_ok((s64)at > 0 && maps == 2 && seen.stubs < at - 0x140000 &&
		       seen.room_end - seen.room >= least,
	       "a host that lacks room gets more");
	reset_proc();
	high = at + PAGES * 4096;
	MMAP(at - 3 * GIB, 3 * GIB, 0, FIXED | ABI_MAP_ANONYMOUS, -1, 0);
	tap_ok(map_library(at) == at && seen.stubs >= high &&
		       seen.stubs - high < 2 * GIB,
	       "without room below stubs lie above");
	reset_proc();
	MMAP(at - 3 * GIB, 3 * GIB, 0, FIXED | ABI_MAP_ANONYMOUS, -1, 0);
	MMAP(high, 3 * GIB, 0, FIXED | ABI_MAP_ANONYMOUS, -1, 0);
	tap_ok((s64)map_library(at) == -LINUX_ENOMEM && !maps &&
		       strstr(fake.last_log, "within 2 GiB") &&
		       !is_mapped(at, 1, 0),
	       "without room within 2 GiB the text is refused");
	TAP(!abi_space_wrong(&p->space));
}

static void test_limit(void)
{
	reset_proc();
	p->space.limit = PAGES * 4096 + stubs_len - 1;
	tap_ok((s64)map_library(0) == -LINUX_ENOMEM && maps == 1 &&
		       !p->space.committed && strstr(fake.last_log, "--memory"),
	       "stubs that exceed the limit are refused before they are made");
	p->space.limit++;
	tap_ok((s64)map_library(0) > 0 && maps == 2 &&
		       p->space.committed == p->space.limit,
	       "stubs that just fit are made");
	reset_proc();
	p->limit[ABI_RLIMIT_AS].cur = PAGES * 4096 + stubs_len - 1;
	tap_ok((s64)map_library(0) == -LINUX_ENOMEM && !p->space.mapped,
	       "stubs count against RLIMIT_AS");
	TAP(!abi_space_wrong(&p->space));
}

static void test_other(void)
{
	u64 at;

	reset_proc();
	answer = -LINUX_ENOEXEC;
	at = map_library(0);
	tap_ok((s64)at > 0 && fake.seals == 1 && *(u8 *)at == 'f' &&
		       is_mapped(at, PAGES * 4096, RX),
	       "a file that the host does not know is run-time code");
	reset_proc();
	answer = -LINUX_EACCES;
	at = map_library(0);
	tap_ok((s64)at == -LINUX_EACCES && !fake.seals && !p->space.areas,
	       "text that the host refuses is not mapped");
	tap_ok((s64)MMAP(0, 4096, RX, ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1,
			 0) > 0 &&
		       maps == 1 && fake.seals == 1,
	       "memory without a file is not the host's");
	TAP(!abi_space_wrong(&p->space));
}

int main(void)
{
	close(mkstemp(path));
	test_areas();
	test_unmap();
	test_protect();
	test_room();
	test_limit();
	test_other();
	free(p);
	unlink(path);
	return tap_done();
}
