/* SPDX-License-Identifier: MIT */
/*
 * The interface between library and engine. The library listens, dials and does
 * the opening of every connection; an engine gets a socket whose peer is
 * authenticated, and is then the only one that reads and writes it.
 */
#ifndef O2G_LIB_ENGINE_H
#define O2G_LIB_ENGINE_H

#include <o2g/core/core.h>
#include <skep/o2g_device.h>

struct o2g_engine; /* the engine's own */

struct o2g_engine_options {
	u32 sq_entries, cq_entries;
	struct o2g_limits limits;
	/* Called now and then by an engine's thread, without its lock, while
	 * there is traffic and once after: shows the counters. */
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
	/* Takes ownership of the socket, also if it fails. `link` is the number
	 * of the connection for identify(). bye() sends BYE on all connections
	 * when the endpoint closes. */
	int (*attach)(struct o2g_engine *engine, int socket, u32 peer,
		      u32 credit_out, u32 credit_in, u32 *link);
	int (*identify)(struct o2g_engine *engine, u32 link, u32 peer);
	/* Null where peers' memory can't be accessed, nor ours by them.
	 * After removal nothing of the region is touched. */
	int (*region_add)(struct o2g_engine *engine,
			  const struct o2g_region_options *options);
	int (*region_remove)(struct o2g_engine *engine, u64 key);
	/* Consumes submissions now. */
	int (*kick)(struct o2g_engine *engine);
	/* Called by a caller who waits: moves bytes, never blocks. Returns
	 * whether any moved; an engine with its own thread returns 0. */
	int (*drive)(struct o2g_engine *engine);
	/* Sleep until there is a completion or o2g_wake, at most `us`. */
	int (*sleep)(struct o2g_engine *engine, u64 us);
	void (*wake)(struct o2g_engine *engine);
	/* Readable after a completion for which the program set O2G_NEED_WAKE,
	 * or after wake(), until calm(). */
	int (*descriptor)(struct o2g_engine *engine);
	void (*calm)(struct o2g_engine *engine);
	/* Flush and BYE on every connection, within ms. 0 or -ETIMEDOUT. */
	int (*finish)(struct o2g_engine *engine, int ms);
	void (*counts)(struct o2g_engine *engine, struct o2g_counts *counts);
	/* Null, or returns the module's counters; then nobody calls tick(), and
	 * the library polls them. */
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
