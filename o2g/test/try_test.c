// SPDX-License-Identifier: MIT
/*
 * One try at a connection, step by step: without the opener's thread, so that
 * what only haste would show is seen each time.
 */
#include "bed.h"

#include <o2g/lib/endpoint.h>
#include <o2g/lib/try.h>
#include <tests/tap.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int attached, lost; /* what the engine was told */
static int no_sockets;	   /* socket() finds no descriptor */

int socket(int family, int type, int protocol)
{
	if (!no_sockets)
		return (int)syscall(SYS_socket, family, type, protocol);
	errno = EMFILE;
	return -1;
}

static int engine_peer(struct o2g_engine *e, u32 peer, int self)
{
	(void)e, (void)peer, (void)self;
	return 0;
}

static void engine_lost(struct o2g_engine *e, u32 peer, int error)
{
	(void)e, (void)peer, (void)error;
	lost++;
}

static int engine_attach(struct o2g_engine *e, int fd, u32 peer, u32 credit_out,
			 u32 credit_in, const struct o2g_keys *keys, u32 *link)
{
	(void)e, (void)peer, (void)credit_out, (void)credit_in, (void)keys;
	close(fd);
	*link = 1;
	attached++;
	return 0;
}

static const struct o2g_engine_ops ops = {
	.name = "test",
	.peer = engine_peer,
	.lost = engine_lost,
	.attach = engine_attach,
};

static struct o2g *me;
static struct o2g_peer *peer;
static int listener; /* where the peer is */

/* An endpoint that knows one peer, by number. */
static void open_tries(u32 connect_ms)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	struct o2g_name name = {.location.family = 4, .id.byte = {7}};

	attached = lost = 0;
	me = calloc(1, sizeof(*me));
	pthread_mutex_lock(&me->lock);
	me->ops = &ops;
	me->settings.credit = 1 << 20;
	me->settings.unexpected = 64 << 20;
	me->settings.connect_ms = connect_ms;
	me->by_number = calloc(O2G_PEERS_MAX, sizeof(struct o2g_peer *));
	me->opener.epoll = epoll_create1(EPOLL_CLOEXEC);
	me->opener.last = &me->opener.tries;
	memset(&me->identity, 1, sizeof(me->identity));
	me->identity.location = (struct o2g_location){.family = 4, .port = 1};
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 5) ||
	    getsockname(listener, (void *)&at, &length))
		bed_die("listen");
	name.location.port = ntohs(at.sin_port);
	memcpy(name.location.address, &at.sin_addr, 4);
	peer = o2g_peer_proven(me, &name.id, &name.location);
	if (!peer || o2g_peer_number(me, peer))
		bed_die("peer");
}

/* Whatever was tried, nothing may count as under way at the end. */
static void close_tries(void)
{
	o2g_try_drop_all(me);
	TAP(me->opener.dials == 0 && me->opener.granted == 0 &&
	    me->opener.unproven == 0 && !me->opener.tries);
	o2g_peer_free_all(me);
	pthread_mutex_unlock(&me->lock);
	close(me->opener.epoll);
	close(listener);
	free(me);
}

static void expect_peer(void)
{
	o2g_peer_set(peer, O2G_PEER_EXPECTED);
	o2g_try_expect(me, peer);
}

static void dial_peer(void)
{
	o2g_peer_set(peer, O2G_PEER_DIALED);
	me->opener.dials++;
	o2g_try_dial(me, peer);
}

/* Two ends of a connection; the second one is to be closed by the caller. */
static int make_pair(int *other)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_port = htons(peer->name.location.port);
	if (connect(fd, (void *)&at, sizeof(at)))
		bed_die("connect");
	*other = accept(listener, 0, 0);
	return fd;
}

static void test_adopted(void)
{
	int fd, other;

	open_tries(60000);
	fd = make_pair(&other);
	TAP(fcntl(fd, F_GETFD) == 0);
	TAP(o2g_try_adopt(me, fd, peer, 0) == 0);
	tap_ok(fcntl(fd, F_GETFD) == FD_CLOEXEC,
	       "a started program does not inherit a registered socket");
	tap_ok(me->opener.dials == 1 && peer->dial && peer->dial->socket == fd,
	       "a registered socket is one connection attempt");
	o2g_try_drop(me, peer->dial);
	tap_ok(me->opener.dials == 0 && !peer->dial,
	       "the attempt of a registered socket ends with it");
	close(other);
	close_tries();
}

/* epoll takes no more. The caller closes the socket. */
static void test_unwatched(void)
{
	struct o2g_try *expected;
	int fd, other, epoll;

	open_tries(60000);
	expect_peer();
	expected = peer->dial;
	fd = make_pair(&other);
	epoll = me->opener.epoll;
	me->opener.epoll = -1;
	TAP(o2g_try_adopt(me, fd, peer, 0) == -EBADF);
	me->opener.epoll = epoll;
	tap_ok(me->opener.tries == expected && !expected->next &&
		       peer->dial == expected && me->opener.dials == 0 &&
		       fcntl(fd, F_GETFD) >= 0,
	       "a socket that cannot be watched changes nothing");
	close(fd);
	close(other);
	close_tries();
}

/* Events that were at hand when it ended. */
static void test_ended(void)
{
	struct o2g_try *try;

	open_tries(60000);
	dial_peer();
	try = peer->dial;
	o2g_try_drop(me, try);
	o2g_try_work(me, try);
	o2g_try_drop(me, try);
	tap_ok(me->opener.dead == try && !try->next && !me->opener.tries &&
		       me->opener.dials == 0 && lost == 0,
	       "an event for an attempt that ended changes nothing");
	o2g_try_abort(me);
	close_tries();
}

/* The try was to wait so many ns from a moment after `before` on, until now. */
static int waits_for(s64 ns, s64 before)
{
	return peer->dial->deadline >= before + ns &&
	       peer->dial->deadline <= o2g_now_ns() + ns;
}

/* The pauses between tries that find no descriptor, in ms. */
static u32 longest_pause(void)
{
	u32 most = 0, next = 0;
	int other = 0;

	no_sockets = 1;
	for (int i = 0; i < 20 && peer->dial; i++) {
		const s64 before = o2g_now_ns();

		if (i > 0)
			o2g_try_expire(me, peer->dial);
		if (i > 0 && peer->dial)
			other += !waits_for(next * 1000000ll, before);
		if (peer->dial)
			next = peer->dial->pause_ms;
		if (next > most)
			most = next;
	}
	tap_ok(!other, "each attempt comes after its pause");
	no_sockets = 0;
	return most;
}

static void test_pauses(void)
{
	u32 dials, waits;
	s64 before;

	open_tries(600000);
	me->opener.complained = 1;
	no_sockets = 1;
	dial_peer();
	dials = longest_pause();
	tap_ok(dials >= 500 && dials <= 1000,
	       "pauses between attempts grow to about 500 ms: %u", dials);
	close_tries();
	open_tries(600000);
	me->opener.complained = 1;
	before = o2g_now_ns();
	expect_peer();
	tap_ok(waits_for(1000000000, before),
	       "an endpoint that only receives lets the peer come first");
	waits = longest_pause();
	tap_ok(waits >= 10000 && waits <= 20000 && lost == 0,
	       "an endpoint that only receives retries less often: %u ms",
	       waits);
	close_tries();
}

/* The peer's side up to its challenge: then only the peer decides. */
static void prove_peer(int fd, struct o2g_opening *theirs,
		       struct o2g_identity *identity)
{
	const u8 nonce[16] = {9};
	u8 *at;
	u32 space;

	*identity = me->identity;
	identity->id = peer->name.id;
	o2g_opening_accept(theirs, identity, 1 << 20, nonce);
	space = o2g_opening_space(theirs, &at);
	if (recv(fd, at, space, MSG_WAITALL) != (ssize_t)space ||
	    o2g_opening_took(theirs, space) ||
	    send(fd, theirs->out, theirs->out_length, 0) != theirs->out_length)
		bed_die("challenge");
}

/* Lets a try go on until its socket has brought what we wait for. */
static void work_until(const u8 *what, int value)
{
	struct pollfd file = {.fd = peer->dial->socket,
			      .events = POLLIN | POLLOUT};

	for (int i = 0; i < 1000 && *what != value; i++) {
		poll(&file, 1, BED_WAIT);
		o2g_try_work(me, peer->dial);
	}
}

static void test_timeouts(void)
{
	struct o2g_identity identity;
	struct o2g_opening theirs;
	s64 before;
	int fd;

	open_tries(60000);
	expect_peer();
	o2g_try_expire(me, peer->dial); /* it did not come */
	fd = accept(listener, 0, 0);
	work_until(&peer->dial->opening.dialled, 1);
	prove_peer(fd, &theirs, &identity);
	work_until(&peer->dial->proved, 1);
	TAP(peer->dial->proved == 1);
	before = o2g_now_ns();
	o2g_try_expire(me, peer->dial);
	tap_ok(peer->dial && peer->dial->deadline > before && lost == 0 &&
		       peer->dial->socket >= 0,
	       "an endpoint that only receives keeps waiting for a verdict");
	close(fd);
	close_tries();
	open_tries(60000);
	dial_peer();
	fd = accept(listener, 0, 0);
	work_until(&peer->dial->opening.dialled, 1);
	prove_peer(fd, &theirs, &identity);
	work_until(&peer->dial->proved, 1);
	o2g_try_expire(me, peer->dial);
	tap_ok(lost == 1 && !peer->dial,
	       "a sender gives up a peer that proved itself and fell silent");
	close(fd);
	close_tries();
}

/* A send follows a receive that began to dial. */
static void test_hurry(u32 connect_ms, int sooner)
{
	s64 patient;
	int fd;

	open_tries(connect_ms);
	expect_peer();
	o2g_try_expire(me, peer->dial);
	fd = accept(listener, 0, 0);
	work_until(&peer->dial->opening.dialled, 1);
	patient = peer->dial->deadline;
	dial_peer();
	tap_ok(sooner ? peer->dial->deadline == peer->dial->end &&
				peer->dial->deadline < patient
		      : peer->dial->deadline == patient,
	       "a send that may take %u ms %s an opening under way", connect_ms,
	       sooner ? "shortens" : "does not prolong");
	close(fd);
	close_tries();
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	test_adopted();
	test_unwatched();
	test_ended();
	test_pauses();
	test_timeouts();
	test_hurry(100, 1);
	test_hurry(600000, 0);
	return tap_done();
}
