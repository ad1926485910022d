// SPDX-License-Identifier: MIT
/*
 * Owns memfd_create(2) and O_TMPFILE: files without a name. One is created
 * under a unique name, which is removed before the program gets the descriptor.
 * So it is a file of the host, which can be mapped and shared like others.
 */
#include "desc.h"
#include "names.h"
#include "unnamed.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define NAME_MAX 249 /* of the program's, without the NUL */
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#define MFD_HUGETLB 4u
#define MFD_NOEXEC_SEAL 8u
#define MFD_EXEC 16u
#define KNOWN (MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC)

/* Folders in memory first; the last one exists everywhere. */
static const char *const folders[] = {"/dev/shm/", "/tmp/", "/var/tmp/", "/"};

s64 abi_unnamed_open(struct abi_proc *p, const char *folder,
		     struct abi_open *open)
{
	struct abi_path_op unlink = {.verb = ABI_PATH_UNLINK};
	char path[ABI_PATH_MAX];
	struct abi_text t;
	s64 error;
	u64 number;

	error = p->host->random(&number, sizeof(number));
	if (error)
		return error;
	if (abi_strlen(folder) > sizeof(path) - 32)
		return -LINUX_ENAMETOOLONG;
	abi_text_init(&t, path, sizeof(path));
	abi_text_str(&t, folder);
	abi_text_str(&t, ".memfd-");
	abi_text_hex(&t, number, 16);
	open->path = unlink.path = path;
	error = p->host->file_open(open);
	open->path = folder;
	if (error)
		return error;
	error = p->host->path(&unlink);
	if (error)
		p->host->file_close(open->handle);
	return error;
}

static s64 make_file(struct abi_proc *p, struct abi_open *open)
{
	s64 error = -LINUX_ENOENT;
	u32 i;

	for (i = 0; error && i < sizeof(folders) / sizeof(folders[0]); i++)
		error = abi_unnamed_open(p, folders[i], open);
	return error;
}

static s64 install_file(struct abi_call *c, const char *name, u32 flags)
{
	struct abi_open open = {.flags = ABI_O_RDWR | ABI_O_CREAT | ABI_O_EXCL,
				.mode = flags & MFD_NOEXEC_SEAL ? 0666 : 0777};
	struct abi_desc *d =
		abi_desc_new(c->p, ABI_DESC_NULL, ABI_O_RDWR | ABI_O_LARGEFILE);
	struct abi_text t;
	s64 error;

	if (!d)
		return -LINUX_ENFILE;
	error = make_file(c->p, &open);
	if (error) {
		abi_desc_put(c->p, d);
		return error;
	}
	d->handle = open.handle;
	d->type = ABI_S_IFREG;
	d->kind = ABI_DESC_FILE;
	abi_text_init(&t, d->path, sizeof(d->path));
	abi_text_str(&t, "/memfd:");
	abi_text_str(&t, name);
	abi_text_str(&t, " (deleted)");
	return abi_desc_install(c->p, d, 0, flags & MFD_CLOEXEC);
}

s64 abi_unnamed_tmpfile(struct abi_call *c, const char *path, u32 flags,
			u32 mode)
{
	struct abi_open open = {.mode = mode & ~*abi_umask(c->p),
				.flags = (flags & ABI_O_ACCMODE) | ABI_O_CREAT |
					 ABI_O_EXCL};
	char folder[ABI_PATH_MAX];
	struct abi_desc *d;
	struct abi_text t;
	u32 ends;
	s64 error;

	if ((flags & ABI_O_ACCMODE) == ABI_O_RDONLY)
		return -LINUX_EINVAL;
	error = abi_path_folder(c, path, folder, &ends);
	if (error < 0)
		return error;
	d = abi_desc_new(c->p, ABI_DESC_NULL, flags & ~(u32)ABI_O_CLOEXEC);
	if (!d)
		return -LINUX_ENFILE;
	abi_text_init(&t, d->path, sizeof(d->path));
	abi_text_str(&t, folder);
	abi_text_str(&t, folder[1] ? "/" : "");
	error = abi_unnamed_open(c->p, d->path, &open);
	if (error) {
		abi_desc_put(c->p, d);
		return error;
	}
	abi_text_str(&t, "#0 (deleted)");
	d->handle = open.handle;
	d->type = ABI_S_IFREG;
	d->kind = ABI_DESC_FILE;
	return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
}

s64 abi_sys_memfd_create(struct abi_call *c)
{
	u32 flags = (u32)c->a[1];
	char name[NAME_MAX + 1];
	s64 n;

	if (flags & MFD_HUGETLB)
		return abi_refuse(c->p, ABI_REFUSE_MEMFD, -LINUX_EINVAL);
	if (flags & ~KNOWN || (flags & MFD_EXEC && flags & MFD_NOEXEC_SEAL))
		return -LINUX_EINVAL;
	n = abi_user_string(c->p, name, sizeof(name), c->a[0], -LINUX_EINVAL);
	if (n < 0)
		return n;
	if (flags & (MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL)) {
		abi_log_once(c->p, &c->p->fds.said_seal,
			     "memfd_create refused (EINVAL): seals are not "
			     "supported");
		return -LINUX_EINVAL;
	}
	return install_file(c, name, flags);
}
