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
	CORE_OFF,  /* not started yet */
	CORE_IDLE, /* waits for a thread */
	CORE_BUSY, /* runs a thread */
};

/* struct task.state. */
enum task_state {
	TASK_FREE,
	TASK_READY, /* in the queue of a core */
	TASK_RUNS,
	TASK_WAITS, /* waits for a word, without a core */
};

/* A thread of the program, by abi's index; guarded by sms_thread_lock. */
struct task {
	u32 state, thread;
	u32 core;	 /* the core where it runs or last ran */
	u32 next;	 /* in the queue, or in the list of poll.c */
	u64 rsp;	 /* where it continues, without a core */
	u64 stack;	 /* the end of its stack, where its frame is */
	u32 fresh;	 /* it never ran */
	u32 kicked;	 /* it was kicked without a core; atomic */
	const u32 *word; /* TASK_WAITS ends when *word is not `expect` */
	u64 deadline;	 /* or when the deadline has passed */
	u32 expect;
	u32 mxcsr; /* initial value */
	u16 control, pad[3];
	/* TSC cycles on earlier cores */
	u64 used;
	u64 allowed[SKEP_PARTITION_CORES / 64]; /* affinity */
	/* used by poll.c, by the core on which it polls: */
	struct abi_poll *list;
	u32 count, polled; /* polled: the result has arrived */
	u64 until;
	s64 result;
};

/* One per core, at the start of its block; GS base in ring 0. */
struct core {
	struct core *self;
	u64 user_rsp; /* scratch space of the system call entry */
	struct abi_regs *frame;
	u32 kicked; /* the core was kicked while in ring 0; atomic */
	u32 number;
	u64 root;	   /* CR3 */
	u64 top;	   /* end of its own stack, on which it idles */
	u32 poked;	   /* an NMI arrived; checked before a halt */
	u32 state, thread; /* guarded by sms_thread_lock, up to `loose`: */
	u32 first, last;   /* queue of ready threads */
	u32 queued;	   /* length of the queue; atomic */
	u32 ended;	   /* a thread that has ended here, or NO_THREAD */
	u32 loose;	   /* its thread polls while it waits; atomic */
	u32 turn;	   /* set by the NMI: the time slice is over; atomic */
	u64 idle_rsp;
	u32 pollers;   /* number of threads in the slot's io_wait */
	u32 poller;    /* the first of them; they are linked by task.next */
	u32 polling;   /* the slot contains that io_wait */
	u32 poll_kick; /* one of them was kicked; atomic */
	u32 answered;  /* set by the NMI: the proxy has replied; atomic */
	/* entries of a directory that the slot still has, for one system call
	 */
	struct {
		u32 left, at;
		s32 handle;
		u64 next; /* cookie of the first of them */
		u64 call;
	} listing;
	/* number of the last change of mappings that it has seen; atomic */
	u64 flushed;
	u64 born_tsc, thread_tsc;
	u32 apic_id;
	/* in the mail: sms writes it and never reads it; NULL until NMIs are
	 * sent to this core */
	struct mail_ledger *ledger;
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

/* The only partition and process; written before threads start. */
extern struct skep_partition *sms_partition;
extern struct abi_proc *sms_proc;
extern const struct abi_host sms_host;

/* The current core; after a wait it may be another one. */
static inline struct core *sms_core(void)
{
	struct core *c;

	__asm__ volatile("mov %%gs:0, %0" : "=r"(c));
	return c;
}
struct core *sms_core_at(u32 number);

/* Increments a count of the ledger, here and for the proxy in the mail. */
#define SMS_COUNT(core, field) ((core)->ledger->field = ++(core)->count.field)

struct spin {
	u32 word;
};
void sms_spin_lock(struct spin *s);
void sms_spin_unlock(struct spin *s);
/* Locks of threads and queues (thread.c), and of ranges, tables and pool
 * (memory.c). */
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

/* flush.c: TLB flushes. */
void sms_core_flush(struct core *c); /* called by an NMI */
void sms_core_busy(struct core *c);  /* called when it gets a thread */
void sms_entry_syscall(void);
void sms_entry_nmi(void);
void sms_entry_machine(void);
void sms_resume_tick(void);
void sms_idle_look(void), sms_idle_begin(void), sms_idle_end(void);
/* Saves this context at *save and continues the context of rsp. */
void sms_task_switch(u64 *save, u64 rsp);
void sms_task_first(void);
void sms_task_begin(void);
/* If the word is as expected, waits for a store near it or an interrupt. */
void sms_wait_word(const u32 *word, u32 expect);
/* Halts until an NMI, unless one has arrived since `poked` was cleared. */
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

/* cpu.c: the processor, and interrupts to other cores. */
void sms_cpu_tables(void);
void sms_cpu_begin(struct core *c);
void sms_cpu_nmi(struct core *to, enum mail_nmi why);
/* From now on NMIs are sent to this core. */
void sms_cpu_open(struct core *c);
/* Rings Linux's doorbell, for a call of this core or for another request. */
void sms_cpu_doorbell_call(struct core *c);
void sms_cpu_doorbell(void);
/* Polls the word for some microseconds; returns whether it has changed. */
int sms_cpu_poll(const u32 *word, u32 expect);
void sms_cpu_wait(const u32 *word, u32 expect, u64 deadline_ns);
void sms_cpu_flush(void);
void sms_cpu_forget(u64 addr);
u64 sms_cpu_hwcap(void);
u64 sms_cpu_vec_mask(void), sms_cpu_vec_size(void);
s64 sms_cpu_vec_save(void *buf, u64 len);
s64 sms_cpu_vec_load(const void *buf, u64 len);
void sms_cpu_vec_fresh(u32 mxcsr, u16 control);
/* Saves or restores a thread's vector state; the area is 64-byte aligned. */
#define SMS_VEC_AREA 4096
void sms_cpu_vec_keep(void *area);
void sms_cpu_vec_bring(const void *area);
/* Sets the entry points of system calls and exceptions. */
void sms_cpu_frame(struct core *c, u64 frame);
/* Whether only an NMI ends sms_cpu_wait(), not a store to the word. */
int sms_cpu_sleeps(void);

/* page.c: memory of `kernel`, and page tables. */
#define SMS_PAGE_PRESENT 1ull
#define SMS_PAGE_WRITE 2ull
#define SMS_PAGE_USER 4ull
#define SMS_PAGE_UNCACHED 0x18ull
#define SMS_PAGE_TOUCHED 0x60ull
#define SMS_PAGE_LARGE 0x80ull
/* A software bit: the entry has a frame, but is not present. */
#define SMS_PAGE_KEPT 0x200ull
#define SMS_PAGE_FRAME 0x000ffffffffff000ull
#define SMS_PAGE_NX (1ull << 63)
void sms_page_begin(struct skep_partition *p);
/* Returns zeroed memory of `kernel`; 0 if there is none left. */
u64 sms_page_frames(u64 bytes);
/* Returns the page table entry for addr, of level 0 (4 KiB) or 1 (2 MiB); NULL
 * if there is no table and `make` is 0, or no memory. */
u64 *sms_page_entry(u64 addr, u32 level, int make);
int sms_page_map(u64 addr, u64 physical, u64 flags, u32 level);
/* Replaces a page of 2 MiB by 512 pages of 4 KiB. */
int sms_page_split(u64 *entry);
/* Handles the first touch of tables of abi and sms. */
int sms_page_lazy(u64 addr);
void *sms_page_reserve(u64 bytes);
extern u64 sms_page_root;

/* pool.c: frames for the program. */
int sms_pool_begin(struct skep_partition *p);
u64 sms_pool_bytes(void), sms_pool_free_bytes(void);
/* Returns the offset in the pool of a frame with arbitrary contents; ~0 if
 * there is none. */
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
/* Touches all pages that may be read. */
s64 sms_memory_populate(u64 addr, u64 len);
/* Handles a first touch. 1: the page is mapped now; 0: not allowed; -ENOMEM. */
int sms_memory_touch(u64 addr, u32 prot);
/* The offset in the pool of the page at addr, which was touched before;
 * *length: bytes up to the page's end. */
u64 sms_memory_offset(u64 addr, u32 prot, u64 *length);

/* task.c */
int sms_task_setup(void);
struct task *sms_task_at(u32 thread);
u32 sms_task_high(void); /* one more than the highest index in use */
/* Registers a new thread of abi, 0 or -ENOMEM; removes one that has ended. */
int sms_task_make(u32 thread);
void sms_task_free(u32 thread);
int sms_task_fits(const struct task *t, u32 core);
/* Switches to `to`; NULL: the idle loop. `from` may continue, with the lock, on
 * another core. */
void sms_task_go(struct core *c, struct task *from, struct task *to);

/* queue.c */
u32 sms_queue_ready(void); /* threads in all queues */
void sms_queue_add(struct core *c, struct task *t);
/* Places a thread where it runs soonest. */
void sms_queue_place(struct task *t);
void sms_queue_remove(struct task *t);
struct task *sms_queue_take(struct core *c, const struct core *to);
struct task *sms_queue_pick(struct core *c);
void sms_queue_slice(struct core *c);

/* thread.c */
/* Creates the program's first thread, which starts on core 0. */
void sms_thread_main(void);
/* Ends the wait of a thread in poll.c's list. */
void sms_thread_ready(struct task *t);
/* Lets another thread have the core while *word is `expect`; 0 if there is
 * none. */
int sms_thread_pass(const u32 *word, u32 expect, u64 deadline_ns);
/* Switches to the next thread if an NMI requested it. */
void sms_thread_turn(void);
/* Wakes threads whose deadline has passed; returns the next deadline. */
u64 sms_thread_expire(u64 now);
/* From loosen to stay the thread waits on its core, and another thread may be
 * placed there. If one was, stay makes the core time-sliced. */
void sms_thread_loosen(void);
void sms_thread_stay(void);
s64 sms_thread_start(u32 thread);
void sms_thread_exit(u32 thread);
void sms_thread_kick(u32 thread);
s64 sms_thread_yield(void);
s64 sms_thread_affinity(u32 thread, const void *mask, u64 bytes);
void sms_thread_tp(u32 thread, u64 tp);
u32 sms_thread_self(void);
s64 sms_thread_wait(u32 *word, u32 expect, u64 deadline_ns);
void sms_thread_wake(u32 *word, u32 count);
/* flush.c. Call it before frames of a removed mapping are reused: then no core
 * uses the old mapping. */
void sms_thread_flush(void);

/* events.c: signals of Linux and the timer, from the proxy. */
void sms_events_begin(void); /* from now on the process can handle them */
int sms_events_is_here(void);
/* May be called anywhere but in an NMI, with any lock of abi held except those
 * of signals and timers. */
void sms_events_take(void);
void sms_events_arm(u64 deadline_ns);
/* Requests a call of sms_thread_expire() at the deadline. */
void sms_events_sleep(u64 deadline_ns);

/* poll.c: threads that wait for handles, on the current core. */
s64 sms_poll_wait(struct abi_poll *list, u32 count, u64 deadline_ns,
		  u32 thread);
/* Processes replies and polls again; returns the number of waits that ended. */
u32 sms_poll_look(struct core *c);
/* Frees the slot for another call. */
void sms_poll_release(struct core *c);
/* From now on nobody reads the slot. Returns not 0 if there is a reply
 * already. */
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
s64 sms_forward_family(struct abi_family_op *op);
s64 sms_forward_pipe(s32 handle[2], u32 type);
void sms_forward_log(const char *line);
__attribute__((noreturn)) void sms_forward_exit(u32 status);
__attribute__((noreturn)) void sms_forward_panic(const char *line);

/* family.c: struct abi_host's; the proxy itself never waits for children. */
s64 sms_family(struct abi_family_op *op, u32 thread);

/* trap.c */
__attribute__((noreturn)) void sms_panic(const char *what, u64 a, u64 b);

/* load.c: loads the program that the boot message names. Does not return on
 * failure. */
void sms_load(const struct mail_boot *message);
s64 sms_load_info(struct abi_host_info *info);

#endif
