/* SPDX-License-Identifier: MIT */
/* Memory system calls with real files and memory; strings and guest checks. */
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
#define ANON (ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS)

static void brk_calls(void)
{
	u64 b = SKEP_BRK_START;
	u8 *heap = (u8 *)b;

	p = fake_proc();
	tap_ok(CALL(brk, 0, 0, 0) == (s64)b, "brk starts at its range");
	tap_ok(CALL(brk, b + 10000, 0, 0) == (s64)(b + 10000) &&
		       p->space.committed == 12288,
	       "brk grows by whole pages");
	heap[0] = heap[9999] = 7;
	CALL(brk, b + 100, 0, 0);
	tap_ok(CALL(brk, b + 10000, 0, 0) == (s64)(b + 10000) && heap[0] == 7 &&
		       heap[9999] == 0,
	       "pages that brk released are zero when it grows again");
	tap_ok(CALL(brk, b - 1, 0, 0) == (s64)(b + 10000) &&
		       CALL(brk, b + SKEP_BRK_SIZE + 1, 0, 0) ==
			       (s64)(b + 10000),
	       "brk outside its range changes nothing");
	tap_ok(MMAP(b, 4096, 0, ANON | ABI_MAP_FIXED, -1, 0) == (s64)b &&
		       !abi_space_check(p, b, 1, ABI_PROT_READ),
	       "a fixed PROT_NONE page inside brk works (musl)");
	MMAP(b + 16384, 4096, RW, ANON | ABI_MAP_FIXED, -1, 0);
	tap_ok(CALL(brk, b + 20000, 0, 0) == (s64)(b + 10000),
	       "brk does not grow over a mapping");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static void mremap_calls(void)
{
	u64 a, b, c;
	u8 *bytes;

	p = fake_proc();
	a = (u64)MMAP(0, 3 * 4096, RW, ANON, -1, 0);
	memset((void *)a, 5, 3 * 4096);
	tap_ok(make_call(ABI_NR_mremap, a, 12288, 4096, 0, 0, 0) == (s64)a &&
		       !abi_space_check(p, a + 4096, 1, 0),
	       "mremap shrinks in place");
	tap_ok(make_call(ABI_NR_mremap, a, 4096, 8192, 0, 0, 0) == (s64)a &&
		       *(u8 *)(a + 4095) == 5 && *(u8 *)(a + 4096) == 0,
	       "mremap grows in place");
	tap_ok(make_call(ABI_NR_mremap, a, 8192, 1 << 20, 0, 0, 0) ==
		       -LINUX_ENOMEM,
	       "mremap without MAYMOVE fails where there is no room");
	b = (u64)make_call(ABI_NR_mremap, a, 8192, 1 << 20, 1, 0, 0);
	bytes = (u8 *)b;
	tap_ok(b < a && bytes[4095] == 5 && bytes[4096] == 0 &&
		       !abi_space_check(p, a, 1, 0),
	       "mremap moves contents");
	c = SKEP_MMAP_START + (1 << 24);
	tap_ok(make_call(ABI_NR_mremap, b, 1 << 20, 4096, 3, c, 0) == (s64)c &&
		       *(u8 *)c == 5 && !abi_space_check(p, b, 1, 0),
	       "mremap to a fixed address");
	CALL(mprotect, c, 4096, 0);
	b = (u64)make_call(ABI_NR_mremap, c, 4096, 8192, 3, c + (1 << 20), 0);
	CALL(mprotect, b, 4096, ABI_PROT_READ);
	tap_ok(b == c + (1 << 20) && *(u8 *)b == 5,
	       "mremap moves PROT_NONE memory");
	tap_ok(make_call(ABI_NR_mremap, b, 8192, 4096, 3, b + 4096, 0) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mremap, b + 1, 4096, 4096, 0, 0, 0) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mremap, b, 1 << 20, 4096, 0, 0, 0) ==
			       -LINUX_EFAULT,
	       "mremap refuses overlap, misalignment and holes");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static char path[] = "/tmp/abi-mem-XXXXXX";

/* A file of 5000 bytes 'f' in the guest as descriptor 3. */
static int guest_file(int flags)
{
	char text[5000];
	int fd = open(path, O_RDWR | O_TRUNC | O_CREAT, 0600);
	int rc;

	memset(text, 'f', sizeof(text));
	rc = fd >= 0 && write(fd, text, sizeof(text)) == sizeof(text);
	close(fd);
	fd = open(path, flags);
	return rc && fd >= 0 && !abi_fd_attach(p, 3, fd, S_IFREG, (u32)flags);
}

static void file_private(void)
{
	u64 a;
	u8 *b;

	p = fake_proc();
	TAP(guest_file(O_RDONLY));
	a = (u64)MMAP(0, 8192, RW, ABI_MAP_PRIVATE, 3, 0);
	b = (u8 *)a;
	tap_ok(b[0] == 'f' && b[4999] == 'f' && b[5000] == 0,
	       "a private mapping holds the file, zeros behind it");
	b[0] = 'x';
	tap_ok(!CALL(madvise, a, 4096, 4) && b[0] == 'f',
	       "MADV_DONTNEED brings the file's bytes back");
	tap_ok(!CALL(close, 3, 0, 0) && !CALL(madvise, a, 8192, 4) &&
		       b[4999] == 'f',
	       "the mapping outlives close");
	tap_ok(MMAP(0, 4096, RW, ABI_MAP_PRIVATE, 3, 0) == -LINUX_EBADF,
	       "a closed descriptor is refused");
	tap_ok(!CALL(munmap, a, 8192, 0) && !p->space.areas &&
		       !p->space.backing[1].file,
	       "the last munmap closes the file");
	TAP(guest_file(O_RDONLY));
	tap_ok(MMAP(0, 4096, RW, ABI_MAP_SHARED, 3, 0) == -LINUX_EACCES,
	       "a shared writable mapping needs a writable descriptor");
	a = (u64)MMAP(0, 4096, ABI_PROT_READ, ABI_MAP_SHARED, 3, 4096);
	tap_ok(*(u8 *)a == 'f' && CALL(mprotect, a, 4096, RW) == -LINUX_EACCES,
	       "a shared mapping of a read-only file stays read-only");
	tap_ok(MMAP(0, 4096, RW, ABI_MAP_PRIVATE, 3, 1) == -LINUX_EINVAL,
	       "the offset must be page aligned");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static int file_byte(off_t at)
{
	int fd = open(path, O_RDONLY);
	u8 b = 0;

	if (pread(fd, &b, 1, at) != 1)
		b = 0xff;
	close(fd);
	return b;
}

static off_t file_length(void)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

static void file_shared(void)
{
	u64 a;
	u8 *b;

	p = fake_proc();
	TAP(guest_file(O_RDWR));
	a = (u64)MMAP(0, 8192, RW, ABI_MAP_SHARED, 3, 0);
	b = (u8 *)a;
	b[1] = 'm';
	b[6000] = 'z';
	tap_ok(!CALL(msync, a, 4096, 4) && file_byte(1) == 'm',
	       "msync writes a shared mapping back");
	b[4100] = 'u';
	tap_ok(!CALL(munmap, a + 4096, 4096, 0) && file_byte(4100) == 'u' &&
		       file_length() == 5000,
	       "munmap writes back and never extends the file");
	b[2] = 'e';
	CALL(mprotect, a, 4096, 0);
	abi_space_flush(p);
	tap_ok(file_byte(2) == 'e', "the end of the process writes back");
	tap_ok(CALL(msync, a, 8192, 4) == -LINUX_ENOMEM &&
		       CALL(msync, a, 4096, 5) == -LINUX_EINVAL,
	       "msync refuses holes and contradictory flags");
	CALL(mprotect, a, 4096, RW);
	b[3] = 'r';
	MMAP(a, 4096, RW, ANON | ABI_MAP_FIXED, -1, 0);
	tap_ok(file_byte(3) == 'r',
	       "a replaced shared mapping is written back");
	tap_ok(!abi_space_wrong(&p->space), "the map is valid");
	fake_free(p);
}

static void test_advice(void)
{
	u64 a, v;
	u8 *b;

	p = fake_proc();
	a = (u64)MMAP(0, 4 * 4096, RW, ANON, -1, 0);
	v = (u64)MMAP(0, 4096, RW, ANON, -1, 0);
	b = (u8 *)a;
	memset(b, 9, 4 * 4096);
	CALL(mprotect, a, 4096, ABI_PROT_READ);
	tap_ok(!CALL(madvise, a, 8192, 4) && b[0] == 0 && b[4096] == 0 &&
		       b[8192] == 9 && !abi_space_check(p, a, 1, 2),
	       "MADV_DONTNEED zeroes and keeps the protection");
	tap_ok(CALL(madvise, a, 1 << 20, 4) == -LINUX_ENOMEM || v < a,
	       "MADV_DONTNEED over a hole returns ENOMEM");
	tap_ok(!CALL(madvise, a, 4096, 14) &&
		       CALL(madvise, a, 4096, 99) == -LINUX_EINVAL &&
		       CALL(madvise, a + 1, 4096, 4) == -LINUX_EINVAL,
	       "known advice is accepted, unknown advice is refused");
	tap_ok(!CALL(madvise, a, 4096, ABI_MADV_DONTFORK) &&
		       !CALL(madvise, a, 4096, ABI_MADV_WIPEONFORK),
	       "advice about fork is accepted where nothing forks");
	fake.host.family = fake_family;
	tap_ok(CALL(madvise, a, 4096, ABI_MADV_DONTFORK) == -LINUX_EINVAL &&
		       CALL(madvise, a, 4096, ABI_MADV_WIPEONFORK) ==
			       -LINUX_EINVAL &&
		       fake.logs == 1 && strstr(fake.last_log, "DONTFORK"),
	       "advice about fork is refused where a child gets all memory");
	fake.host.family = NULL;
	v = (u64)MMAP(0, 4096, 3, ANON | ABI_MAP_GROWSDOWN, -1, 0);
	tap_ok((s64)v > 0 && fake.logs == 2 &&
		       strstr(fake.last_log, "GROWSDOWN") &&
		       !CALL(munmap, v, 4096, 0) &&
		       MMAP(0, 4096, 3, ANON | ABI_MAP_GROWSDOWN, -1, 0) > 0 &&
		       fake.logs == 2,
	       "a mapping that should grow is said to stay, once");
	MMAP(a + 8192, 4096, 0, ANON | ABI_MAP_FIXED, -1, 0);
	tap_ok(!CALL(mincore, a, 16384, v) && ((u8 *)v)[0] == 1 &&
		       ((u8 *)v)[2] == 0 && ((u8 *)v)[3] == 1,
	       "mincore reports which pages are resident");
	tap_ok(CALL(mincore, a, 16384, 64) == -LINUX_EFAULT &&
		       CALL(mincore, 4096, 4096, v) == -LINUX_ENOMEM,
	       "mincore checks both ranges");
	tap_ok(!CALL(mlock, a, 4096, 0) &&
		       CALL(mlock, 4096, 4096, 0) == -LINUX_ENOMEM &&
		       CALL(mlock, ~0ull, ~0ull, 0) == -LINUX_EINVAL,
	       "mlock refuses unmapped memory");
	tap_ok(CALL(munmap, a, 0, 0) == -LINUX_EINVAL &&
		       CALL(munmap, ~0xfffull, 8192, 0) == -LINUX_EINVAL &&
		       CALL(munmap, 0x10000, 4096, 0) == 0,
	       "munmap checks its range");
	tap_ok(MMAP(0, 0, RW, ANON, -1, 0) == -LINUX_EINVAL &&
		       MMAP(0, 4096, RW, ABI_MAP_ANONYMOUS, -1, 0) ==
			       -LINUX_EINVAL &&
		       MMAP(0, ~0ull, RW, ANON, -1, 0) == -LINUX_ENOMEM &&
		       MMAP(0, 4096, RW, 3 | 0x20 | 0x80000, -1, 0) ==
			       -LINUX_EOPNOTSUPP,
	       "mmap checks length and flags");
	fake_free(p);
}

static void test_maps(void)
{
	static char text[3 * 4296];
	u64 from = 0, n, a;

	p = fake_proc();
	a = (u64)MMAP(0, 4096, RW, ANON, -1, 0);
	CALL(brk, SKEP_BRK_START + 4096, 0, 0);
	guest_file(O_RDWR);
	MMAP(0, 4096, ABI_PROT_READ, ABI_MAP_SHARED, 3, 4096);
	n = abi_space_maps(p, text, sizeof(text), &from);
	tap_ok(n == strlen(text) && strstr(text, "[heap]\n") &&
		       strstr(text, "203ffffff000-204000000000 rw-p 00000000 "
				    "00:00 0 \n") &&
		       strstr(text, " r--s 00001000 00:00 0 "),
	       "the text of /proc/self/maps");
	tap_ok(!abi_space_maps(p, text, sizeof(text), &from) && a,
	       "/proc/self/maps reports end of file");
	fake_free(p);
}

static void test_user(void)
{
	u64 a, u;
	char buf[16];

	p = fake_proc();
	a = (u64)MMAP(0, 8192, RW, ANON, -1, 0);
	CALL(munmap, a + 4096, 4096, 0);
	strcpy((char *)a + 4090, "hello");
	TAP(abi_user_string(p, buf, 16, a + 4090, -1) == 5);
	TAP(!strcmp(buf, "hello"));
	TAP(abi_user_string(p, buf, 5, a + 4090, -36) == -36);
	((u8 *)a)[4095] = '!';
	TAP(abi_user_string(p, buf, 16, a + 4090, -1) == -LINUX_EFAULT);
	TAP(abi_user_get(p, &u, a + 4090, 8) == -LINUX_EFAULT);
	TAP(!ABI_GET(p, &u, a + 4088));
	TAP(!ABI_PUT(p, a, &u) && *(u64 *)a == u);
	TAP(abi_user_check(p, ~0ull, 2, 1) == -LINUX_EFAULT);
	TAP(abi_user_check(p, 0, 0, 1) == 0);
	TAP(abi_user_check(p, a, 4096, 4) == -LINUX_EFAULT);
	fake_free(p);
}

static void test_bytes(void)
{
	char a[64], b[64];
	u32 i, k, bad = 0;

	for (i = 0; i < 40; i++)
		for (k = 0; k < 24; k++) {
			memset(a, 'a' + i % 8, 64);
			a[i] = '#';
			memcpy(b, a, 64);
			abi_memmove(a + k, a + 8, 32);
			memmove(b + k, b + 8, 32);
			bad += !!memcmp(a, b, 64);
		}
	tap_ok(!bad, "memmove agrees with libc in every overlap");
	TAP(abi_memcmp("abc", "abd", 3) < 0 && !abi_memcmp("ab", "ac", 1));
	TAP(abi_strcpy(a, "abcdef", 4) == 3 && abi_streq(a, "abc"));
}

static void dispatch_calls(void)
{
	u64 n;

	p = fake_proc();
	abi_proof_set(p, 0x1234567890);
	TAP(make_call(ABI_NR_PROOF, 0, 0, 0, 0, 0, 0) == ABI_NR_PROOF);
	TAP(make_call(ABI_NR_PROOF, 1, 0, 0, 0, 0, 0) == 0x1234567890);
	n = (u64)make_call(ABI_NR_PROOF, 2, 0, 0, 0, 0, 0);
	TAP(n == 3 && abi_count_calls(p) == 3);
	p->trace = 1;
	tap_ok(CALL(fork, 0, 0, 0) == -LINUX_ENOSYS &&
		       CALL(fork, 0, 0, 0) == -LINUX_ENOSYS &&
		       abi_count_refused(p, ABI_NR_fork) == 2 &&
		       fake.logs == 1 && strstr(fake.last_log, "fork"),
	       "a refused call is counted, and logged once with its name");
	TAP(make_call(5000, 0, 0, 0, 0, 0, 0) == -LINUX_ENOSYS);
	TAP(p->refused_other == 1 && strstr(fake.last_log, "5000"));
	TAP(!strcmp(abi_syscall_name(9), "mmap"));
	TAP(!strcmp(abi_syscall_route(ABI_NR_ptrace), "refused"));
	TAP(!strcmp(abi_syscall_args(11), "ptr,size"));
	TAP(!abi_syscall_name(~0u) && !abi_syscall_name(400));
	fake_free(p);
}

/* One node: what names it holds, what does not is refused as by Linux. */
static void test_policies(void)
{
	u64 a, *mask;
	u32 mode;

	p = fake_proc();
	a = (u64)make_call(ABI_NR_mmap, 0, 8192, 3, 0x22, ~0ull, 0);
	mask = (u64 *)a;
	mask[0] = 1;
	mask[1] = 0;
	for (mode = 1; mode < 4; mode++)
		tap_ok(!make_call(ABI_NR_mbind, a, 8192, mode, a, 65, 0),
		       "mbind to the only node, mode %u", mode);
	tap_ok(make_call(ABI_NR_mbind, a, 8192, 0, a, 65, 0) == -LINUX_EINVAL &&
		       make_call(ABI_NR_mbind, a, 8192, 6, a, 65, 0) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mbind, a + 1, 1, 2, a, 65, 0) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mbind, a, 8192, 2, a, 65, 8) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mbind, a, 8192, 2, 0, 0, 0) ==
			       -LINUX_EINVAL,
	       "mbind refuses unknown modes, flags and masks");
	tap_ok(!make_call(ABI_NR_mbind, a, 8192, 0, 0, 0, 0) &&
		       make_call(ABI_NR_mbind, a, 8192, 2, a, 1ull << 40, 0) ==
			       -LINUX_EINVAL &&
		       make_call(ABI_NR_mbind, a, 1 << 20, 0, 0, 0, 0) ==
			       -LINUX_EFAULT &&
		       make_call(ABI_NR_mbind, a, 8192, 2, a, 65, 4) ==
			       -LINUX_EPERM,
	       "mbind refuses holes, long masks and memory outside the guest");
	mask[0] = 2;
	tap_ok(make_call(ABI_NR_mbind, a, 8192, 2, a, 65, 0) == -LINUX_EINVAL &&
		       !make_call(ABI_NR_mbind, a, 8192, 1, a, 2, 0),
	       "mbind refuses a second node, and ignores bits behind the "
	       "mask's end");
	fake_free(p);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 99;
	close(fd);
	brk_calls();
	mremap_calls();
	file_private();
	file_shared();
	test_advice();
	test_maps();
	test_user();
	test_bytes();
	test_policies();
	dispatch_calls();
	unlink(path);
	return tap_done();
}
