/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A partition as the module keeps it.
 *
 * Locks, the outer one first:
 *   partition.lock  one partition; held for seconds, while cores start, stop,
 *                   are lent or returned
 *   table_lock      (partition.c) the list of partitions, their CPUs and
 *                   memory, and the allowance; held briefly
 *   image_lock      (image.c) the image that everybody boots
 *   page_lock       (boot.c) the page below 1 MiB
 *   clock_lock      (clock.c) a spin lock, interrupts off: clocks to write
 */
#ifndef SHIMOS_KMOD_PARTITION_H
#define SHIMOS_KMOD_PARTITION_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <skep/shimos.h>
#include <shimos/core/apic.h>
#include <shimos/core/image.h>
#include <shimos/core/plan.h>
#include <shimos/core/state.h>
#include <shimos/core/text.h>

struct shimos_core {
	u32 cpu;  /* Linux's number */
	bool out; /* taken offline by this module */
};

/* A wait queue for the doorbells of cores. */
struct shimos_doorbell {
	atomic_t rung;
	wait_queue_head_t wait;
};

struct shimos_partition {
	struct list_head list; /* table_lock; read under RCU in a panic */
	struct rcu_head rcu;
	struct list_head clocks; /* clock_lock */
	struct kref ref;
	struct mutex lock;

	/* Set at creation: */
	u32 id;
	kuid_t owner;
	bool allowed; /* counts against the allowance */
	struct shimos_create request;
	u32 cores;
	struct shimos_core core[SKEP_PARTITION_CORES];
	struct skep_partition_core place[SKEP_PARTITION_CORES];
	struct shimos_ranges range; /* all memory */
	struct shimos_plan plan;    /* ranges of the pool are part of `range` */
	u64 kernel;		    /* bytes */
	u64 saved_hwp, saved_perf, saved_epb;
	u64 low_start, low_size; /* memory below 1 MiB during a run, or 0 */
	struct page *boot;
	int irq;
	char doorbell_name[20];

	/* Guarded by lock: */
	u32 state; /* may be read without the lock */
	bool gone; /* released; freed with the last file */
	/* kernel and mail contain data of a run or a proxy */
	bool dirty;
	kuid_t user;	     /* the user whose data is in the pool */
	unsigned long *used; /* see clear.c */
	struct {
		/* an image was started; it records what it used */
		bool image, marks;
		u64 partition, used, free; /* offsets in `kernel` */
	} run;
	struct pid *proxy;
	u64 runs;
	char image[24];
	char end[SHIMOS_WHY];

	/* clock_lock; null if no image runs */
	struct skep_partition_clock *clock;
	struct shimos_doorbell doorbell[SKEP_PARTITION_CORES];
	struct shimos_doorbell other, any;
};

/* An open file of the device. */
struct shimos_proxy {
	struct mutex lock; /* for OPEN and LOAD; locked before all others */
	struct shimos_partition *partition; /* set once, by OPEN */
	/* the file's own image, or null; set once */
	struct skep_image *image;
	u32 made; /* the partition that is released with this file, or 0 */
	/* guarded by the partition's lock */
	bool started;
};

/* partition.c: create, find, release. */
int shimos_partition_create(struct shimos_create *request);
int shimos_partition_release(u32 id, struct shimos_text *why);
/* Releases a partition of this file's own, unless another file uses it. */
void shimos_partition_abandon(u32 id);
int shimos_partition_info(struct shimos_info *info);
int shimos_partition_allow(const struct shimos_allow *allow,
			   struct shimos_text *why);
void shimos_partition_allowed(struct shimos_allow *allow);
int shimos_partition_open(struct shimos_proxy *proxy, struct shimos_open *open,
			  struct shimos_text *why);
int shimos_partition_start(struct shimos_proxy *proxy, struct shimos_text *why);
int shimos_partition_stop(struct shimos_proxy *proxy);
int shimos_partition_nmi(struct shimos_proxy *proxy,
			 const struct shimos_nmi *nmi);
void shimos_partition_close(struct shimos_proxy *proxy);
/* Refuses new partitions and starts for this reason; returns whether there is a
 * partition. */
bool shimos_partition_bar(const char *why);
void shimos_partition_halt(bool panic);
/* Returns when all calls that began before the bar have ended. */
void shimos_partition_settle(void);

/* cpu.c: takes cores offline, brings them back, sends them interrupts. */
int shimos_cpu_take(struct shimos_partition *p, struct shimos_text *why);
int shimos_cpu_return(struct shimos_partition *p, struct shimos_text *why);
void shimos_cpu_signal(u32 apic_id, enum shimos_signal signal, u32 page);
u64 shimos_cpu_apic_base(void); /* for partition.h: 0 for x2APIC */
int shimos_cpu_init(void);
void shimos_cpu_exit(void);

/* memory.c */
int shimos_memory_take(struct shimos_partition *p, struct shimos_text *why);
void shimos_memory_return(struct shimos_partition *p);

/* clear.c */
int shimos_clear_begin(struct shimos_partition *p, struct shimos_text *why);
/* Records that the proxy has touched a page of the pool. */
void shimos_clear_mark(struct shimos_partition *p, u64 offset);
/* Clears kernel and mail after a run; adds the image's marks of the pool to
 * `used`. */
void shimos_clear_run(struct shimos_partition *p);
void shimos_clear_pool(struct shimos_partition *p);
int shimos_clear_init(void);
void shimos_clear_exit(void);

/* boot.c: starts cores in an image or in parking, and stops them. */
int shimos_boot_prepare(struct shimos_partition *p, struct shimos_text *why);
void shimos_boot_discard(struct shimos_partition *p);
int shimos_boot_start(struct shimos_partition *p, const struct skep_image *h,
		      struct shimos_text *why);
int shimos_boot_park(struct shimos_partition *p, struct shimos_text *why);
void shimos_boot_init(struct shimos_partition *p);
int shimos_boot_find(void);
/* Lends a run of memory below 1 MiB, which one partition at a time can have. */
int shimos_boot_lend_low(struct shimos_partition *p, struct shimos_text *why);
void shimos_boot_return_low(struct shimos_partition *p);

/* image.c: the image of the module parameter, which is used between get and put
 * (null: there is none), and the contents of a kernel region. */
const struct skep_image *shimos_image_get(void);
void shimos_image_put(void);
void shimos_image_fill(struct shimos_partition *p, const struct skep_image *h,
		       const struct shimos_size *size);
void shimos_image_exit(void);

/* doorbell.c: the doorbell interrupt from an image to Linux. */
int shimos_doorbell_take(struct shimos_partition *p, struct shimos_text *why);
void shimos_doorbell_return(struct shimos_partition *p);
void shimos_doorbell_init(struct shimos_partition *p);
void shimos_doorbell_reset(struct shimos_partition *p); /* for a new proxy */
/* wakes all waiting threads */
void shimos_doorbell_wake(struct shimos_partition *p);
/* NULL if there is no such core. */
struct shimos_doorbell *shimos_doorbell_find(struct shimos_partition *p,
					     u32 core);
void shimos_doorbell_where(struct shimos_partition *p, u32 *apic_id,
			   u32 *vector);

/* clock.c */
int shimos_clock_init(void);
void shimos_clock_exit(void);
bool shimos_clock_usable(void);
void shimos_clock_start(struct shimos_partition *p);
void shimos_clock_stop(struct shimos_partition *p);

/* guard.c: suspend, reboot and panic while partitions exist. */
int shimos_guard_init(void);
void shimos_guard_exit(void);

/* map.c */
int shimos_map_area(struct shimos_partition *p, struct vm_area_struct *vma);

/* device.c */
int shimos_device_init(void);
void shimos_device_exit(void);

#endif
