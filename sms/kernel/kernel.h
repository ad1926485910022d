/* SPDX-License-Identifier: MIT */
/* What the files of the compute kernel share. */
#ifndef SMS_KERNEL_KERNEL_H
#define SMS_KERNEL_KERNEL_H

#include <skep/assert.h>
#include <skep/nmi.h>
#include <skep/partition.h>
#include <skep/guest.h>
#include "abi/include/abi.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "sms/mail.h"
#include "layout.h"

#define PAGE 0x1000ull
#define LARGE 0x200000ull
#define NO_THREAD 0xffffffffu

/* struct core.state. */
enum core_state {
	CORE_OFF,  /* not yet here */
	CORE_IDLE, /* waits for a thread */
	CORE_BUSY, /* has a core, or is about to leave it */
};

/* struct task.state. */
enum task_state {
	TASK_FREE,
	TASK_READY, /* in the queue of a core */
	TASK_RUNS,
	TASK_WAITS, /* waits for a word, and another thread has its core */
};

/* A thread of the program, by abi's index; under sms_thread_lock. */
struct task {
	u32 state, thread;
	u32 core;	 /* where it runs, or ran last */
	u32 next;	 /* in the queue, or in the list of poll.c */
	u64 rsp;	 /* where it continues when it gets a core */
	u64 stack;	 /* its frame, at the end of its stack */
	u32 fresh;	 /* never ran */
	u32 kicked;	 /* it was kicked while it had no core; atomic */
	const u32 *word; /* TASK_WAITS while that is `expect`.. */
	u64 deadline;	 /* ..and the deadline has not passed */
	u32 expect;
	u32 mxcsr; /* to start with */
	u16 control, pad[3];
	u64 used;				/* TSC on earlier cores */
	u64 allowed[SKEP_PARTITION_CORES / 64]; /* cores */
	/* poll.c, of the core that it polls on */
	struct abi_poll *list;
	u32 count, polled; /* polled: the result has arrived */
	u64 until;
	s64 result;
};

/* One per core, at the start of its block; GS base in ring 0. */
struct core {
	struct core *self;
	u64 user_rsp; /* scratch of the system call entry */
	struct abi_regs *frame;
	u32 kicked; /* the core was kicked while in sms; atomic */
	u32 number;
	u64 root;	   /* CR3 */
	u64 top;	   /* end of its own stack, where it is idle */
	u32 poked;	   /* an NMI arrived; checked before a halt */
	u32 state, thread; /* under sms_thread_lock, as up to `loose` */
	u32 first, last;   /* queue of threads that are ready */
	u32 queued;	   /* how many; atomic */
	u32 ended;	   /* a thread that ended, NO_THREAD: none */
	u32 loose;	   /* its thread waits on the core and polls; atomic */
	u32 turn;	   /* from the NMI: the time slice is over; atomic */
	u64 idle_rsp;
	u32 pollers;   /* threads whose handles are in the slot's io_wait */
	u32 poller;    /* the first of them, which are linked by task.next */
	u32 polling;   /* the slot has that call */
	u32 poll_kick; /* one of them was kicked; atomic */
	u32 answered;  /* from the NMI: the proxy replied; atomic */
	u64 flushed;   /* the last change of mappings that it sees; atomic */
	u64 born_tsc, thread_tsc;
	u32 apic_id;
	struct mail_ledger *ledger; /* in the mail: sms writes, never reads;
				       NULL until NMIs are sent to this core */
	struct mail_ledger count;
	struct mail_slot *slot;
	u64 gdt[8];
	u32 task[26];
	u8 vec[4096] __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct core) <= 0x2000, "the NMI's stack follows");
#define SMS_OFFSET(field, at)                                                  \
	_Static_assert(__builtin_offsetof(struct core, field) == (at), #field)
SMS_OFFSET(user_rsp, C_USER_RSP);
SMS_OFFSET(frame, C_FRAME);
SMS_OFFSET(kicked, C_KICKED);
SMS_OFFSET(root, C_ROOT);
SMS_OFFSET(top, C_TOP);
SMS_OFFSET(poked, C_POKED);

/* The one partition and process; written before threads start. */
extern struct skep_partition *sms_partition;
extern struct abi_proc *sms_proc;
extern const struct abi_host sms_host;

/* Of the current core, which may change during a wait. */
static inline struct core *sms_core(void)
{
	struct core *c;

	__asm__ volatile("mov %%gs:0, %0" : "=r"(c));
	return c;
}
struct core *sms_core_at(u32 number);

/* Adds to a count of the ledger, here and in the mail for the proxy. */
#define SMS_COUNT(core, field) ((core)->ledger->field = ++(core)->count.field)

struct spin {
	u32 word;
};
void sms_spin_lock(struct spin *s);
void sms_spin_unlock(struct spin *s);
/* Of threads and queues (thread.c); of ranges, tables and pool (memory.c). */
extern struct spin sms_thread_lock, sms_memory_lock;

/* Asserts that some core holds the lock, in sanitizer builds. */
static inline void sms_spin_assert(const struct spin *s)
{
	skep_assert(__atomic_load_n(&s->word, __ATOMIC_RELAXED));
	(void)s;
}

static inline u64 sms_msr_read(u32 msr)
{
	u32 low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return low | (u64)high << 32;
}

static inline void sms_msr_write(u32 msr, u64 value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32))
			 : "memory");
}

static inline u64 sms_tsc(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return low | (u64)high << 32;
}

/* start.S, and what it calls */
extern u64 sms_blocks;
void sms_main(struct skep_partition *p);
void sms_core_begin(struct core *c);
void sms_core_run(struct core *c);
void sms_core_work(struct core *c);
int sms_core_quiet(struct core *c);

/* flush.c: changes of mappings that cores must see. */
void sms_core_flush(struct core *c); /* from an NMI */
void sms_core_busy(struct core *c);  /* it gets a thread */
void sms_entry_syscall(void);
void sms_entry_nmi(void);
void sms_entry_machine(void);
void sms_resume_tick(void);
void sms_idle_look(void), sms_idle_begin(void), sms_idle_end(void);
/* Saves this context at *save and continues that of rsp. */
void sms_task_switch(u64 *save, u64 rsp);
void sms_task_first(void);
void sms_task_begin(void);
/* Waits for a store near the word or an interrupt, if the word is as
 * expected. */
void sms_wait_word(const u32 *word, u32 expect);
/* Halts until an NMI, unless one arrived since `poked` was cleared. */
void sms_halt(void);
extern const u8 sms_wait_begin[], sms_wait_end[];
extern const u8 sms_halt_begin[], sms_halt_end[];
extern const u8 sms_exit_begin[], sms_exit_end[];
extern const u8 sms_vdso[], sms_vdso_end[];
extern const u8 sms_text_end[], sms_image_end[];
extern u64 sms_trap_table[32];
__attribute__((noreturn)) void sms_core_enter(struct core *c);
__attribute__((noreturn)) void sms_thread_enter(struct core *c);
__attribute__((noreturn)) void sms_core_idle(struct core *c);

/* cpu.c: the processor as an image finds it, and interrupts to others. */
void sms_cpu_tables(void);
void sms_cpu_begin(struct core *c);
void sms_cpu_nmi(struct core *to, enum mail_nmi why);
/* NMIs are sent to this core from now on. */
void sms_cpu_open(struct core *c);
/* Rings Linux's doorbell for a call of this core, or another request. */
void sms_cpu_doorbell_call(struct core *c);
void sms_cpu_doorbell(void);
/* Polls the word for some microseconds; whether it has changed. */
int sms_cpu_poll(const u32 *word, u32 expect);
void sms_cpu_wait(const u32 *word, u32 expect, u64 deadline_ns);
void sms_cpu_flush(void);
void sms_cpu_forget(u64 addr);
u64 sms_cpu_hwcap(void);
u64 sms_cpu_vec_mask(void), sms_cpu_vec_size(void);
s64 sms_cpu_vec_save(void *buf, u64 len);
s64 sms_cpu_vec_load(const void *buf, u64 len);
void sms_cpu_vec_fresh(u32 mxcsr, u16 control);
/* Saves the state of the thread that leaves the core, or restores that of the
 * next; 64-byte aligned. */
#define SMS_VEC_AREA 4096
void sms_cpu_vec_keep(void *area);
void sms_cpu_vec_bring(const void *area);
/* Sets the entry points of system calls and exceptions. */
void sms_cpu_frame(struct core *c, u64 frame);
/* Whether only an NMI ends sms_cpu_wait. */
int sms_cpu_sleeps(void);

/* page.c: memory of `kernel`, and page tables. */
#define SMS_PAGE_PRESENT 1ull
#define SMS_PAGE_WRITE 2ull
#define SMS_PAGE_USER 4ull
#define SMS_PAGE_UNCACHED 0x18ull
#define SMS_PAGE_TOUCHED 0x60ull
#define SMS_PAGE_LARGE 0x80ull
#define SMS_PAGE_KEPT                                                          \
	0x200ull /* software bit: has a frame, though not present */
#define SMS_PAGE_FRAME 0x000ffffffffff000ull
#define SMS_PAGE_NX (1ull << 63)
void sms_page_begin(struct skep_partition *p);
/* Zeroed memory of `kernel`; 0: none is left. */
u64 sms_page_frames(u64 bytes);
/* The entry for addr, level 0: 4 KiB, 1: 2 MiB; NULL: there is no table. */
u64 *sms_page_entry(u64 addr, u32 level, int make);
int sms_page_map(u64 addr, u64 physical, u64 flags, u32 level);
/* 512 pages of 4 KiB in place of one of 2 MiB. */
int sms_page_split(u64 *entry);
/* First touch of abi's tables and our own. */
int sms_page_lazy(u64 addr);
void *sms_page_reserve(u64 bytes);
extern u64 sms_page_root;

/* pool.c: frames for the program. */
int sms_pool_begin(struct skep_partition *p);
u64 sms_pool_bytes(void), sms_pool_free_bytes(void);
/* Offsets in the pool of frames whose bytes are anything; ~0: none. */
u64 sms_pool_take(u32 level);
void sms_pool_give(u64 offset, u32 level);
u64 sms_pool_physical(u64 offset);
u64 sms_pool_offset(u64 physical);

/* memory.c: the program's memory. */
int sms_memory_begin(void);
s64 sms_memory_commit(u64 addr, u64 len, u32 prot);
s64 sms_memory_protect(u64 addr, u64 len, u32 prot);
s64 sms_memory_release(u64 addr, u64 len);
s64 sms_memory_discard(u64 addr, u64 len);
/* First touch of all pages that may be read. */
s64 sms_memory_populate(u64 addr, u64 len);
/* First touch. 1: the page is mapped now; 0: not allowed; -ENOMEM. */
int sms_memory_touch(u64 addr, u32 prot);
/* Pool offset of the page at addr, touched before; bytes up to its end. */
u64 sms_memory_offset(u64 addr, u32 prot, u64 *length);

/* task.c */
int sms_task_setup(void);
struct task *sms_task_at(u32 thread);
u32 sms_task_high(void); /* more than any index in use */
/* Registers a new thread of abi, 0 or -ENOMEM; and removes one that ended. */
int sms_task_make(u32 thread);
void sms_task_free(u32 thread);
int sms_task_fits(const struct task *t, u32 core);
/* NULL: the idle loop. `from` may get the lock back on another core. */
void sms_task_go(struct core *c, struct task *from, struct task *to);

/* queue.c */
u32 sms_queue_ready(void); /* threads in all queues */
void sms_queue_add(struct core *c, struct task *t);
/* Where it runs soonest. */
void sms_queue_place(struct task *t);
void sms_queue_remove(struct task *t);
struct task *sms_queue_take(struct core *c, const struct core *to);
struct task *sms_queue_pick(struct core *c);
void sms_queue_slice(struct core *c);

/* thread.c */
/* The program's first thread, to start on core 0. */
void sms_thread_main(void);
/* For a thread in poll.c's list: its wait is over. */
void sms_thread_ready(struct task *t);
/* Gives the core to another thread while *word is `expect`; 0: there is none.
 */
int sms_thread_pass(const u32 *word, u32 expect, u64 deadline_ns);
/* Switches to the next thread if the NMI requested it. */
void sms_thread_turn(void);
/* Wakes threads whose deadline has passed; returns the next deadline. */
u64 sms_thread_expire(u64 now);
/* While it waits on its core: another thread may be placed there.. */
void sms_thread_loosen(void);
/* ..until this: then the core is time-sliced if one was placed. */
void sms_thread_stay(void);
s64 sms_thread_start(u32 thread);
void sms_thread_exit(u32 thread);
void sms_thread_kick(u32 thread);
s64 sms_thread_yield(void);
s64 sms_thread_affinity(u32 thread, const void *mask, u64 bytes);
void sms_thread_tp(u32 thread, u64 tp);
s64 sms_thread_wait(u32 *word, u32 expect, u64 deadline_ns);
void sms_thread_wake(u32 *word, u32 count);
/* flush.c. Before a mapping's frames are reused: no core sees the old mapping.
 */
void sms_thread_flush(void);

/* events.c: signals of Linux and the timer, from the proxy. */
void sms_events_begin(void); /* the process can take them from now on */
int sms_events_is_here(void);
/* May be called anywhere but in an NMI, with any lock of abi held except those
 * of signals and timers. */
void sms_events_take(void);
void sms_events_arm(u64 deadline_ns);
/* sms_thread_expire has to be called by then. */
void sms_events_sleep(u64 deadline_ns);

/* poll.c: threads that wait for handles, on the current core. */
s64 sms_poll_wait(struct abi_poll *list, u32 count, u64 deadline_ns,
		  u32 thread);
/* Processes replies and polls again; returns how many waits are over. */
u32 sms_poll_look(struct core *c);
/* The slot is needed for another call. */
void sms_poll_release(struct core *c);
/* The slot is not read from now on. Not 0: there is a reply already. */
int sms_poll_leave(struct core *c);
int sms_poll_is_answered(const struct core *c);

/* time.c */
s64 sms_time_clock(u32 clock);
s64 sms_time_rusage(s64 *user_ns, s64 *system_ns);

/* forward.c: struct abi_host by the proxy. */
s64 sms_forward_open(struct abi_open *open);
s64 sms_forward_close(s32 handle);
s64 sms_forward_read(s32 handle, const struct abi_io *io);
s64 sms_forward_write(s32 handle, const struct abi_io *io);
s64 sms_forward_file(s32 handle, struct abi_file_op *op);
s64 sms_forward_path(struct abi_path_op *op);
s64 sms_forward_sock_open(u32 domain, u32 type, u32 protocol);
s64 sms_forward_sock(s32 handle, struct abi_sock_op *op);
void sms_forward_log(const char *line);
__attribute__((noreturn)) void sms_forward_exit(u32 status);
__attribute__((noreturn)) void sms_forward_panic(const char *line);

/* trap.c */
__attribute__((noreturn)) void sms_panic(const char *what, u64 a, u64 b);

/* load.c: the program that the boot message names. Never returns on failure. */
void sms_load(const struct mail_boot *message);
s64 sms_load_info(struct abi_host_info *info);

#endif
