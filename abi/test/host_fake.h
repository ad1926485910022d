/* SPDX-License-Identifier: MIT */
/*
 * A host for abi's own tests: memory by mmap at the real guest addresses,
 * futexes by Linux futexes, files by Linux files. Tests may overwrite any
 * entry of fake.host before abi_proc_init, and read what it counted.
 *
 * Link abi/test/host_fake.c into each test. Guest memory is real: a test can
 * write to addresses that abi returned.
 */
#ifndef ABI_TEST_HOST_FAKE_H
#define ABI_TEST_HOST_FAKE_H

#include "abi/include/abi.h"

struct fake {
	struct abi_host host;
	struct abi_host_info info; /* answer of host->info */
	u64 committed;		   /* bytes committed now */
	u32 commits, protects, releases, discards, seals, kicks, logs;
	s64 seal_answer;   /* what text_seal answers (0) */
	s64 commit_answer; /* if not 0: what mem_commit answers */
	u32 exit_status;   /* host->proc_exit */
	int exited;
	char last_log[512];
};

extern struct fake fake;

/* Reserves IMAGE and ARENA (once) and resets everything else. */
void fake_reset(void);
/* fake_reset, then a fresh process on the heap. The caller frees it. */
struct abi_proc *fake_proc(void);
void fake_free(struct abi_proc *p);

/* A host->family that starts no process: for what abi does on a host that can.
 */
s64 fake_family(struct abi_family_op *op, u32 thread);

/*
 * Started by the test's own thread code: host->thread_start calls `run` in a
 * new pthread with abi's thread index, proc_exit and thread_exit leave it.
 */
extern void (*fake_thread_run)(struct abi_proc *p, u32 thread);

#endif
