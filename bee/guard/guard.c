/* SPDX-License-Identifier: MIT */
/*
 * bee-guard: runs a program so that a system call made from guest memory kills
 * the process. The kernel passes the instruction's address to a seccomp filter.
 * IMAGE and ARENA (guest.h) contain only guest code and stubs, and no bee on
 * any host puts its own code there. So a system call that the rewriter missed
 * ends the process with SIGSYS instead of reaching the kernel. This covers
 * every entry into the kernel (int 0x80 too), also after exec and fork.
 * Programs that are linked at a fixed low address cannot run natively under it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <skep/guest.h>
#include <skep/version.h>

#define IP_LOW (offsetof(struct seccomp_data, instruction_pointer))
#define IP_HIGH (IP_LOW + 4)
#define HIGH(x) ((unsigned int)((unsigned long long)(x) >> 32))
#define LOW(x) ((unsigned int)((unsigned long long)(x)&0xffffffffu))

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define IF(op, value, yes, no)                                                 \
	BPF_JUMP(BPF_JMP | BPF_##op | BPF_K, (value), (yes), (no))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))

_Static_assert(HIGH(SKEP_IMAGE_END) == 0, "one comparison is enough");
_Static_assert(LOW(SKEP_ARENA_START) == 0 && LOW(SKEP_ARENA_END) == 0,
	       "high words decide");

/*
 * The kernel reports the address after the instruction, so the end of a range
 * still belongs to it. BPF has 32-bit words: the high word is compared first.
 */
static struct sock_filter program[] = {
	/* 0 */ LOAD(IP_HIGH),
	/* 1 */ IF(JEQ, 0, 0, 3), /* below 4 GiB: 2, else 5 */
	/* 2 */ LOAD(IP_LOW),
	/* 3 */ IF(JGE, SKEP_IMAGE_START, 0, 7), /* below IMAGE: allow */
	/* 4 */ IF(JGT, SKEP_IMAGE_END, 6, 5),	 /* above: allow, else kill */
	/* 5 */ IF(JGE, HIGH(SKEP_ARENA_START), 0, 5), /* below: allow */
	/* 6 */ IF(JGE, HIGH(SKEP_ARENA_END), 0, 3),   /* inside: kill */
	/* 7 */ IF(JEQ, HIGH(SKEP_ARENA_END), 0, 3),   /* above: allow */
	/* 8 */ LOAD(IP_LOW),
	/* 9 */ IF(JEQ, LOW(SKEP_ARENA_END), 0, 1), /* its very end: kill */
	/* 10 */ RETURN(SECCOMP_RET_KILL_PROCESS),
	/* 11 */ RETURN(SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv)
{
	struct sock_fprog filter = {
		.len = sizeof(program) / sizeof(program[0]),
		.filter = program,
	};

	if (argc < 2) {
		fputs("usage: bee-guard program [args]\n", stderr);
		return 2;
	}
	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("bee-guard " SKEP_VERSION) < 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		fprintf(stderr, "bee-guard: no seccomp filter: %s\n",
			strerror(errno));
		return 125;
	}
	execvp(argv[1], argv + 1);
	fprintf(stderr, "bee-guard: %s: %s\n", argv[1], strerror(errno));
	return 127;
}
