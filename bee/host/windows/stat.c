// SPDX-License-Identifier: MIT
/*
 * Windows' attributes of a file as Linux's. Owner and permission
 * bits do not exist there: everything belongs to the user and may be run;
 * only "read-only" is kept. Owns Wine's volume number, atomic.
 */
#include "win.h"
#include <stddef.h>
#include <winternl.h>

#define NTFS_MAGIC 0x5346544e
#define FILE_INTERNAL_CLASS ((FILE_INFORMATION_CLASS)6)

static u32 mode_of(DWORD attributes, DWORD tag)
{
	u32 write = attributes & FILE_ATTRIBUTE_READONLY ? 0 : 0200;

	if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
	    tag == IO_REPARSE_TAG_SYMLINK)
		return WIN_S_IFLNK | 0777;
	/* For directories the bit has another meaning. */
	if (attributes & FILE_ATTRIBUTE_DIRECTORY)
		return WIN_S_IFDIR | 0755;
	return WIN_S_IFREG | 0555 | write;
}

static s64 time_of(LARGE_INTEGER t)
{
	FILETIME ft = {t.LowPart, (DWORD)t.HighPart};

	return bee_win_ns(&ft);
}

/*
 * A volume's number is one more answer of the file system on Windows. Wine
 * asks another process for it, which takes as long as all the rest ten times,
 * and has one number for all of the host's files; it knows none for a file that
 * was renamed while open.
 */
static u64 volume_of(HANDLE h)
{
	static u64 of_wine;
	BY_HANDLE_FILE_INFORMATION i;
	u64 known = __atomic_load_n(&of_wine, __ATOMIC_RELAXED);

	if (known)
		return known;
	if (!GetFileInformationByHandle(h, &i))
		return 0;
	if (bee_wine_version())
		__atomic_store_n(&of_wine, i.dwVolumeSerialNumber,
				 __ATOMIC_RELAXED);
	return i.dwVolumeSerialNumber;
}

s64 bee_file_identify(HANDLE h, struct win_file_id *id)
{
	LARGE_INTEGER index; /* FILE_INTERNAL_INFORMATION of the WDK */
	IO_STATUS_BLOCK result;
	NTSTATUS status;

	status = NtQueryInformationFile(h, &result, &index, sizeof(index),
					FILE_INTERNAL_CLASS);
	if (status < 0)
		return bee_win_error(RtlNtStatusToDosError(status));
	id->index = (u64)index.QuadPart;
	id->volume = volume_of(h);
	return 0;
}

int bee_file_same(const struct win_file_id *a, const struct win_file_id *b)
{
	return a->index == b->index &&
	       (a->volume == b->volume || !a->volume || !b->volume);
}

s64 bee_file_stat(HANDLE h, struct abi_stat *st)
{
	FILE_ATTRIBUTE_TAG_INFO tag = {0, 0};
	struct win_file_id id;
	FILE_STANDARD_INFO size;
	FILE_BASIC_INFO basic;
	s64 err = bee_file_identify(h, &id);

	if (err)
		return err;
	if (!GetFileInformationByHandleEx(h, FileBasicInfo, &basic,
					  sizeof(basic)) ||
	    !GetFileInformationByHandleEx(h, FileStandardInfo, &size,
					  sizeof(size)))
		return bee_win_last();
	if (basic.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)
		GetFileInformationByHandleEx(h, FileAttributeTagInfo, &tag,
					     sizeof(tag));
	memset(st, 0, sizeof(*st));
	st->dev = id.volume;
	st->ino = id.index;
	st->nlink = size.DeletePending	 ? 0
		    : size.NumberOfLinks ? size.NumberOfLinks
					 : 1;
	st->mode = mode_of(basic.FileAttributes, tag.ReparseTag);
	st->uid = 1000;
	st->gid = 1000;
	st->size = (u64)size.EndOfFile.QuadPart;
	if ((st->mode & 0170000) == WIN_S_IFDIR)
		st->size = 4096;
	st->blksize = 4096;
	st->blocks = ((u64)size.AllocationSize.QuadPart + 511) / 512;
	st->atime_ns = time_of(basic.LastAccessTime);
	st->mtime_ns = time_of(basic.LastWriteTime);
	st->ctime_ns = time_of(basic.ChangeTime);
	return 0;
}

s64 bee_file_statfs(HANDLE h, struct abi_statfs *fs)
{
	ULARGE_INTEGER mine, all, left;
	WCHAR path[WIN_PATH_MAX];
	DWORD n;

	n = GetFinalPathNameByHandleW(h, path, WIN_PATH_MAX, 0);
	if (!n || n >= WIN_PATH_MAX)
		return bee_win_last();
	/*
	 * Windows does not accept the name of a file here, but that of its
	 * directory with a backslash at the end.
	 */
	while (n && path[n - 1] != '\\')
		n--;
	path[n] = 0;
	if (!GetDiskFreeSpaceExW(path, &mine, &all, &left))
		return bee_win_last();
	memset(fs, 0, sizeof(*fs));
	fs->type = NTFS_MAGIC;
	fs->bsize = 4096;
	fs->blocks = all.QuadPart / 4096;
	fs->bfree = left.QuadPart / 4096;
	fs->bavail = mine.QuadPart / 4096;
	fs->files = fs->blocks;
	fs->ffree = fs->bfree;
	fs->namelen = 255;
	return 0;
}

s64 bee_file_times(HANDLE h, const s64 times[2])
{
	FILETIME a = bee_win_filetime(times[0]), m = bee_win_filetime(times[1]);

	if (!SetFileTime(h, NULL, times[0] == ABI_TIME_OMIT ? NULL : &a,
			 times[1] == ABI_TIME_OMIT ? NULL : &m))
		return bee_win_last();
	return 0;
}

s64 bee_file_chmod(HANDLE h, u32 mode)
{
	FILE_BASIC_INFO b;

	if (!GetFileInformationByHandleEx(h, FileBasicInfo, &b, sizeof(b)))
		return bee_win_last();
	if (b.FileAttributes & FILE_ATTRIBUTE_DIRECTORY)
		return 0;
	b.FileAttributes &= ~(DWORD)FILE_ATTRIBUTE_READONLY;
	if (!(mode & 0222))
		b.FileAttributes |= FILE_ATTRIBUTE_READONLY;
	if (!b.FileAttributes)
		b.FileAttributes = FILE_ATTRIBUTE_NORMAL;
	memset(&b, 0, offsetof(FILE_BASIC_INFO, FileAttributes));
	if (!SetFileInformationByHandle(h, FileBasicInfo, &b, sizeof(b)))
		return bee_win_last();
	return 0;
}
