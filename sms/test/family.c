// SPDX-License-Identifier: MIT
/*
 * Processes, on sms' side, against a proxy that answers what it likes: how sms
 * waits for children, who asks about itself, and what of a reply is used.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "abi/include/user.h"
#include "sms/kernel/kernel.h"
#include "sms/test/play.h"

#undef WNOHANG
#define WNOHANG 1u
#define CALLS 8

static struct core core;
static struct mail_slot *slot;
static struct bytes answers; /* the whole reply of the next calls */
/* Otherwise: the results of the next calls, and what was asked. */
static s64 result[CALLS];
static struct abi_family_op asked[CALLS];
static u8 asked_info[sizeof(struct abi_siginfo)];
static u32 calls, waits;
static s64 wait_result;
struct abi_proc *sms_proc;

struct core *sms_core_at(u32 number)
{
	must(!number);
	return &core;
}

void sms_cpu_doorbell_call(struct core *c)
{
	must(c->slot == slot && slot->state == MAIL_CALL);
	must(slot->handle == -1);
	if (calls < CALLS) {
		memcpy(&asked[calls], slot->data, sizeof(asked[0]));
		slot->result = result[calls];
	}
	memcpy(asked_info, slot->data + MAIL_BULK, sizeof(asked_info));
	calls++;
	take_bytes(&answers, slot, __builtin_offsetof(struct mail_slot, part));
	take_bytes(&answers, slot->data, sizeof(struct abi_family_op));
	take_bytes(&answers, slot->data + MAIL_BULK, 256);
	slot->state = MAIL_DONE;
}

s64 sms_poll_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread)
{
	must(count == 1 && list->handle == MAIL_CHILD && list->events == 1);
	must(deadline_ns == ABI_FOREVER && thread == 3);
	waits++;
	return waits > 100 ? -LINUX_EINTR : wait_result;
}

void sms_poll_release(struct core *c)
{
	must(c == &core);
}

int sms_cpu_poll(const u32 *word, u32 expect)
{
	(void)word;
	(void)expect;
	must(0);
}

void sms_halt(void)
{
	must(0);
}

int sms_events_is_here(void)
{
	return 0;
}

void sms_events_take(void)
{
}

u64 abi_user_move(void *to, const void *from, u64 n)
{
	(void)to;
	(void)from;
	(void)n;
	must(0);
}

int sms_memory_touch(u64 addr, u32 prot)
{
	(void)addr;
	(void)prot;
	must(0);
}

u64 sms_memory_offset(u64 addr, u32 prot, u64 *length)
{
	(void)addr;
	(void)prot;
	(void)length;
	must(0);
}

u32 abi_count_refused(const struct abi_proc *p, u32 nr)
{
	(void)p;
	return nr;
}

static void reset_all(void)
{
	if (!slot) {
		slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(slot != MAP_FAILED);
		core.self = &core;
		core.slot = slot;
		core.ledger = &slot->ledger;
		must(!syscall(SYS_arch_prctl, ARCH_SET_GS, &core));
	}
	memset(asked, 0, sizeof(asked));
	memset(result, 0, sizeof(result));
	answers = (struct bytes){(const u8 *)"", 0};
	calls = waits = 0;
	wait_result = 1;
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct {
		struct abi_siginfo info;
		u64 mark;
	} guarded = {.mark = 0xa5a5};
	struct bytes b = {data, size};
	struct abi_family_op op = {.verb = take_one(&b) % 32, .path = "/a"};
	s32 end[3] = {0, 0, 77};
	s64 n;

	reset_all();
	op.info = &guarded.info;
	op.pid = (s32)take_one(&b);
	op.options = take_one(&b);
	wait_result = take_one(&b) & 1 ? 1 : -LINUX_EINTR;
	answers = b;
	n = sms_family(&op, 3);
	must(n >= -4095 && n <= 0x7fffffff);
	must(op.info == &guarded.info && guarded.mark == 0xa5a5);
	must(!strcmp(op.path, "/a") && !op.text && !op.unlocked);
	n = sms_forward_pipe(end, 0);
	must(n >= -4095 && n <= 0 && end[2] == 77);
	sms_family(&(struct abi_family_op){.verb = ABI_FAMILY_ENDED}, 3);
	return 0;
}

#ifndef SMS_FUZZ
#include "tests/tap.h"

static s64 ask_family(u32 verb, s32 pid, u32 options, u32 thread)
{
	struct abi_family_op op = {
		.verb = verb, .pid = pid, .options = options};

	return sms_family(&op, thread);
}

static void test_waits(void)
{
	reset_all();
	result[2] = 42;
	tap_ok(ask_family(ABI_FAMILY_WAIT4, -1, 0, 3) == 42 && calls == 3 &&
		       waits == 2 && asked[0].options == WNOHANG &&
		       asked[2].options == WNOHANG && asked[2].pid == -1,
	       "waits: the proxy looks, and sms waits until it finds one");
	reset_all();
	tap_ok(!ask_family(ABI_FAMILY_WAIT4, -1, WNOHANG, 3) && !waits &&
		       calls == 1,
	       "waits: none if the program does not wait");
	reset_all();
	result[0] = -LINUX_ECHILD;
	tap_ok(ask_family(ABI_FAMILY_WAITID, 5, 0, 3) == -LINUX_ECHILD &&
		       !waits,
	       "waits: none if there is no child");
	reset_all();
	wait_result = -LINUX_EINTR;
	tap_ok(ask_family(ABI_FAMILY_WAIT4, -1, 0, 3) == -LINUX_EINTR &&
		       waits == 1 && calls == 1,
	       "waits: a signal ends one");
}

static void test_selves(void)
{
	reset_all();
	slot->data[0] = 0;
	tap_ok(!ask_family(ABI_FAMILY_GROUP, 0, 0, 3) && !asked[0].pid,
	       "selves: 0 is the program");
	result[1] = 0;
	tap_ok(!sms_family(&(struct abi_family_op){.verb = ABI_FAMILY_FORK,
						   .status = 1,
						   .pid = 77},
			   3),
	       "selves: a thread becomes a child");
	ask_family(ABI_FAMILY_SET_GROUP, 0, 0, 3);
	ask_family(ABI_FAMILY_SET_SESSION, 0, 0, 2);
	ask_family(ABI_FAMILY_GROUP, 5, 0, 3);
	tap_ok(asked[2].pid == 77 && asked[3].pid == 0 && asked[4].pid == 5,
	       "selves: 0 is the child, of that thread only");
	result[5] = -LINUX_ENOENT;
	ask_family(ABI_FAMILY_SPAWN, 77, 0, 3);
	ask_family(ABI_FAMILY_PARENT, 0, 0, 3);
	tap_ok(asked[6].pid == 77, "selves: also after an execve that failed");
	ask_family(ABI_FAMILY_ENDED, 77, 0, 3);
	reset_all();
	ask_family(ABI_FAMILY_PARENT, 0, 0, 3);
	tap_ok(!asked[0].pid, "selves: then the program again");
}

static void test_info(void)
{
	struct abi_siginfo info = {.signo = 10, .code = -1};
	struct abi_family_op op = {
		.verb = ABI_FAMILY_QUEUE, .pid = 5, .info = &info};

	reset_all();
	op.path = "/program";
	slot->data[MAIL_PATH + 9] = 'x';
	sms_family(&op, 3);
	tap_ok(!memcmp(asked_info, &info, sizeof(info)) && !asked[0].info &&
		       !asked[0].path &&
		       !strcmp((char *)slot->data + MAIL_PATH, "/program"),
	       "info: what is behind pointers is sent, and no pointer");
	tap_ok(ask_family(ABI_FAMILY_TEXT, 5, 0, 3) == -LINUX_ESRCH &&
		       calls == 1 && !ask_family(ABI_FAMILY_BEGIN, 0, 0, 3) &&
		       calls == 1,
	       "info: the proxy is not asked for what it does not have");
}

static void test_pipe(void)
{
	s32 end[3] = {0, 0, 77}, *found;

	reset_all();
	found = (s32 *)(slot->data + MAIL_BULK);
	found[0] = 11;
	found[1] = 12;
	tap_ok(!sms_forward_pipe(end, 4) && slot->op == MAIL_PIPE &&
		       slot->arg[0] == 4 && end[0] == 11 && end[1] == 12 &&
		       end[2] == 77,
	       "pipe: its type, and both ends");
	end[0] = 0;
	result[1] = -LINUX_EMFILE;
	tap_ok(sms_forward_pipe(end, 4) == -LINUX_EMFILE && !end[0],
	       "pipe: an error makes none");
	result[2] = 1;
	tap_ok(sms_forward_pipe(end, 4) == -LINUX_EIO && !end[0],
	       "pipe: nor does a result that is neither");
}

/* What an error of the proxy's leaves as it was. */
static void test_error(void)
{
	struct abi_siginfo info = {.signo = 10};
	struct abi_family_op op = {
		.verb = ABI_FAMILY_GROUP, .pid = 5, .status = 6, .info = &info};

	static u8 reply[__builtin_offsetof(struct mail_slot, part) +
			sizeof(op) + 256];
	const s64 err = -LINUX_ESRCH;

	reset_all();
	memset(reply, 1, sizeof(reply));
	memcpy(reply + __builtin_offsetof(struct mail_slot, result), &err,
	       sizeof(err));
	answers = (struct bytes){reply, sizeof(reply)};
	tap_ok(sms_forward_family(&op) == -LINUX_ESRCH && op.pid == 5 &&
		       op.status == 6 && info.signo == 10,
	       "error: nothing of the reply is used");
}

static sigjmp_buf halted;

static void on_fault(int sig)
{
	siglongjmp(halted, sig);
}

/* A user process may not halt its core: the instruction faults. */
static void end_with(void (*end)(void))
{
	struct sigaction sa = {.sa_handler = on_fault};

	reset_all();
	must(!sigaction(SIGSEGV, &sa, NULL));
	if (!sigsetjmp(halted, 1))
		end();
}

static char line[1000];

static void end_good(void)
{
	sms_forward_exit(42);
}

static void end_bad(void)
{
	sms_forward_panic(line);
}

static void test_end(void)
{
	const char *text = (const char *)slot->data + MAIL_BULK;
	u32 i, right = 0;

	end_with(end_good);
	for (i = 0; i < MAIL_CALLS; i++)
		right += core.ledger->refused[i] == i;
	tap_ok(calls == 1 && slot->op == MAIL_EXIT && slot->arg[0] == 42,
	       "end: the status of the program");
	tap_ok(right == MAIL_CALLS, "end: how often each call was refused");
	memset(line, 'x', sizeof(line) - 1);
	end_with(end_bad);
	tap_ok(calls == 1 && slot->op == MAIL_PANIC && strlen(text) == 511,
	       "end: a panic's message, cut where the proxy cuts it");
	reset_all();
	sms_forward_log("note");
	tap_ok(calls == 1 && slot->op == MAIL_LOG && !strcmp(text, "note"),
	       "end: a note of the log does not end it");
}

int main(void)
{
	test_waits();
	test_selves();
	test_info();
	test_pipe();
	test_error();
	test_end();
	tap_ok(play_random(3000), "random: 3000 replies of random bytes");
	return tap_done();
}
#endif
