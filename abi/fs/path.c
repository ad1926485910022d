// SPDX-License-Identifier: MIT
/* Owns the rules for paths, path_resolution(7). No state. */
#include "path.h"
#include "base/errno.h"
#include "abi/include/host.h"
#include "abi/include/mem.h"
#include "abi/include/name.h"

static u64 parent_of(const char *path, u64 len)
{
	while (len && path[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

static s64 component_append(char *out, u64 len, const char *part, u64 n)
{
	if (n > ABI_NAME_MAX || len + 1 + n >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	out[len++] = '/';
	abi_memcpy(out + len, part, n);
	return (s64)(len + n);
}

/* Skips slashes. Returns the length of the next component; 0 if there is
 * none. */
static u64 component_next(const char **path, u32 *flags)
{
	const char *at = *path;
	u64 n;

	while (*at == '/')
		at++;
	if (at != *path || *at)
		*flags |= ABI_PATH_MUST_DIR;
	for (n = 0; at[n] && at[n] != '/'; n++)
		;
	*path = at;
	if (at[0] == '.' && (n == 1 || (n == 2 && at[1] == '.'))) {
		*flags &= ~(u32)ABI_PATH_ENDS;
		*flags |= ABI_PATH_MUST_DIR |
			  (n == 1 ? ABI_PATH_DOT : ABI_PATH_DOTS);
	}
	return n;
}

/* Adds the components of `path` to the `len` bytes in `out`. */
static s64 components_append(char *out, u64 len, const char *path, u32 *flags)
{
	s64 grown;
	u64 n;

	for (;;) {
		n = component_next(&path, flags);
		if (!n)
			return (s64)len;
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			len = parent_of(out, len);
		} else if (n != 1 || path[0] != '.') {
			*flags &= ~(u32)ABI_PATH_ENDS;
			grown = component_append(out, len, path, n);
			if (grown < 0)
				return grown;
			len = (u64)grown;
		}
		path += n;
	}
}

/* Links ------------------------------------------------------------------- */

struct walk {
	const struct abi_path_walk *how;
	u32 links;		    /* followed so far */
	char pending[ABI_PATH_MAX]; /* the part that was not walked yet */
	char text[ABI_PATH_MAX];    /* of the link that was read last */
};

static int has_parent_part(const char *path)
{
	for (; *path; path++)
		if (path[0] == '.' && path[1] == '.' &&
		    (path[2] == '/' || !path[2]))
			return 1;
	return 0;
}

/*
 * If the component at the end of `out` is a link, removes it, and makes its
 * text, followed by `rest`, pending: 1. 0 for a folder.
 */
static s64 link_follow(struct walk *w, char *out, u64 *len, const char *rest)
{
	u64 more = abi_strlen(rest), slash = *rest && *rest != '/';
	s64 n;

	out[*len] = 0;
	n = w->how->look(w->how->arg, out, w->text);
	if (n <= 0)
		return n;
	if (++w->links > ABI_PATH_LINKS)
		return -LINUX_ELOOP;
	if ((u64)n + slash + more >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	abi_memmove(w->pending + (u64)n + slash, rest, more + 1);
	if (slash)
		w->pending[n] = '/';
	abi_memcpy(w->pending, w->text, (u64)n);
	*len = *w->text == '/' ? 0 : parent_of(out, *len);
	return 1;
}

/* As components_append, but ".." after a link leaves the folder that the link
 * leads to. */
static s64 components_walk(struct walk *w, char *out, u64 len, u32 *flags)
{
	const char *path = w->pending;
	s64 got = 0;
	u64 n;

	for (;;) {
		n = component_next(&path, flags);
		if (!n)
			return (s64)len;
		got = 0;
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			if (len && !w->how->all)
				got = link_follow(w, out, &len, path);
			if (!got)
				len = parent_of(out, len);
		} else if (n != 1 || path[0] != '.') {
			*flags &= ~(u32)ABI_PATH_ENDS;
			got = component_append(out, len, path, n);
			if (got < 0)
				return got;
			len = (u64)got;
			got = w->how->all ? link_follow(w, out, &len, path + n)
					  : 0;
		}
		if (got < 0)
			return got;
		path = got ? w->pending : path + n;
	}
}

static s64 walk_append(const struct abi_path_walk *how, char *out, u64 len,
		       const char *path, u32 *flags)
{
	struct walk w;

	w.how = how;
	w.links = 0;
	abi_strcpy(w.pending, path, sizeof(w.pending));
	return components_walk(&w, out, len, flags);
}

s64 abi_path_join(const struct abi_path_walk *how, const char *base,
		  const char *path, char *out, u32 *flags)
{
	u32 ignored = 0;
	s64 len = 0;

	*flags = 0;
	if (!*path)
		return -LINUX_ENOENT;
	if (abi_strlen(path) >= ABI_PATH_MAX)
		return -LINUX_ENAMETOOLONG;
	if (*path != '/')
		len = components_append(out, 0, base, &ignored);
	if (len < 0)
		return len;
	if (how && (how->all || has_parent_part(path)))
		len = walk_append(how, out, (u64)len, path, flags);
	else
		len = components_append(out, (u64)len, path, flags);
	if (len < 0)
		return len;
	if (!len)
		out[len++] = '/';
	out[len] = 0;
	return len;
}

const char *abi_path_below(const char *path, const char *dir)
{
	while (*dir && *path == *dir) {
		path++;
		dir++;
	}
	return !*dir && *path == '/' ? path + 1 : 0;
}
