// SPDX-License-Identifier: MIT
/* fork, vfork and execve on a host that starts processes itself. */
#include "abi/include/exec.h"
#include "abi/include/fork.h"
#include "abi/include/lin.h"
#include "abi/proc/refuse.h"
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"

#define CHILD 777
#define PARENT_STACK (page + 0xe000)

static u32 births, spawned, self;
static s32 ended_status, spawned_pid;
static u32 ended_turn; /* whose turn to vfork it was then */
static u32 numbers[16], count;

static u32 thread_self(void)
{
	return self;
}

static s64 pipe_error; /* what host_pipe answers */

static s64 host_pipe(s32 handle[2], u32 type)
{
	if (pipe_error)
		return pipe_error;
	if (type)
		return socketpair(AF_UNIX,
				  (int)type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
				  handle)
			       ? -errno
			       : 0;
	return pipe2(handle, O_NONBLOCK | O_CLOEXEC) ? -errno : 0;
}

static s64 counter_error;

static s64 host_counter(u64 value, u32 semaphore)
{
	s64 fd = counter_error ? counter_error
			       : eventfd(0, EFD_NONBLOCK | (int)semaphore);

	if (fd >= 0 && value && write((int)fd, &value, 8) != 8)
		abort();
	return fd;
}

static s64 take_state(const struct abi_family_op *op)
{
	static u8 state[1 << 20];
	const struct abi_exec_head *head = (const void *)state;
	u32 i;

	if (pread(op->handle, state, sizeof(state), 0) < 100)
		return -EINVAL;
	spawned++;
	spawned_pid = op->pid;
	count = head->numbers;
	for (i = 0; i < count && i < 16; i++)
		numbers[i] = (u32)abi_exec_number(state, i);
	return 0;
}

static struct abi_proc *copied; /* of the last fork */
static s32 passed[8];

/* What a host does, but for memory, which the copy shares here. */
static s64 host_fork(void)
{
	u64 offset, len;
	u32 i;

	copied = calloc(1, abi_proc_size());
	for (i = 0; abi_fork_part(p, i, &offset, &len); i++)
		memcpy((u8 *)copied + offset, (u8 *)p + offset, len);
	for (i = 0; i < 8 && (passed[i] = abi_fork_handle(p, i)) != -2; i++)
		;
	return CHILD;
}

static s64 fork_error; /* what FORKED answers */
static u32 starts, lock_words, still_open;
static s64 closed; /* FORKED closes this descriptor; 0: none */

static u32 locks_held(const struct abi_proc *of)
{
	u32 i, n = 0;

	for (i = 0; i < ABI_FUTEX_BUCKETS; i++)
		n += of->futexes.bucket[i].lock.word;
	for (i = 0; i < of->fds.high; i++)
		n += of->fds.desc[i].lock.word;
	return n + of->space.change.word + of->space.lock.word + of->lock.word +
	       of->fds.lock.word + of->threads.lock.word +
	       of->signals.lock.word + of->alarms.lock.word +
	       of->fds.epoll_lock.word;
}

/* Other threads go on meanwhile. */
static s64 host_start(void)
{
	starts++;
	lock_words += locks_held(p);
	if (closed) {
		CALL(close, (u64)closed);
		still_open = fcntl(passed[1], F_GETFD) >= 0;
	}
	closed = 0;
	return fork_error;
}

static s64 host_family(struct abi_family_op *op, u32 thread)
{
	(void)thread;
	switch (op->verb) {
	case ABI_FAMILY_BEGIN:
		return 0;
	case ABI_FAMILY_FORK:
		if (!op->status)
			return host_fork();
		births += (u32)op->status;
		op->pid = CHILD;
		return 0;
	case ABI_FAMILY_FORKED:
		return host_start();
	case ABI_FAMILY_ENDED:
		ended_status = op->pid == CHILD ? op->status : -1;
		ended_turn = *abi_vfork_turn(p);
		return 0;
	case ABI_FAMILY_EXEC_FILE:
		return open("/tmp", O_TMPFILE | O_RDWR, 0600);
	case ABI_FAMILY_SPAWN:
		return take_state(op);
	default:
		return -ENOSYS;
	}
}

/* The child ends; whether the parent continues after its vfork. */
static int ends_with(u64 code)
{
	struct abi_regs regs = guest_regs();
	s64 pid;

	regs.rsp = page + 0x8000;
	pid = guest_call_at(0, &regs, ABI_NR_exit_group, (u64[6]){code});
	return pid == CHILD && regs.rsp == PARENT_STACK;
}

static void test_child(void)
{
	u64 *set = GUEST(0x100), *action = GUEST(0x200);
	s64 fd = CALL(eventfd2, 0, 0);

	*set = 1 << 9;
	tap_ok(CALL(vfork) == 0 && births == 1 && CALL(getpid) == CHILD &&
		       CALL(gettid) == CHILD,
	       "the caller of vfork becomes the child");
	tap_ok(CALL(close, (u64)fd) == 0 && CALL(umask, 0) == 022 &&
		       CALL(chdir, io_str(0, "/tmp")) == 0 &&
		       CALL(rt_sigprocmask, 0, page + 0x100, 0, 8) == 0 &&
		       CALL(prlimit64, 0, 7, page + 0x300, 0) ==
			       -LINUX_EINVAL + LINUX_EINVAL,
	       "and changes what it has");
	action[0] = 1;
	CALL(rt_sigaction, 12, page + 0x200, 0, 8);
	CALL(rt_sigprocmask, 0, 0, page + 0x108, 8);
	tap_ok(u64_at(page + 0x108) == 1 << 9, "its mask too");
	tap_ok(ends_with(5) && ended_status == 5 << 8,
	       "when it ends, the parent continues after the call");
	CALL(rt_sigprocmask, 0, 0, page + 0x108, 8);
	CALL(rt_sigaction, 12, 0, page + 0x208, 8);
	tap_ok(CALL(fcntl, (u64)fd, 1) == 0 && CALL(umask, 022) == 022 &&
		       CALL(getcwd, page + 0x400, 100) == 2 &&
		       !u64_at(page + 0x108) && !u64_at(page + 0x208) &&
		       CALL(getpid) == p->info.pid &&
		       p->limit[7].cur == ABI_FD_MAX,
	       "and has what it had before");
	CALL(close, (u64)fd);
}

static void test_ends(void)
{
	struct abi_fault fault = {ABI_SIGSEGV, 1, 16, 14, 4};
	struct abi_regs regs = guest_regs();
	u64 *action = GUEST(0x200);

	CALL(vfork);
	tap_ok(CALL(kill, CHILD, 15) == CHILD && ended_status == 15,
	       "a signal that it sends itself ends it");
	CALL(vfork);
	regs.rip = text + 4;
	abi_fault(p, 0, &regs, &fault);
	tap_ok(regs.rax == CHILD && ended_status == 11, "and a fault");
	tap_ok(ended_turn == 1 && !*abi_vfork_turn(p),
	       "no other thread starts a child before the host knows this");
	action[0] = text + 0x80;
	action[1] = 0x04000000; /* SA_RESTORER */
	action[2] = text;
	CALL(rt_sigaction, 12, page + 0x200, 0, 8);
	CALL(vfork);
	abi_signal_send(p, 0, 0, &(struct abi_siginfo){.signo = 12});
	tap_ok(CALL(getpid) == CHILD &&
		       CALL(wait4, -1ull, 0, 0, 0) == -LINUX_ECHILD,
	       "signals to the parent wait, and its children are not the "
	       "child's");
	guest_call_at(0, &regs, ABI_NR_exit_group, (u64[6]){0});
	tap_ok(regs.rip == text + 0x80 && CALL(getpid) == p->info.pid,
	       "the parent gets them when it is back");
}

static u32 is_refused(const char *what)
{
	fake.logs = 0;
	return CALL(fork) == -LINUX_ENOSYS &&
	       CALL(clone, 17, 0, 0, 0, 0) == -LINUX_ENOSYS && fake.logs == 1 &&
	       strstr(fake.last_log, what) && !copied;
}

static void test_refused(void)
{
	s64 addr;

	addr = CALL(mmap, 0, 4096, 3, 0x21, -1ull, 0);
	tap_ok(addr > 0 && is_refused("MAP_SHARED without a file"),
	       "fork with memory that processes would share is refused by "
	       "name, and nothing is copied");
	CALL(munmap, (u64)addr, 4096);
	CALL(vfork);
	tap_ok(CALL(vfork) == -LINUX_EAGAIN && CALL(fork) == -LINUX_EAGAIN &&
		       ends_with(1),
	       "a child of vfork starts no process");
}

/* The child's copy, which shares this one's memory and handles. */
static void check_child(const struct abi_regs *parent)
{
	const struct abi_regs *regs = abi_thread_regs(copied, 0);
	const struct abi_thread *t = &copied->threads.thread[0];

	copied->freeze = 1; /* the parent was coming to rest */
	abi_fork_resume(copied, CHILD);
	tap_ok(!regs->rax && regs->rbx == parent->rbx &&
		       regs->rip == parent->rip && regs->rsp == page + 0x7000,
	       "the child goes on with 0 on its stack");
	tap_ok(t->tid == CHILD && copied->info.pid == CHILD &&
		       copied->threads.live == 1 && copied->child &&
		       t->clear_child_tid == page + 0x600 &&
		       u64_at(page + 0x600) == CHILD,
	       "as one thread with the new pid");
	tap_ok(!locks_held(copied) && !copied->freeze,
	       "with no lock held, and not to come to rest");
	tap_ok(!copied->signals.pending && p->signals.pending &&
		       t->blocked == p->threads.thread[0].blocked &&
		       t->blocked & 1 << 9 &&
		       copied->signals.action[11].handler == text + 0x80,
	       "without the pending signals, with mask and handlers");
	tap_ok(!memcmp(abi_fork_vec(copied), p->copy.vec, 512),
	       "and with the vector registers");
}

static void test_copy(void)
{
	struct abi_regs regs = guest_regs();
	s32 *fd = GUEST(0x3000);
	u64 *set = GUEST(0x100);
	s64 pid;

	*set = 1 << 9;
	memset(GUEST(0x600), 0, 8);
	CALL(rt_sigprocmask, 0, page + 0x100, 0, 8);
	abi_signal_send(p, 0, 0, &(struct abi_siginfo){.signo = 10});
	p->forked = 0;
	CALL(pipe2, page + 0x3000, 0);
	CALL(write, (u64)fd[1], io_str(0, "kept"), 4);
	regs.rbx = 0x1234;
	pid = guest_call_at(
		0, &regs, ABI_NR_clone,
		(u64[6]){0x1200011, page + 0x7000, 0, page + 0x600, 0});
	tap_ok(pid == CHILD && copied && regs.rsp != page + 0x7000,
	       "fork returns the child's pid");
	tap_ok(p->fds.desc[0].kind == ABI_DESC_STREAM &&
		       passed[0] == p->fds.desc[0].handle &&
		       passed[1] == p->fds.desc[1].handle &&
		       abi_fork_number(p, (u32)fd[0]) == passed[0] &&
		       abi_fork_number(p, 900) == -1,
	       "pipes are the host's before the copy");
	check_child(&regs);
	tap_ok(CALL(read, (u64)fd[0], page, 20) == 4, "and keep their bytes");
	free(copied);
	copied = NULL;
	*set = ~0ull;
	p->signals.pending = 0;
	CALL(rt_sigprocmask, 1, page + 0x100, 0, 8);
	CALL(close_range, 0, ~0u, 0);
	p->forked = 0;
}

/* A message with a descriptor; the vector is one byte. */
static s64 send_descriptor(s32 fd)
{
	struct abi_msghdr *h = GUEST(0x200);
	u64 *vector = GUEST(0x280), *control = GUEST(0x2c0);

	*h = (struct abi_msghdr){.iov = page + 0x280,
				 .iovlen = 1,
				 .control = page + 0x2c0,
				 .controllen = 24};
	vector[0] = page;
	vector[1] = 1;
	control[0] = 20;
	control[1] = 1 | 1ull << 32; /* SOL_SOCKET, SCM_RIGHTS */
	control[2] = (u64)fd;
	return CALL(sendmsg, (u64)fd, page + 0x200, 0);
}

static void test_options(u64 fd)
{
	u32 *peer = GUEST(0x400), *len = GUEST(0x500);

	*len = 12;
	tap_ok(!CALL(getsockopt, fd, 1, 17, page + 0x400, page + 0x500) &&
		       *len == 12 && peer[0] == p->info.pid &&
		       peer[1] == p->info.uid && peer[2] == p->info.gid,
	       "the peer of a pair is the process that made it");
	*len = 4;
	tap_ok(!CALL(getsockopt, fd, 1, 17, page + 0x400, page + 0x500) &&
		       *len == 4,
	       "cut to the buffer");
	*(u16 *)GUEST(0x600) = 1;
	strcpy(GUEST(0x602), "/tmp/name");
	fake.logs = p->fds.said_unix = p->said_refused[ABI_REFUSE_PAIR_OPTION] =
		0;
	tap_ok(CALL(bind, fd, page + 0x600, 1) == -LINUX_EINVAL &&
		       CALL(bind, fd, page + 0x600, 2) == -LINUX_EINVAL &&
		       !fake.logs &&
		       CALL(bind, fd, page + 0x600, 12) ==
			       -LINUX_EAFNOSUPPORT &&
		       fake.logs == 1 && strstr(fake.last_log, "no name"),
	       "a pair gets no name, which is told");
	*peer = 1;
	tap_ok(CALL(setsockopt, fd, 1, 16, page + 0x400, 4) ==
			       -LINUX_ENOPROTOOPT &&
		       fake.logs == 2 && strstr(fake.last_log, "SO_PASSCRED"),
	       "and passes no credentials in messages");
}

static void test_pairs(void)
{
	s32 *fd = GUEST(0x3000), one, two;

	p->forked = 0;
	CALL(socketpair, 1, 1, 0, page + 0x3000);
	one = fd[0], two = fd[1];
	CALL(write, (u64)one, io_str(0, "ask"), 3);
	CALL(write, (u64)two, io_str(0, "answer"), 6);
	pipe_error = -LINUX_ENFILE;
	tap_ok(CALL(fork) == -LINUX_ENFILE && !copied &&
		       CALL(shutdown, (u64)one, 1) == 0,
	       "fork fails if the host has no pair");
	pipe_error = 0;
	tap_ok(CALL(fork) == CHILD && p->fds.desc[0].kind == ABI_DESC_SOCK &&
		       passed[0] == p->fds.desc[0].handle &&
		       passed[1] == p->fds.desc[1].handle,
	       "socket pairs are the host's before the copy");
	tap_ok(CALL(read, (u64)one, page, 20) == 6 &&
		       !memcmp(GUEST(0), "answer", 6) &&
		       CALL(read, (u64)two, page, 20) == 3 &&
		       !memcmp(GUEST(0), "ask", 3) &&
		       CALL(read, (u64)two, page, 20) == 0,
	       "and keep their bytes in both directions, and their ends");
	fake.logs = 0;
	tap_ok(send_descriptor(two) == -LINUX_EINVAL && fake.logs == 1 &&
		       CALL(sendto, (u64)two, page, 1, 1, 0, 0) ==
			       -LINUX_ENOTSUP,
	       "they pass no descriptors, and no data out of band");
	*(u32 *)GUEST(0x100) = 20;
	tap_ok(CALL(getpeername, (u64)two, page, page + 0x100) == 0 &&
		       *(u16 *)GUEST(0) == 1 && *(u32 *)GUEST(0x100) == 2 &&
		       CALL(listen, (u64)two, 1) == -LINUX_EINVAL &&
		       CALL(connect, (u64)two, page, 2) < 0,
	       "their other calls are those of AF_UNIX");
	test_options((u64)two);
	free(copied);
	copied = NULL;
	CALL(close_range, 0, ~0u, 0);
	CALL(socketpair, 1, 1, 0, page + 0x3000);
	test_options(0);
	tap_ok(p->fds.desc[p->fds.slot[0].desc - 1].kind == ABI_DESC_SOCK,
	       "later ones are the host's from the start");
	CALL(close_range, 0, ~0u, 0);
	p->forked = 0;
}

static void test_counters(void)
{
	u64 *value = GUEST(0x100);
	s64 fd = CALL(eventfd2, 7, 0), one = CALL(eventfd2, 2, 1);
	struct io_task task = {.t = guest_thread()->index, .nr = ABI_NR_read};

	counter_error = -LINUX_ENOMEM;
	tap_ok(CALL(fork) == -LINUX_ENOMEM && !copied &&
		       CALL(read, (u64)fd, page + 0x100, 8) == 8 && *value == 7,
	       "fork fails if the host has no counter, which stays");
	counter_error = 0;
	task.a[0] = (u64)fd;
	task.a[1] = page + 0x500;
	task.a[2] = 8;
	self = task.t;
	io_start(&task);
	WAIT_FOR(io_sleeps(task.t));
	self = 0;
	tap_ok(CALL(fork) == CHILD && abi_fork_number(p, (u32)one) >= 0 &&
		       p->fds.desc[p->fds.slot[one].desc - 1].kind ==
			       ABI_DESC_COUNTER,
	       "eventfds are the host's before the copy");
	*value = 5;
	CALL(write, (u64)fd, page + 0x100, 8);
	tap_ok(io_join(&task) == 8 && u64_at(page + 0x500) == 5,
	       "and wake who waited before");
	CALL(read, (u64)one, page + 0x100, 8);
	tap_ok(*value == 1 &&
		       CALL(read, (u64)one, page + 0x100, 4) == -LINUX_EINVAL &&
		       CALL(lseek, (u64)one, 0, 1) == 0,
	       "a semaphore remains one");
	free(copied);
	copied = NULL;
	CALL(close_range, 0, ~0u, 0);
	fd = CALL(eventfd2, 3, ABI_O_NONBLOCK);
	tap_ok(p->fds.desc[p->fds.slot[fd].desc - 1].kind == ABI_DESC_COUNTER &&
		       CALL(read, (u64)fd, page + 0x100, 8) == 8 &&
		       *value == 3 &&
		       CALL(read, (u64)fd, page + 0x100, 8) == -LINUX_EAGAIN,
	       "later ones are the host's from the start");
	counter_error = -LINUX_ENFILE;
	tap_ok(CALL(eventfd2, 0, 0) == -LINUX_ENFILE, "or fail");
	counter_error = 0;
	CALL(close_range, 0, ~0u, 0);
	p->forked = 0;
}

static u64 park_deadline;
static u32 *parker;
static s64 (*park_host)(u32 *word, u32 expect, u64 deadline);

/* Returns only when it is woken. */
static s64 park_forever(u32 *word, u32 expect, u64 deadline)
{
	if (word == parker) /* and no lock */
		park_deadline = deadline;
	return park_host(word, expect, ABI_FOREVER);
}

/* A write that waits for more room than the host tells of. */
static void test_counter_room(void)
{
	u64 *value = GUEST(0x100);
	struct io_task task = {.t = guest_thread()->index, .nr = ABI_NR_write};
	u32 waits;
	s64 fd;

	p->forked = 1;
	fd = CALL(eventfd2, 0, 0);
	*value = ~0ull - 3;
	CALL(write, (u64)fd, page + 0x100, 8);
	*(u64 *)GUEST(0x500) = 5;
	task.a[0] = (u64)fd;
	task.a[1] = page + 0x500;
	task.a[2] = 8;
	parker = &p->threads.thread[task.t].park;
	park_host = fake.host.wait;
	fake.host.wait = park_forever;
	waits = __atomic_load_n(&io_waits, __ATOMIC_SEQ_CST);
	io_start(&task);
	WAIT_FOR(io_sleeps(task.t));
	tap_ok(CALL(read, (u64)fd, page + 0x100, 8) == 8 &&
		       *value == ~0ull - 3 && io_join(&task) == 8,
	       "a reader wakes a write of more than there is room for");
	tap_ok(waits == __atomic_load_n(&io_waits, __ATOMIC_SEQ_CST) &&
		       park_deadline != ABI_FOREVER,
	       "which does not ask the host again and again, but looks");
	fake.host.wait = park_host;
	tap_ok(CALL(read, (u64)fd, page + 0x100, 8) == 8 && *value == 5,
	       "and is not lost");
	CALL(close_range, 0, ~0u, 0);
	p->forked = 0;
}

/* What happens from the copy to the child's first step. */
static void test_start(void)
{
	s32 *fd = GUEST(0x3000);
	s64 n;

	CALL(pipe2, page + 0x3000, 0);
	starts = lock_words = 0;
	fork_error = -LINUX_EAGAIN;
	tap_ok(CALL(fork) == -LINUX_EAGAIN && starts == 1,
	       "fork returns the error of a child that does not start");
	tap_ok(!lock_words, "no lock is held while it starts");
	free(copied);
	fork_error = 0;
	closed = fd[1];
	n = CALL(fork);
	tap_ok(n == CHILD && starts == 2, "the next fork works");
	tap_ok(still_open && CALL(fcntl, (u64)fd[1], 1) == -LINUX_EBADF &&
		       CALL(read, (u64)fd[0], page, 9) == 0,
	       "what another thread closes meanwhile is closed afterwards");
	free(copied);
	copied = NULL;
	CALL(close_range, 0, ~0u, 0);
	p->forked = 0;
}

static s64 run_self(void)
{
	char path[200];
	s64 n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = 0;
	return CALL(execve, io_str(0, path), 0, 0);
}

static void test_pipes(void)
{
	s32 *fd = GUEST(0x3000), r, w;

	CALL(pipe2, page + 0x3000, ABI_O_CLOEXEC);
	r = fd[0], w = fd[1];
	CALL(write, (u64)w, io_str(0, "before"), 6);
	fake.host.path = abi_lin_path;
	fake.host.file_open = abi_lin_file_open;
	tap_ok(CALL(clone, 0x4111, page + 0x9000) == 0 &&
		       CALL(dup2, (u64)r, 40) == 40 && CALL(dup2, 40, 41) == 41,
	       "clone as posix_spawn calls it");
	tap_ok(CALL(execve, io_str(0, "/nowhere"), 0, 0) == -LINUX_ENOENT &&
		       CALL(getpid) == CHILD,
	       "after an error of execve it is still the child");
	tap_ok(run_self() == CHILD && spawned == 1 && spawned_pid == CHILD &&
		       count == 2 && numbers[0] == 40 && numbers[1] == 41,
	       "execve passes what has no FD_CLOEXEC");
	tap_ok(CALL(fcntl, 40, 1) == -LINUX_EBADF &&
		       CALL(write, (u64)w, io_str(0, "after"), 5) == 5 &&
		       CALL(read, (u64)r, page, 20) == 11 &&
		       !memcmp(GUEST(0), "beforeafter", 11),
	       "the pipe became the host's with its bytes");
	CALL(close_range, 0, ~0u, 0);
}

/* A thread that waits in a pipe while it becomes the host's. */
static void test_waiting(void)
{
	s32 *fd = GUEST(0x3000), r, w;
	struct io_task task = {.t = guest_thread()->index, .nr = ABI_NR_read};

	p->forked = 0;
	CALL(pipe2, page + 0x3000, 0);
	r = fd[0], w = fd[1];
	task.a[0] = (u64)r;
	task.a[1] = page + 0x500;
	task.a[2] = 9;
	self = task.t;
	io_start(&task);
	WAIT_FOR(io_sleeps(task.t));
	self = 0;
	CALL(vfork);
	tap_ok(run_self() == CHILD && !task.done, "a reader waits meanwhile");
	CALL(write, (u64)w, page, 3);
	tap_ok(io_join(&task) == 3, "and gets what is written later");
	CALL(close_range, 0, ~0u, 0);
	CALL(pipe2, page + 0x3000, 0);
	tap_ok(p->fds.desc[p->fds.slot[0].desc - 1].kind == ABI_DESC_STREAM,
	       "later pipes are the host's from the start");
}

/* What is no program for abi may be one for the host. */
static void test_helpers(void)
{
	u64 at = (u64)CALL(mmap, 0, 4096, 3, 0x22, -1ull, 0);

	p->info.spawns = ABI_SPAWNS_HELPERS;
	spawned = fake.logs = 0;
	tap_ok(CALL(fork) == -LINUX_ENOSYS &&
		       CALL(clone, 17, 0, 0, 0, 0) == -LINUX_ENOSYS &&
		       !copied && fake.logs == 1 &&
		       strstr(fake.last_log, "posix_spawn"),
	       "a host without copies: fork is refused by name");
	tap_ok(CALL(execve, io_str(0, "/bin/true"), 0, 0) == -LINUX_ENOSYS &&
		       CALL(execveat, ABI_AT_FDCWD, io_str(0, "/bin/true"), 0,
			    0, 0) == -LINUX_ENOSYS &&
		       !spawned && fake.logs == 2 &&
		       strstr(fake.last_log, "execve refused"),
	       "and an execve that would replace the program");
	CALL(vfork);
	tap_ok(CALL(execve, io_str(0, "/dev/null"), 0, 0) == CHILD &&
		       spawned == 1 && CALL(getpid) == p->info.pid,
	       "the host is asked to run what a child of vfork names");
	tap_ok(!CALL(madvise, at, 4096, 10), "MADV_DONTFORK changes nothing");
	CALL(munmap, at, 4096);
	p->info.spawns = ABI_SPAWNS_COPIES;
	tap_ok(CALL(madvise, page, 4096, 10) == -LINUX_EINVAL,
	       "but is refused where processes are copied");
}

int main(void)
{
	guest_new();
	io_install();
	p->info.spawns = ABI_SPAWNS_COPIES;
	fake.host.family = host_family;
	fake.host.thread_self = thread_self;
	fake.host.pipe = host_pipe;
	fake.host.counter = host_counter;
	test_child();
	test_ends();
	test_refused();
	test_copy();
	test_pairs();
	test_counters();
	test_counter_room();
	test_start();
	test_pipes();
	test_waiting();
	test_helpers();
	guest_free();
	return tap_done();
}
