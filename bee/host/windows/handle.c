// SPDX-License-Identifier: MIT
/*
 * The table from abi's small numbers to Windows handles. `lock` guards the
 * allocation of numbers; an entry in use belongs to the calls that use it, and
 * abi closes it only after the last of them.
 */
#include "win.h"

#define HANDLES 16384

static SRWLOCK lock = SRWLOCK_INIT;
static struct win_handle table[HANDLES];
static s32 lowest; /* all numbers below it are in use */

struct win_handle *bee_handle_new(u32 kind, s32 *number)
{
	struct win_handle *h = NULL;
	s32 i;

	AcquireSRWLockExclusive(&lock);
	for (i = lowest; i < HANDLES; i++) {
		if (table[i].kind != WIN_NONE)
			continue;
		h = &table[i];
		memset(h, 0, sizeof(*h));
		h->h = INVALID_HANDLE_VALUE;
		h->s = INVALID_SOCKET;
		h->kind = kind;
		*number = i;
		break;
	}
	lowest = i;
	ReleaseSRWLockExclusive(&lock);
	return h;
}

struct win_handle *bee_handle_at(u32 kind, s32 number)
{
	struct win_handle *h = &table[number];

	if (number < 0 || number >= HANDLES)
		return NULL;
	AcquireSRWLockExclusive(&lock);
	memset(h, 0, sizeof(*h));
	h->h = INVALID_HANDLE_VALUE;
	h->s = INVALID_SOCKET;
	h->kind = kind;
	ReleaseSRWLockExclusive(&lock);
	return h;
}

struct win_handle *bee_handle_get(s32 number)
{
	if (number < 0 || number >= HANDLES || table[number].kind == WIN_NONE)
		return NULL;
	return &table[number];
}

void bee_handle_gone(HANDLE h)
{
	struct win_file_id want, have;
	FILE_STANDARD_INFO links;
	s32 i;

	if (!GetFileInformationByHandleEx(h, FileStandardInfo, &links,
					  sizeof(links)) ||
	    links.NumberOfLinks > 1 || bee_file_identify(h, &want))
		return;
	AcquireSRWLockShared(&lock);
	for (i = 0; i < HANDLES; i++) {
		if (table[i].kind != WIN_FILE ||
		    bee_file_identify(table[i].h, &have) ||
		    !bee_file_same(&have, &want))
			continue;
		__atomic_store_n(&table[i].gone, 1, __ATOMIC_RELAXED);
	}
	ReleaseSRWLockShared(&lock);
}

void bee_handle_free(s32 number)
{
	AcquireSRWLockExclusive(&lock);
	table[number].kind = WIN_NONE;
	if (number < lowest)
		lowest = number;
	ReleaseSRWLockExclusive(&lock);
}
