/* SPDX-License-Identifier: MIT */
/*
 * The guest's buffers of one transfer: a single one, or an iovec array, which
 * stays in guest memory and is read entry by entry. The guest may change it
 * meanwhile. Each entry is checked when it is used, so the guest harms only
 * itself.
 */
#ifndef ABI_SPAN_H
#define ABI_SPAN_H

#include <skep/types.h>

struct abi_proc;

/* maximum of one transfer, as on Linux */
#define ABI_IO_MAX 0x7ffff000ull

/* As `prot`: abi's own memory, which needs no check. */
#define ABI_SPAN_OWN (~0u)

struct abi_span {
	u64 array;	 /* 0: there is only `base` and `chunk` */
	u32 count;	 /* entries left in the array */
	u32 prot;	 /* what the transfer needs: READ to write a file */
	u64 base, chunk; /* of the current entry */
	u64 left;	 /* bytes left of the transfer */
};

void abi_span_one(struct abi_span *s, u64 base, u64 len, u32 prot);
/* -EINVAL: too many entries, or lengths above SSIZE_MAX; -EFAULT: the array. */
s64 abi_span_vector(struct abi_proc *p, struct abi_span *s, u64 array,
		    u64 count, u32 prot);

/* The next contiguous bytes: returns their number, 0 at the end, or -EFAULT. */
s64 abi_span_chunk(struct abi_proc *p, struct abi_span *s, void **at);
/* Skips `n` bytes of the chunk, which were transferred. */
void abi_span_skip(struct abi_span *s, u64 n);
/* Whether more than one chunk is left, as far as that is known now. */
int abi_span_many(const struct abi_span *s);

/* Copies between a span and abi's memory, as many bytes as possible, or
 * -EFAULT. */
s64 abi_span_gather(struct abi_proc *p, struct abi_span *s, void *to, u64 size);
s64 abi_span_scatter(struct abi_proc *p, struct abi_span *s, const void *from,
		     u64 size);

#endif
