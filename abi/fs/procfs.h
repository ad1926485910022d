/* SPDX-License-Identifier: MIT */
/* Files that abi provides itself: /proc, /sys, /dev. */
#ifndef ABI_FS_PROCFS_H
#define ABI_FS_PROCFS_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_desc_ops;
struct abi_dirent;
struct abi_proc;
struct abi_stat;

extern const struct abi_desc_ops abi_text_ops; /* /proc and /sys */
extern const struct abi_desc_ops abi_null_ops; /* /dev/null and its family */

/* fstat(2) of a generated file or folder. */
s64 abi_text_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st);

/* 1: sets kind, code and type of d; 0: the file is the host's; or an error. */
s64 abi_synth_open(struct abi_proc *p, const char *path, struct abi_desc *d);
/* 1: sets *st; 0: the file is the host's. */
s64 abi_synth_stat(struct abi_proc *p, const char *path, struct abi_stat *st);
/* Length of the link's text; 0: the file is the host's. */
s64 abi_synth_link(struct abi_proc *p, const char *path, char *to, u64 size);

/* N of /proc/self/fd/N, /dev/stdin and the like; -1 for other names. */
s64 abi_synth_number(struct abi_proc *p, const char *path);
/* Whether the descriptor that such a name is of is a folder's. */
int abi_synth_is_dir(struct abi_proc *p, const char *path);
/* Whether only abi knows what is at a path: the host's file, if there is one,
 * is about another process. */
int abi_synth_is_own(struct abi_proc *p, const char *path);
/* The host's name of the file that /proc/self/exe or a number refers to; other
 * names as they are. */
const char *abi_synth_real(struct abi_proc *p, const char *path);

#endif
