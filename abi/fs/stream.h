/* SPDX-License-Identifier: MIT */
/* Terminals, devices and pipes of the host. */
#ifndef ABI_FS_STREAM_H
#define ABI_FS_STREAM_H

#include <skep/types.h>

struct abi_desc;
struct abi_desc_ops;
struct abi_proc;

/*
 * A transfer is an edge for the other end of a pipe, which the host does not
 * report while that end remains ready. Ends in other processes are not
 * notified. Other descriptions have no peer.
 */
void abi_stream_tell_peer(struct abi_proc *p, struct abi_desc *d, u32 edge);

extern const struct abi_desc_ops abi_stream_ops;

#endif
