// SPDX-License-Identifier: MIT
/*
 * One opening over one socket, and what follows from its result. The endpoint's
 * `lock` is held; nothing here blocks.
 */
#include "try.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

enum { CONNECTING, OPENING, PAUSE, ENDED };

#define MS 1000000ll
#define OPENING_NS (O2G_OPENING_SECONDS * 1000 * MS)
/* a listener that has ended does not come back */
#define REFUSED_NS (2000 * MS)
/* the peer is of another job, or has no room now */
#define RESET_NS (5000 * MS)
#define PAUSE_FIRST_MS 20
#define PAUSE_MAX_MS 500
#define PATIENT_MAX_MS 10000
/* A peer that has not connected by then is dialled. */
#define EXPECT_NS (1000 * MS)
#define ALLOWED (-1ll) /* as a timeout: up to the whole limit */
/* share of the remaining memory for unexpected messages */
#define GRANT_SHARE 16

static void link_in(struct o2g *o2g, struct o2g_try *try)
{
	try->back = o2g->opener.last;
	*try->back = try;
	o2g->opener.last = &try->next;
}

static void link_out(struct o2g *o2g, struct o2g_try *try)
{
	*try->back = try->next;
	if (try->next)
		try->next->back = try->back;
	else
		o2g->opener.last = try->back;
}

int o2g_try_unproven(const struct o2g_try *try)
{
	return !try->peer && try->phase == OPENING;
}

int o2g_try_named(const struct o2g_try *try)
{
	return try->promised > 0; /* since we answered: see took_bytes() */
}

s64 o2g_try_age(const struct o2g_try *try)
{
	return o2g_now_ns() - (try->deadline - OPENING_NS);
}

int o2g_try_lacks_memory(struct o2g *o2g, int error)
{
	if (error != -EMFILE && error != -ENFILE && error != -ENOBUFS &&
	    error != -ENOMEM)
		return 0;
	if (!o2g->opener.complained)
		o2g_error_log("can't open another connection, trying again: "
			      "%s%s",
			      strerror(-error),
			      error == -EMFILE ? "; raise `ulimit -n`" : "");
	o2g->opener.complained = 1;
	return 1;
}

static struct o2g_try *create_try(struct o2g *o2g, int socket,
				  struct o2g_peer *peer)
{
	struct o2g_try *try = calloc(1, sizeof(*try));

	if (!try)
		return 0;
	try->socket = socket;
	try->peer = peer;
	try->pause_ms = PAUSE_FIRST_MS;
	try->deadline = o2g_now_ns() + OPENING_NS;
	link_in(o2g, try);
	return try;
}

/* A process that the program created by clone() may have a copy of the
 * descriptor, and epoll watches a file as long as a copy exists. */
static void close_socket(struct o2g *o2g, struct o2g_try *try)
{
	if (try->socket >= 0) {
		epoll_ctl(o2g->opener.epoll, EPOLL_CTL_DEL, try->socket, 0);
		close(try->socket);
	}
	try->socket = -1;
}

/* Reserves the credit that an opening offers until the opening fails, so that
 * several openings do not offer the same bytes. */
static void promise_credit(struct o2g *o2g, struct o2g_try *try, u32 credit)
{
	o2g->opener.granted += credit;
	o2g->opener.granted -= try->promised;
	try->promised = credit;
}

void o2g_try_drop(struct o2g *o2g, struct o2g_try *try)
{
	o2g_assert_locked(&o2g->lock);
	if (try->phase == ENDED)
		return;
	promise_credit(o2g, try, 0);
	if (o2g_try_unproven(try)) {
		o2g->opener.unproven--;
		if (try->socket >= 0)
			o2g->opener.refused++;
	}
	close_socket(o2g, try);
	if (try->peer && try->peer->dial == try)
		try->peer->dial = 0;
	o2g->opener.dials -= try->dials;
	try->phase = ENDED;
	try->deadline = INT64_MAX;
	link_out(o2g, try);
	try->next = o2g->opener.dead;
	o2g->opener.dead = try;
}

void o2g_try_abort(struct o2g *o2g)
{
	struct o2g_try *try;

	while ((try = o2g->opener.dead)) {
		o2g->opener.dead = try->next;
		free(try);
	}
}

void o2g_try_drop_all(struct o2g *o2g)
{
	while (o2g->opener.tries)
		o2g_try_drop(o2g, o2g->opener.tries);
	o2g_try_abort(o2g);
}

/* ---- sockets ---- */

static int watch_socket(struct o2g *o2g, struct o2g_try *try, u32 events,
			int op)
{
	struct epoll_event event = {.events = events};

	event.data.ptr = try;
	return epoll_ctl(o2g->opener.epoll, op, try->socket, &event) ? -errno
								     : 0;
}

/* Small messages are sent at once. A host that fails while the connection is
 * idle is detected after 30 s. */
static void tune_socket(int fd)
{
	const int option[][3] = {{IPPROTO_TCP, TCP_NODELAY, 1},
				 {SOL_SOCKET, SO_KEEPALIVE, 1},
				 {IPPROTO_TCP, TCP_KEEPIDLE, 10},
				 {IPPROTO_TCP, TCP_KEEPINTVL, 5},
				 {IPPROTO_TCP, TCP_KEEPCNT, 4}};

	for (unsigned i = 0; i < sizeof(option) / sizeof(option[0]); i++)
		setsockopt(fd, option[i][0], option[i][1], &option[i][2],
			   sizeof(int));
}

/* Sends what fits into an empty socket: less than a packet. */
static int send_out(struct o2g_try *try)
{
	u32 length = try->opening.out_length;

	try->opening.out_length = 0;
	if (length == 0)
		return 0;
	if (send(try->socket, try->opening.out, length,
		 MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length)
		return 0;
	return -ECONNRESET;
}

/* As far as possible, the sum of all credit stays below half of what may be
 * buffered for unexpected messages: then no peer waits for memory. The other
 * half is for credit that the core returns early. */
static u32 offered_credit(const struct o2g *o2g)
{
	u64 most = o2g->settings.unexpected / 2, given = o2g->opener.granted;
	u64 credit = given < most ? (most - given) / GRANT_SHARE : 0;

	if (credit > o2g->settings.credit)
		credit = o2g->settings.credit;
	return credit < O2G_CREDIT_MIN ? O2G_CREDIT_MIN : (u32)credit;
}

static int draw_nonce(u8 out[16])
{
	return getrandom(out, 16, 0) == 16 ? 0 : -EAGAIN;
}

/* ---- ends ---- */

static const char *error_reason(const struct o2g_try *try, int error,
				char *text, size_t size)
{
	switch (error) {
	case -EPROTONOSUPPORT:
		snprintf(text, size,
			 "the peer speaks revision %u of O2G, this library %u: "
			 "use "
			 "one version of skep on all hosts",
			 try->opening.revision, O2G_WIRE_REVISION);
		return text;
	case -EOPNOTSUPP:
		return try->opening.self->options & O2G_OPTION_RECORDS
			       ? "the peer does not encrypt, and this process "
				 "does: set SKEP_O2G_ENCRYPT=yes for all "
				 "processes of the job"
			       : "the peer encrypts, and this process does "
				 "not: set SKEP_O2G_ENCRYPT=yes for all "
				 "processes of the job";
	case -EACCES:
		return "the peer is not of this job: it does not know the "
		       "job's secret";
	case -EPROTO:
		return "the peer is not an O2G endpoint";
	case -ECONNRESET:
		return "the peer closed the connection: it is not of this job, "
		       "or it is ending";
	case -ECONNREFUSED:
		return "connection refused: the peer has ended, or a firewall "
		       "blocks the port";
	case -EISCONN:
		return "the peer has given up this process: it could not reach "
		       "it";
	case -EEXIST:
		return "the program knows the endpoint at this address as "
		       "another peer: use one of its addresses for all";
	case -EMFILE:
		return "too many open files: raise `ulimit -n`";
	case -ETIMEDOUT:
		return "no answer: the host is down, or a firewall drops the "
		       "packets (SKEP_O2G_PORTS says which ports to open)";
	}
	return strerror(-error);
}

static void lose_peer(struct o2g *o2g, struct o2g_try *try, int error)
{
	struct o2g_peer *peer = try->peer;
	char where[O2G_ADDRESS_TEXT], why[160];
	struct o2g_address address;

	o2g_address_of_name(&address, &peer->name);
	o2g_error_log("can't reach peer %u at %s: %s", peer->number,
		      o2g_address_text(where, &address),
		      error_reason(try, error, why, sizeof(why)));
	o2g_try_drop(o2g, try);
	if (peer->state != O2G_PEER_OPEN && peer->state != O2G_PEER_LOST)
		o2g_peer_lose(o2g, peer, error);
}

/* For how long to dial again after such an error, in ns; 0: not at all. */
static s64 dial_timeout(struct o2g *o2g, const struct o2g_try *try, int error)
{
	if (o2g_try_lacks_memory(o2g, error))
		return ALLOWED;
	switch (error) {
	case -ECONNREFUSED:
		return REFUSED_NS;
	case -ECONNRESET:
	case -EPIPE:
		return RESET_NS;
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -EAGAIN: /* crossed: the peer dials us */
		return try->proved && error == -ETIMEDOUT ? 0 : ALLOWED;
	}
	return 0;
}

/* Whether to go on dialling for a receive. It may wait without limit for a peer
 * that is stopped or whose host starts slowly, but not for one that has
 * ended. */
static int patient_goes_on(struct o2g_try *try, s64 most, s64 now)
{
	if (most == ALLOWED) {
		try->first = 0;
		return 1;
	}
	if (!try->first) {
		try->first = now;
		try->pause_ms = PAUSE_FIRST_MS;
	}
	return now + try->pause_ms * MS < try->first + most;
}

static int goes_on(struct o2g *o2g, struct o2g_try *try, int error)
{
	s64 now = o2g_now_ns(), most = dial_timeout(o2g, try, error);

	if (try->patient)
		return patient_goes_on(try, most, now);
	if (most == ALLOWED || most > try->end - try->first)
		most = try->end - try->first;
	return try->first && now + try->pause_ms * MS < try->first + most;
}

static void pause_try(struct o2g *o2g, struct o2g_try *try)
{
	close_socket(o2g, try);
	promise_credit(o2g, try, 0);
	try->phase = PAUSE;
	try->proved = 0;
	try->deadline = o2g_now_ns() + try->pause_ms * MS;
	if (try->pause_ms < (try->patient ? PATIENT_MAX_MS : PAUSE_MAX_MS))
		try->pause_ms *= 2;
}

static void fail_try(struct o2g *o2g, struct o2g_try *try, int error)
{
	if (!try->opening.dialled && try->phase == OPENING) {
		/* an unauthenticated peer, or the other end of a registered
		 * socket */
		if (try->peer)
			lose_peer(o2g, try, error);
		else
			o2g_try_drop(o2g, try);
	} else if (goes_on(o2g, try, error)) {
		pause_try(o2g, try);
	} else {
		lose_peer(o2g, try, error == -EAGAIN ? -ETIMEDOUT : error);
	}
}

/* ---- the engine gets the socket ---- */

static void attach_engine(struct o2g *o2g, struct o2g_try *try,
			  struct o2g_peer *peer)
{
	u32 credit_in = try->opening.credit_in;
	u32 credit_out = try->opening.credit_out;
	struct o2g_keys keys;
	const int sealed = o2g_opening_keys(&try->opening, &keys);
	int r, fd = try->socket;

	epoll_ctl(o2g->opener.epoll, EPOLL_CTL_DEL, fd, 0);
	try->socket = -1;
	o2g_try_drop(o2g, try);
	if (peer->dial)
		o2g_try_drop(o2g, peer->dial);
	/* Half of the numbers are reserved for peers that the program names. */
	if (o2g->peers - o2g->named < O2G_PEERS_MAX / 2)
		o2g_peer_number(o2g, peer);
	r = o2g->ops->attach(o2g->engine, fd, peer->number, credit_out,
			     credit_in, sealed ? &keys : 0, &peer->link);
	explicit_bzero(&keys, sizeof(keys));
	if (r) {
		o2g_error_log("can't use the connection to peer %u: %s",
			      peer->number, strerror(-r));
		o2g_peer_lose(o2g, peer, r);
		return;
	}
	o2g_peer_set(peer, O2G_PEER_OPEN);
	o2g->open++;
	o2g->opener.granted += credit_in;
}

/* The verdict on a valid proof; see <skep/o2g_wire.h>. */
static enum o2g_verdict judge_proof(const struct o2g *o2g,
				    const struct o2g_peer *peer)
{
	const struct o2g_try *dial = peer->dial;

	if (peer->state == O2G_PEER_OPEN || peer->state == O2G_PEER_LOST)
		return O2G_KNOWN;
	/* A dial whose hello was not sent yields to the incoming connection. */
	if (dial && dial->phase == OPENING &&
	    memcmp(&o2g->identity.id, &peer->name.id, sizeof(struct o2g_id)) <
		    0)
		return O2G_CROSSED;
	return O2G_WELCOME;
}

static void try_proven(struct o2g *o2g, struct o2g_try *try)
{
	const struct o2g_id *id = o2g_opening_other(&try->opening);
	struct o2g_peer *peer = try->peer;
	enum o2g_verdict verdict;
	const struct o2g_location *location =
		o2g_opening_location(&try->opening);
	int r = peer ? o2g_peer_settle(o2g, peer, id, location) : 0;

	if (r) {
		fail_try(o2g, try, r);
		return;
	}
	if (!peer)
		peer = o2g_peer_proven(o2g, id, location);
	if (!peer) {
		fail_try(o2g, try, -ENOMEM);
		return;
	}
	/* A registered socket is the peer's own dial, so dials cannot cross. */
	verdict = try->peer ? O2G_WELCOME : judge_proof(o2g, peer);
	o2g_opening_decide(&try->opening, verdict);
	if (send_out(try))
		fail_try(o2g, try, -ECONNRESET); /* nobody dials again for it */
	else if (verdict != O2G_WELCOME)
		o2g_try_drop(o2g, try);
	else
		attach_engine(o2g, try, peer);
}

static void run_step(struct o2g *o2g, struct o2g_try *try, int now)
{
	switch (now) {
	case O2G_OPENING_MORE:
		try->proved = try->opening.proof.credit && try->opening.dialled;
		break;
	case O2G_OPENING_PROVEN:
		try_proven(o2g, try);
		break;
	case O2G_OPENING_WELCOME:
		attach_engine(o2g, try, try->peer);
		break;
	case O2G_OPENING_CROSSED:
		fail_try(o2g, try, -EAGAIN);
		break;
	case O2G_OPENING_KNOWN:
		fail_try(o2g, try, -EISCONN);
		break;
	default:
		fail_try(o2g, try, now);
	}
}

static void begin_dial(struct o2g *o2g, struct o2g_try *try)
{
	u8 random[16];
	int r = draw_nonce(random);

	tune_socket(try->socket);
	o2g_opening_dial(&try->opening, &o2g->identity, &try->peer->name.id,
			 offered_credit(o2g), random);
	promise_credit(o2g, try, try->opening.credit_in);
	try->phase = OPENING;
	try->deadline = o2g_now_ns() + OPENING_NS;
	if (r == 0)
		r = watch_socket(o2g, try, EPOLLIN, EPOLL_CTL_MOD);
	if (r == 0)
		r = send_out(try);
	if (r)
		fail_try(o2g, try, r);
}

/* An acceptor offers its credit when it answers a hello of this job, not when a
 * connection is accepted. */
static int took_bytes(struct o2g *o2g, struct o2g_try *try, u32 length)
{
	struct o2g_opening *opening = &try->opening;
	const int offers = !opening->dialled && !try->promised;
	int r;

	if (offers)
		opening->credit_in = offered_credit(o2g);
	r = o2g_opening_took(opening, length);
	/* The peer has answered. Before it gets our proof, and considers this
	 * connection as its own, its id must not be another peer's. */
	if (r == O2G_OPENING_MORE && opening->dialled && opening->out_length &&
	    o2g_peer_settle(o2g, try->peer, o2g_opening_other(opening),
			    o2g_opening_location(opening))) {
		opening->out_length = 0;
		r = -EEXIST;
	}
	if (offers && r == O2G_OPENING_MORE && opening->out_length)
		promise_credit(o2g, try, opening->credit_in);
	return r;
}

static void read_opening(struct o2g *o2g, struct o2g_try *try)
{
	while (try->phase == OPENING && try->socket >= 0) {
		u8 *at;
		u32 space = o2g_opening_space(&try->opening, &at);
		ssize_t n = recv(try->socket, at, space, MSG_DONTWAIT);
		int r;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			fail_try(o2g, try, -ECONNRESET);
			return;
		}
		r = took_bytes(o2g, try, (u32)n);
		if (send_out(try) && r >= 0)
			r = -ECONNRESET;
		run_step(o2g, try, r);
	}
}

void o2g_try_work(struct o2g *o2g, struct o2g_try *try)
{
	int error = 0;
	socklen_t size = sizeof(error);

	o2g_assert_locked(&o2g->lock);
	if (try->phase == CONNECTING) {
		getsockopt(try->socket, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error)
			fail_try(o2g, try, -error);
		else
			begin_dial(o2g, try);
	} else if (try->phase == OPENING) {
		read_opening(o2g, try);
	}
}

static void connect_try(struct o2g *o2g, struct o2g_try *try)
{
	struct o2g_address address;
	int r = o2g_address_of_name(&address, &try->peer->name);

	try->phase = CONNECTING;
	try->deadline = try->patient
				? o2g_now_ns() + o2g->settings.connect_ms * MS
				: try->end;
	try->socket = socket(address.storage.ss_family,
			     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (try->socket < 0)
		r = -errno;
	if (r == 0)
		r = watch_socket(o2g, try, EPOLLOUT, EPOLL_CTL_ADD);
	if (r == 0 &&
	    connect(try->socket, (struct sockaddr *)&address.storage,
		    address.length) &&
	    errno != EINPROGRESS)
		r = -errno;
	if (r)
		fail_try(o2g, try, r);
}

void o2g_try_expire(struct o2g *o2g, struct o2g_try *try)
{
	o2g_assert_locked(&o2g->lock);
	if (try->phase == PAUSE)
		connect_try(o2g, try);
	else if (try->phase == OPENING && try->patient && try->proved)
		/* The peer may have a connection to us already; then it accepts
		 * no other. */
		try->deadline = o2g_now_ns() + OPENING_NS;
	else
		fail_try(o2g, try, -ETIMEDOUT);
}

/* Creates a try for this peer that is not started; without memory the peer is
 * lost. */
static struct o2g_try *make_dial(struct o2g *o2g, struct o2g_peer *peer)
{
	struct o2g_try *try = create_try(o2g, -1, peer);

	if (try) {
		try->phase = PAUSE;
		peer->dial = try;
	} else {
		o2g_peer_lose(o2g, peer, -ENOMEM);
	}
	return try;
}

void o2g_try_dial(struct o2g *o2g, struct o2g_peer *peer)
{
	struct o2g_try *try = peer->dial;

	o2g_assert_locked(&o2g->lock);
	if (!try)
		try = make_dial(o2g, peer);
	if (!try) {
		o2g->opener.dials--;
		return;
	}
	try->dials = 1;
	try->patient = 0;
	try->pause_ms = PAUSE_FIRST_MS;
	try->first = o2g_now_ns();
	try->end = try->first + o2g->settings.connect_ms * MS;
	if (try->phase == PAUSE)
		connect_try(o2g, try);
	else if (try->deadline > try->end)
		try->deadline = try->end;
}

void o2g_try_expect(struct o2g *o2g, struct o2g_peer *peer)
{
	struct o2g_try *try = make_dial(o2g, peer);

	o2g_assert_locked(&o2g->lock);
	if (!try)
		return;
	try->patient = 1;
	try->deadline = o2g_now_ns() + EXPECT_NS;
}

int o2g_try_accept(struct o2g *o2g, int socket)
{
	struct o2g_try *try;
	u8 random[16];
	int r = draw_nonce(random);

	o2g_assert_locked(&o2g->lock);
	if (r)
		return r;
	try = create_try(o2g, socket, 0);
	if (!try)
		return -ENOMEM;
	tune_socket(socket);
	try->phase = OPENING;
	o2g->opener.unproven++;
	o2g_opening_accept(&try->opening, &o2g->identity, offered_credit(o2g),
			   random);
	r = watch_socket(o2g, try, EPOLLIN, EPOLL_CTL_ADD);
	if (r)
		o2g_try_drop(o2g, try);
	return 0;
}

int o2g_try_adopt(struct o2g *o2g, int socket, struct o2g_peer *peer,
		  int dialled)
{
	int r, protocol = 0;
	socklen_t size = sizeof(protocol);
	struct o2g_try *try;
	u8 random[16];

	o2g_assert_locked(&o2g->lock);
	if (getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) ||
	    protocol != IPPROTO_TCP || draw_nonce(random) ||
	    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK))
		return o2g_error_set(
			-ENOTSOCK, "descriptor %d is not a TCP socket", socket);
	fcntl(socket, F_SETFD, FD_CLOEXEC);
	try = create_try(o2g, socket, peer);
	if (!try)
		return o2g_error_set(-ENOMEM, "no memory for a connection");
	r = watch_socket(o2g, try, EPOLLIN, EPOLL_CTL_ADD);
	if (r) {
		try->socket = -1; /* the caller closes it */
		o2g_try_drop(o2g, try);
		return o2g_error_set(r, "descriptor %d is not a socket: %s",
				     socket, strerror(-r));
	}
	if (peer->dial)
		o2g_try_drop(o2g, peer->dial);
	o2g_peer_set(peer, O2G_PEER_DIALED);
	peer->dial = try;
	o2g->opener.dials++;
	try->dials = 1;
	if (dialled) {
		begin_dial(o2g, try);
		return 0;
	}
	tune_socket(socket);
	try->phase = OPENING;
	o2g_opening_accept(&try->opening, &o2g->identity, offered_credit(o2g),
			   random);
	return 0;
}
