// SPDX-License-Identifier: MIT
/*
 * view.c against real files, with what Wine cannot show: files on a network
 * share, and steps of Windows that fail. Every handle and view is counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bee/host/windows/win.h"

static LONG opened;	  /* handles and views */
static int step, refused; /* of this run; the step that fails */
static int is_remote, mapped_by_other;
static u32 flushed;
static char sentence[300];
static struct win_handle file;

static int is_refused(void)
{
	SetLastError(ERROR_NOT_ENOUGH_MEMORY);
	return ++step == refused;
}

static HANDLE test_section(HANDLE h, SECURITY_ATTRIBUTES *s, DWORD how,
			   DWORD high, DWORD low, const WCHAR *name)
{
	HANDLE section =
		is_refused() ? NULL
			     : CreateFileMappingW(h, s, how, high, low, name);

	opened += !!section;
	return section;
}

static void *test_map(HANDLE h, DWORD how, DWORD high, DWORD low, SIZE_T len,
		      void *at)
{
	void *p = is_refused() ? NULL
			       : MapViewOfFileEx(h, how, high, low, len, at);

	opened += !!p;
	return p;
}

static BOOL test_unmap(const void *p)
{
	opened--;
	return UnmapViewOfFile(p);
}

static BOOL test_duplicate(HANDLE from, HANDLE h, HANDLE to, HANDLE *copy,
			   DWORD access, BOOL inherit, DWORD how)
{
	BOOL good = !is_refused() &&
		    DuplicateHandle(from, h, to, copy, access, inherit, how);

	opened += good;
	return good;
}

static BOOL test_close(HANDLE h)
{
	opened--;
	return CloseHandle(h);
}

static BOOL test_flush(const void *at, SIZE_T len)
{
	flushed += (u32)len / SKEP_PAGE_SIZE;
	return FlushViewOfFile(at, len);
}

static BOOL test_information(HANDLE h, FILE_INFO_BY_HANDLE_CLASS class,
			     void *buf, DWORD len)
{
	(void)h, (void)buf, (void)len;
	return class == FileRemoteProtocolInfo && is_remote;
}

static BOOL test_set(HANDLE h, FILE_INFO_BY_HANDLE_CLASS class, void *buf,
		     DWORD len)
{
	if (!mapped_by_other)
		return SetFileInformationByHandle(h, class, buf, len);
	SetLastError(ERROR_USER_MAPPED_FILE);
	return FALSE;
}

/* What view.c needs of the rest of bee. */
struct win_handle *bee_handle_get(s32 number)
{
	return number == 3 ? &file : NULL;
}

s64 bee_file_identify(HANDLE h, struct win_file_id *id)
{
	(void)h;
	id->index = id->volume = 7;
	return is_refused() ? -LINUX_EIO : 0;
}

int bee_file_same(const struct win_file_id *a, const struct win_file_id *b)
{
	return a->index == b->index;
}

s64 bee_win_last(void)
{
	return -LINUX_ENOMEM;
}

s64 bee_random(void *buf, u64 len)
{
	memset(buf, 7, len);
	return is_refused() ? -LINUX_EIO : 0;
}

void bee_log(const char *line)
{
	snprintf(sentence, sizeof(sentence), "%s", line);
}

#define CreateFileMappingW test_section
#define MapViewOfFileEx test_map
#define UnmapViewOfFile test_unmap
#define DuplicateHandle test_duplicate
#define CloseHandle test_close
#define FlushViewOfFile test_flush
#define GetFileInformationByHandleEx test_information
#define SetFileInformationByHandle test_set
#include "bee/host/windows/view.c"
#undef CloseHandle
#include "tests/tap.h"

#define PAGE SKEP_PAGE_SIZE
#define RW (ABI_PROT_READ | ABI_PROT_WRITE)

static struct abi_mem_file make_request(u64 addr, u64 offset, u64 pages)
{
	struct abi_mem_file m = {.addr = addr,
				 .len = pages * PAGE,
				 .offset = offset,
				 .handle = 3,
				 .prot = RW,
				 .shared = 1};

	return m;
}

/* Placed and mapped: its address, or a negative errno. */
static s64 map_new(u64 addr, u64 offset, u64 pages)
{
	struct abi_mem_file m = make_request(addr, offset, pages);
	s64 at = bee_view_place(&m), err;

	if (at < 0)
		return at;
	if (addr) /* as abi does */
		bee_view_release(addr, m.len);
	m.addr = (u64)at;
	err = bee_view_map(&m);
	return err ? err : at;
}

static volatile char *byte_at(s64 addr)
{
	return (volatile char *)addr;
}

static void check_refusals(void)
{
	int good = 1;

	is_remote = 1;
	tap_ok(map_new(0, 0, 1) == -LINUX_ENODEV &&
		       strstr(sentence, "network share"),
	       "a file on a network share is refused by name");
	is_remote = 0;
	for (refused = 1; refused <= 4; refused++) {
		step = 0;
		good &= map_new(0, 0, 1) < 0 && !opened && !views;
	}
	refused = 0;
	tap_ok(good, "a step that fails leaves no handle open");
	tap_ok(map_new(0, 0, 1) == (s64)WIN_WINDOW_START &&
		       !bee_view_release(WIN_WINDOW_START, PAGE) && !opened,
	       "the address is free after a failed step");
}

static void check_places(void)
{
	s64 one = map_new(0, 0, 20), two = map_new(0, 5 * PAGE, 2);

	tap_ok(two == one + 2 * 0x10000 + 5 * PAGE,
	       "an offset that is no multiple of 64 KiB keeps its remainder");
	*byte_at(one + 5 * PAGE) = 'o';
	tap_ok(*byte_at(two) == 'o', "two views of one page");
	tap_ok(map_new(two, 5 * PAGE, 2) == two,
	       "a fixed address that one mapping had is accepted");
	tap_ok(map_new(one, 0, 5) == -LINUX_EINVAL &&
		       strstr(sentence, "MAP_FIXED refused (EINVAL)"),
	       "a fixed address in the middle of a mapping is refused by name");
	tap_ok(map_new(WIN_WINDOW_START + 0x100000, PAGE, 1) == -LINUX_EINVAL,
	       "a fixed address that does not fit the offset is refused");
	tap_ok(!bee_view_release((u64)one, 10 * PAGE) &&
		       map_new(0, 0, 1) != one &&
		       map_new(one, 0, 10) == -LINUX_EINVAL,
	       "the address of half a mapping is not reused");
	tap_ok(!bee_view_release((u64)one + 10 * PAGE, 10 * PAGE) &&
		       map_new(0, 0, 1) == one,
	       "the address of a whole mapping is reused");
	bee_view_release(WIN_WINDOW_START, SKEP_MMAP_END - WIN_WINDOW_START);
	tap_ok(!views && !opened, "all views are gone");
}

static void check_many(void)
{
	s64 at = 0;
	u32 i;

	for (i = 0; i < VIEWS && at >= 0; i++)
		at = map_new(0, 0, 1);
	tap_ok(i == VIEWS && map_new(0, 0, 1) == -LINUX_ENOMEM &&
		       strstr(sentence, "4096 places"),
	       "a full table is refused by name");
	bee_view_release(WIN_WINDOW_START, SKEP_MMAP_END - WIN_WINDOW_START);
	tap_ok(!views && !opened, "one release ends all views");
}

static void check_size(void)
{
	s64 at = map_new(0, 0, 20);

	*byte_at(at + 10 * PAGE) = 't';
	mapped_by_other = 1;
	tap_ok(bee_view_truncate(file.h, PAGE) == -LINUX_ETXTBSY &&
		       strstr(sentence, "refused (ETXTBSY)") &&
		       *byte_at(at + 10 * PAGE) == 't',
	       "shrinking a file that other processes map is refused by name");
	mapped_by_other = 0;
	tap_ok(!bee_view_truncate(file.h, 3 * PAGE) &&
		       !bee_view_reach((u64)at, 3 * PAGE, 0) &&
		       bee_view_reach((u64)at + 3 * PAGE, 1, 0) ==
			       -LINUX_EFAULT,
	       "a file that only this process maps shrinks");
	flushed = 0;
	tap_ok(!bee_view_sync((u64)at, 20 * PAGE) && flushed == 3,
	       "pages behind the end are not flushed");
	bee_view_protect((u64)at + PAGE, PAGE, ABI_PROT_READ);
	tap_ok(!bee_view_truncate(file.h, 20 * PAGE) &&
		       !bee_view_reach((u64)at + 19 * PAGE, PAGE, 0) &&
		       !*byte_at(at + 10 * PAGE),
	       "a mapped file grows again, with zeros");
	tap_ok(IsBadWritePtr((void *)(at + PAGE), 1) &&
		       !IsBadWritePtr((void *)at, 1) &&
		       *byte_at(at + PAGE) == 0,
	       "pages keep their protection");
	flushed = 0;
	tap_ok(!bee_view_sync((u64)at + PAGE, 3 * PAGE) && flushed == 3 &&
		       !bee_view_flush(file.h) && flushed == 23,
	       "msync flushes its pages, fsync all of the file's");
	bee_view_release((u64)at, 20 * PAGE);
	tap_ok(!views && !opened, "no handle stays open");
}

int main(void)
{
	WCHAR dir[MAX_PATH], path[MAX_PATH];

	if (!GetTempPathW(MAX_PATH, dir) ||
	    !GetTempFileNameW(dir, L"bee", 0, path))
		return 1;
	file.kind = WIN_FILE;
	file.flags = 2; /* O_RDWR */
	file.h = CreateFileW(path, GENERIC_READ | GENERIC_WRITE, 0, NULL,
			     CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
	bee_view_truncate(file.h, 20 * PAGE);
	check_refusals();
	check_places();
	check_many();
	check_size();
	CloseHandle(file.h);
	return tap_done();
}
