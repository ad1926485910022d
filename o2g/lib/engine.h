/* SPDX-License-Identifier: MIT */
/*
 * The interface between library and engine. The library listens, dials and
 * performs the opening of every connection. An engine gets a socket whose peer
 * is authenticated; from then on only the engine reads and writes it.
 */
#ifndef O2G_LIB_ENGINE_H
#define O2G_LIB_ENGINE_H

#include <o2g/core/core.h>
#include <o2g/core/record.h>
#include <skep/o2g_device.h>

struct o2g_engine; /* private to the engine */

struct o2g_engine_options {
	u32 sq_entries, cq_entries;
	struct o2g_limits limits;
	/* Called periodically by an engine's thread, without its lock, while
	 * there is traffic, and once afterwards: shows the counters. */
	void (*tick)(void *ctx);
	void *ctx;
};

struct o2g_link_counts {
	u32 open;   /* connections now */
	u64 resent; /* TCP segments that were sent again, on all so far */
};

enum o2g_fork { O2G_FORK_PREPARE, O2G_FORK_PARENT, O2G_FORK_CHILD };

struct o2g_engine_ops {
	const char *name;
	/* Makes an endpoint's engine and its area. */
	int (*open)(struct o2g_engine **out,
		    const struct o2g_engine_options *options,
		    struct o2g_area **area);
	void (*close)(struct o2g_engine *engine);
	int (*peer)(struct o2g_engine *engine, u32 peer, int self);
	void (*lost)(struct o2g_engine *engine, u32 peer, int error);
	/* Takes ownership of the socket, even if it fails. `keys`: what is sent
	 * is in records; null: it is not encrypted. `link` gets the number of
	 * the connection for identify(). bye() sends BYE on all connections
	 * when the endpoint closes. */
	int (*attach)(struct o2g_engine *engine, int socket, u32 peer,
		      u32 credit_out, u32 credit_in,
		      const struct o2g_keys *keys, u32 *link);
	int (*identify)(struct o2g_engine *engine, u32 link, u32 peer);
	/* Null if the engine has no remote memory access. After region_remove()
	 * the region is not accessed any more. */
	int (*region_add)(struct o2g_engine *engine,
			  const struct o2g_region_options *options);
	int (*region_remove)(struct o2g_engine *engine, u64 key);
	/* Makes the engine consume submissions now. */
	int (*kick)(struct o2g_engine *engine);
	/* Called by a thread that waits: moves bytes, never blocks. Returns
	 * whether any were moved; an engine with its own thread returns 0. */
	int (*drive)(struct o2g_engine *engine);
	/* The program polled and found an event without drive(); may be 0. */
	void (*polled)(struct o2g_engine *e);
	/* Sleeps until there is a completion or wake() was called, at most `us`
	 * microseconds. */
	int (*sleep)(struct o2g_engine *engine, u64 us);
	void (*wake)(struct o2g_engine *engine);
	/* The descriptor is readable after a completion for which the program
	 * set O2G_NEED_WAKE, or after wake(), until calm(). */
	int (*descriptor)(struct o2g_engine *engine);
	void (*calm)(struct o2g_engine *engine);
	/* Sends everything and BYE on every connection, within ms: 0 or
	 * -ETIMEDOUT. */
	int (*finish)(struct o2g_engine *engine, int ms);
	void (*counts)(struct o2g_engine *engine, struct o2g_counts *counts);
	/* Returns the module's counters. If it is not null, nobody calls
	 * tick(), and the library polls these counters. */
	void (*module)(struct o2g_engine *engine,
		       struct o2g_device_counts *counts);
	/* Null where the library can't ask the sockets. One system call for
	 * each connection. */
	void (*links)(struct o2g_engine *engine,
		      struct o2g_link_counts *counts);
	/* Around fork(): lock, unlock; the child closes its descriptors and
	 * never uses the engine again. */
	void (*fork)(struct o2g_engine *engine, enum o2g_fork when);
};

extern const struct o2g_engine_ops o2g_user_engine, o2g_kernel_engine;

#endif
