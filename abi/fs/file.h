/* SPDX-License-Identifier: MIT */
/* Reading and writing descriptions of every kind, and names as handlers see
 * them. */
#ifndef ABI_FILE_H
#define ABI_FILE_H

#include "fd.h"
#include "abi/mm/span.h"

/* offset: ABI_FILE_CURRENT uses and moves the position. */
#define ABI_FILE_CURRENT (-1ll)

s64 abi_file_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  s64 offset);
s64 abi_file_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   s64 offset);

/* The host's position of an inherited regular file; moves it first. */
s64 abi_file_seek(struct abi_proc *p, struct abi_desc *d, s64 offset,
		  u32 whence);

/* sock.c: the data calls of host sockets. flags: MSG_* */
s64 abi_sock_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 flags);
s64 abi_sock_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 flags);

/* procfs.c: what abi answers itself instead of the host. */
struct abi_stat;
/* 1: d is filled in (kind, code, type); 0: the host's; or an error. */
s64 abi_synth_open(struct abi_proc *p, const char *path, struct abi_desc *d);
/* 1: *st is filled in; 0: the host's. */
s64 abi_synth_stat(struct abi_proc *p, const char *path, struct abi_stat *st);
/* Length of the link's text; 0: the host's. */
s64 abi_synth_link(struct abi_proc *p, const char *path, char *to, u64 size);
s64 abi_synth_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u64 offset);
s64 abi_synth_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s);
/* e->next in: cookie. 1, or 0 at the end. */
s64 abi_synth_readdir(struct abi_proc *p, u32 code, struct abi_dirent *e);
void abi_synth_fill(struct abi_desc *d, struct abi_stat *st);

/* N of /proc/self/fd/N, /dev/stdin and the like; -1 for other names. */
s64 abi_synth_number(const char *path);
/* The host's name for what /proc/self/exe or a number stands for. */
const char *abi_synth_real(struct abi_proc *p, const char *path);

/* name lookup: dirfd and a guest string to an absolute path in `out`. */
s64 abi_at(struct abi_call *c, u64 dirfd, u64 gaddr, char *out, u32 *flags);
/* open for the kernel's own use as well: 0 or more is a number. */
s64 abi_file_open(struct abi_call *c, const char *path, u32 flags, u32 mode);
/* stat(2) of a description. */
s64 abi_file_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st);

#endif
