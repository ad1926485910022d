// SPDX-License-Identifier: MIT
/*
 * The text of a symbolic link, from the reparse data that a file system (which
 * may be a stick or a server, so not to be trusted) returns. No state.
 */
#include "win.h"
#include "abi/include/name.h"
#include <winioctl.h>

#define DATA_MAX 16384
#define LINK_RELATIVE 1

/* The data of IO_REPARSE_TAG_SYMLINK, as documented in the WDK. */
struct symlink_data {
	u32 tag;
	u16 data_bytes, reserved;
	u16 substitute_at, substitute_bytes, print_at, print_bytes;
	u32 flags;
	u16 text[(DATA_MAX - 20) / 2];
};

/* Converts the text one component at a time; backslashes become slashes. */
static s64 relative_text(const u16 *w, u64 len, char *out, u64 size)
{
	u64 n = 0, end;
	s64 got;

	while (len) {
		for (end = 0; end < len && w[end] != '\\'; end++)
			;
		if (end && w[0] == '.' &&
		    (end == 1 || (end == 2 && w[1] == '.'))) {
			got = (s64)end;
			if (n + end > size)
				return -LINUX_ENAMETOOLONG;
			memset(out + n, '.', end);
		} else {
			got = end ? abi_name_decode(w, end, out + n, size - n)
				  : 0;
		}
		if (got < 0)
			return got;
		n += (u64)got;
		if (end < len) {
			if (n == size)
				return -LINUX_ENAMETOOLONG;
			out[n++] = '/';
			end++;
		}
		w += end;
		len -= end;
	}
	return (s64)n;
}

static s64 absolute_text(const u16 *w, u64 len, char *out, u64 size)
{
	WCHAR path[WIN_PATH_MAX];
	char utf8[4096];
	s64 n;

	/* The kernel's name of \\?\ is \??\. */
	if (len >= 4 && w[0] == '\\' && w[1] == '?' && w[2] == '?' &&
	    w[3] == '\\') {
		w += 4;
		len -= 4;
	}
	_Static_assert(DATA_MAX / sizeof(*w) <= WIN_PATH_MAX, "a path fits");
	memcpy(path, w, len * sizeof(*w));
	path[len] = 0;
	n = bee_path_decode(path, utf8, sizeof(utf8));
	if (n < 0)
		return n;
	if ((u64)n > size)
		n = (s64)size;
	memcpy(out, utf8, (u64)n);
	return n;
}

s64 bee_link_read(HANDLE h, char *buf, u64 len)
{
	struct symlink_data *d = bee_os_alloc(DATA_MAX);
	DWORD got = 0;
	s64 n = -LINUX_EINVAL;
	u64 end;

	if (!d)
		return -LINUX_ENOMEM;
	if (DeviceIoControl(h, FSCTL_GET_REPARSE_POINT, NULL, 0, d, DATA_MAX,
			    &got, NULL) &&
	    got >= 20 && d->tag == IO_REPARSE_TAG_SYMLINK) {
		end = 20ull + d->substitute_at + d->substitute_bytes;
		if (end > got)
			n = -LINUX_EIO;
		else if (d->flags & LINK_RELATIVE)
			n = relative_text(d->text + d->substitute_at / 2,
					  d->substitute_bytes / 2, buf, len);
		else
			n = absolute_text(d->text + d->substitute_at / 2,
					  d->substitute_bytes / 2, buf, len);
	}
	bee_os_free(d, DATA_MAX);
	return n;
}
