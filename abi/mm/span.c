// SPDX-License-Identifier: MIT
/* Owns the iteration over a guest's buffers. All state is in the span. */
#include "span.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/uapi/linux.h"

void abi_span_one(struct abi_span *s, u64 base, u64 len, u32 prot)
{
	if (len > ABI_IO_MAX)
		len = ABI_IO_MAX;
	*s = (struct abi_span){
		.base = base, .chunk = len, .left = len, .prot = prot};
}

s64 abi_span_vector(struct abi_proc *p, struct abi_span *s, u64 array,
		    u64 count, u32 prot)
{
	struct abi_iovec v;
	u64 i;

	*s = (struct abi_span){.array = array, .prot = prot};
	if (count > ABI_IOV_MAX)
		return -LINUX_EINVAL;
	s->count = (u32)count;
	for (i = 0; i < count; i++) {
		if (ABI_GET(p, &v, array + i * sizeof(v)))
			return -LINUX_EFAULT;
		if ((s64)v.len < 0)
			return -LINUX_EINVAL;
		s->left += v.len < ABI_IO_MAX ? v.len : ABI_IO_MAX;
	}
	if (s->left > ABI_IO_MAX)
		s->left = ABI_IO_MAX;
	return 0;
}

s64 abi_span_chunk(struct abi_proc *p, struct abi_span *s, void **at)
{
	struct abi_iovec v;

	while (!s->chunk && s->count && s->left) {
		if (ABI_GET(p, &v, s->array))
			return -LINUX_EFAULT;
		s->array += sizeof(v);
		s->count--;
		s->base = v.base;
		s->chunk = v.len < s->left ? v.len : s->left;
	}
	if (s->chunk > s->left)
		s->chunk = s->left;
	if (!s->chunk)
		return 0;
	if (s->prot != ABI_SPAN_OWN &&
	    abi_user_check(p, s->base, s->chunk, s->prot))
		return -LINUX_EFAULT;
	*at = abi_user_ptr(s->base);
	return (s64)s->chunk;
}

void abi_span_skip(struct abi_span *s, u64 n)
{
	s->base += n;
	s->chunk -= n;
	s->left -= n;
}

int abi_span_many(const struct abi_span *s)
{
	return s->count && s->left > s->chunk;
}

/* out: from `buf` to the span's memory; otherwise from there to `buf`. */
static s64 move_bytes(struct abi_proc *p, struct abi_span *s, u8 *buf, u64 size,
		      int out)
{
	u64 done = 0;
	void *at;
	s64 n;

	while (done < size) {
		n = abi_span_chunk(p, s, &at);
		if (n <= 0)
			return n && !done ? n : (s64)done;
		if ((u64)n > size - done)
			n = (s64)(size - done);
		if (out ? abi_user_move(at, buf + done, (u64)n)
			: abi_user_move(buf + done, at, (u64)n))
			return done ? (s64)done : -LINUX_EFAULT;
		abi_span_skip(s, (u64)n);
		done += (u64)n;
	}
	return (s64)done;
}

s64 abi_span_gather(struct abi_proc *p, struct abi_span *s, void *to, u64 size)
{
	return move_bytes(p, s, to, size, 0);
}

s64 abi_span_scatter(struct abi_proc *p, struct abi_span *s, const void *from,
		     u64 size)
{
	return move_bytes(p, s, (u8 *)from, size, 1);
}
