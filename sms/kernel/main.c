// SPDX-License-Identifier: MIT
/* The first core initializes everything; then all cores enter
 * sms_core_begin(). */
#include "kernel.h"

struct skep_partition *sms_partition;
struct abi_proc *sms_proc;

static s64 seal_text(u64 addr, u64 len)
{
	(void)addr;
	(void)len;
	return 0; /* the next mprotect changes only flags */
}

static u64 text_pc(u64 pc)
{
	return pc;
}

static s64 random_bytes(void *buf, u64 len);

const struct abi_host sms_host = {
	.mem_commit = sms_memory_commit,
	.mem_protect = sms_memory_protect,
	.mem_release = sms_memory_release,
	.mem_discard = sms_memory_discard,
	.mem_populate = sms_memory_populate,
	.text_seal = seal_text,
	.text_pc = text_pc,
	.thread_start = sms_thread_start,
	.thread_exit = sms_thread_exit,
	.thread_kick = sms_thread_kick,
	.thread_yield = sms_thread_yield,
	.thread_affinity = sms_thread_affinity,
	.thread_tp = sms_thread_tp,
	.thread_self = sms_thread_self,
	.wait = sms_thread_wait,
	.wake = sms_thread_wake,
	.timer_arm = sms_events_arm,
	.clock = sms_time_clock,
	.random = random_bytes,
	.info = sms_load_info,
	.rusage = sms_time_rusage,
	.file_open = sms_forward_open,
	.file_close = sms_forward_close,
	.file_read = sms_forward_read,
	.file_write = sms_forward_write,
	.file = sms_forward_file,
	.path = sms_forward_path,
	.pipe = sms_forward_pipe,
	.family = sms_family,
	.sock_open = sms_forward_sock_open,
	.sock = sms_forward_sock,
	.io_wait = sms_poll_wait,
	.vec_save = sms_cpu_vec_save,
	.vec_load = sms_cpu_vec_load,
	.proc_exit = sms_forward_exit,
	.log = sms_forward_log,
};

/*
 * Random bytes: ChaCha20 (RFC 8439) with a key that the module generated for
 * this start, and a block number that is never used twice.
 */
static u64 random_block;

static inline u32 rotate_left(u32 x, u32 n)
{
	return x << n | x >> (32 - n);
}

static void quarter_round(u32 *x, u32 a, u32 b, u32 c, u32 d)
{
	x[a] += x[b];
	x[d] = rotate_left(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = rotate_left(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = rotate_left(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = rotate_left(x[b] ^ x[c], 7);
}

static void chacha_block(u32 out[16])
{
	u64 number = __atomic_fetch_add(&random_block, 1, __ATOMIC_RELAXED);
	u32 in[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
	u32 i;

	abi_memcpy(in + 4, sms_partition->random, 32);
	in[12] = (u32)number;
	in[13] = (u32)(number >> 32);
	abi_memcpy(out, in, 64);
	for (i = 0; i < 10; i++) {
		quarter_round(out, 0, 4, 8, 12);
		quarter_round(out, 1, 5, 9, 13);
		quarter_round(out, 2, 6, 10, 14);
		quarter_round(out, 3, 7, 11, 15);
		quarter_round(out, 0, 5, 10, 15);
		quarter_round(out, 1, 6, 11, 12);
		quarter_round(out, 2, 7, 8, 13);
		quarter_round(out, 3, 4, 9, 14);
	}
	for (i = 0; i < 16; i++)
		out[i] += in[i];
}

static s64 random_bytes(void *buf, u64 len)
{
	u32 block[16];
	u64 done, n;

	for (done = 0; done < len; done += n) {
		chacha_block(block);
		n = len - done < 64 ? len - done : 64;
		abi_memcpy((u8 *)buf + done, block, n);
	}
	return 0;
}

static int make_core(u32 i)
{
	struct core *c = sms_core_at(i);
	u64 stack = AT_STACKS + (u64)i * STACK_STEP + STACK_STEP - STACK_SIZE;
	u64 at, frames = sms_page_frames(STACK_SIZE);

	if (!frames)
		return -LINUX_ENOMEM;
	for (at = 0; at < STACK_SIZE; at += PAGE)
		if (sms_page_map(stack + at,
				 frames + at - AT_KERNEL +
					 sms_partition->kernel_start,
				 SMS_PAGE_WRITE | SMS_PAGE_NX, 0))
			return -LINUX_ENOMEM;
	c->self = c;
	c->number = i;
	c->root = sms_page_root;
	c->frame = (struct abi_regs *)(stack + STACK_SIZE - FRAME_BELOW);
	c->top = (u64)c->frame;
	c->thread = c->ended = c->poller = NO_THREAD;
	c->apic_id = sms_partition->core[i].apic_id;
	c->slot = (struct mail_slot *)(AT_MAIL + MAIL_SLOT(i));
	return 0;
}

/* Runs on a stack in the image, with the trampoline's page tables. It fails
 * only if the partition is smaller than the header requires; then it halts. */
void sms_main(struct skep_partition *p)
{
	u32 i;

	sms_partition = p;
	sms_page_begin(p);
	sms_cpu_tables();
	sms_blocks = sms_page_frames((u64)p->cores * BLOCK_SIZE);
	for (i = 0; i < p->cores; i++)
		if (!sms_blocks || make_core(i))
			sms_panic("no memory for cores", i, 0);
	if (sms_pool_begin(p) || sms_memory_begin() || sms_task_setup())
		sms_panic("no memory for tables", 0, 0);
	sms_proc = sms_page_reserve(abi_proc_size());
	if (!sms_proc)
		sms_panic("no memory for the process", 0, 0);
}
