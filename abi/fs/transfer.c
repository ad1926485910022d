// SPDX-License-Identifier: MIT
/* Bytes to and from a handle of the host. No state. */
#include "transfer.h"
#include "abi/mm/span.h"
#include "abi/state/proc.h"

s64 abi_transfer_part(struct abi_proc *p, struct abi_desc *d, void *at, u64 len,
		      s64 offset, u32 writing)
{
	struct abi_io io = {at, len, offset};

	return writing ? p->host->file_write(d->handle, &io)
		       : p->host->file_read(d->handle, &io);
}

s64 abi_transfer_span(struct abi_proc *p, struct abi_desc *d,
		      struct abi_span *s, s64 offset, u32 writing)
{
	s64 done = 0, n, len;
	void *at;

	for (;;) {
		len = abi_span_chunk(p, s, &at);
		if (len <= 0)
			return len && !done ? len : done;
		n = abi_transfer_part(p, d, at, (u64)len, offset, writing);
		if (n < 0)
			return done ? done : n;
		abi_span_skip(s, (u64)n);
		done += n;
		if (offset >= 0)
			offset += n;
		if (n < len)
			return done;
	}
}
