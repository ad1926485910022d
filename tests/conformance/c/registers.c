/* SPDX-License-Identifier: MIT */
/* General registers, the stack pointer and the red zone across raw calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

struct state {
	uint64_t in[16], out[16]; /* rax rdi rsi rdx r8 r9 r10 rbx rbp r12-15 */
	uint64_t red_in[16], red_out[16];
	uint64_t sp_before, sp_after;
};

void registers_call(struct state *s);

/* rcx and r11 are free after a call, so rcx carries the state's address. */
__asm__(".text\n"
	".globl registers_call\n"
	".type registers_call, @function\n"
	"registers_call:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n"
	"	push %r13\n	push %r14\n	push %r15\n"
	"	push %rdi\n"
	"	mov %rdi, %rcx\n"
	"	.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	mov 256+8*\\n(%rcx), %rax\n"
	"	mov %rax, -8-8*\\n(%rsp)\n"
	"	.endr\n"
	"	mov %rsp, 512(%rcx)\n"
	"	mov 0(%rcx), %rax\n	mov 8(%rcx), %rdi\n"
	"	mov 16(%rcx), %rsi\n	mov 24(%rcx), %rdx\n"
	"	mov 32(%rcx), %r8\n	mov 40(%rcx), %r9\n"
	"	mov 48(%rcx), %r10\n	mov 56(%rcx), %rbx\n"
	"	mov 64(%rcx), %rbp\n	mov 72(%rcx), %r12\n"
	"	mov 80(%rcx), %r13\n	mov 88(%rcx), %r14\n"
	"	mov 96(%rcx), %r15\n"
	"	syscall\n"
	"	mov (%rsp), %rcx\n"
	"	mov %rax, 128(%rcx)\n	mov %rdi, 136(%rcx)\n"
	"	mov %rsi, 144(%rcx)\n	mov %rdx, 152(%rcx)\n"
	"	mov %r8, 160(%rcx)\n	mov %r9, 168(%rcx)\n"
	"	mov %r10, 176(%rcx)\n	mov %rbx, 184(%rcx)\n"
	"	mov %rbp, 192(%rcx)\n	mov %r12, 200(%rcx)\n"
	"	mov %r13, 208(%rcx)\n	mov %r14, 216(%rcx)\n"
	"	mov %r15, 224(%rcx)\n"
	"	mov %rsp, 520(%rcx)\n"
	"	.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	mov -8-8*\\n(%rsp), %rax\n"
	"	mov %rax, 384+8*\\n(%rcx)\n"
	"	.endr\n"
	"	pop %rdi\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n"
	"	pop %r12\n	pop %rbp\n	pop %rbx\n"
	"	ret\n");

static void check_call(const char *name, long nr, uint64_t a, uint64_t b,
		       uint64_t c)
{
	struct state s;
	int i, kept;

	memset(&s, 0, sizeof(s));
	for (i = 0; i < 16; i++) {
		s.in[i] = 0x1111111111111111ull * i + nr;
		s.red_in[i] = 0xfedcba9876543210ull ^ (i * 0x0101010101ull);
	}
	s.in[0] = nr;
	s.in[1] = a;
	s.in[2] = b;
	s.in[3] = c;
	s.in[6] = 0; /* r10, the fourth argument: none of these calls has one */
	registers_call(&s);
	kept = !memcmp(&s.in[1], &s.out[1], 12 * sizeof(uint64_t));
	printf("%s registers %s\n", kept ? "ok" : "BAD", name);
	say_bad += !kept;
	kept = !memcmp(s.red_in, s.red_out, sizeof(s.red_in)) &&
	       s.sp_before == s.sp_after;
	printf("%s stack %s\n", kept ? "ok" : "BAD", name);
	say_bad += !kept;
}

int main(void)
{
	static struct timespec ts = {0, 1000000};
	static uint32_t word;
	static char buf[64];
	int fds[2];

	CHECK(pipe(fds) == 0);
	check_call("getpid", SYS_getpid, 1, 2, 3);
	check_call("write", SYS_write, fds[1], (uintptr_t) "abc", 3);
	check_call("read", SYS_read, fds[0], (uintptr_t)buf, 3);
	check_call("nanosleep", SYS_nanosleep, (uintptr_t)&ts, 0, 0);
	check_call("clock_gettime", SYS_clock_gettime, 1, (uintptr_t)&ts, 0);
	check_call("futex", SYS_futex, (uintptr_t)&word, 1, 1);
	check_call("openat", SYS_openat, AT_FDCWD, (uintptr_t) ".", O_RDONLY);
	check_call("brk", SYS_brk, 0, 0, 0);
	check_call("mprotect", SYS_mprotect, 1, 0, 0);
	check_call("sched_yield", SYS_sched_yield, 0, 0, 0);
	check_call("none", 9999, 0, 0, 0);
	return say_done();
}
