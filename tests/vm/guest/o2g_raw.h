/* SPDX-License-Identifier: MIT */
/*
 * The kernel engine without a library: the device, its rings, and TCP
 * connections that were never opened by a secret. For programs that test the
 * module itself; they link o2g/core/ring.c for the program's side of the rings.
 */
#ifndef TESTS_VM_O2G_RAW_H
#define TESTS_VM_O2G_RAW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <o2g/core/ring.h>
#include <skep/o2g_device.h>
#include "o2g_timeout.h"
#include "tests/tap.h"

#define RAW_TIMEOUT_S scaled_timeout(60) /* seconds for what must come */
#define RAW_CREDIT (1u << 20)

struct raw {
	int fd;
	struct o2g_area *area;
	uint64_t size;
};

__attribute__((unused)) static void raw_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

__attribute__((unused)) static double raw_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Until a thread of ours sleeps in the kernel; for root, who is shown where. */
__attribute__((unused)) static void raw_asleep(pid_t thread)
{
	char path[64], text[256];
	double end = raw_now() + RAW_TIMEOUT_S;

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", thread);
	for (; raw_now() < end; usleep(1000)) {
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		if (n > 1)
			return;
	}
	raw_die("the thread does not sleep");
}

__attribute__((unused)) static struct o2g_device_open raw_options(void)
{
	return (struct o2g_device_open){.revision = O2G_DEVICE_REVISION,
					.sq_entries = 256,
					.cq_entries = 256,
					.postings = 1024,
					.peers = 64,
					.slab_message = 8192,
					.unexpected = 4 << 20};
}

/* 0 or -errno. */
__attribute__((unused)) static int raw_ioctl(int fd, unsigned long request,
					     void *argument)
{
	return ioctl(fd, request, argument) < 0 ? -errno : 0;
}

__attribute__((unused)) static int raw_map(struct raw *raw)
{
	void *area = mmap(0, raw->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			  raw->fd, 0);

	if (area == MAP_FAILED)
		return -errno;
	raw->area = area;
	return 0;
}

/* An endpoint with peers 1 and 2, itself being peer 0. */
__attribute__((unused)) static struct raw
raw_open_with(struct o2g_device_open options)
{
	struct raw raw = {
		.fd = open("/dev/" O2G_DEVICE_NAME, O_RDWR | O_CLOEXEC)};

	if (raw.fd < 0)
		raw_die("/dev/" O2G_DEVICE_NAME);
	if (ioctl(raw.fd, O2G_IOC_OPEN, &options))
		raw_die("O2G_IOC_OPEN");
	raw.size = options.area_size;
	if (raw_map(&raw))
		raw_die("mmap");
	for (uint32_t p = 0; p < 3; p++) {
		struct o2g_device_peer peer = {.peer = p, .value = p == 0};

		if (ioctl(raw.fd, O2G_IOC_PEER, &peer))
			raw_die("O2G_IOC_PEER");
	}
	return raw;
}

__attribute__((unused)) static struct raw raw_open(void)
{
	return raw_open_with(raw_options());
}

/* The end, with a farewell. */
__attribute__((unused)) static void raw_close(struct raw *raw)
{
	uint32_t ms = RAW_TIMEOUT_S * 1000;

	if (ioctl(raw->fd, O2G_IOC_FINISH, &ms) && errno != ESHUTDOWN)
		raw_die("O2G_IOC_FINISH");
	if (ioctl(raw->fd, O2G_IOC_CLOSE, 0))
		raw_die("O2G_IOC_CLOSE");
	munmap(raw->area, raw->size);
	close(raw->fd);
}

/* Two ends of one connection through loopback: AF_INET, AF_INET6, or IPv6
 * sockets that speak IPv4. */
#define RAW_MAPPED 1000

__attribute__((unused)) static void raw_pair_of(int family, int end[2])
{
	struct sockaddr_in6 at6 = {.sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in at4 = {.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *at = family == AF_INET ? (void *)&at4 : (void *)&at6;
	socklen_t length = family == AF_INET ? sizeof(at4) : sizeof(at6);
	const int kind = family == AF_INET ? AF_INET : AF_INET6;
	int listener = socket(kind, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (family == RAW_MAPPED)
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &at6.sin6_addr);
	end[0] = socket(kind, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, at, length) || listen(listener, 1) ||
	    getsockname(listener, at, &length) || connect(end[0], at, length))
		raw_die("a connection");
	end[1] = accept4(listener, 0, 0, SOCK_CLOEXEC);
	if (end[1] < 0)
		raw_die("accept");
	close(listener);
	for (int i = 0; i < 2; i++)
		setsockopt(end[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

__attribute__((unused)) static void raw_pair(int end[2])
{
	raw_pair_of(AF_INET, end);
}

/* Sockets are attached with these keys; NULL: they are not encrypted. */
static const uint8_t *raw_key_out, *raw_key_in;

/* Gives a socket to the engine; its descriptor stays open. 0 or -errno. */
__attribute__((unused)) static int raw_attach(struct raw *raw, int socket,
					      uint32_t peer)
{
	struct o2g_device_attach attach = {.socket = socket,
					   .peer = peer,
					   .credit_out = RAW_CREDIT,
					   .credit_in = RAW_CREDIT,
					   .encrypted = raw_key_out != NULL};
	int r;

	if (raw_key_out) {
		memcpy(attach.key_out, raw_key_out, O2G_KEY_SIZE);
		memcpy(attach.key_in, raw_key_in, O2G_KEY_SIZE);
	}
	if (setsockopt(socket, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
		       sizeof(O2G_DEVICE_NAME)))
		return -errno;
	r = raw_ioctl(raw->fd, O2G_IOC_ATTACH, &attach);
	if (!r && (attach.key_out[0] || attach.key_in[0]))
		raw_die("the module gives keys back");
	return r;
}

__attribute__((unused)) static void raw_give(struct raw *raw, int socket,
					     uint32_t peer)
{
	int r = raw_attach(raw, socket, peer);

	if (r) {
		errno = -r;
		raw_die("O2G_IOC_ATTACH");
	}
	close(socket);
}

/* Two endpoints that are connected; each is peer 1 of the other. */
__attribute__((unused)) static void raw_join(struct raw *a, struct raw *b)
{
	int end[2];

	raw_pair(end);
	raw_give(a, end[0], 1);
	raw_give(b, end[1], 1);
}

__attribute__((unused)) static int raw_submit(struct raw *raw,
					      struct o2g_sqe sqe)
{
	bool now = sqe.op != O2G_OP_RECV && sqe.op != O2G_OP_RELEASE;

	if (!o2g_ring_submit(raw->area, &sqe))
		return -EAGAIN;
	return o2g_ring_kicks(raw->area) || now
		       ? raw_ioctl(raw->fd, O2G_IOC_KICK, 0)
		       : 0;
}

__attribute__((unused)) static struct o2g_sqe
raw_entry(uint8_t op, uint32_t peer, uint64_t tag, void *buffer,
	  uint64_t length)
{
	return (struct o2g_sqe){.op = op,
				.peer = peer,
				.tag = tag,
				.addr = (uintptr_t)buffer,
				.length = length,
				.cookie = tag,
				.context = 1};
}

/* Does it, and fails the program when that is refused. */
__attribute__((unused)) static void raw_do(struct raw *raw, uint8_t op,
					   uint32_t peer, uint64_t tag,
					   void *buffer, uint64_t length)
{
	int r = raw_submit(raw, raw_entry(op, peer, tag, buffer, length));

	if (r) {
		errno = -r;
		raw_die("a submission");
	}
}

/* The next completion, sleeping for it; false: none came in so many seconds. */
__attribute__((unused)) static bool
raw_take(struct raw *raw, struct o2g_cqe *cqe, double seconds)
{
	double end = raw_now() + seconds;
	uint64_t us = 100000;

	while (!o2g_ring_take(raw->area, cqe)) {
		if (raw_now() >= end)
			return false;
		if (o2g_ring_sleeps(raw->area))
			raw_ioctl(raw->fd, O2G_IOC_SLEEP, &us);
		o2g_ring_awake(raw->area);
	}
	if (o2g_ring_roomy(raw->area))
		raw_ioctl(raw->fd, O2G_IOC_KICK, 0);
	return true;
}

/* The next completion; what came into the slab is copied to `buffer` and given
 * back. */
__attribute__((unused)) static struct o2g_cqe raw_event(struct raw *raw,
							void *buffer)
{
	struct o2g_cqe cqe;

	if (!raw_take(raw, &cqe, RAW_TIMEOUT_S)) {
		errno = ETIMEDOUT;
		raw_die("no completion");
	}
	if (cqe.flags & O2G_CQE_SLAB) {
		struct o2g_sqe release = {.op = O2G_OP_RELEASE,
					  .data = cqe.where};

		memcpy(buffer, (uint8_t *)raw->area + cqe.where, cqe.length);
		if (raw_submit(raw, release))
			raw_die("O2G_OP_RELEASE");
	}
	return cqe;
}

__attribute__((unused)) static void raw_fill(uint8_t *buffer, size_t length,
					     unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		buffer[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

__attribute__((unused)) static bool raw_check(const uint8_t *buffer,
					      size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (buffer[i] != (uint8_t)(i * 31 + (i >> 8) * 7 + seed))
			return false;
	return true;
}

__attribute__((unused)) static struct o2g_device_counts
raw_counts(struct raw *raw)
{
	struct o2g_device_counts counts = {.size = sizeof(counts)};

	if (ioctl(raw->fd, O2G_IOC_COUNTS, &counts))
		raw_die("O2G_IOC_COUNTS");
	return counts;
}

#endif
