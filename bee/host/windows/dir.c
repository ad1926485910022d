// SPDX-License-Identifier: MIT
/*
 * Listing a directory through its own handle. A cookie is the number of the
 * entry that comes next; "." and ".." are 0 and 1, since Windows leaves them
 * out at the root of a volume. One listing belongs to one open directory, and
 * abi lets one thread at a time use it.
 */
#include "win.h"
#include "abi/include/name.h"

#define BUFFER 0x8000
#define DT_DIR 4
#define DT_REG 8
#define DT_LNK 10

struct win_dir {
	u64 index; /* cookie of the entry at `at` */
	u32 at;	   /* offset in data, or NONE if the buffer is empty */
	u32 filled;
	u32 begun; /* the listing was started and must not start again */
	u64 data[BUFFER / 8];
};

void bee_dir_free(struct win_dir *d)
{
	bee_os_free(d, sizeof(*d));
}

/* Returns 1, 0 at the end of the directory, or a negative errno. */
static s64 fill_buffer(HANDLE h, struct win_dir *d)
{
	FILE_INFO_BY_HANDLE_CLASS how =
		d->begun ? FileIdBothDirectoryInfo
			 : FileIdBothDirectoryRestartInfo;

	d->begun = 1;
	if (!GetFileInformationByHandleEx(h, how, d->data, BUFFER)) {
		DWORD e = GetLastError();

		return e == ERROR_NO_MORE_FILES || e == ERROR_FILE_NOT_FOUND
			       ? 0
			       : bee_win_error(e);
	}
	d->filled = 1;
	d->at = 0;
	return 1;
}

static int is_dots(const FILE_ID_BOTH_DIR_INFO *i)
{
	u32 n = i->FileNameLength / sizeof(WCHAR);

	return i->FileName[0] == '.' &&
	       (n == 1 || (n == 2 && i->FileName[1] == '.'));
}

static const FILE_ID_BOTH_DIR_INFO *next_entry(struct win_dir *d)
{
	const FILE_ID_BOTH_DIR_INFO *i =
		(const void *)((const u8 *)d->data + d->at);

	if (i->NextEntryOffset)
		d->at += i->NextEntryOffset;
	else
		d->filled = 0;
	return i;
}

static void copy_entry(struct abi_dirent *e, const FILE_ID_BOTH_DIR_INFO *i,
		       s64 len)
{
	e->name[len] = 0;
	e->ino = (u64)i->FileId.QuadPart;
	e->type =
		i->FileAttributes & FILE_ATTRIBUTE_DIRECTORY ? DT_DIR : DT_REG;
	if ((i->FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
	    i->EaSize == IO_REPARSE_TAG_SYMLINK)
		e->type = DT_LNK;
}

/*
 * Names without a Linux equivalent could not be opened, so they are left out.
 */
static s64 next_dirent(HANDLE h, struct win_dir *d, struct abi_dirent *e)
{
	const FILE_ID_BOTH_DIR_INFO *i;
	s64 n;

	for (;;) {
		if (!d->filled) {
			n = fill_buffer(h, d);
			if (n <= 0)
				return n;
		}
		i = next_entry(d);
		if (is_dots(i))
			continue;
		n = abi_name_decode((const u16 *)i->FileName,
				    i->FileNameLength / sizeof(WCHAR), e->name,
				    sizeof(e->name) - 1);
		if (n < 0)
			continue;
		d->index++;
		copy_entry(e, i, n);
		return 1;
	}
}

static void dot_entry(struct abi_dirent *e, u64 index)
{
	strcpy(e->name, index ? ".." : ".");
	e->type = DT_DIR;
	e->ino = 1 + index;
}

static s64 rewind_to(HANDLE h, struct win_dir *d, u64 cookie)
{
	struct abi_dirent skip;
	s64 n = 1;

	if (d->index == cookie && cookie > 2)
		return 1;
	d->index = 2;
	d->filled = 0;
	d->begun = 0;
	while (d->index < cookie && n == 1)
		n = next_dirent(h, d, &skip);
	return n;
}

s64 bee_dir_read(struct win_handle *h, struct abi_dirent *e)
{
	u64 cookie = e->next;
	s64 n;

	if (cookie < 2) {
		dot_entry(e, cookie);
		e->next = cookie + 1;
		return 1;
	}
	if (!h->dir)
		h->dir = bee_os_alloc(sizeof(*h->dir));
	if (!h->dir)
		return -LINUX_ENOMEM;
	n = rewind_to(h->h, h->dir, cookie);
	if (n == 1)
		n = next_dirent(h->h, h->dir, e);
	e->next = cookie + 1;
	return n;
}
