// SPDX-License-Identifier: MIT
/*
 * Guest threads as Windows threads, their slots, kicks and the futex wait.
 *
 * Owns the table of threads. `lock` guards the table and every SuspendThread
 * to ResumeThread window; the thread that ends the process never unlocks it,
 * since a process that exits while one of its threads suspends another may
 * hang.
 */
#include "family.h"

#define THREADS 1024 /* the limit of abi */
#define STACK_RESERVE 0x40000
#define STUB_TRIES 10000

static SRWLOCK lock = SRWLOCK_INIT;
static struct win_thread *threads[THREADS];
static u32 frozen; /* atomic; if set, the lock is never released again */
static struct win_thread *spare; /* a list, linked through bee.os */

/* Slots ----------------------------------------------------------------- */

int bee_thread_slots_take(void)
{
	DWORD other[TLS_MINIMUM_AVAILABLE], i, n = 0;
	u32 have = 0;

	while (have < SKEP_SLOT_COUNT && n < TLS_MINIMUM_AVAILABLE) {
		i = TlsAlloc();
		if (i == TLS_OUT_OF_INDEXES ||
		    i >= BEE_SLOT_FIRST + SKEP_SLOT_COUNT)
			break;
		if (i >= BEE_SLOT_FIRST)
			have++;
		else
			other[n++] = i;
	}
	while (n)
		TlsFree(other[--n]);
	return have == SKEP_SLOT_COUNT ? 0 : ERROR_NO_MORE_ITEMS;
}

/* Blocks ----------------------------------------------------------------- */

/* A block and, after it, the save area of the gate, in one allocation. */
static struct win_thread *block_new(void)
{
	u64 head = (sizeof(struct win_thread) + 63) & ~63ull;
	struct win_thread *t;
	u8 *vec;

	AcquireSRWLockExclusive(&lock);
	t = spare;
	if (t)
		spare = t->bee.os;
	ReleaseSRWLockExclusive(&lock);
	if (!t)
		t = bee_os_alloc(head + BEE_VEC_SIZE);
	if (!t)
		return NULL;
	vec = (u8 *)t + head;
	memset(t, 0, head + BEE_VEC_SIZE);
	t->bee.vec = vec;
	t->wake = INVALID_SOCKET;
	return t;
}

static void block_free(struct win_thread *t)
{
	AcquireSRWLockExclusive(&lock);
	t->bee.os = spare;
	spare = t;
	ReleaseSRWLockExclusive(&lock);
}

static void enlist_thread(struct win_thread *t, u32 index)
{
	AcquireSRWLockExclusive(&lock);
	t->bee.index = index;
	t->live = 1;
	threads[index] = t;
	ReleaseSRWLockExclusive(&lock);
}

/* After this, other threads cannot find, wake or suspend the calling thread. */
static void retire_thread(struct win_thread *t)
{
	AcquireSRWLockExclusive(&lock);
	t->live = 0;
	if (threads[t->bee.index] == t)
		threads[t->bee.index] = NULL;
	ReleaseSRWLockExclusive(&lock);
	if (t->wake != INVALID_SOCKET)
		closesocket(t->wake);
	t->wake = INVALID_SOCKET;
	if (t->event)
		CloseHandle(t->event);
	t->event = NULL;
	if (t->shared)
		CloseHandle(t->shared);
	t->shared = NULL;
	CloseHandle(t->handle);
	t->handle = NULL;
}

/* The host stack is below the frame of the caller. */
static void take_stack(struct win_thread *t, u32 index)
{
	ULONG_PTR low, high;
	u64 top = (u64)__builtin_frame_address(0) - 1024;

	GetCurrentThreadStackLimits(&low, &high);
	bee_thread_init(&t->bee, index, (void *)low, top - low, t->bee.vec);
	t->bee.os = t;
	bee_slots_fill(&t->bee);
}

struct win_thread *bee_thread_main(void)
{
	struct win_thread *t = block_new();
	HANDLE self = GetCurrentProcess();

	if (!t)
		return NULL;
	if (!DuplicateHandle(self, GetCurrentThread(), self, &t->handle, 0,
			     FALSE, DUPLICATE_SAME_ACCESS))
		return NULL;
	take_stack(t, 0);
	enlist_thread(t, 0);
	return t;
}

static DWORD WINAPI thread_main(void *arg)
{
	struct win_thread *t = arg;

	take_stack(t, t->bee.index);
	bee_thread_enter(&t->bee);
}

/* For a thread of bee that calls abi; see timer.c. */
struct win_thread *bee_thread_block(u32 index)
{
	struct win_thread *t = block_new();

	if (t)
		t->bee.index = index;
	return t;
}

void bee_thread_adopt(struct win_thread *t)
{
	take_stack(t, t->bee.index);
}

s64 bee_thread_start(u32 thread)
{
	struct win_thread *t;

	if (thread >= THREADS)
		return -LINUX_EAGAIN;
	t = block_new();
	if (!t)
		return -LINUX_ENOMEM;
	t->handle = CreateThread(
		NULL, STACK_RESERVE, thread_main, t,
		CREATE_SUSPENDED | STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
	if (!t->handle) {
		block_free(t);
		return -LINUX_EAGAIN;
	}
	enlist_thread(t, thread);
	ResumeThread(t->handle);
	return 0;
}

void bee_thread_exit(u32 thread)
{
	struct win_thread *t = bee_thread_self();

	retire_thread(t);
	bee_family_thread_gone(thread);
	abi_thread_gone(bee.proc, thread);
	TlsSetValue(BEE_SLOT_FIRST + SKEP_SLOT_THREAD, NULL);
	block_free(t);
	ExitThread(0);
}

u32 bee_thread_index(void)
{
	return bee_thread_self()->bee.index;
}

/* Kicks ------------------------------------------------------------------ */

void bee_thread_ring(struct win_thread *t)
{
	char one = 1;

	__atomic_add_fetch(&t->doorbell, 1, __ATOMIC_SEQ_CST);
	switch (__atomic_load_n(&t->wake_used, __ATOMIC_SEQ_CST)) {
	case WIN_WAKE_SOCKET:
		send(t->wake, &one, 1, 0);
		break;
	case WIN_WAKE_EVENT:
		SetEvent(t->event);
		break;
	case WIN_WAKE_SHARED:
		SetEvent(t->shared);
		break;
	default:
		WakeByAddressAll(&t->doorbell);
	}
}

void bee_thread_ring_all(void)
{
	u32 i;

	/* The helper threads of streams still run while the process ends. */
	while (!TryAcquireSRWLockShared(&lock)) {
		if (__atomic_load_n(&frozen, __ATOMIC_SEQ_CST))
			return;
		SwitchToThread();
	}
	for (i = 0; i < THREADS; i++)
		if (threads[i] &&
		    __atomic_load_n(&threads[i]->asleep, __ATOMIC_SEQ_CST))
			bee_thread_ring(threads[i]);
	ReleaseSRWLockShared(&lock);
}

static void regs_from(struct abi_regs *r, const CONTEXT *c)
{
	*r = (struct abi_regs){
		.rax = c->Rax,
		.rbx = c->Rbx,
		.rcx = c->Rcx,
		.rdx = c->Rdx,
		.rsi = c->Rsi,
		.rdi = c->Rdi,
		.rbp = c->Rbp,
		.rsp = c->Rsp,
		.r8 = c->R8,
		.r9 = c->R9,
		.r10 = c->R10,
		.r11 = c->R11,
		.r12 = c->R12,
		.r13 = c->R13,
		.r14 = c->R14,
		.r15 = c->R15,
		.rip = c->Rip,
		.rflags = c->EFlags,
	};
}

/* The thread is suspended. Sends it to abi if it runs guest code. */
static enum bee_pc divert_thread(struct win_thread *t)
{
	CONTEXT c = {.ContextFlags = CONTEXT_CONTROL | CONTEXT_INTEGER};
	enum bee_pc where;

	if (!GetThreadContext(t->handle, &c))
		return BEE_PC_BEE;
	where = bee_pc_where(c.Rip);
	if (where == BEE_PC_GUEST)
		regs_from(t->bee.frame, &c);
	if (where == BEE_PC_GUEST || where == BEE_PC_EXIT) {
		c.Rip = (u64)bee_resume_tick;
		c.Rsp = (u64)t->bee.frame;
		SetThreadContext(t->handle, &c);
	}
	return where;
}

/*
 * A stub always runs to its end, because its instructions are not those of the
 * guest.
 */
static void stop_and_divert(struct win_thread *t)
{
	enum bee_pc where = BEE_PC_STUB;
	u32 i;

	for (i = 0; i < STUB_TRIES && where == BEE_PC_STUB; i++) {
		if (i)
			SwitchToThread();
		if (SuspendThread(t->handle) == (DWORD)-1)
			return;
		where = divert_thread(t);
		ResumeThread(t->handle);
	}
}

void bee_thread_kick(u32 thread)
{
	struct win_thread *t;

	if (thread >= THREADS)
		return;
	AcquireSRWLockExclusive(&lock);
	t = threads[thread];
	if (t && t->live) {
		__atomic_store_n(&t->kick, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&t->bee.kicked, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&t->asleep, __ATOMIC_SEQ_CST))
			bee_thread_ring(t);
		else if (t != bee_thread_self())
			stop_and_divert(t);
	}
	ReleaseSRWLockExclusive(&lock);
}

void bee_thread_stop_others(void)
{
	const struct win_thread *self = bee_thread_self();
	CONTEXT c = {.ContextFlags = CONTEXT_CONTROL};
	u32 i;

	AcquireSRWLockExclusive(&lock);
	for (i = 0; i < THREADS; i++)
		if (threads[i] && threads[i]->live && threads[i] != self &&
		    SuspendThread(threads[i]->handle) != (DWORD)-1)
			/* it has stopped only when its registers are known */
			GetThreadContext(threads[i]->handle, &c);
}

void bee_thread_resume_others(void)
{
	const struct win_thread *self = bee_thread_self();
	u32 i;

	for (i = 0; i < THREADS; i++)
		if (threads[i] && threads[i]->live && threads[i] != self)
			ResumeThread(threads[i]->handle);
	ReleaseSRWLockExclusive(&lock);
}

void bee_thread_freeze(void)
{
	AcquireSRWLockExclusive(&lock);
	__atomic_store_n(&frozen, 1, __ATOMIC_SEQ_CST);
}

/* The small ones ---------------------------------------------------------- */

s64 bee_thread_yield(void)
{
	SwitchToThread();
	return 0;
}

s64 bee_thread_affinity(u32 thread, const void *mask, u64 bytes)
{
	DWORD_PTR want = 0, process, system;
	s64 err = -LINUX_ESRCH;

	if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system))
		return bee_win_last();
	memcpy(&want, mask, bytes < sizeof(want) ? bytes : sizeof(want));
	want &= process;
	if (!want)
		return -LINUX_EINVAL;
	if (thread >= THREADS)
		return err;
	AcquireSRWLockShared(&lock);
	if (threads[thread] && threads[thread]->live)
		err = SetThreadAffinityMask(threads[thread]->handle, want)
			      ? 0
			      : bee_win_last();
	ReleaseSRWLockShared(&lock);
	return err;
}

s64 bee_thread_clock(u32 thread)
{
	FILETIME made, left, kernel, user;
	s64 ns = -LINUX_ESRCH;

	if (thread >= THREADS)
		return ns;
	AcquireSRWLockShared(&lock);
	if (threads[thread] && threads[thread]->live &&
	    GetThreadTimes(threads[thread]->handle, &made, &left, &kernel,
			   &user))
		ns = bee_clock_cpu(&user) + bee_clock_cpu(&kernel);
	ReleaseSRWLockShared(&lock);
	return ns;
}

/* WaitOnAddress counts in milliseconds, so short waits are rounded up. */
s64 bee_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	DWORD left;

	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == expect) {
		left = bee_clock_left(deadline_ns);
		if (!left)
			return -LINUX_ETIMEDOUT;
		if (WaitOnAddress(word, &expect, sizeof(expect), left))
			return 0;
		if (GetLastError() != ERROR_TIMEOUT)
			return bee_win_last();
	}
	return 0;
}

void bee_wake(u32 *word, u32 count)
{
	if (count > 16) {
		WakeByAddressAll(word);
		return;
	}
	while (count--)
		WakeByAddressSingle(word);
}
