// SPDX-License-Identifier: MIT
/*
 * Owns the way from a guest's name to an absolute path, path_resolution(7).
 */
#include "names.h"
#include "desc.h"
#include "open.h"
#include "path.h"
#include "procfs.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/* The path of the directory `dirfd`. */
static s64 base_of(struct abi_call *c, u64 dirfd, char *base)
{
	struct abi_desc *d;
	s64 error = 0;

	if ((s32)dirfd == ABI_AT_FDCWD) {
		abi_lock(c->p, &c->p->lock);
		abi_strcpy(base, abi_cwd(c->p), ABI_PATH_MAX);
		abi_unlock(c->p, &c->p->lock);
		return 0;
	}
	d = abi_desc_get(c->p, dirfd);
	if (!d)
		return -LINUX_EBADF;
	if (d->type != ABI_S_IFDIR)
		error = -LINUX_ENOTDIR;
	else
		abi_strcpy(base, d->path, ABI_PATH_MAX);
	abi_desc_put(c->p, d);
	return error;
}

/* The `look` function of abi_path_walk. */
static s64 look_at(void *arg, const char *path, char *text)
{
	struct abi_proc *p = arg;
	struct abi_stat st;
	struct abi_path_op op = {
		.verb = ABI_PATH_LSTAT, .path = path, .stat = &st};
	s64 n = abi_synth_stat(p, path, &st);

	if (!n) {
		n = abi_synth_link(p, path, text, ABI_PATH_MAX);
		if (n)
			return n;
		n = p->host->path(&op);
	}
	if (n < 0 || (st.mode & ABI_S_IFMT) == ABI_S_IFDIR)
		return n < 0 ? n : 0;
	if ((st.mode & ABI_S_IFMT) != ABI_S_IFLNK)
		return -LINUX_ENOTDIR;
	op.verb = ABI_PATH_READLINK;
	op.buf = text;
	op.len = ABI_PATH_MAX;
	return p->host->path(&op);
}

s64 abi_path_name(struct abi_call *c, u64 dirfd, const char *name, char *out,
		  u32 *flags)
{
	const struct abi_path_walk walk = {.look = look_at, .arg = c->p};
	char base[ABI_PATH_MAX];
	s64 error;

	base[0] = 0;
	if (name[0] != '/') {
		error = base_of(c, dirfd, base);
		if (error)
			return error;
	}
	return abi_path_join(&walk, base, name, out, flags);
}

s64 abi_path_at(struct abi_call *c, u64 dirfd, u64 gaddr, char *out, u32 *flags)
{
	char path[ABI_PATH_MAX];
	s64 error;

	error = abi_user_string(c->p, path, sizeof(path), gaddr,
				-LINUX_ENAMETOOLONG);
	if (error < 0)
		return error;
	return abi_path_name(c, dirfd, path, out, flags);
}

s64 abi_path_folder(struct abi_call *c, const char *path, char *out, u32 *flags)
{
	const struct abi_path_walk walk = {look_at, c->p, 1};

	return abi_path_join(&walk, "", path, out, flags);
}

s64 abi_path_last(struct abi_call *c, char *path, u32 *end)
{
	const struct abi_path_walk walk = {.look = look_at, .arg = c->p};
	char text[ABI_PATH_MAX], folder[ABI_PATH_MAX];
	u32 i;

	for (i = 0; i <= ABI_PATH_LINKS; i++) {
		s64 n = look_at(c->p, path, text);

		if (n <= 0)
			return n == -LINUX_ENOTDIR ? 0 : n;
		if (n >= ABI_PATH_MAX)
			return -LINUX_ENAMETOOLONG;
		text[n] = 0;
		abi_path_join(0, path, "..", folder, end);
		n = abi_path_join(&walk, folder, text, path, end);
		if (n < 0)
			return n;
	}
	return -LINUX_ELOOP;
}
