// SPDX-License-Identifier: MIT
/*
 * Owns the map between Linux and Windows file names. No state, no lock.
 *
 * What Windows refuses: "Naming Files, Paths, and Namespaces" (Microsoft).
 * UTF-8 as RFC 3629 defines it.
 */
#include "base/errno.h"
#include "abi/include/name.h"

#define ESCAPE 0xf000

struct out16 {
	u16 *at;
	u64 len, size;
};

static int unit_put(struct out16 *out, u32 unit)
{
	if (out->len >= out->size)
		return -LINUX_ENAMETOOLONG;
	out->at[out->len++] = (u16)unit;
	return 0;
}

static int put_point(struct out16 *out, u32 c)
{
	int error;

	if (c < 0x10000)
		return unit_put(out, c);
	error = unit_put(out, 0xd800 + ((c - 0x10000) >> 10));
	return error ? error : unit_put(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* Length of the UTF-8 sequence at `s`; 0 if it is not valid. */
static u32 take_utf8(const u8 *s, u64 left, u32 *c)
{
	static const u32 least[] = {0, 0, 0x80, 0x800, 0x10000};
	u32 n, i;

	if (s[0] < 0x80) {
		*c = s[0];
		return 1;
	}
	n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
		return 0;
	*c = s[0] & (0xff >> (n + 1));
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	if (*c < least[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
		return 0;
	return n;
}

static u32 write_utf8(u8 *to, u32 c)
{
	if (c < 0x80) {
		to[0] = (u8)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (u8)(0xc0 | c >> 6);
		to[1] = (u8)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (u8)(0xe0 | c >> 12);
		to[1] = (u8)(0x80 | (c >> 6 & 0x3f));
		to[2] = (u8)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (u8)(0xf0 | c >> 18);
	to[1] = (u8)(0x80 | (c >> 12 & 0x3f));
	to[2] = (u8)(0x80 | (c >> 6 & 0x3f));
	to[3] = (u8)(0x80 | (c & 0x3f));
	return 4;
}

/* Reads one character of UTF-16; returns 0 units for a lone surrogate. */
static u32 take_utf16(const u16 *s, u64 left, u32 *c)
{
	*c = s[0];
	if (*c < 0xd800 || *c >= 0xe000)
		return 1;
	if (*c >= 0xdc00 || left < 2 || s[1] < 0xdc00 || s[1] >= 0xe000)
		return 0;
	*c = 0x10000 + ((*c - 0xd800) << 10) + (s[1] - 0xdc00);
	return 2;
}

static int is_refused(u8 c)
{
	return c < 0x20 || c == '"' || c == '*' || c == ':' || c == '<' ||
	       c == '>' || c == '?' || c == '|' || c == '\\';
}

/* Whether `name` begins with `word` (upper case), in any case. */
static int has_word(const char *name, u64 len, const char *word)
{
	u64 i;

	for (i = 0; word[i]; i++) {
		char c = i < len ? name[i] : 0;

		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		if (c != word[i])
			return 0;
	}
	return (int)i;
}

/* Bytes of the digit after COM and LPT: 0-9 and superscript 1, 2, 3. */
static u64 port_digit(const char *s, u64 left)
{
	const u8 *u = (const u8 *)s;

	if (left && u[0] >= '0' && u[0] <= '9')
		return 1;
	if (left > 1 && u[0] == 0xc2 &&
	    (u[1] == 0xb9 || u[1] == 0xb2 || u[1] == 0xb3))
		return 2;
	return 0;
}

/*
 * Whether the part before the first dot is a device name, such as "con", "Nul
 * .txt", "COM1". A colon ends the part like a dot.
 */
static int is_device(const char *name, u64 len)
{
	static const char *const words[] = {"CONIN$", "CONOUT$", "CLOCK$",
					    "CON",    "PRN",	 "AUX",
					    "NUL",    "COM",	 "LPT"};
	u64 i, n, digit;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		n = (u64)has_word(name, len, words[i]);
		if (!n)
			continue;
		if (i >= 7) {
			digit = port_digit(name + n, len - n);
			if (!digit)
				continue;
			n += digit;
		}
		while (n < len && name[n] == ' ')
			n++;
		if (n == len || name[n] == '.')
			return 1;
	}
	return 0;
}

s64 abi_name_encode(const char *name, u64 len, u16 *out, u64 size)
{
	const u8 *s = (const u8 *)name;
	struct out16 to = {out, 0, size};
	int device, error;
	u32 c, n;
	u64 i;

	if (!len || (s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.'))))
		return -LINUX_EINVAL;
	if (len > ABI_NAME_MAX)
		return -LINUX_ENAMETOOLONG;
	device = is_device(name, len);
	for (i = 0; i < len; i += n) {
		n = take_utf8(s + i, len - i, &c);
		if (n == 1 && (!c || c == '/'))
			return -LINUX_EINVAL;
		if (!n || (c >= ESCAPE && c <= ESCAPE + 0xff)) {
			n = 1;
			c = ESCAPE + s[i];
		} else if (n == 1 &&
			   (is_refused((u8)c) || (!i && device) ||
			    (i == len - 1 && (c == '.' || c == ' ')))) {
			c += ESCAPE;
		}
		error = put_point(&to, c);
		if (error)
			return error;
	}
	return (s64)to.len;
}

/* escapes: units that stand for one byte each are converted to that byte. */
static s64 to_utf8(const u16 *from, u64 len, char *out, u64 size, int escapes)
{
	u64 i, done = 0;
	u32 c, n, bytes;
	u8 text[4];

	for (i = 0; i < len; i += n) {
		n = take_utf16(from + i, len - i, &c);
		if (!n)
			return -LINUX_EILSEQ;
		bytes = 1;
		if (escapes && c >= ESCAPE && c <= ESCAPE + 0xff)
			text[0] = (u8)(c - ESCAPE);
		else
			bytes = write_utf8(text, c);
		if (bytes > size - done)
			return -LINUX_ENAMETOOLONG;
		for (c = 0; c < bytes; c++)
			out[done++] = (char)text[c];
	}
	return (s64)done;
}

s64 abi_name_decode(const u16 *name, u64 len, char *out, u64 size)
{
	u16 again[ABI_NAME_MAX];
	s64 bytes, units, i;

	if (size > ABI_NAME_MAX)
		size = ABI_NAME_MAX;
	bytes = to_utf8(name, len, out, size, 1);
	if (bytes < 0)
		return bytes;
	units = abi_name_encode(out, (u64)bytes, again, ABI_NAME_MAX);
	if (units != (s64)len)
		return -LINUX_EILSEQ;
	for (i = 0; i < units; i++)
		if (again[i] != name[i])
			return -LINUX_EILSEQ;
	return bytes;
}

static int is_slash(u16 c)
{
	return c == '\\' || c == '/';
}

/* Units of the \\?\ prefix. */
static u64 prefix_len(const u16 *s, u64 len)
{
	return len >= 4 && is_slash(s[0]) && is_slash(s[1]) && s[2] == '?' &&
			       is_slash(s[3])
		       ? 4
		       : 0;
}

static int put_text(struct out16 *to, const char *text)
{
	int error = 0;

	while (*text && !error)
		error = unit_put(to, (u8)*text++);
	return error;
}

/* `root` in its \\?\ form, without a slash at the end. */
static int put_root(struct out16 *to, const u16 *root, u64 len)
{
	u64 i = prefix_len(root, len);
	int error, unc = 0;

	if (!i && len >= 2 && is_slash(root[0]) && is_slash(root[1])) {
		unc = 1;
		i = 2;
	}
	if (i == len || (!unc && !i && (len < 2 || root[1] != ':')))
		return -LINUX_EINVAL;
	error = put_text(to, unc ? "\\\\?\\UNC\\" : "\\\\?\\");
	for (; i < len && !error; i++)
		error = unit_put(to, is_slash(root[i]) ? '\\' : root[i]);
	while (!error && to->len && to->at[to->len - 1] == '\\')
		to->len--;
	return error;
}

s64 abi_name_path(const u16 *root, u64 root_len, const char *path, u16 *out,
		  u64 size)
{
	struct out16 to = {out, 0, size};
	u64 n, parts = 0;
	s64 units;
	int error;

	if (path[0] != '/')
		return -LINUX_EINVAL;
	error = put_root(&to, root, root_len);
	while (!error && *path) {
		while (*path == '/')
			path++;
		for (n = 0; path[n] && path[n] != '/'; n++)
			;
		if (!n)
			break;
		error = unit_put(&to, '\\');
		if (error)
			break;
		units = abi_name_encode(path, n, to.at + to.len,
					to.size - to.len);
		if (units < 0)
			return units;
		to.len += (u64)units;
		path += n;
		parts++;
	}
	/* C: alone would be a drive's current directory, C:\ is its root. */
	if (!error && !parts)
		error = unit_put(&to, '\\');
	if (!error)
		error = unit_put(&to, 0);
	return error ? error : (s64)(to.len - 1);
}

/* Windows ignores case; for the root's own text ASCII suffices. */
static int same_unit(u16 a, u16 b)
{
	if (is_slash(a) && is_slash(b))
		return 1;
	if (a >= 'a' && a <= 'z')
		a = (u16)(a - 'a' + 'A');
	if (b >= 'a' && b <= 'z')
		b = (u16)(b - 'a' + 'A');
	return a == b;
}

/* Units to skip so that C:\x, \\?\C:\x, \\s\x and \\?\UNC\s\x compare. */
static u64 prefix_length(const u16 *s, u64 len)
{
	u64 i = prefix_len(s, len);

	if (i && len >= 8 && same_unit(s[4], 'U') && same_unit(s[5], 'N') &&
	    same_unit(s[6], 'C') && is_slash(s[7]))
		return 8;
	if (i)
		return i;
	return len >= 2 && is_slash(s[0]) && is_slash(s[1]) ? 2 : 0;
}

/* Decodes the components of `path`, each after a slash; ends with NUL. */
static s64 decode_parts(const u16 *path, u64 len, char *out, u64 size)
{
	u64 i = 0, n, done = 0;
	s64 bytes;

	while (i < len) {
		for (; i < len && is_slash(path[i]); i++)
			;
		for (n = 0; i + n < len && !is_slash(path[i + n]); n++)
			;
		if (!n)
			break;
		if (size - done < 2)
			return -LINUX_ENAMETOOLONG;
		out[done++] = '/';
		bytes = abi_name_decode(path + i, n, out + done,
					size - done - 1);
		if (bytes < 0)
			return bytes;
		done += (u64)bytes;
		i += n;
	}
	if (!done)
		out[done++] = '/';
	out[done] = 0;
	return (s64)done;
}

s64 abi_name_path_back(const u16 *root, u64 root_len, const u16 *path, u64 len,
		       char *out, u64 size)
{
	u64 i = prefix_length(root, root_len), j = prefix_length(path, len);

	if (size < 2)
		return -LINUX_ENAMETOOLONG;
	while (root_len > i && is_slash(root[root_len - 1]))
		root_len--;
	for (; i < root_len; i++, j++)
		if (j >= len || !same_unit(root[i], path[j]))
			return -LINUX_EXDEV;
	if (j < len && !is_slash(path[j]))
		return -LINUX_EXDEV;
	return decode_parts(path + j, len - j, out, size);
}

s64 abi_utf8_to_utf16(const char *from, u64 len, u16 *out, u64 size)
{
	struct out16 to = {out, 0, size};
	u64 i;
	u32 c, n;

	for (i = 0; i < len; i += n) {
		n = take_utf8((const u8 *)from + i, len - i, &c);
		if (!n)
			return -LINUX_EILSEQ;
		if (put_point(&to, c))
			return -LINUX_ENAMETOOLONG;
	}
	return (s64)to.len;
}

s64 abi_utf16_to_utf8(const u16 *from, u64 len, char *out, u64 size)
{
	return to_utf8(from, len, out, size, 0);
}
