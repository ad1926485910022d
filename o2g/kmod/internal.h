/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the kernel engine share. See include/skep/o2g_device.h for
 * what user space sees, o2g/core/core.h for how the bytes are handled.
 *
 * An engine is one open endpoint, a link one attached socket. Lock order:
 *
 *   engine->control (mutex: ioctls that change the set of links, close)
 *   engine->use (rwsem: read-locked by kicks, write-locked to end the core)
 *     socket lock (lock_sock, or softirq with the socket not owned)
 *       engine->lock (spinlock, BH off: the core and everything it owns)
 *
 * Only the holder of the socket lock reads a link, and only the context that
 * set `tx_busy` writes it. Nothing sleeps or takes a socket lock while it holds
 * engine->lock.
 *
 *   context           may do
 *   softirq           parse, match, copy to the core and the slab; within a
 *   (data_ready)      budget; anything else is left to link->rx_work
 *   rx_work           the same, and copy into the program's memory with its mm
 *   kick (ioctl)      consume submissions, then write links, with the program's
 *                     memory
 *   tx_work           writes what softirqs and write_space ask for
 *
 * A worker may block in a page fault as long as the program likes, if the
 * program serves the fault itself (userfaultfd); so each engine has its own
 * workers.
 *
 * References: a link has one to its engine, to its socket's file, and, by the
 * ULP, to the module. An engine is freed with its last reference; a closed one
 * (`closed`) has no links and no core.
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
/* the same of an encrypted link, whose bytes cost several times as much */
#define O2G_SOFTIRQ_SEALED 0x10000
/* what a record costs beside its text */
#define O2G_RECORD_BYTES 256
/* moved by a worker while it has the socket lock */
#define O2G_WORKER_BYTES 0x40000

struct o2g_engine;
struct o2g_link;

/* Totals of all programs, shown by module parameters. */
struct o2g_totals {
	atomic64_t engines, links;
	atomic64_t memory; /* bytes of rings and cores */
	atomic64_t pages;  /* pages of all slabs */
};
extern struct o2g_totals o2g_totals;

/* ---- device.c ---- */

int o2g_device_register(void);
void o2g_device_unregister(void);

/* ---- area.c: rings in vmalloc memory, slab in single pages ---- */

struct o2g_pages {
	void *rings; /* struct o2g_area and both rings, contiguous */
	u64 rings_size, size;
	struct xarray slab;	       /* allocated pages, by number */
	atomic64_t present;	       /* number of allocated pages */
	atomic_t maps;		       /* mappings of the area by the program */
	bool mapped;		       /* only one mapping is allowed, ever */
	bool lacking;		       /* a page allocation failed */
	struct address_space *mapping; /* of the mapped file */
};

int o2g_area_make(struct o2g_engine *engine, const struct o2g_device_open *o);
void o2g_area_free(struct o2g_engine *engine);
int o2g_area_map(struct o2g_engine *engine, struct vm_area_struct *vma);
/* The kernel's address of a byte of the area; sets `length` to the number of
 * contiguous bytes there. Allocates a missing page of the slab, without
 * sleeping if `atomic`. NULL: no memory. Needs no lock: a page in use is not
 * freed. */
void *o2g_area_at(struct o2g_engine *engine, u64 offset, u64 *length,
		  bool atomic);

/* Frees unused pages if a page allocation has failed; sleeps. */
void o2g_area_shrink(struct o2g_engine *engine);

/* ---- memory.c: memory accounting, and the core's memory ---- */

#define O2G_MEMORY_SIZES 4

struct o2g_user; /* the share of one user */

struct o2g_memory {
	struct o2g_user *user;
	struct mem_cgroup *group;
	struct list_head ready;	      /* blocks for the core; engine->lock */
	u32 ready_count;	      /* their number; engine->lock */
	u64 wanted[O2G_MEMORY_SIZES]; /* sizes to preallocate; engine->lock */
	bool sleep;		      /* o2g_memory_alloc() may sleep */
};

int o2g_memory_open(struct o2g_engine *engine);
void o2g_memory_close(struct o2g_engine *engine);
/* Charges bytes of kernel memory to the user: 0 or -ENOMEM. */
int o2g_memory_charge(struct o2g_engine *engine, u64 bytes);
/* The same for a page of the slab; leaves a reserve for everything else. */
int o2g_memory_charge_page(struct o2g_engine *engine);
void o2g_memory_uncharge(struct o2g_engine *engine, u64 bytes);
/* host->alloc and host->free. A size that cannot be allocated atomically is
 * recorded in `wanted`. */
void *o2g_memory_alloc(void *engine, u64 size);
void o2g_memory_free(void *engine, void *memory, u64 size);
/* host->spare: the most bytes that may be buffered for messages beyond
 * credit. */
u64 o2g_memory_spare(void *engine);
bool o2g_memory_wanted(const struct o2g_engine *engine);
/* Preallocates the wanted sizes; sleeps. Returns 0: no size was wanted; 1:
 * retry what failed; -ENOMEM. */
int o2g_memory_fill(struct o2g_engine *engine);
/* Call it without a lock when the core returned -ENOMEM: returns whether to
 * retry. `tries` is 0 at first. */
bool o2g_memory_again(struct o2g_engine *engine, u32 *tries);

/* ---- engine.c ---- */

struct o2g_engine {
	struct kref ref;
	struct workqueue_struct *workers;
	struct mutex control;
	/* read-locked during sleeping work on the core */
	struct rw_semaphore use;
	spinlock_t lock;
	struct o2g_core *core;
	/* A read section of each context that may access the program's memory,
	 * from before the core returns an address until the bytes are reported
	 * to the core. */
	struct srcu_struct access;
	bool access_made;
	struct o2g_pages pages;
	struct o2g_memory memory;
	struct mm_struct *mm; /* the program's, by mmgrab() */
	struct pid *owner;    /* tgid */
	struct list_head links;
	u32 link_number, link_count, link_max;
	struct list_head tx; /* links with something to write; lock */
	/* links that the core does not read now */
	struct list_head blocked;
	/* number of preallocated blocks so far; lock */
	u64 fills;
	struct o2g_copy *jobs, **last; /* deferred copies; lock */
	struct delayed_work turn_work; /* runs o2g_engine turns in a worker */
	struct work_struct reap_work;
	struct work_struct end_work; /* queued when the last mapping is gone */
	struct path path;	     /* of a file that a worker closes */
	wait_queue_head_t wait;	     /* for o2g_engine_wait and poll() */
	/* poll() reports it until it is reset; lock */
	bool rung;
	bool poor; /* a sleeping allocation failed; lock */
	bool closed;
	bool broken; /* the program's rings were invalid */
	/* those that the core does not count; lock */
	struct o2g_device_counts counts;
};

struct o2g_engine *o2g_engine_make(const struct o2g_device_open *o, int *error);
void o2g_engine_get(struct o2g_engine *engine);
void o2g_engine_put(struct o2g_engine *engine);
/* Ends every link and the core; may be called twice. Process context. */
void o2g_engine_close(struct o2g_engine *engine);

/* Lock and unlock around all work on the core. Unlock wakes sleepers, resumes
 * blocked links, and queues a worker for what cannot be done here. Links that
 * have something to write are queued on tx_work, or with `mine` moved to that
 * list, and the caller writes them afterwards. A closed engine has no core. */
void o2g_engine_lock(struct o2g_engine *engine);
void o2g_engine_unlock(struct o2g_engine *engine, struct list_head *mine);

int o2g_engine_peer(struct o2g_engine *engine, u32 peer, bool self);
int o2g_engine_lost(struct o2g_engine *engine, u32 peer, int error);
int o2g_engine_kick(struct o2g_engine *engine);
int o2g_engine_region_add(struct o2g_engine *engine,
			  const struct o2g_region_options *options);
/* Returns when no context accesses the region any more; -EINTR: killed. */
int o2g_engine_region_remove(struct o2g_engine *engine, u64 key);
int o2g_engine_sleep(struct o2g_engine *engine, u64 us);
void o2g_engine_wake(struct o2g_engine *engine);
void o2g_engine_calm(struct o2g_engine *engine);
int o2g_engine_finish(struct o2g_engine *engine, u32 ms);
int o2g_engine_counts(struct o2g_engine *engine, struct o2g_device_counts *c);

/* ---- program.c: the program's memory ---- */

/* A worker calls enter and leave around its accesses to the program's memory.
 * -EFAULT: the memory has been torn down. */
bool o2g_program_gone(const struct o2g_engine *engine);
int o2g_program_enter(struct o2g_engine *engine);
void o2g_program_leave(struct o2g_engine *engine);
int o2g_host_copy(void *engine, struct o2g_copy *job);
/* Performs the deferred copies, in a context that has the program's memory,
 * without a lock; if `error` is set, they fail with it. */
void o2g_program_copy(struct o2g_engine *engine, struct o2g_copy *jobs,
		      int error);

/* ---- atomic.c ---- */

/* Performs one deferred atomic access, in such a context: 0 or -errno. */
int o2g_program_atomic(struct o2g_engine *engine, const struct o2g_copy *job);

/* ---- link.c: attached sockets ---- */

#define O2G_GATHER 32  /* pieces written at once */
#define O2G_VECTOR 48  /* contiguous parts written at once */
#define O2G_FETCH 4096 /* bytes of short bodies, copied from the program */

struct o2g_link {
	struct kref ref;
	struct rcu_head rcu;
	struct o2g_engine *engine;
	struct list_head here; /* engine->links; control and lock */
	/* tx_here: in engine->tx, or in the list of the context that took it */
	struct list_head tx_here, blocked_here;
	u32 number;
	struct file *file;
	struct socket *socket;
	struct sock *sk;
	/* engine->lock guards all below. `conn` is NULL when it has ended. Code
	 * that uses it without the lock is counted in `users`, and the end of
	 * the conn waits until that is 0. */
	struct o2g_conn *conn;
	u32 users;
	bool over;    /* conn has ended, or ends when `users` is 0 */
	int error;    /* of the end; before that, of writing */
	bool tx_busy; /* a context is writing; tx_again: there is more */
	bool tx_again, tx_full;
	bool shut;		   /* FIN was sent after BYE */
	struct o2g_sealed *sealed; /* NULL: the link is not encrypted */
	u64 charged;		   /* bytes of kernel memory */
	u32 silent;		   /* checks without progress */
	u64 asked; /* state when o2g_rx_resume() last checked it */
	struct delayed_work rx_work, tx_work, look_work;
	/* used only by the context that set tx_busy */
	struct o2g_piece piece[O2G_GATHER];
	struct kvec vector[O2G_VECTOR];
	u8 fetched[O2G_FETCH];
	/* the socket's own callbacks, restored when it is detached */
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	const struct proto_ops *ops; /* the protocol's own */
};

/* The caller holds `control`. */
int o2g_link_attach(struct o2g_engine *engine, struct o2g_device_attach *a);
int o2g_link_identify(struct o2g_engine *engine, u32 number, u32 peer);
/* Restores the socket, releases it and frees the link. The caller holds no
 * other lock. */
void o2g_link_detach(struct o2g_link *link);
/* Detaches links that have ended; the function of engine->reap_work. */
void o2g_link_reap(struct work_struct *work);

/* The caller holds the engine's lock: */
void o2g_link_want(void *engine, struct o2g_conn *conn); /* host->want_tx */
/* Ends the link; `error` is 0 if the stream ended in order. */
void o2g_link_end(struct o2g_link *link, int error);
void o2g_link_use(struct o2g_link *link);
void o2g_link_unuse(struct o2g_link *link);
/* Called after a write: starts the checks whether the peer's host is alive. */
void o2g_link_watch(struct o2g_link *link);
/* Sends BYE after all submissions. */
void o2g_link_bye(struct o2g_link *link);
/* Whether the link has ended or the peer has acknowledged the end of the
 * stream. That change wakes engine->wait. */
bool o2g_link_finished(const struct o2g_link *link);
void o2g_link_put(struct o2g_link *link);

/* ---- rx.c ---- */

void o2g_rx_ready(struct sock *sk); /* sk_data_ready */
void o2g_rx_work(struct work_struct *work);
/* The caller holds the engine's lock. Reads in a worker after a delay. */
void o2g_rx_later(struct o2g_link *link, unsigned long delay);
/* The caller holds the engine's lock. Checks some blocked links whose state may
 * have changed, and reads those that the core accepts again. True: there are
 * more to check. */
bool o2g_rx_resume(struct o2g_engine *engine);

/* ---- tx.c ---- */

void o2g_tx_space(struct sock *sk); /* sk_write_space */
void o2g_tx_work(struct work_struct *work);
/* The caller holds the engine's lock. Empties engine->tx: a worker writes the
 * links, or they are moved to `mine` for o2g_tx_write(). */
void o2g_tx_share(struct o2g_engine *engine, struct list_head *mine);
/* Writes these links; called by the program, without a lock. */
void o2g_tx_write(struct list_head *mine);

/* ---- sealed.c: records of an encrypted link ---- */

struct o2g_sealed *o2g_sealed_make(const u8 out[O2G_KEY_SIZE],
				   const u8 in[O2G_KEY_SIZE]);
void o2g_sealed_free(struct o2g_sealed *sealed);
u64 o2g_sealed_size(void);

/* Reading; the caller holds the socket lock. */

/* Takes bytes up to the end of a record: returns their number, which is 0 only
 * without bytes. -EPROTO, -EBADMSG: the link must end. All text of the record
 * before was read. */
s64 o2g_sealed_take(struct o2g_link *link, struct sk_buff *skb, u32 offset,
		    u64 length);
/* Verified text that was not read yet: its length. */
u32 o2g_sealed_text(const struct o2g_sealed *sealed, const u8 **text);
void o2g_sealed_read(struct o2g_sealed *sealed, u64 n);
/* Whether a stream that ends here is cut. */
bool o2g_sealed_amid(const struct o2g_sealed *sealed);

/* Writing; the caller has set tx_busy. */

/* Seals bytes of link->piece[], at most a record, and returns their number:
 * for the core they are sent. -EFAULT, -ENOMEM: none were. */
s64 o2g_sealed_fill(struct o2g_link *link, u32 pieces, bool reachable);
/* What is sealed and not sent: its length. */
u32 o2g_sealed_rest(const struct o2g_sealed *sealed, u8 **rest);
void o2g_sealed_sent(struct o2g_sealed *sealed, u64 n);

/* ---- ulp.c: TCP_ULP "o2g" ---- */

int o2g_ulp_register(void);
void o2g_ulp_unregister(void);
/* The caller holds the socket lock. 0; -EINVAL: not our ULP; -EBUSY: it has a
 * link. */
int o2g_ulp_check(const struct sock *sk);
const struct proto_ops *o2g_ulp_base(const struct sock *sk);
void o2g_ulp_set(struct sock *sk, struct o2g_link *link);
/* with the socket lock or in RCU */
struct o2g_link *o2g_ulp_link(const struct sock *sk);

#endif
