/* SPDX-License-Identifier: MIT */
/* Terminals, devices and pipes of the host. */
#ifndef ABI_FS_STREAM_H
#define ABI_FS_STREAM_H

struct abi_desc_ops;

extern const struct abi_desc_ops abi_stream_ops;

#endif
