/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the kernel engine share. See include/skep/o2g_device.h for
 * what user space sees, o2g/core/core.h for what is done with the bytes.
 *
 * An engine is one open endpoint, a link one attached socket. Lock order:
 *
 *   engine->control (mutex: ioctls that change the set of links, close)
 *   engine->use (rwsem: kicks; to write, the end of the core)
 *     socket lock (lock_sock, or softirq with the socket not owned)
 *       engine->lock (spinlock, BH off: the core and everything it owns)
 *
 * The socket lock makes reading exclusive per link, `tx_busy` makes writing so;
 * under engine->lock nothing sleeps or takes a socket lock.
 *
 *   context           may do
 *   softirq           parse, match, copy to the core and the slab; within a
 *   (data_ready)      budget; anything else is left to link->rx_work
 *   rx_work           the same, and copy into the program's memory with its mm
 *   kick (ioctl)      consume submissions, then write links in place: the
 *                     program's memory is at hand
 *   tx_work           writes what softirqs and write_space ask for
 *
 * A worker may hang as long as the program likes, in a page fault of memory
 * that the program serves itself; so each engine has workers of its own.
 *
 * References: a link holds its engine, its socket's file, and the module (by
 * the ULP). An engine is freed with its last reference; a closed one (`closed`)
 * has no links and no core.
 */
#ifndef O2G_KMOD_INTERNAL_H
#define O2G_KMOD_INTERNAL_H

#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/path.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>

#include <o2g/core/core.h>
#include <skep/assert.h>
#include <skep/o2g_device.h>

#include "compat.h"

#define O2G_SOFTIRQ_BYTES 0x40000 /* read in one softirq, then a worker */
#define O2G_SOFTIRQ_STEPS 64	  /* frames handled in one softirq */
#define O2G_WORKER_BYTES 0x40000  /* moved by a worker per socket lock */

struct o2g_engine;
struct o2g_link;

/* Totals of all programs, shown by module parameters. */
struct o2g_totals {
	atomic64_t engines, links;
	atomic64_t memory; /* bytes of rings and cores */
	atomic64_t pages;  /* of slabs */
};
extern struct o2g_totals o2g_totals;

/* ---- device.c ---- */

int o2g_device_register(void);
void o2g_device_unregister(void);

/* ---- area.c: rings in vmalloc memory, slab in single pages ---- */

struct o2g_pages {
	void *rings; /* struct o2g_area and both rings, contiguous here */
	u64 rings_size, size;
	struct xarray slab;	       /* allocated pages, by number */
	atomic64_t present;	       /* how many */
	atomic_t maps;		       /* mappings of the area by the program */
	bool mapped;		       /* once is enough */
	bool lacking;		       /* a page allocation failed */
	struct address_space *mapping; /* that shows it */
};

int o2g_area_make(struct o2g_engine *engine, const struct o2g_device_open *o);
void o2g_area_free(struct o2g_engine *engine);
int o2g_area_map(struct o2g_engine *engine, struct vm_area_struct *vma);
/* Kernel address of a byte of the area, and how many are contiguous there;
 * allocates a missing slab page, without sleeping if `atomic`. Null: no memory.
 * Needs no lock: a page in use stays.
 */
void *o2g_area_at(struct o2g_engine *engine, u64 offset, u64 *length,
		  bool atomic);

/* After a failed page allocation: frees unused pages; sleeps. */
void o2g_area_shrink(struct o2g_engine *engine);

/* ---- memory.c: memory accounting, and the core's memory ---- */

#define O2G_MEMORY_SIZES 4

struct o2g_user; /* a user's share of the computer */

struct o2g_memory {
	struct o2g_user *user;
	struct mem_cgroup *group;
	struct list_head ready;	      /* blocks for the core; engine->lock */
	u32 ready_count;	      /* and how many; engine->lock */
	u64 wanted[O2G_MEMORY_SIZES]; /* sizes to preallocate; engine->lock */
	bool sleep;		      /* o2g_memory_alloc() may use them */
};

int o2g_memory_open(struct o2g_engine *engine);
void o2g_memory_close(struct o2g_engine *engine);
/* Counts bytes of kernel memory against the user: 0 or -ENOMEM. */
int o2g_memory_charge(struct o2g_engine *engine, u64 bytes);
/* The same for a slab page, which leaves a reserve for all else. */
int o2g_memory_charge_page(struct o2g_engine *engine);
void o2g_memory_uncharge(struct o2g_engine *engine, u64 bytes);
/* host->alloc and free. A size that can't be allocated atomically is noted in
 * `wanted`. */
void *o2g_memory_alloc(void *engine, u64 size);
void o2g_memory_free(void *engine, void *memory, u64 size);
/* Bytes that may be buffered for messages beyond credit. */
u64 o2g_memory_spare(void *engine);
bool o2g_memory_wanted(const struct o2g_engine *engine);
/* Preallocates the wanted sizes; sleeps. 0: none, 1: retry what failed,
 * -ENOMEM. */
int o2g_memory_fill(struct o2g_engine *engine);
/* After -ENOMEM of the core, without a lock: whether to retry. `tries` begins
 * with 0. */
bool o2g_memory_again(struct o2g_engine *engine, u32 *tries);

/* ---- engine.c ---- */

struct o2g_engine {
	struct kref ref;
	struct workqueue_struct *workers;
	struct mutex control;
	struct rw_semaphore use; /* held for sleeping work on the core */
	spinlock_t lock;
	struct o2g_core *core;
	/* Read section of each context that may touch the program's memory:
	 * from before the core returns an address until the bytes are reported
	 * to it. */
	struct srcu_struct access;
	bool access_made;
	struct o2g_pages pages;
	struct o2g_memory memory;
	struct mm_struct *mm; /* mmgrab()ed; the program's */
	struct pid *owner;    /* tgid */
	struct list_head links;
	u32 link_number, link_count, link_max;
	struct list_head tx;	       /* links that want to write; lock */
	struct list_head blocked;      /* links that the core does not read */
	u64 fills;		       /* preallocated blocks; lock */
	struct o2g_copy *jobs, **last; /* put-off copies; lock */
	struct delayed_work turn_work; /* work for a worker */
	struct work_struct reap_work;
	struct work_struct end_work; /* the program has no mapping any more */
	struct path path;	     /* of a file that is closed later */
	wait_queue_head_t wait;	     /* sleepers and poll */
	bool rung;		     /* readable until it is reset; lock */
	bool poor;		     /* a sleeping allocation failed; lock */
	bool closed;
	bool broken;			 /* the program's rings were invalid */
	struct o2g_device_counts counts; /* the engine's own part; lock */
};

struct o2g_engine *o2g_engine_make(const struct o2g_device_open *o, int *error);
void o2g_engine_get(struct o2g_engine *engine);
void o2g_engine_put(struct o2g_engine *engine);
/* Ends every link and the core; callable twice. Process context. */
void o2g_engine_close(struct o2g_engine *engine);

/* Around all work on the core. Unlock wakes sleepers, queues links that have
 * something to write on tx_work (or, with `mine`, moves them to that list: the
 * caller writes them afterwards), resumes blocked links, and queues a worker
 * for what can't be done here. A closed engine has no core. */
void o2g_engine_lock(struct o2g_engine *engine);
void o2g_engine_unlock(struct o2g_engine *engine, struct list_head *mine);

int o2g_engine_peer(struct o2g_engine *engine, u32 peer, bool self);
int o2g_engine_lost(struct o2g_engine *engine, u32 peer, int error);
int o2g_engine_kick(struct o2g_engine *engine);
int o2g_engine_region_add(struct o2g_engine *engine,
			  const struct o2g_region_options *options);
/* Returns when nothing touches the region any more; -EINTR: killed. */
int o2g_engine_region_remove(struct o2g_engine *engine, u64 key);
int o2g_engine_sleep(struct o2g_engine *engine, u64 us);
void o2g_engine_wake(struct o2g_engine *engine);
void o2g_engine_calm(struct o2g_engine *engine);
int o2g_engine_finish(struct o2g_engine *engine, u32 ms);
int o2g_engine_counts(struct o2g_engine *engine, struct o2g_device_counts *c);

/* ---- program.c: the program's memory ---- */

/* Around a worker's access to the program's memory. -EFAULT: it has been torn
 * down. */
bool o2g_program_gone(const struct o2g_engine *engine);
int o2g_program_enter(struct o2g_engine *engine);
void o2g_program_leave(struct o2g_engine *engine);
int o2g_host_copy(void *engine, struct o2g_copy *job);
/* Does the deferred copies, in a context that has the program's memory, without
 * a lock; with an error, they fail. */
void o2g_program_copy(struct o2g_engine *engine, struct o2g_copy *jobs,
		      int error);

/* ---- atomic.c ---- */

/* One deferred atomic access, in such a context: 0 or -errno. */
int o2g_program_atomic(struct o2g_engine *engine, const struct o2g_copy *job);

/* ---- link.c: attached sockets ---- */

#define O2G_GATHER 32  /* pieces written at once */
#define O2G_VECTOR 48  /* stretches of memory, pages of the area among them */
#define O2G_FETCH 4096 /* of the program's, copied before they are written */

struct o2g_link {
	struct kref ref;
	struct rcu_head rcu;
	struct o2g_engine *engine;
	struct list_head here; /* engine->links; control and lock */
	/* tx_here: engine->tx, or the list of the context that claimed it */
	struct list_head tx_here, blocked_here;
	u32 number;
	struct file *file;
	struct socket *socket;
	struct sock *sk;
	/* All below by engine->lock. `conn` is null when it has ended; code
	 * that uses it without the lock counts in `users`, and the end of the
	 * conn waits until that is 0. */
	struct o2g_conn *conn;
	u32 users;
	bool over;    /* conn has ended, or will with its last user */
	int error;    /* of the end; of writing, until the end */
	bool tx_busy; /* being written; again: more was queued meanwhile */
	bool tx_again, tx_full;
	bool shut;  /* the stream's end was written after BYE */
	u32 silent; /* checks without progress */
	u64 asked;  /* blocked: o2g_rx_resume() asked it in that state */
	struct delayed_work rx_work, tx_work, look_work;
	/* of who writes (tx_busy) */
	struct o2g_piece piece[O2G_GATHER];
	struct kvec vector[O2G_VECTOR];
	u8 fetched[O2G_FETCH];
	/* the socket's own callbacks, restored by detaching */
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	const struct proto_ops *ops; /* the protocol's own */
};

/* With control held. */
int o2g_link_attach(struct o2g_engine *engine, struct o2g_device_attach *a);
int o2g_link_identify(struct o2g_engine *engine, u32 number, u32 peer);
/* Restores the socket and drops it and the link. No other lock. */
void o2g_link_detach(struct o2g_link *link);
/* Detaches links that are over; engine->reap_work. */
void o2g_link_reap(struct work_struct *work);

/* With the engine's lock. */
void o2g_link_want(void *engine, struct o2g_conn *conn); /* host->want_tx */
/* The stream is over, error 0: by its end. */
void o2g_link_end(struct o2g_link *link, int error);
void o2g_link_use(struct o2g_link *link);
void o2g_link_unuse(struct o2g_link *link);
/* Something was written: starts the check whether the peer's host is alive. */
void o2g_link_watch(struct o2g_link *link);
/* Sends BYE after all submissions. */
void o2g_link_bye(struct o2g_link *link);
/* Whether the peer has acknowledged the end of the stream, or has ended; the
 * engine's `wait` is woken on that change. */
bool o2g_link_finished(const struct o2g_link *link);
void o2g_link_put(struct o2g_link *link);

/* ---- rx.c ---- */

void o2g_rx_ready(struct sock *sk); /* sk_data_ready */
void o2g_rx_work(struct work_struct *work);
/* With the engine's lock: reads in a worker, after a delay. */
void o2g_rx_later(struct o2g_link *link, unsigned long delay);
/* With the engine's lock: checks blocked links whose state may have changed, a
 * few at a time, and reads those that the core accepts again. True: there are
 * more. */
bool o2g_rx_resume(struct o2g_engine *engine);

/* ---- tx.c ---- */

void o2g_tx_space(struct sock *sk); /* sk_write_space */
void o2g_tx_work(struct work_struct *work);
/* With the engine's lock: empties engine->tx. Links are written by a worker,
 * or moved to `mine` for o2g_tx_write(). */
void o2g_tx_share(struct o2g_engine *engine, struct list_head *mine);
/* Without a lock, in the program's own context: writes those links. */
void o2g_tx_write(struct list_head *mine);

/* ---- ulp.c: TCP_ULP "o2g" ---- */

int o2g_ulp_register(void);
void o2g_ulp_unregister(void);
/* With the socket lock. 0, -EINVAL: not our ULP, -EBUSY: it has a link. */
int o2g_ulp_check(const struct sock *sk);
const struct proto_ops *o2g_ulp_base(const struct sock *sk);
void o2g_ulp_set(struct sock *sk, struct o2g_link *link);
struct o2g_link *o2g_ulp_link(const struct sock *sk); /* or in RCU */

#endif
