/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the kernel engine share. See include/skep/o2g_device.h for
 * what user space sees, o2g/core/core.h for what is done with the bytes.
 *
 * An engine is one open endpoint, a link one attached socket. Lock order:
 *
 *   engine->control (mutex: ioctls that change the set of links, close)
 *     socket lock (lock_sock, or softirq with the socket not owned)
 *       engine->lock (spinlock, BH off: the core and everything it owns)
 *
 * The socket lock makes reading exclusive per link, `tx_busy` makes writing so;
 * neither the socket lock nor a sleep is ever taken under engine->lock.
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
#ifndef O2G_KMOD_INSIDE_H
#define O2G_KMOD_INSIDE_H

#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/sock.h>

#include <o2g/core/core.h>
#include <skep/o2g_device.h>

#include "compat.h"

#define O2G_SOFTIRQ_BYTES 0x40000 /* read in one softirq, then a worker */
#define O2G_SOFTIRQ_STEPS 64	  /* frames handled in one softirq */
#define O2G_WORKER_BYTES 0x40000  /* moved by a worker per socket lock */

/* ---- area.c: rings in vmalloc memory, slab in single pages ---- */

struct o2g_pages {
	void *rings; /* struct o2g_area and both rings, contiguous here */
	u64 rings_size, size;
	u64 slab_offset, slab_count;
	struct page **slab; /* null until used; set once, by cmpxchg */
	atomic64_t present; /* pages of the slab */
	bool mapped;	    /* once is enough */
	atomic_t maps;	    /* areas of the program's memory that show it */
};

struct o2g_engine;
struct o2g_link;

int o2g_area_make(struct o2g_engine *engine, const struct o2g_device_open *o);
void o2g_area_free(struct o2g_engine *engine);
int o2g_area_map(struct o2g_engine *engine, struct vm_area_struct *vma);
/* Kernel address of a byte of the area, and how many are contiguous there; a
 * slab page that is missing is made, without sleeping when `atomic`. Null:
 * there was no memory. Needs no lock; pages stay as long as the engine. */
void *o2g_area_at(struct o2g_engine *engine, u64 offset, u64 *length,
		  bool atomic);

/* ---- memory.c: the core's memory, in limits, charged to the user ---- */

void *o2g_memory_alloc(void *engine, u64 size);
void o2g_memory_free(void *engine, void *memory, u64 size);

/* ---- engine.c ---- */

struct o2g_engine {
	struct kref ref;
	struct workqueue_struct *workers;
	struct mutex control;
	spinlock_t lock;
	struct o2g_core *core;
	struct o2g_pages pages;
	struct mm_struct *mm; /* mmgrab()ed; the program's */
	struct pid *owner;    /* tgid */
	struct list_head links;
	u32 link_number;
	struct list_head tx;	  /* links that want to write; lock */
	struct list_head blocked; /* links that the core does not read; lock */
	struct list_head jobs;	  /* put-off copies; lock */
	struct work_struct jobs_work;
	wait_queue_head_t wait; /* sleepers and poll */
	int rung;		/* readable until calm; lock */
	bool making;		/* memory may be had with sleeping */
	bool closed;
	bool broken; /* the program's rings made no sense */
	u64 memory;  /* bytes of the core; lock */
	u64 memory_most;
	struct o2g_device_counts counts; /* the engine's own part; lock */
};

struct o2g_engine *o2g_engine_make(const struct o2g_device_open *o, int *error);
void o2g_engine_get(struct o2g_engine *engine);
void o2g_engine_put(struct o2g_engine *engine);
/* Ends every link and the core; callable twice. Process context. */
void o2g_engine_close(struct o2g_engine *engine);

/* Around every piece of work on the core. Leaving wakes sleepers, gives links
 * that want to write to tx_work (or, with `mine`, moves them to that list: the
 * caller writes them itself after), and resumes blocked links. */
void o2g_engine_enter(struct o2g_engine *engine);
void o2g_engine_leave(struct o2g_engine *engine, struct list_head *mine);
/* Takes the first link of such a list, with a reference, or null: a link may
 * leave the list by itself as long as it is there. */
struct o2g_link *o2g_engine_next(struct o2g_engine *engine,
				 struct list_head *mine);

int o2g_engine_kick(struct o2g_engine *engine);
int o2g_engine_sleep(struct o2g_engine *engine, u64 us);
void o2g_engine_wake(struct o2g_engine *engine);
int o2g_engine_finish(struct o2g_engine *engine, u32 ms);
void o2g_engine_counts(struct o2g_engine *engine, struct o2g_device_counts *c);

/* ---- program.c: the program's memory ---- */

/* Around the use of the program's memory, unless current runs in its mm. */
int o2g_program_enter(struct o2g_engine *engine); /* -EFAULT: it is gone */
void o2g_program_leave(struct o2g_engine *engine);
int o2g_host_copy(void *engine, struct o2g_copy *job);

/* ---- link.c: attached sockets ---- */

struct o2g_link {
	struct kref ref;
	struct o2g_engine *engine;
	struct list_head here; /* engine->links; control and lock */
	struct list_head tx_here, blocked_here;
	u32 number;
	struct file *file;
	struct socket *socket;
	struct sock *sk;
	struct o2g_conn *conn;	/* null when it has ended; lock */
	bool tx_busy, tx_again; /* lock */
	bool finishing;		/* BYE asked for */
	bool ended;		/* conn is over, or detached */
	struct work_struct rx_work, tx_work;
	/* what the socket had before, restored by detaching */
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	const struct proto *prot;
	const struct proto_ops *ops;
};

int o2g_link_attach(struct o2g_engine *engine, struct o2g_device_attach *a);
int o2g_link_identify(struct o2g_engine *engine, u32 number, u32 peer);
/* The stream is over (error 0: by its end): ends the conn, keeps the socket
 * until detached. Socket lock held. */
void o2g_link_end(struct o2g_link *link, int error);
/* Takes the socket back from us and drops it; control held, no other lock. */
void o2g_link_detach(struct o2g_link *link);
void o2g_link_want(void *engine, struct o2g_conn *conn); /* host->want_tx */
void o2g_link_put(struct o2g_link *link);

/* ---- rx.c ---- */

void o2g_rx_ready(struct sock *sk); /* sk_data_ready */
void o2g_rx_work(struct work_struct *work);

/* ---- tx.c ---- */

void o2g_tx_work(struct work_struct *work);
/* Writes until there is nothing or the socket is full; `own` when current is
 * the program itself. */
void o2g_tx_write(struct o2g_link *link, bool own);

/* ---- ulp.c: TCP_ULP "o2g" ---- */

int o2g_ulp_register(void);
void o2g_ulp_unregister(void);
/* The socket lock is held. */
int o2g_ulp_take(struct sock *sk, struct o2g_link *link);
void o2g_ulp_give(struct sock *sk, struct o2g_link *link);

#endif
