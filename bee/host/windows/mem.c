// SPDX-License-Identifier: MIT
/*
 * Guest memory: IMAGE is the .guest section of bee.exe, ARENA reservations up
 * to the window in which files are mapped (view.c).
 *
 * Wine stores a byte for each reserved page, 48 MiB for all of ARENA in each
 * process. So ARENA is reserved in pieces, when one is first used; nothing else
 * takes addresses there unless it asks for them. No call of Windows may cross
 * the border of two reservations.
 *
 * Pages of a section cannot be released, so IMAGE pages are zeroed instead;
 * `touched` says which ones need it. Owns that bitmap and `reserved`, guarded
 * by `lock`. No page is ever writable and executable.
 */
#include "win.h"
#include "view.h"

#define PIECE 0x40000000ull
#define PIECES ((WIN_WINDOW_START - SKEP_ARENA_START) / PIECE)
#define IMAGE_PAGES ((SKEP_IMAGE_END - SKEP_IMAGE_START) / SKEP_PAGE_SIZE)

/* Below this size a discard writes zeros, which costs less than two calls. */
#define DISCARD_BY_WRITING 0x10000

static SRWLOCK lock = SRWLOCK_INIT;
static u8 touched[IMAGE_PAGES / 8];
static u8 reserved[PIECES];

static u64 piece_of(u64 addr)
{
	return (addr - SKEP_ARENA_START) / PIECE;
}

/* Where the part of a range ends that lies in the piece of `addr`. */
static u64 piece_end(u64 addr, u64 end)
{
	u64 next = SKEP_ARENA_START + (piece_of(addr) + 1) * PIECE;

	return next < end ? next : end;
}

/* 0: something else has addresses of the piece. */
static int piece_reserve(u64 addr)
{
	u64 i = piece_of(addr);
	void *want = (void *)(SKEP_ARENA_START + i * PIECE);

	AcquireSRWLockExclusive(&lock);
	if (!reserved[i])
		reserved[i] = VirtualAlloc(want, PIECE, MEM_RESERVE,
					   PAGE_NOACCESS) == want;
	ReleaseSRWLockExclusive(&lock);
	return reserved[i];
}

static int piece_reserved(u64 addr)
{
	int is;

	AcquireSRWLockShared(&lock);
	is = reserved[piece_of(addr)];
	ReleaseSRWLockShared(&lock);
	return is;
}

/* Each program uses the first piece and the last one. */
int bee_mem_reserve(void)
{
	if (!piece_reserve(SKEP_ARENA_START) ||
	    !piece_reserve(WIN_WINDOW_START - 1))
		return (int)GetLastError();
	return 0;
}

static int in_image(u64 addr, u64 len)
{
	return addr >= SKEP_IMAGE_START && addr < SKEP_IMAGE_END &&
	       len <= SKEP_IMAGE_END - addr;
}

static int in_arena(u64 addr, u64 len)
{
	return addr >= SKEP_ARENA_START && addr < WIN_WINDOW_START &&
	       len <= WIN_WINDOW_START - addr;
}

static int in_window(u64 addr, u64 len)
{
	return bee_in_window(addr) && len <= SKEP_MMAP_END - addr;
}

/* Returns 0 if the protection is refused (writable and executable). */
static DWORD page_protection(u32 prot)
{
	if ((prot & ABI_PROT_WRITE) && (prot & ABI_PROT_EXEC))
		return 0;
	if (prot & ABI_PROT_EXEC)
		return PAGE_EXECUTE_READ;
	if (prot & ABI_PROT_WRITE)
		return PAGE_READWRITE;
	return prot & ABI_PROT_READ ? PAGE_READONLY : PAGE_NOACCESS;
}

static s64 change_protection(u64 addr, u64 len, DWORD to)
{
	DWORD old;

	if (!VirtualProtect((void *)addr, len, to, &old))
		return bee_win_last();
	if (to == PAGE_EXECUTE_READ)
		FlushInstructionCache(GetCurrentProcess(), (void *)addr, len);
	return 0;
}

static int page_touched(u64 page)
{
	return touched[page / 8] >> page % 8 & 1;
}

u8 *bee_mem_touched(u64 *len)
{
	*len = sizeof(touched);
	return touched;
}

int bee_mem_page_touched(u64 addr)
{
	return page_touched((addr - SKEP_IMAGE_START) / SKEP_PAGE_SIZE);
}

/* The range must be writable. Sets all of it to zero. */
static void image_zero(u64 addr, u64 len, int mark)
{
	u64 page = (addr - SKEP_IMAGE_START) / SKEP_PAGE_SIZE;
	u64 end = page + len / SKEP_PAGE_SIZE;

	for (; page < end; page++, addr += SKEP_PAGE_SIZE) {
		if (page_touched(page))
			memset((void *)addr, 0, SKEP_PAGE_SIZE);
		if (mark)
			touched[page / 8] |= (u8)(1u << page % 8);
	}
}

static s64 image_renew(u64 addr, u64 len, DWORD to)
{
	s64 err;

	AcquireSRWLockExclusive(&lock);
	err = change_protection(addr, len, PAGE_READWRITE);
	if (!err) {
		image_zero(addr, len, to != PAGE_NOACCESS);
		err = to == PAGE_READWRITE ? 0
					   : change_protection(addr, len, to);
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

static s64 arena_release(u64 addr, u64 len)
{
	u64 end = addr + len, stop;

	for (; addr < end; addr = stop) {
		stop = piece_end(addr, end);
		if (piece_reserved(addr) &&
		    !VirtualFree((void *)addr, stop - addr, MEM_DECOMMIT))
			return bee_win_last();
	}
	return 0;
}

static s64 arena_commit(u64 start, u64 len, DWORD to)
{
	u64 addr = start, end = start + len, stop;
	s64 err;

	for (; addr < end; addr = stop) {
		stop = piece_end(addr, end);
		if (piece_reserve(addr) &&
		    VirtualAlloc((void *)addr, stop - addr, MEM_COMMIT, to))
			continue;
		err = bee_win_last();
		arena_release(start, addr - start);
		return err;
	}
	return 0;
}

int bee_mem_open(u64 addr, u64 len)
{
	return !arena_commit(addr, len, PAGE_READWRITE);
}

s64 bee_mem_commit(u64 addr, u64 len, u32 prot)
{
	DWORD to = page_protection(prot);

	if (!to)
		return -LINUX_EACCES;
	if (in_image(addr, len))
		return image_renew(addr, len, to);
	return in_arena(addr, len) ? arena_commit(addr, len, to)
				   : -LINUX_EINVAL;
}

static s64 arena_protect(u64 addr, u64 len, DWORD to)
{
	u64 end = addr + len, stop;
	s64 err = 0;

	for (; addr < end && !err; addr = stop) {
		stop = piece_end(addr, end);
		err = change_protection(addr, stop - addr, to);
	}
	return err;
}

s64 bee_mem_protect(u64 addr, u64 len, u32 prot)
{
	DWORD to = page_protection(prot);

	if (!to)
		return -LINUX_EACCES;
	if (in_window(addr, len))
		return prot & ABI_PROT_EXEC ? -LINUX_EACCES
					    : bee_view_protect(addr, len, prot);
	if (in_arena(addr, len))
		return arena_protect(addr, len, to);
	return in_image(addr, len) ? change_protection(addr, len, to)
				   : -LINUX_EINVAL;
}

s64 bee_mem_release(u64 addr, u64 len)
{
	if (in_image(addr, len))
		return image_renew(addr, len, PAGE_NOACCESS);
	if (in_window(addr, len))
		return bee_view_release(addr, len);
	return in_arena(addr, len) ? arena_release(addr, len) : -LINUX_EINVAL;
}

/* Handles one run of committed pages that have the same protection. */
static s64 discard_run(u64 addr, u64 len, DWORD prot)
{
	int image = in_image(addr, len);

	if (prot == PAGE_WRITECOPY)
		prot = PAGE_READWRITE;
	if (!image && (prot != PAGE_READWRITE || len > DISCARD_BY_WRITING)) {
		if (!VirtualFree((void *)addr, len, MEM_DECOMMIT) ||
		    !VirtualAlloc((void *)addr, len, MEM_COMMIT, prot))
			return bee_win_last();
		return 0;
	}
	if (image && prot != PAGE_READWRITE)
		return image_renew(addr, len, prot);
	memset((void *)addr, 0, len);
	return 0;
}

s64 bee_mem_discard(u64 addr, u64 len)
{
	MEMORY_BASIC_INFORMATION m;
	u64 end = addr + len, run;
	s64 err = 0;

	if (!in_image(addr, len) && !in_arena(addr, len))
		return -LINUX_EINVAL;
	while (addr < end && !err) {
		if (!VirtualQuery((void *)addr, &m, sizeof(m)))
			return bee_win_last();
		run = (u64)m.BaseAddress + m.RegionSize;
		if (run > end)
			run = end;
		if (m.State == MEM_COMMIT)
			err = discard_run(addr, run - addr, m.Protect);
		addr = run;
	}
	return err;
}
