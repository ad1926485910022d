// SPDX-License-Identifier: MIT
/*
 * io_wait: the one place where a guest thread sleeps for files and sockets,
 * and where a kick ends that sleep.
 *
 * Without sockets a thread sleeps on its doorbell (WaitOnAddress). With sockets
 * it sleeps in WSAPoll, and one more socket, connected to itself on loopback,
 * stands for the doorbell. A change that a sleeper may wait for rings the
 * doorbells of the threads that are `asleep`; the sleeper reads its doorbell
 * before it checks, so no change is lost. All fields used here are atomic or
 * the thread's own.
 */
#include "win.h"

#define SLOTS_ON_STACK 64
/* WSAPoll reports no refused connections before Windows 10 2004. */
#define CONNECT_MS 50
/* Only if Windows refuses to tell a writer that nobody reads. */
#define WATCH_MS 50
/* A process may be killed before it rings for an eventfd that it wrote. */
#define RING_MS 1000

struct sleep {
	WSAPOLLFD *fd; /* one more than the entries, for the doorbell */
	u32 sockets, connecting;
	DWORD look; /* ms until the next look; INFINITE: when it is rung */
};

static int doorbell_socket(struct win_thread *t)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int len = sizeof(a);
	u_long on = 1;
	SOCKET s;

	if (t->wake != INVALID_SOCKET)
		return 0;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s = WSASocketW(AF_INET, SOCK_DGRAM, IPPROTO_UDP, NULL, 0,
		       WSA_FLAG_NO_HANDLE_INHERIT);
	if (s == INVALID_SOCKET)
		return -1;
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) ||
	    getsockname(s, (struct sockaddr *)&a, &len) ||
	    connect(s, (struct sockaddr *)&a, sizeof(a)) ||
	    ioctlsocket(s, FIONBIO, &on)) {
		closesocket(s);
		return -1;
	}
	t->wake = s;
	return 0;
}

static SHORT events_out(u32 events)
{
	SHORT e = 0;

	if (events & (WIN_POLLIN | WIN_POLLRDNORM | WIN_POLLRDHUP))
		e |= POLLRDNORM;
	if (events & WIN_POLLPRI)
		e |= POLLRDBAND;
	if (events & (WIN_POLLOUT | WIN_POLLWRNORM))
		e |= POLLWRNORM;
	return e;
}

/*
 * Windows reports POLLHUP if the peer has sent its FIN. Linux reports such a
 * socket as readable, with POLLRDHUP. On an error Linux sets all bits.
 */
static u32 events_in(SHORT got, u32 wanted)
{
	u32 e = 0;

	if (got & POLLRDNORM)
		e |= WIN_POLLIN | WIN_POLLRDNORM;
	if (got & POLLRDBAND)
		e |= WIN_POLLPRI;
	if (got & POLLWRNORM)
		e |= WIN_POLLOUT | WIN_POLLWRNORM;
	if (got & POLLHUP)
		e |= WIN_POLLIN | WIN_POLLRDNORM | WIN_POLLRDHUP;
	if (got & POLLERR)
		e |= WIN_POLLIN | WIN_POLLRDNORM | WIN_POLLOUT |
		     WIN_POLLWRNORM | WIN_POLLERR | WIN_POLLHUP;
	if (got & POLLNVAL)
		e |= WIN_POLLNVAL;
	return e & (wanted | WIN_POLLERR | WIN_POLLHUP | WIN_POLLNVAL);
}

static int connect_failed(SOCKET s)
{
	struct timeval none = {0, 0};
	fd_set bad;

	FD_ZERO(&bad);
	FD_SET(s, &bad);
	return select(0, NULL, NULL, &bad, &none) > 0;
}

static void look_within(struct sleep *s, DWORD ms)
{
	if (s->look > ms)
		s->look = ms;
}

/* As a socket of Linux: the end of input is readable, and if nobody reads the
 * output either, that is POLLHUP. */
static u32 pair_events(struct win_handle *h, u32 events, struct sleep *s)
{
	u32 in = bee_stream_poll(h->stream, events), out = 0, e = 0;

	if (in & WIN_POLLHUP)
		in = WIN_POLLIN | WIN_POLLRDNORM | WIN_POLLRDHUP;
	if (in & WIN_POLLRDHUP || events & (WIN_POLLOUT | WIN_POLLWRNORM)) {
		out = bee_stream_poll(h->out, events);
		if (bee_stream_unwatched(h->out))
			look_within(s, WATCH_MS);
	}
	if (out & WIN_POLLERR && in & WIN_POLLRDHUP)
		e = WIN_POLLHUP;
	out &= ~(u32)WIN_POLLERR;
	return ((in | out) & events) | e;
}

static u32 stream_events(struct win_handle *h, u32 events, struct sleep *s)
{
	u32 e = bee_stream_poll(h->stream, events);

	if (bee_stream_unwatched(h->stream))
		look_within(s, WATCH_MS);
	return h->out ? e | bee_stream_poll(h->out, events) : e;
}

static u32 counter_events(struct win_handle *h, u32 events, struct sleep *s)
{
	look_within(s, RING_MS);
	return bee_counter_poll(h->counter, events);
}

static u32 plain_events(struct win_handle *h, u32 events, struct sleep *s)
{
	u32 always = WIN_POLLIN | WIN_POLLOUT | WIN_POLLRDNORM | WIN_POLLWRNORM;

	if (!h)
		return WIN_POLLNVAL;
	if (h->pair)
		return pair_events(h, events, s);
	if (h->kind == WIN_STREAM)
		return stream_events(h, events, s);
	if (h->kind == WIN_COUNTER)
		return counter_events(h, events, s);
	return events & always;
}

/* Checks everything but sockets, which only get their entry in `fd`. */
static u32 look_plain(struct abi_poll *list, u32 count, struct sleep *s)
{
	u32 ready = 0, i;

	s->sockets = 0;
	s->connecting = 0;
	s->look = INFINITE;
	for (i = 0; i < count; i++) {
		struct win_handle *h = bee_handle_get(list[i].handle);

		list[i].revents = 0;
		if (h && h->kind == WIN_SOCK) {
			s->fd[s->sockets].fd = h->s;
			s->fd[s->sockets].events = events_out(list[i].events);
			s->fd[s->sockets++].revents = 0;
			s->connecting |= h->sock_connecting;
			continue;
		}
		list[i].revents = (u16)plain_events(h, list[i].events, s);
		ready += !!list[i].revents;
	}
	return ready;
}

/*
 * Copies the results of WSAPoll in `fd` to the list, and returns how many are
 * ready.
 */
static u32 collect_sockets(struct abi_poll *list, u32 count, struct sleep *s)
{
	u32 ready = 0, n = 0, i;

	for (i = 0; i < count; i++) {
		struct win_handle *h = bee_handle_get(list[i].handle);
		SHORT got;

		if (!h || h->kind != WIN_SOCK || n == s->sockets)
			continue;
		got = s->fd[n++].revents;
		if (h->sock_connecting && !got && connect_failed(h->s))
			got = POLLERR;
		list[i].revents = (u16)events_in(got, list[i].events);
		ready += !!list[i].revents;
	}
	return ready;
}

static u32 look_all(struct abi_poll *list, u32 count, struct sleep *s)
{
	u32 ready = look_plain(list, count, s);

	if (!s->sockets)
		return ready;
	if (WSAPoll(s->fd, s->sockets, 0) < 0)
		return ready;
	return ready + collect_sockets(list, count, s);
}

static void sleep_sockets(struct win_thread *t, struct sleep *s, u32 doorbell,
			  DWORD left)
{
	WSAPOLLFD *last = &s->fd[s->sockets];
	char drop[16];

	if (s->connecting && left > CONNECT_MS)
		left = CONNECT_MS;
	/* Without a loopback socket, poll repeatedly. */
	if (doorbell_socket(t)) {
		if (left > CONNECT_MS)
			left = CONNECT_MS;
		WaitOnAddress(&t->doorbell, &doorbell, sizeof(doorbell), left);
		return;
	}
	*last = (WSAPOLLFD){.fd = t->wake, .events = POLLRDNORM};
	__atomic_store_n(&t->wake_used, WIN_WAKE_SOCKET, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&t->doorbell, __ATOMIC_SEQ_CST) == doorbell)
		WSAPoll(s->fd, s->sockets + 1,
			left == INFINITE ? -1 : (INT)left);
	__atomic_store_n(&t->wake_used, WIN_WAKE_DOORBELL, __ATOMIC_SEQ_CST);
	while (recv(t->wake, drop, sizeof(drop), 0) > 0)
		;
}

static s64 wait_loop(struct win_thread *t, struct abi_poll *list, u32 count,
		     u64 deadline_ns, struct sleep *s)
{
	DWORD left;
	u32 doorbell, ready;

	for (;;) {
		doorbell = __atomic_load_n(&t->doorbell, __ATOMIC_SEQ_CST);
		if (__atomic_exchange_n(&t->kick, 0, __ATOMIC_SEQ_CST))
			return -LINUX_EINTR;
		ready = look_all(list, count, s);
		if (ready)
			return ready;
		left = bee_clock_left(deadline_ns);
		if (!left)
			return 0;
		if (left > s->look)
			left = s->look;
		if (s->sockets)
			sleep_sockets(t, s, doorbell, left);
		else
			WaitOnAddress(&t->doorbell, &doorbell, sizeof(doorbell),
				      left);
	}
}

s64 bee_io_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread)
{
	WSAPOLLFD few[SLOTS_ON_STACK + 1];
	struct win_thread *t = bee_thread_self();
	u64 bytes = (count + 1ull) * sizeof(WSAPOLLFD);
	struct sleep s = {.fd = few};
	s64 n;

	(void)thread;
	if (count > SLOTS_ON_STACK)
		s.fd = bee_os_alloc(bytes);
	if (!s.fd)
		return -LINUX_ENOMEM;
	__atomic_store_n(&t->asleep, 1, __ATOMIC_SEQ_CST);
	n = wait_loop(t, list, count, deadline_ns, &s);
	__atomic_store_n(&t->asleep, 0, __ATOMIC_SEQ_CST);
	if (s.fd != few)
		bee_os_free(s.fd, bytes);
	return n;
}
