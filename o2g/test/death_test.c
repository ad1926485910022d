// SPDX-License-Identifier: MIT
/*
 * Peers that die by SIGKILL at every stage of a message. What names them ends
 * with an error, what names anybody stays, and the endpoint works on.
 *
 * A victim is this program once more, not a fork: gcc 12's AddressSanitizer
 * leaves its allocator locked in a child of a process one of whose threads is
 * allocating, and then the child's own threads never start.
 */
#define _GNU_SOURCE /* environ */
#include "bed.h"

#include <tests/tap.h>

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BIG (24u << 20)	   /* beyond credit */
#define EAGER (512u << 10) /* within it */
#define PART (64u << 10)   /* of a body, by which a victim stops */
#define CHANNEL 100	   /* a victim's descriptor to its parent */

static struct o2g *me;
static uint8_t my_name[O2G_NAME_SIZE];

/* A process with an endpoint of its own, and a way to talk to its program. */
struct victim {
	pid_t pid;
	int channel;
	uint32_t peer;
};

enum {
	IDLE,
	SEND_SMALL,
	SEND_EAGER,
	SEND_BIG,
	RECV_PART,
	HALF_OPEN, /* from here on: stops amid its next opening, */
	HALF_SENT, /* amid a body, */
	SENT,	   /* before it writes anything more */
	STOP
};

/* ---- where a victim stops by itself ---- */

static int opens_half, writes_part;
static size_t may_write;

/* Each side of an opening says two things; the second one settles it. */
ssize_t send(int fd, const void *buffer, size_t length, int flags)
{
	if (opens_half && opens_half++ == 2)
		raise(SIGSTOP);
	return sendto(fd, buffer, length, flags, 0, 0);
}

/* The user engine writes here; the kernel's needs nobody. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	size_t length = message->msg_iov[0].iov_len;
	ssize_t n;

	if (!writes_part)
		return syscall(SYS_sendmsg, fd, message, flags);
	if (!may_write)
		raise(SIGSTOP);
	if (length > may_write)
		length = may_write;
	n = sendto(fd, message->msg_iov[0].iov_base, length, flags, 0, 0);
	if (n > 0)
		may_write -= (size_t)n;
	return n;
}

static void carry_out(int order, struct o2g *o2g, uint32_t to)
{
	static uint8_t big[BIG];
	char word = 'k';

	memset(big, 'b', PART);
	if (order == SEND_SMALL) {
		bed_send(o2g, to, 1, "small", 6);
		if (bed_event(o2g).status)
			bed_die("a victim's send");
	} else if (order == SEND_BIG) {
		bed_send(o2g, to, 2, big, sizeof(big));
	} else if (order == SEND_EAGER) {
		bed_send(o2g, to, 4, big, EAGER);
	} else if (order == HALF_OPEN) {
		opens_half = 1;
	} else if (order == HALF_SENT || order == SENT) {
		may_write = order == HALF_SENT ? PART : 0;
		writes_part = 1;
	} else if (order == RECV_PART) {
		bed_recv(o2g, to, 3, big, sizeof(big));
	}
	if (write(CHANNEL, &word, 1) != 1)
		_exit(1);
}

static int be_victim(void)
{
	uint8_t name[O2G_NAME_SIZE], parent[O2G_NAME_SIZE];
	struct o2g *o2g = bed_open();
	uint32_t to;
	char order;

	if (read(CHANNEL, parent, sizeof(parent)) != sizeof(parent) ||
	    o2g_name(o2g, name) || o2g_peer(o2g, parent, &to) ||
	    write(CHANNEL, name, sizeof(name)) != sizeof(name))
		bed_die("a victim's names");
	while (read(CHANNEL, &order, 1) == 1 && order != STOP)
		carry_out(order, o2g, to);
	return o2g_close(o2g, 5000) ? 1 : 0;
}

static pid_t spawn_victim(int channel)
{
	char *argv[] = {"victim", 0};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, 0, argv, environ))
		bed_die("posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static struct victim start_victim(void)
{
	struct victim v = {0};
	uint8_t name[O2G_NAME_SIZE];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		bed_die("socketpair");
	v.pid = spawn_victim(pair[1]);
	close(pair[1]);
	v.channel = pair[0];
	if (write(v.channel, my_name, sizeof(my_name)) != sizeof(my_name) ||
	    read(v.channel, name, sizeof(name)) != sizeof(name) ||
	    o2g_peer(me, name, &v.peer))
		bed_die("child");
	return v;
}

/* Does not wait for an answer. */
static void send_order(struct victim *v, int what)
{
	char word = (char)what;

	if (write(v->channel, &word, 1) != 1)
		bed_die("order");
}

static void order_and_wait(struct victim *v, int what)
{
	char word;

	send_order(v, what);
	if (read(v->channel, &word, 1) != 1)
		bed_die("tell");
}

static void kill_victim(struct victim *v)
{
	kill(v->pid, SIGKILL);
	waitpid(v->pid, 0, 0);
	close(v->channel);
}

/* Returns when it has stopped. Until then its threads may run. */
static void await_stop(struct victim *v)
{
	int status;

	if (waitpid(v->pid, &status, WUNTRACED) != v->pid ||
	    !WIFSTOPPED(status))
		bed_die("freeze");
}

static void freeze_victim(struct victim *v)
{
	kill(v->pid, SIGSTOP);
	await_stop(v);
}

static int by_kernel(void)
{
	return !strcmp(o2g_engine_name(me), "kernel");
}

/* Stops it amid what it is told to do next. With the kernel's engine that goes
 * on by itself, and may be done: 0. */
static int freeze_halfway(struct victim *v, int where, int what)
{
	if (by_kernel()) {
		order_and_wait(v, what);
		freeze_victim(v);
		return 0;
	}
	order_and_wait(v, where);
	send_order(v, what);
	await_stop(v);
	return 1;
}

/* A first message, so that there is a connection. */
static void greet_victim(struct victim *v)
{
	char in[6];

	bed_recv(me, v->peer, 1, in, sizeof(in));
	order_and_wait(v, SEND_SMALL);
	if (bed_event(me).status)
		bed_die("greet");
}

static int fails_for(int status)
{
	return status == -ECONNRESET || status == -ESHUTDOWN ||
	       status == -ECONNREFUSED || status == -EPIPE;
}

static void test_idle(void)
{
	struct victim v = start_victim();
	char directed[8], any[8];
	struct o2g_event event;

	greet_victim(&v);
	bed_recv(me, v.peer, 5, directed, sizeof(directed));
	bed_recv(me, O2G_ANY, 6, any, sizeof(any));
	kill_victim(&v);
	event = bed_event(me);
	tap_ok(event.cookie == directed && event.status == -ECONNRESET,
	       "a receive from a peer that died idle fails");
	bed_send(me, v.peer, 5, "x", 1);
	tap_ok(fails_for(bed_event(me).status), "a send to it fails");
	bed_recv(me, v.peer, 5, directed, sizeof(directed));
	tap_ok(fails_for(bed_event(me).status), "a later receive fails");
	TAP(o2g_wait(me, &event, 1, 200) == 0);
	v = start_victim();
	greet_victim(&v);
	TAP(o2g_cancel(me, any) == 0);
	event = bed_event(me);
	tap_ok(event.cookie == any && event.status == -ECANCELED,
	       "a receive from any peer survives, and other peers are served");
	kill_victim(&v);
}

/* Died with a message that had come whole, and one that had not. */
static void mid_body(void)
{
	struct victim v = start_victim();
	static uint8_t in[BIG];
	struct o2g_event event;
	char small[6];
	int half;

	greet_victim(&v);
	order_and_wait(&v, SEND_SMALL); /* unexpected, whole */
	bed_recv(me, O2G_ANY, 2, in, sizeof(in));
	half = freeze_halfway(&v, HALF_SENT, SEND_BIG);
	for (int i = 0; half && i < BED_WAIT && bed_look(in) != 'b'; i++)
		usleep(1000);
	TAP(!half || bed_look(in) == 'b');
	kill_victim(&v);
	event = bed_event(me);
	tap_ok(event.cookie == in && (event.status == -ECONNRESET ||
				      (event.status == 0 && !half)),
	       "a message cut by a death fails its receive (%d)", event.status);
	bed_recv(me, v.peer, 1, small, sizeof(small));
	event = bed_event(me);
	tap_ok(event.status == 0 && strcmp(small, "small") == 0,
	       "a message that arrived completely before the death is "
	       "received");
}

/* The same for a message that was claimed. */
static void test_claimed(void)
{
	struct victim v = start_victim();
	struct o2g_match from = bed_match(v.peer, 4);
	struct o2g_event event;
	static uint8_t in[EAGER];
	int half;

	greet_victim(&v);
	half = freeze_halfway(&v, HALF_SENT, SEND_EAGER);
	do {
		if (o2g_peek(me, &from, O2G_CLAIM, in))
			bed_die("peek");
		event = bed_event(me);
	} while (event.status == -ENOMSG);
	TAP(event.status == 0 && event.length == EAGER);
	TAP(o2g_recv_claimed(me, event.handle, in, sizeof(in), in) == 0);
	kill_victim(&v);
	event = bed_event(me);
	tap_ok(event.cookie == in && (event.status == -ECONNRESET ||
				      (event.status == 0 && !half)),
	       "a claimed message cut by a death fails its receive (%d)",
	       event.status);
}

/* It was about to say goodbye, which the kernel's engine does by itself. */
static void test_ending(void)
{
	struct o2g_event event;
	struct victim v;
	char in[6];

	if (by_kernel())
		return;
	v = start_victim();
	greet_victim(&v);
	bed_recv(me, v.peer, 1, in, sizeof(in));
	freeze_halfway(&v, SENT, STOP);
	kill_victim(&v);
	event = bed_event(me);
	tap_ok(event.cookie == in && event.status == -ECONNRESET,
	       "a peer that ends without BYE has died (%d)", event.status);
}

/* It stops in the middle: nobody reads, then it dies. Only the kernel's engine
 * receives for a process that is stopped, and may be done before it dies. */
static void test_granted(void)
{
	struct victim v = start_victim();
	static uint8_t out[BIG], in[BIG];
	struct o2g_event event;
	int ended;

	greet_victim(&v);
	order_and_wait(&v, RECV_PART);
	freeze_victim(&v);
	bed_send(me, v.peer, 3, out, sizeof(out));
	ended = o2g_wait(me, &event, 1, 100);
	TAP(ended == 0 || (by_kernel() && ended == 1));
	kill_victim(&v);
	if (!ended)
		event = bed_event(me);
	tap_ok(event.cookie == out && (fails_for(event.status) ||
				       (by_kernel() && event.status == 0)),
	       "a long send to a peer that dies fails (%d)", event.status);
	v = start_victim();
	greet_victim(&v);
	freeze_victim(&v);
	bed_send(me, v.peer, 9, out, sizeof(out)); /* not expected there */
	bed_recv(me, v.peer, 9, in, sizeof(in));
	TAP(o2g_wait(me, &event, 1, 100) == 0);
	kill_victim(&v);
	TAP(fails_for(bed_event(me).status));
	tap_ok(fails_for(bed_event(me).status),
	       "a request that waits for its grant fails at its peer's death");
}

/* Dead while the connection is made, and before. */
static void test_opening(void)
{
	struct victim deaf = start_victim(), judge = start_victim(),
		      prover = start_victim(), v;
	struct o2g_event event;
	char in[6];

	freeze_victim(&deaf); /* its kernel accepts, nobody answers */
	bed_send(me, deaf.peer, 1, "x", 1);
	order_and_wait(&judge, HALF_OPEN);
	bed_send(me, judge.peer, 1, "x", 1);
	await_stop(&judge); /* it has our proof */
	order_and_wait(&prover, HALF_OPEN);
	send_order(&prover, SEND_SMALL);
	await_stop(&prover); /* it has our challenge */
	bed_recv(me, prover.peer, 1, in, sizeof(in));
	TAP(o2g_wait(me, &event, 1, 100) == 0);
	kill_victim(&deaf);
	kill_victim(&judge);
	kill_victim(&prover);
	for (int i = 0; i < 3; i++) {
		event = bed_event(me);
		tap_ok(fails_for(event.status),
		       "operations for a peer that dies while it connects fail "
		       "(peer %u, %d)",
		       event.peer, event.status);
	}
	v = start_victim();
	kill_victim(&v);
	bed_send(me, v.peer, 1, "x", 1);
	tap_ok(bed_event(me).status == -ECONNREFUSED,
	       "a send to a peer that was dead before is refused");
}

/* Without a connection a receive finds out as well, but only what is certain.
 */
static void test_unconnected(void)
{
	struct victim v = start_victim();
	struct o2g_event event;
	char in[8], out[8] = "out";

	kill_victim(&v);
	bed_recv(me, v.peer, 1, in, sizeof(in));
	event = bed_event(me);
	tap_ok(event.cookie == in && event.status == -ECONNREFUSED,
	       "a receive from a peer that was dead before fails (%d)",
	       event.status);
	v = start_victim();
	bed_recv(me, v.peer, 1, in, sizeof(in));
	kill_victim(&v);
	TAP(fails_for(bed_event(me).status));
	v = start_victim();
	bed_recv(me, v.peer, 1, in, sizeof(in));
	bed_send(me, v.peer, 1, out, sizeof(out));
	event = bed_event(me);
	tap_ok(event.cookie == out && event.status == 0,
	       "a send after such a receive connects (%d)", event.status);
	order_and_wait(&v, SEND_SMALL);
	TAP(bed_event(me).status == 0 && strcmp(in, "small") == 0);
	kill_victim(&v);
}

/* Nobody there says that it is gone: the host may be slow to come up. */
static void test_silent(void)
{
	struct o2g_options options = bed_options();
	uint8_t name[O2G_NAME_SIZE] = {[0] = 4, [2] = 9, [8] = 192, 0, 2, 1};
	struct o2g_event event;
	char in[8], out = 'x';
	struct o2g *o2g;
	uint32_t peer;

	options.connect_ms = 100;
	if (o2g_open(&o2g, &options) || o2g_peer(o2g, name, &peer))
		bed_die("open");
	bed_recv(o2g, peer, 1, in, sizeof(in));
	tap_ok(o2g_wait(o2g, &event, 1, 1500) == 0,
	       "a receive from a host that does not answer waits");
	bed_send(o2g, peer, 1, &out, 1);
	TAP(bed_event(o2g).status < 0);
	tap_ok(bed_event(o2g).status < 0,
	       "a failed send to such a host fails its receive");
	TAP(o2g_close(o2g, 0) == 0);
}

/* A clean end is not a death: what it sent last arrives. */
static void test_clean(void)
{
	struct victim v = start_victim();
	char in[6] = "", word = STOP;
	int status = 1;

	greet_victim(&v);
	order_and_wait(&v, SEND_SMALL);
	if (write(v.channel, &word, 1) != 1)
		bed_die("stop");
	waitpid(v.pid, &status, 0);
	close(v.channel);
	TAP(status == 0);
	bed_recv(me, v.peer, 1, in, sizeof(in));
	tap_ok(bed_event(me).status == 0 && strcmp(in, "small") == 0,
	       "the last message of a peer that closed is received");
	bed_recv(me, v.peer, 1, in, sizeof(in));
	tap_ok(bed_event(me).status == -ESHUTDOWN,
	       "the end of a peer that closed is no death");
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	setenv("SKEP_O2G_LOG", "0", 1);
	if (argc > 0 && !strcmp(argv[0], "victim"))
		return be_victim();
	me = bed_open();
	if (o2g_name(me, my_name))
		return 1;
	test_idle();
	mid_body();
	test_claimed();
	test_ending();
	test_granted();
	test_opening();
	test_unconnected();
	test_silent();
	test_clean();
	TAP(o2g_close(me, 2000) == 0);
	return tap_done();
}
