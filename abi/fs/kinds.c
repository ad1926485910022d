// SPDX-License-Identifier: MIT
/* The table from a kind of description to its operations. No state. */
#include "ops.h"
#include "pipe.h"
#include "procfs.h"
#include "procpid.h"
#include "regular.h"
#include "stream.h"
#include "abi/net/pair.h"
#include "abi/net/sock.h"
#include "abi/net/unix.h"
#include "abi/poll/epoll.h"
#include "abi/poll/eventfd.h"
#include "abi/signal/signalfd.h"
#include "abi/time/timerfd.h"

static const struct abi_desc_ops none;

const struct abi_desc_ops *const abi_desc_kinds[ABI_DESC_KINDS] = {
	[ABI_DESC_FREE] = &none,
	[ABI_DESC_FILE] = &abi_regular_ops,
	[ABI_DESC_DIR] = &abi_directory_ops,
	[ABI_DESC_BLOCK] = &abi_block_ops,
	[ABI_DESC_STREAM] = &abi_stream_ops,
	[ABI_DESC_SOCK] = &abi_sock_ops,
	[ABI_DESC_PIPE] = &abi_pipe_ops,
	[ABI_DESC_PAIR] = &abi_pair_ops,
	[ABI_DESC_UNIX] = &abi_unix_ops,
	[ABI_DESC_EVENT] = &abi_eventfd_ops,
	[ABI_DESC_COUNTER] = &abi_counter_ops,
	[ABI_DESC_TIMER] = &abi_timerfd_ops,
	[ABI_DESC_SIGNAL] = &abi_signalfd_ops,
	[ABI_DESC_EPOLL] = &abi_epoll_ops,
	[ABI_DESC_TEXT] = &abi_text_ops,
	[ABI_DESC_PROCESS] = &abi_procpid_ops,
	[ABI_DESC_NULL] = &abi_null_ops,
};
