// SPDX-License-Identifier: MIT
/* Open files as owners of locks; see lockowner.h. No state. */
#include "lockowner.h"
#include "lockmirror.h"
#include <stdio.h>

#define NAME_MAX 64

static void owner_name(WCHAR name[NAME_MAX], u64 owner)
{
	swprintf(name, NAME_MAX, L"Local\\skep-bee-open-1-%llx", owner);
}

s64 lockowner_make(struct win_handle *h)
{
	WCHAR name[NAME_MAX];
	s64 err;

	bee_filelock_assert();
	if (h->lock_owner)
		return 0;
	err = bee_random(&h->lock_id, sizeof(h->lock_id));
	if (err)
		return err;
	owner_name(name, h->lock_id);
	h->lock_owner = CreateEventW(NULL, TRUE, FALSE, name);
	return h->lock_owner ? 0 : -LINUX_ENOLCK;
}

int lockowner_is_gone(u64 owner)
{
	WCHAR name[NAME_MAX];
	HANDLE event;

	owner_name(name, owner);
	event = OpenEventW(SYNCHRONIZE, FALSE, name);
	if (!event)
		return GetLastError() == ERROR_FILE_NOT_FOUND;
	CloseHandle(event);
	return 0;
}
