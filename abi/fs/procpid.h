/* SPDX-License-Identifier: MIT */
/*
 * The folder /proc, the folders of processes in it, and the files about other
 * processes of the family. procfs.c has the files about this one.
 */
#ifndef ABI_FS_PROCPID_H
#define ABI_FS_PROCPID_H

#include <skep/types.h>

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;
struct abi_stat;

extern const struct abi_desc_ops abi_procpid_ops;

/* As abi_synth_open and abi_synth_stat, for names that those do not know. */
s64 abi_procpid_open(struct abi_proc *p, const char *path, struct abi_desc *d);
s64 abi_procpid_stat(struct abi_proc *p, const char *path, struct abi_stat *st);

#endif
