/* SPDX-License-Identifier: MIT */
/* Converts the C library's structs about files to those of abi, and back. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/statfs.h>

#include "abi/include/lin.h"

static s64 ns_of(struct timespec ts)
{
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

void abi_lin_stat_from(struct abi_stat *to, const void *from)
{
	const struct stat *st = from;

	to->dev = st->st_dev;
	to->ino = st->st_ino;
	to->nlink = st->st_nlink;
	to->mode = st->st_mode;
	to->uid = st->st_uid;
	to->gid = st->st_gid;
	to->rdev = st->st_rdev;
	to->size = (u64)st->st_size;
	to->blksize = (u64)st->st_blksize;
	to->blocks = (u64)st->st_blocks;
	to->atime_ns = ns_of(st->st_atim);
	to->mtime_ns = ns_of(st->st_mtim);
	to->ctime_ns = ns_of(st->st_ctim);
}

void abi_lin_statfs_from(struct abi_statfs *to, const void *from)
{
	const struct statfs *sf = from;

	to->type = (u64)sf->f_type;
	to->bsize = (u64)sf->f_bsize;
	to->blocks = sf->f_blocks;
	to->bfree = sf->f_bfree;
	to->bavail = sf->f_bavail;
	to->files = sf->f_files;
	to->ffree = sf->f_ffree;
	to->namelen = (u64)sf->f_namelen;
}

void abi_lin_times_from(void *to, const s64 times[2])
{
	struct timespec *ts = to;
	s64 part;
	u32 i;

	for (i = 0; i < 2; i++) {
		part = times[i] % 1000000000ll;
		ts[i].tv_sec = times[i] / 1000000000ll - (part < 0);
		ts[i].tv_nsec = part < 0 ? part + 1000000000ll : part;
		if (times[i] == ABI_TIME_OMIT)
			ts[i].tv_nsec = UTIME_OMIT;
	}
}
