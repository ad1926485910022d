/* SPDX-License-Identifier: MIT */
/* Open file descriptions: references and numbers. fd.h describes the locks. */
#ifndef ABI_FS_DESC_H
#define ABI_FS_DESC_H

#include "abi/state/desc.h"
#include "abi/uapi/file.h"

struct abi_proc;

/* A reference to the description of `fd`, or 0 (EBADF); release it with
 * abi_desc_put(). */
struct abi_desc *abi_desc_get(struct abi_proc *p, u64 fd);
void abi_desc_hold(struct abi_proc *p, struct abi_desc *d);
void abi_desc_put(struct abi_proc *p, struct abi_desc *d);

/* A new description with one reference; the caller sets kind. 0: ENFILE. */
struct abi_desc *abi_desc_new(struct abi_proc *p, u32 kind, u32 flags);
/* The kind for the S_IF... `type` that the host reported. */
u32 abi_desc_kind(u32 type);
/* Assigns the lowest free number from `least` on, and takes over the
 * reference. */
s64 abi_desc_install(struct abi_proc *p, struct abi_desc *d, u32 least,
		     u32 cloexec);
/* Numbers from this one on are never assigned: RLIMIT_NOFILE. */
u32 abi_desc_limit(struct abi_proc *p);
/* Assigns the number `fd` to `d`. The caller holds fds->lock. */
void abi_desc_number(struct abi_proc *p, u32 fd, struct abi_desc *d,
		     u32 cloexec);
u32 abi_desc_index(const struct abi_proc *p, const struct abi_desc *d);

static inline int abi_desc_is_free(const struct abi_desc *d)
{
	return d->kind == ABI_DESC_FREE;
}

static inline u32 abi_desc_flags(const struct abi_desc *d)
{
	return __atomic_load_n(&d->flags, __ATOMIC_RELAXED);
}

static inline int abi_desc_is_readable(const struct abi_desc *d)
{
	u32 flags = abi_desc_flags(d);

	return !(flags & ABI_O_PATH) && (flags & ABI_O_ACCMODE) != ABI_O_WRONLY;
}

static inline int abi_desc_is_writable(const struct abi_desc *d)
{
	u32 flags = abi_desc_flags(d);

	return !(flags & ABI_O_PATH) && (flags & ABI_O_ACCMODE) != ABI_O_RDONLY;
}

#endif
