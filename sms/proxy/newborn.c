// SPDX-License-Identifier: MIT
/*
 * The process that becomes a program: helper.h. It is a child of fork in a
 * process with threads, has one thread, and no descriptor of the proxy's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/exec.h"
#include "helper.h"

#define SIGNALS 64

/* One order to execute a program. */
struct run {
	const struct helper_order *order;
	struct abi_exec_view view;
	int got[ABI_EXEC_NUMBERS]; /* descriptor of each number, or -1 */
};

static int sock;
static struct rlimit files; /* as the process was started with */
static int priority;

int sms_newborn_read(int from, void *to, u64 len)
{
	ssize_t n;

	for (; len; to = (u8 *)to + n, len -= (u64)n) {
		n = recv(from, to, len, 0);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return -1;
	}
	return 0;
}

/* Descriptors --------------------------------------------------------- */

/* One that was sent with a byte, or -errno. */
static int receive_one(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec one = {&byte, 1};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
		_exit(127); /* the proxy has ended */
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -EMFILE; /* the limit of this process */
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* All are received, so that the next order is at the start of the socket. */
static int receive_all(struct run *r)
{
	struct abi_exec_number n;
	int err = 0;
	u32 i;

	for (i = 0; i < r->view.numbers; i++) {
		abi_exec_view_number(&r->view, i, &n);
		r->got[i] = n.handle < 0 ? -1 : receive_one();
		if (n.handle >= 0 && r->got[i] < 0)
			err = r->got[i];
	}
	return err;
}

/* Moves a descriptor to `floor` or above. */
static int lift_one(int *fd, int floor)
{
	int to;

	if (*fd < 0 || *fd >= floor)
		return 0;
	to = fcntl(*fd, F_DUPFD_CLOEXEC, floor);
	if (to < 0)
		return -errno;
	close(*fd);
	*fd = to;
	return 0;
}

/* Above all numbers that will be used. */
static int lift_all(struct run *r)
{
	struct abi_exec_number last;
	int floor, err;
	u32 i;

	if (!r->view.numbers)
		return lift_one(&sock, 3);
	abi_exec_view_number(&r->view, r->view.numbers - 1, &last);
	floor = last.fd < 3 ? 3 : (int)last.fd + 1;
	err = lift_one(&sock, floor);
	for (i = 0; i < r->view.numbers && !err; i++)
		err = lift_one(&r->got[i], floor);
	return err;
}

/* ptmx would make a new terminal. */
static int can_reopen(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && st->st_rdev != makedev(5, 2));
}

/*
 * The proxy's descriptions do not block, and abi waits for them. A program of
 * Linux needs one that blocks: another one of the same pipe, because the proxy
 * still uses this one. Sockets stay as they are.
 */
static int reopen_blocking(int fd, u32 wanted)
{
	int flags = fcntl(fd, F_GETFL), fresh;
	char path[32];
	struct stat st;

	if (flags < 0 || !(flags & O_NONBLOCK) || wanted & O_NONBLOCK ||
	    fstat(fd, &st) || S_ISSOCK(st.st_mode))
		return fd;
	if (!can_reopen(&st)) {
		if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
			fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
		return fd;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fresh = open(path, (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK)) |
				   O_CLOEXEC | O_NOCTTY);
	if (fresh < 0) /* a pipe that nobody reads: writes to it fail */
		return fd;
	fcntl(fresh, F_SETFL, flags & ~O_NONBLOCK);
	return fresh;
}

static int place_one(struct run *r, u32 i)
{
	struct abi_exec_number n;
	int fd;

	abi_exec_view_number(&r->view, i, &n);
	if (n.path)
		fd = open(n.path, (int)(n.flags & (O_ACCMODE | O_APPEND)) |
					  O_CLOEXEC | O_NOCTTY);
	else if (n.handle < 0)
		return 0;
	else
		fd = reopen_blocking(r->got[i], n.flags);
	if (fd < 0)
		return -errno;
	if (fd == (int)n.fd)
		return fcntl(fd, F_SETFD, 0) ? -errno : 0;
	if (dup2(fd, (int)n.fd) < 0)
		return -errno;
	close(fd);
	return 0;
}

static int place_all(struct run *r)
{
	int err;
	u32 i;

	err = lift_all(r);
	if (!err)
		for (i = 0; i < 3; i++)
			close((int)i);
	for (i = 0; i < r->view.numbers && !err; i++)
		err = place_one(r, i);
	return err;
}

static void close_all(void)
{
	if (sock)
		syscall(SYS_close_range, 0u, (u32)sock - 1, 0u);
	syscall(SYS_close_range, (u32)sock + 1, ~0u, 0u);
}

/* The rest ------------------------------------------------------------- */

/* A limit that the program has set holds as far as this user's allows. */
static void set_limits(const struct abi_exec_view *v)
{
	struct rlimit l;
	u64 cur, max;
	u32 i;

	setrlimit(RLIMIT_NOFILE, &files);
	for (i = 0; i < RLIM_NLIMITS; i++) {
		if (!abi_exec_view_limit(v, i, &cur, &max) || getrlimit(i, &l))
			continue;
		l.rlim_max = max < l.rlim_max ? max : l.rlim_max;
		l.rlim_cur = cur < l.rlim_max ? cur : l.rlim_max;
		setrlimit(i, &l);
	}
}

static void set_signals(const struct abi_exec_view *v)
{
	struct sigaction sa = {.sa_flags = 0};
	int i;

	for (i = 1; i <= SIGNALS; i++) {
		sa.sa_handler = v->ignored >> (i - 1) & 1 ? SIG_IGN : SIG_DFL;
		sigaction(i, &sa, NULL);
	}
	prctl(PR_SET_PDEATHSIG, v->death_signal);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &v->blocked, NULL, 8);
}

static char **make_vector(const char **text, u32 count)
{
	u64 size = (count + 1ull) * sizeof(char *);
	char **v = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u32 i;

	if (v == MAP_FAILED)
		return NULL;
	for (i = 0; i < count; i++) {
		v[i] = (char *)*text;
		*text += strlen(*text) + 1;
	}
	return v;
}

/* Returns only with an error. */
static int execute_program(struct run *r)
{
	const char *text = r->view.strings;
	char **argv = make_vector(&text, r->view.argc), **envp;

	envp = make_vector(&text, r->view.envc);
	if (!argv || !envp)
		return -ENOMEM;
	if (chdir(r->view.cwd))
		return -errno;
	umask(r->view.umask);
	if (r->view.nice)
		setpriority(PRIO_PROCESS, 0, priority + r->view.nice);
	set_limits(&r->view);
	set_signals(&r->view);
	execve(r->order->path, argv, envp);
	return -errno;
}

static int try_record(struct run *r, void *record)
{
	struct rlimit all = {files.rlim_max, files.rlim_max};
	int err;

	if (sms_newborn_read(sock, record, r->order->record))
		_exit(127);
	if (abi_exec_read(record, r->order->record, &r->view))
		_exit(127); /* the proxy has checked it */
	setrlimit(RLIMIT_NOFILE, &all);
	err = receive_all(r);
	err = err ? err : place_all(r);
	return err ? err : execute_program(r);
}

static int run_program(const struct helper_order *order)
{
	static struct run r;
	void *record = mmap(NULL, order->record, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (record == MAP_FAILED)
		_exit(127);
	r.order = order;
	err = try_record(&r, record);
	munmap(record, order->record);
	close_all();
	return err;
}

static void end_process(s32 status)
{
	static const struct rlimit none;
	int sig = status & 0x7f;
	sigset_t set;

	if (sig) {
		setrlimit(RLIMIT_CORE, &none);
		signal(sig, SIG_DFL);
		raise(sig);
		sigemptyset(&set);
		sigaddset(&set, sig);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
	_exit(sig ? 128 + sig : status >> 8 & 0xff);
}

void sms_newborn(int fd)
{
	static struct helper_order order;
	s32 answer;

	sock = fd;
	getrlimit(RLIMIT_NOFILE, &files);
	priority = getpriority(PRIO_PROCESS, 0);
	close_all();
	for (;;) {
		if (sms_newborn_read(sock, &order, sizeof(order)))
			_exit(127);
		order.path[sizeof(order.path) - 1] = 0;
		if (order.verb == HELPER_RUN)
			answer = run_program(&order);
		else if (order.verb == HELPER_SESSION)
			answer = setsid() < 0 ? -errno : 0;
		else
			end_process(order.status);
		if (send(sock, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			_exit(127);
	}
}
