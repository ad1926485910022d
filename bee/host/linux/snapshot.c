/* SPDX-License-Identifier: MIT */
/*
 * Snapshots in the process that runs the guest. The helper answers a command
 * (ask.c): it brings the guest threads to rest, writes the file that the
 * command has opened, and lets them go on. While the program is to end, it
 * stays at rest until the command says that the file is safe; a command that
 * dies instead lets it go on. If it is so asked, a thread of its own writes
 * pages before that, while the guest runs; `live` says who has the snapshot.
 * And restoring: reads the file before anything else is set up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bee/core/freeze.h"
#include "bee/core/snapshot.h"
#include "host.h"

#define REST_NS 5000000000ull /* threads must come to rest in this time */
#define STEP_US 200
#define SOON_US 5000
#define SOON_TRIES 100u
#define ENDED 125 /* exit code of a program that ended after it was saved */
#define OUT 0x10000u
#define AWAIT_MS 20
#define ASK_MS 5000 /* who has called asks at once */

/* What save.c needs -------------------------------------------------------- */

struct out {
	struct bee_save save;
	int sock; /* of the command */
	struct skep_snapshot_ask ask;
	struct skep_snapshot_answer answer;
	_Alignas(16) u8 key[LIN_DIGEST_KEY];
	u32 fits;  /* the target has said so */
	int watch; /* -1: the kernel does not tell which pages are written */
	u64 len;
	u8 buf[OUT];
};

static s64 flush_out(struct out *o)
{
	s64 err = lin_write_all(o->save.handle, o->buf, o->len);

	o->len = 0;
	return err;
}

static int is_advice(char byte)
{
	return byte == SKEP_SNAPSHOT_HURRY || byte == SKEP_SNAPSHOT_FITS;
}

/* The command has died: nobody will give the file its name. It may also say
 * that there is no time for more rounds, or that the target fits. */
static int is_alone(struct out *o)
{
	char byte = 0;
	ssize_t n =
		recv(o->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);

	if (n == 1 && is_advice(byte)) {
		recv(o->sock, &byte, 1, MSG_DONTWAIT);
		o->save.hurry |= byte == SKEP_SNAPSHOT_HURRY;
		o->fits |= byte == SKEP_SNAPSHOT_FITS;
	}
	return !n;
}

static s64 write_out(struct bee_save *s, const void *bytes, u64 len)
{
	struct out *o = (struct out *)s;
	s64 err = 0;

	if (len > OUT - o->len)
		err = is_alone(o) ? -EPIPE : flush_out(o);
	if (!err && len > OUT)
		return lin_write_all(s->handle, bytes, len);
	if (!err) {
		memcpy(o->buf + o->len, bytes, len);
		o->len += len;
	}
	return err;
}

static void look_at(struct bee_save *s, u64 addr, u64 pages, u8 *look,
		    u32 protect)
{
	struct lin_written w = {((struct out *)s)->watch, s->map, protect};

	lin_written_look(&w, addr, pages, look);
}

static void watch_area(struct bee_save *s, u64 start, u64 end)
{
	lin_written_area(((struct out *)s)->watch, start, end);
}

static void digest_page(const struct bee_save *s, const void *page,
			struct bee_page_digest *out)
{
	lin_page_digest(((const struct out *)s)->key, page, out);
}

/* Answering ---------------------------------------------------------------- */

static void set_why(struct skep_snapshot_answer *a, const char *why)
{
	snprintf(a->why, sizeof(a->why), "%s", why);
}

/* 0, or as bee_save_judge. */
static int judge_program(struct out *o, struct skep_snapshot_answer *a)
{
	int rc = -1;

	if (lin_proc_is_child() && o->ask.live != SKEP_SNAPSHOT_MEMBER) {
		set_why(a, "it is not the first process of its run");
		return rc;
	}
	rc = bee_save_judge(&o->save);
	set_why(a, rc ? o->save.why : "");
	return rc;
}

/* Guest threads may wait for the helper to pass on signals. */
static int come_to_rest(struct skep_snapshot_answer *a)
{
	u64 until = (u64)lin_clock(ABI_CLOCK_MONOTONIC) + REST_NS;
	u32 busy;

	bee_freeze();
	while (!bee_frozen(&busy)) {
		lin_helper_settle();
		usleep(STEP_US);
		if ((u64)lin_clock(ABI_CLOCK_MONOTONIC) < until)
			continue;
		snprintf(a->why, sizeof(a->why),
			 "thread %u did not come to rest in 5 seconds",
			 abi_thread_get(bee.proc, busy)->tid);
		return -1;
	}
	return 0;
}

static void let_go_on(void)
{
	lin_helper_settle();
	usleep(SOON_US);
}

/* While it runs, a program that lists a folder gets time to end that. */
static int judge_running(struct out *o)
{
	int rc = 0;
	u32 tries;

	for (tries = 0; tries < SOON_TRIES; tries++) {
		rc = judge_program(o, &o->answer);
		if (rc <= 0)
			break;
		let_go_on();
	}
	return rc;
}

/* So does a thread that maps a library. */
static int come_to_good_rest(struct out *o, u64 *start)
{
	u32 tries;

	for (tries = 0; tries < SOON_TRIES; tries++) {
		if (judge_running(o))
			return -1;
		*start = (u64)lin_clock(ABI_CLOCK_MONOTONIC);
		if (come_to_rest(&o->answer))
			return -1;
		if (bee_save_judge(&o->save) <= 0 &&
		    !bee_save_is_loading(&o->save))
			return 0;
		bee_thaw();
		let_go_on();
	}
	*start = (u64)lin_clock(ABI_CLOCK_MONOTONIC);
	return come_to_rest(&o->answer);
}

static void save_file(struct out *o)
{
	struct skep_snapshot_answer *a = &o->answer;

	if (judge_program(o, a) || bee_save(&o->save)) {
		set_why(a, *a->why ? a->why : o->save.why);
		return;
	}
	if (flush_out(o)) {
		set_why(a, "the file cannot be written");
		return;
	}
	a->saved = 1;
	a->watches = o->save.watches;
	a->bytes = o->save.written;
	a->early = o->save.early_bytes;
	a->pages = o->save.looked;
}

static int open_private(const char *name)
{
	int fd;

	lin_thread_hold();
	fd = lin_private_keep(open(name, O_RDONLY | O_CLOEXEC));
	lin_thread_unhold();
	return fd;
}

static struct out *open_out(int sock, int fd)
{
	struct out *o = bee_os_alloc(sizeof(*o));

	if (!o)
		return NULL;
	o->sock = sock;
	o->watch = -1;
	o->save.write = write_out;
	o->save.read_memory = lin_source_memory;
	o->save.next_touched = lin_source_touched;
	o->save.look = look_at;
	o->save.watch = watch_area;
	o->save.judge = lin_source_judge;
	o->save.peek = lin_source_peek;
	o->save.read_data = lin_source_data;
	o->save.digest = digest_page;
	o->save.thread_cpu = lin_thread_clock;
	o->save.members = lin_members_save;
	o->save.handle = fd;
	o->save.memory = open_private("/proc/self/mem");
	o->save.map = open_private("/proc/self/pagemap");
	if (o->save.memory < 0)
		set_why(&o->answer,
			"its memory cannot be read: /proc is needed");
	else if (lin_random(o->key, sizeof(o->key)))
		set_why(&o->answer, "there are no random numbers");
	return o;
}

/* Whoever reads a pipe has all before the answer. */
static void close_files(const struct out *o)
{
	lin_private_close(o->watch);
	lin_private_close(o->save.memory);
	lin_private_close(o->save.map);
	lin_private_close(o->save.handle);
}

static void free_out(struct out *o)
{
	bee_save_end(&o->save);
	bee_os_free(o, sizeof(*o));
}

static void drop_out(struct out *o)
{
	close_files(o);
	free_out(o);
}

int lin_control = -1;

/* The file that the command has opened; -1: the message is not one of it. */
static int receive_ask(int sock, int ms, struct skep_snapshot_ask *ask)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {ask, sizeof(*ask)};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd in = {.fd = sock, .events = POLLIN};
	ssize_t n;
	int fd = -1;

	if (ms)
		poll(&in, 1, ms);
	lin_thread_hold();
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n >= 0 && msg.msg_controllen >= sizeof(control.head) &&
	    control.head.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	fd = lin_private_keep(fd);
	lin_thread_unhold();
	if (n == sizeof(*ask))
		return fd;
	lin_private_close(fd);
	return -1;
}

/* Only the user who runs the program, and root, may read its memory. */
static int is_friend(int sock)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (peer.uid == getuid() || !peer.uid);
}

static int connect_asker(u64 token)
{
	struct sockaddr_un name;
	u32 len = lin_ask_name(&name, token);
	int sock;

	lin_thread_hold();
	sock = lin_private_keep(
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	lin_thread_unhold();
	if (sock < 0)
		return -1;
	if (!connect(sock, (struct sockaddr *)&name, len) && is_friend(sock))
		return sock;
	lin_private_close(sock);
	return -1;
}

/* The program is at rest until the command has said what it does next. */
static void await_end(int sock, u32 how)
{
	char end = 0;
	ssize_t n;

	do
		n = recv(sock, &end, 1, 0);
	while (n < 0 ? errno == EINTR : n && is_advice(end));
	if (n == 1 ? !end : how != SKEP_SNAPSHOT_HOLD)
		return;
	lin_members_end(1);
	lin_proc_exit(ENDED << 8);
}

/* Processor time of this thread, in ns. */
static u64 own_time(void)
{
	struct timespec t = {0, 0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static void release_run(void)
{
	lin_members_end(0);
	bee_thaw();
}

/* All threads come to rest, or the answer says why one does not. */
static void finish_ask(struct out *o)
{
	u64 start = (u64)lin_clock(ABI_CLOCK_MONOTONIC);
	u64 used = own_time();
	struct skep_snapshot_answer answer;
	int sock = o->sock;
	u32 end = o->ask.end;

	if (!*o->answer.why && o->save.failed)
		set_why(&o->answer, o->save.why); /* it need not stop */
	if (!*o->answer.why)
		lin_members_look(o->answer.why, sizeof(o->answer.why));
	if (!*o->answer.why && !come_to_good_rest(o, &start)) {
		o->answer.rest_ns = (u64)lin_clock(ABI_CLOCK_MONOTONIC) - start;
		if (!lin_members_rest(end, o->answer.why,
				      sizeof(o->answer.why)))
			save_file(o);
	}
	o->answer.used_ns = own_time() - used;
	answer = o->answer;
	drop_out(o);
	if (!answer.saved)
		end = SKEP_SNAPSHOT_GO;
	if (!end)
		release_run();
	answer.pause_ns = (u64)lin_clock(ABI_CLOCK_MONOTONIC) - start;
	if (send(sock, &answer, sizeof(answer), MSG_NOSIGNAL) ==
		    sizeof(answer) &&
	    end)
		await_end(sock, end);
	if (end)
		release_run();
}

static int answer_member(struct out *o)
{
	o->answer.saved = !*o->answer.why;
	return send(o->sock, &o->answer, sizeof(o->answer), MSG_NOSIGNAL) !=
		       sizeof(o->answer) ||
	       *o->answer.why;
}

/*
 * The same, for the first process of the run, which asks when it is at rest
 * itself, and has this one saved when all are. A child of vfork runs on and
 * gives no answer: its parent would never rest.
 */
static void finish_member(struct out *o)
{
	u32 how = o->ask.end;
	int sock = o->sock, failed = 1;
	u64 start;
	char byte = 0;

	if (lin_vfork_is_awaited()) {
		drop_out(o);
		return;
	}
	if (!*o->answer.why)
		come_to_good_rest(o, &start);
	if (!answer_member(o) && recv(sock, &byte, 1, 0) == 1 &&
	    byte == SKEP_SNAPSHOT_SAVE) {
		lin_helper_pass();
		save_file(o);
		close_files(o);
		failed = answer_member(o);
	} else {
		close_files(o);
	}
	free_out(o);
	if (!failed)
		await_end(sock, how);
	bee_thaw();
}

/* While the program runs --------------------------------------------------- */

enum live_state {
	LIVE_NONE,
	LIVE_RUNS,  /* the thread has it */
	LIVE_DONE,  /* the helper is to take it */
	LIVE_GIVEN, /* given up; the thread drops it */
};

static u32 live_state;	 /* atomic */
static struct out *live; /* for whom has it; gone if nobody has */

static int change_live(u32 from, u32 to)
{
	return __atomic_compare_exchange_n(&live_state, &from, to, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* The helper may miss a call while it passes on signals. */
static void call_helper(void)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	while (__atomic_load_n(&live_state, __ATOMIC_SEQ_CST) == LIVE_DONE) {
		syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), LIN_KICK,
			&info);
		usleep(STEP_US);
	}
}

/* The program runs until its target is known to fit. If it does not, the pipe
 * is closed. */
static void await_fit(struct out *o)
{
	struct pollfd ends[2] = {{.fd = o->sock, .events = POLLIN},
				 {.fd = o->save.handle}};

	if (o->ask.live != SKEP_SNAPSHOT_AWAIT || !o->save.written ||
	    flush_out(o))
		return;
	while (!o->fits && !o->save.hurry && !o->save.failed) {
		if (is_alone(o) || ends[1].revents & POLLERR)
			bee_save_fail(&o->save, "the target does not take it",
				      "", "");
		else if (__atomic_load_n(&live_state, __ATOMIC_SEQ_CST) !=
			 LIVE_RUNS)
			return;
		else
			poll(ends, 2, AWAIT_MS);
	}
}

static void *run_rounds(void *arg)
{
	struct out *o = arg;

	bee_save_early(&o->save);
	await_fit(o);
	if (change_live(LIVE_RUNS, LIVE_DONE)) {
		call_helper();
		return NULL;
	}
	drop_out(o);
	__atomic_store_n(&live_state, LIVE_NONE, __ATOMIC_SEQ_CST);
	return NULL;
}

/* If the execve fails, the thread goes on, and drops it; or the helper was
 * about to take it. */
void lin_live_cancel(void)
{
	struct skep_snapshot_answer answer = {0};

	if (change_live(LIVE_DONE, LIVE_NONE))
		drop_out(live);
	else if (!change_live(LIVE_RUNS, LIVE_GIVEN))
		return;
	set_why(&answer, "it started another program meanwhile");
	send(lin_control, &answer, sizeof(answer), MSG_NOSIGNAL);
}

/* The thread does not exist in the child, and was anywhere: its memory stays.
 */
void lin_live_forget(void)
{
	__atomic_store_n(&live_state, LIVE_NONE, __ATOMIC_SEQ_CST);
}

static void answer_ask(int sock, int fd, const struct skep_snapshot_ask *ask)
{
	struct skep_snapshot_answer answer = {0};
	struct out *o = open_out(sock, fd);

	if (!o) {
		lin_private_close(fd);
		set_why(&answer, "there is too little memory");
		send(sock, &answer, sizeof(answer), MSG_NOSIGNAL);
		return;
	}
	o->ask = *ask;
	if (ask->live == SKEP_SNAPSHOT_MEMBER) {
		o->save.members = NULL;
		finish_member(o);
		return;
	}
	if (ask->live && sock == lin_control && !*o->answer.why &&
	    !judge_running(o)) {
		lin_thread_hold();
		o->watch = lin_private_keep(lin_written_open());
		lin_thread_unhold();
		o->save.watches = o->watch >= 0;
		live = o;
		__atomic_store_n(&live_state, LIVE_RUNS, __ATOMIC_SEQ_CST);
		if (!lin_thread_own(run_rounds, o))
			return;
		__atomic_store_n(&live_state, LIVE_NONE, __ATOMIC_SEQ_CST);
	}
	finish_ask(o);
}

/* The command calls again until it is answered, so a program that has not
 * started yet does not answer, nor does one that is being saved. */
void lin_snapshot_answer(u64 token)
{
	struct skep_snapshot_ask ask;
	int sock, fd;

	if (!__atomic_load_n(&bee.image.entered_ns, __ATOMIC_SEQ_CST))
		return;
	if (change_live(LIVE_DONE, LIVE_NONE)) {
		finish_ask(live);
		return;
	}
	if (__atomic_load_n(&live_state, __ATOMIC_SEQ_CST) != LIVE_NONE)
		return;
	sock = token ? connect_asker(token) : lin_control;
	/* anybody can call without having asked on the socket of --control */
	fd = sock < 0 ? -1 : receive_ask(sock, token ? ASK_MS : 0, &ask);
	if (fd >= 0)
		answer_ask(sock, fd, &ask);
	if (token)
		lin_private_close(sock);
}

/* Restoring ---------------------------------------------------------------- */

static struct bee_snapshot snapshot;
static u8 *bytes; /* of the file, until the program runs */
static u64 length;

static int report_refusal(const struct bee_options *o, const char *why)
{
	char line[512];

	snprintf(line, sizeof(line), "refused to restore %s: %s", o->restore,
		 why);
	bee_os_message(line);
	return -1;
}

/* The size of a file; 0: it is none. */
static u64 file_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) || !S_ISREG(st.st_mode) ? 0 : (u64)st.st_size;
}

static int is_pipe(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

static const char *read_file(int fd)
{
	length = file_size(fd);
	if (!length)
		return "it is no snapshot of bee";
	bytes = bee_os_alloc(length);
	if (!bytes)
		return "there is too little memory";
	if (lin_read_all(fd, bytes, length))
		return "it cannot be read";
	return bee_snap_parse(&snapshot, bytes, length);
}

static int read_snapshot(const struct bee_options *o)
{
	int fd = open(o->restore, O_RDONLY | O_CLOEXEC);
	const char *why;

	if (fd < 0)
		return report_refusal(o, strerror(errno));
	why = is_pipe(fd) ? lin_receive(fd, &snapshot, &bytes, &length)
			  : read_file(fd);
	close(fd);
	return why ? report_refusal(o, why) : 0;
}

/* Its clocks go on where they were. */
static void set_clocks(void)
{
	lin_clock_ahead = (s64)(snapshot.program->monotonic_ns -
				(u64)lin_clock(ABI_CLOCK_MONOTONIC));
}

/* What this process has used until now, for restoring, is not the program's. */
static void set_cpu_clocks(void)
{
	const struct bee_snap_program *p = snapshot.program;
	s64 user = 0, system = 0;

	lin_rusage(&user, &system);
	lin_cpu_before = p->cpu_ns - (u64)lin_clock(ABI_CLOCK_PROCESS);
	lin_user_before = p->user_ns - (u64)user;
	lin_system_before = p->system_ns - (u64)system;
}

/* Only the first process may have another program than the snapshot says. */
static void name_program(struct bee_options *o)
{
	static char program[PATH_MAX * 2];
	static char *argv[2];

	if (o->program == o->restore || lin_proc_is_child()) {
		snprintf(program, sizeof(program), "%s%s", abi_lin_root_text(),
			 snapshot.process->exe);
		o->program = program;
	}
	argv[0] = (char *)(__UINTPTR_TYPE__)o->program;
	o->argv = argv;
}

int lin_restore_open(struct bee_options *o)
{
	char why[400];

	if (read_snapshot(o))
		return -1;
	set_clocks();
	if (lin_regroup(&snapshot, &bytes, &length, why, sizeof(why)))
		return report_refusal(o, why);
	name_program(o);
	bee.snapshot = &snapshot;
	return lin_family_restore((s32)snapshot.process->pid, getpid());
}

/* execve starts bee again: numbers and clocks of a restored process must not
 * change. */
const char *lin_restored_text(void)
{
	static char text[160 + 24 * BEE_SNAP_MEMBERS];
	s32 guest, pid;
	u32 i;
	int n;

	if (!lin_family_restored(0, &guest, &pid))
		return NULL;
	n = snprintf(text, sizeof(text), "%lld:%llu:%llu:%llu:%d",
		     lin_clock_ahead, lin_cpu_before, lin_user_before,
		     lin_system_before, lin_family_base());
	for (i = 0; lin_family_restored(i, &guest, &pid); i++)
		n += snprintf(text + n, sizeof(text) - (u64)n, ":%d:%d", guest,
			      pid);
	return text;
}

int lin_restored_take(const char *text)
{
	s32 guest, pid, base;
	int n = 0;

	if (sscanf(text, "%lld:%llu:%llu:%llu:%d%n", &lin_clock_ahead,
		   &lin_cpu_before, &lin_user_before, &lin_system_before, &base,
		   &n) != 5)
		return -1;
	lin_family_numbered(base - 1);
	for (text += n; *text; text += n)
		if (sscanf(text, ":%d:%d%n", &guest, &pid, &n) != 2 ||
		    lin_family_restore(guest, pid))
			return -1;
	return 0;
}

int lin_restore_start(void)
{
	const struct abi_snap_thread *t;
	u64 at = 0, len;

	while ((t = bee_snap_next(&snapshot, &at, BEE_SNAP_THREAD, &len)))
		if (t->tid) {
			lin_thread_before(t->index, t->cpu_ns);
			lin_family_numbered((s32)t->tid);
		}
	lin_mirror_free();
	if (lin_regroup_await())
		return report_refusal(bee.options,
				      "another process of its run could not be "
				      "restored");
	set_cpu_clocks();
	bee_os_free(bytes, length);
	memset(&snapshot, 0, sizeof(snapshot));
	if (!bee_restore_threads(&lin_host))
		return 0;
	return report_refusal(bee.options, "its threads cannot be started");
}
