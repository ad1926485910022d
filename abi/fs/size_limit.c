// SPDX-License-Identifier: MIT
/* Owns the effect of RLIMIT_FSIZE on files. No state. */
#include "size_limit.h"
#include "desc.h"
#include "ops.h"
#include "position.h"
#include "base/errno.h"
#include "abi/include/siginfo.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

static u64 size_limit(struct abi_call *c)
{
	return __atomic_load_n(&abi_limits(c->p)[ABI_RLIMIT_FSIZE].cur,
			       __ATOMIC_RELAXED);
}

int abi_size_limit_allows(struct abi_call *c, u64 end)
{
	return end <= size_limit(c);
}

/* The offset of the next write: 0 or more, or an error. */
static s64 write_offset(struct abi_call *c, struct abi_desc *d, s64 at)
{
	u64 size;
	s64 error;

	if (at == ABI_APPEND) {
		error = abi_position_end(c, d, &size);
		return error ? error : (s64)size;
	}
	return at == ABI_CURRENT ? abi_position_host(c->p, d, 0, ABI_SEEK_CUR)
				 : at;
}

s64 abi_size_limit_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 at)
{
	u64 most = size_limit(c);

	if (most == ABI_RLIM_INFINITY || !s->left || !abi_desc_ops(d)->regular)
		return 0;
	at = write_offset(c, d, at);
	if (at < 0)
		return at;
	if ((u64)at >= most)
		return -LINUX_EFBIG;
	if (s->left > most - (u64)at)
		s->left = most - (u64)at;
	return 0;
}

s64 abi_size_limit_grow(struct abi_call *c, u64 size, u64 end)
{
	if (end <= size || abi_size_limit_allows(c, end))
		return 0;
	abi_signal_raise(c->p, c->t, ABI_SIGXFSZ);
	return -LINUX_EFBIG;
}

void abi_size_limit_signal(struct abi_call *c)
{
	if (size_limit(c) != ABI_RLIM_INFINITY)
		abi_signal_raise(c->p, c->t, ABI_SIGXFSZ);
}
