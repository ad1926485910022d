// SPDX-License-Identifier: MIT
/*
 * The functions that core needs from its host besides struct abi_host: memory
 * for bee itself, the program's file, standard streams, messages. No state.
 */
#include "win.h"
#include "abi/include/name.h"
#include <stdio.h>

#define O_WRONLY 1
#define O_RDWR 2
#define READ_MAX (64u << 20)

void *bee_os_alloc(u64 len)
{
	return VirtualAlloc(NULL, len, MEM_RESERVE | MEM_COMMIT,
			    PAGE_READWRITE);
}

void bee_os_free(void *p, u64 len)
{
	(void)len;
	if (p)
		VirtualFree(p, 0, MEM_RELEASE);
}

/* If the file has become shorter, zeros follow its end. */
static s64 read_all(HANDLE file, u8 *to, u64 len)
{
	DWORD want, got = 1;
	u64 done = 0;

	for (; done < len && got; done += got) {
		want = len - done < READ_MAX ? (DWORD)(len - done) : READ_MAX;
		if (!ReadFile(file, to + done, want, &got, NULL))
			return bee_win_last();
	}
	return 0;
}

static s64 read_handle(HANDLE file, const u8 **bytes, u64 *len)
{
	FILE_ATTRIBUTE_TAG_INFO info;
	LARGE_INTEGER size;
	s64 err;
	u8 *p;

	if (!GetFileInformationByHandleEx(file, FileAttributeTagInfo, &info,
					  sizeof(info)))
		return bee_win_last();
	if (info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY)
		return -LINUX_EISDIR;
	if (!GetFileSizeEx(file, &size))
		return bee_win_last();
	*len = (u64)size.QuadPart;
	*bytes = (const u8 *)"";
	if (!*len)
		return 0;
	p = bee_os_alloc(*len);
	if (!p)
		return -LINUX_ENOMEM;
	err = read_all(file, p, *len);
	if (err)
		bee_os_free(p, *len);
	else
		*bytes = p;
	return err;
}

s64 bee_os_file_read(const char *path, const u8 **bytes, u64 *len)
{
	WCHAR wide[WIN_PATH_MAX];
	HANDLE file;
	s64 err;

	err = abi_utf8_to_utf16(path, strlen(path), (u16 *)wide,
				WIN_PATH_MAX - 1);
	if (err < 0)
		return err;
	wide[err] = 0;
	file = CreateFileW(wide, GENERIC_READ,
			   FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
			   OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
	if (file == INVALID_HANDLE_VALUE)
		return bee_win_last();
	err = read_handle(file, bytes, len);
	CloseHandle(file);
	return err;
}

void bee_os_file_free(const u8 *bytes, u64 len)
{
	if (len)
		bee_os_free((void *)bytes, len);
}

static const DWORD std_number[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE,
				   STD_ERROR_HANDLE};

static s64 std_stream(u32 fd, HANDLE h, int console)
{
	struct win_stream *s = bee_stream_new(h, console, fd != 0);
	struct win_handle *e;
	s32 number;

	if (!s)
		return -LINUX_ENOMEM;
	e = bee_handle_new(WIN_STREAM, &number);
	if (!e)
		return -LINUX_EMFILE;
	e->stream = s;
	return number;
}

static s64 std_plain(HANDLE h, u32 kind)
{
	struct win_handle *e;
	s32 number;

	e = bee_handle_new(kind, &number);
	if (!e)
		return -LINUX_EMFILE;
	e->h = h;
	e->inherited = 1;
	return number;
}

s64 bee_os_inherited(u32 fd, struct abi_right *out)
{
	(void)fd;
	(void)out;
	return -LINUX_EBADF;
}

s64 bee_os_inherited_end(void)
{
	return 0;
}

s64 bee_os_stream(u64 number, u32 *type, u32 *flags)
{
	HANDLE h = (HANDLE)(ULONG_PTR)number;
	struct win_handle *e;
	s32 handle;

	if (GetFileType(h) != FILE_TYPE_PIPE)
		return -LINUX_EBADF;
	e = bee_handle_new(WIN_STREAM, &handle);
	if (!e)
		return -LINUX_EMFILE;
	*type = WIN_S_IFIFO;
	*flags = O_RDWR;
	if (!bee_stream_pair(h, &e->stream, &e->out))
		return handle;
	bee_handle_free(handle);
	return -LINUX_ENOMEM;
}

s64 bee_os_std(u32 fd, u32 *type, u32 *flags)
{
	HANDLE h = fd < 3 ? GetStdHandle(std_number[fd]) : NULL;
	DWORD mode;

	if (!h || h == INVALID_HANDLE_VALUE)
		return -LINUX_EBADF;
	*flags = fd ? O_WRONLY : 0;
	switch (GetFileType(h)) {
	case FILE_TYPE_PIPE:
		*type = WIN_S_IFIFO;
		return std_stream(fd, h, 0);
	case FILE_TYPE_CHAR:
		*type = WIN_S_IFCHR;
		if (!GetConsoleMode(h, &mode))
			return std_plain(h, WIN_DEVICE);
		if (fd)
			SetConsoleMode(
				h, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
		*flags = O_RDWR;
		return std_stream(fd, h, 1);
	case FILE_TYPE_DISK:
		*type = WIN_S_IFREG;
		return std_plain(h, WIN_FILE);
	}
	return -LINUX_EBADF;
}

static void write_stderr(const char *line, DWORD len)
{
	HANDLE h = GetStdHandle(STD_ERROR_HANDLE);
	DWORD n;

	if (h && h != INVALID_HANDLE_VALUE)
		WriteFile(h, line, len, &n, NULL);
}

void bee_os_message(const char *line)
{
	char text[1100];
	int n = snprintf(text, sizeof(text), "bee: %.1000s\n", line);

	write_stderr(text, (DWORD)n);
}

void bee_log(const char *line)
{
	bee_os_message(line);
}

static s64 name_at_top(const WCHAR *leaf, char *buf, u64 len)
{
	s64 n;

	if (len < 2)
		return -LINUX_ENAMETOOLONG;
	n = abi_name_decode((const u16 *)leaf, wcslen(leaf), buf + 1, len - 2);
	if (n < 0)
		return n;
	buf[0] = '/';
	buf[n + 1] = 0;
	return n + 1;
}

s64 bee_os_guest_path(const char *host, char *buf, u64 len)
{
	WCHAR wide[WIN_PATH_MAX], full[WIN_PATH_MAX];
	DWORD got;
	s64 n;

	n = abi_utf8_to_utf16(host, strlen(host), (u16 *)wide,
			      WIN_PATH_MAX - 1);
	if (n < 0)
		return n;
	wide[n] = 0;
	got = GetFullPathNameW(wide, WIN_PATH_MAX, full, NULL);
	if (!got || got >= WIN_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	n = bee_path_decode(full, buf, len);
	/* A program outside the root gets a path directly below the root. */
	if (n == -LINUX_EXDEV && wcsrchr(full, '\\'))
		n = name_at_top(wcsrchr(full, '\\') + 1, buf, len);
	return n < 0 ? n : 0;
}

s64 bee_os_guest_cwd(char *buf, u64 len)
{
	WCHAR wide[WIN_PATH_MAX];
	DWORD got = GetCurrentDirectoryW(WIN_PATH_MAX, wide);
	s64 n;

	if (!got || got >= WIN_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	n = bee_path_decode(wide, buf, len);
	if (n == -LINUX_EXDEV && len > 1)
		n = (s64)strlen(strcpy(buf, "/"));
	return n < 0 ? n : 0;
}
