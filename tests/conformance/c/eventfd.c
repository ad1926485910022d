/* SPDX-License-Identifier: MIT */
/* eventfd counters and semaphores. */
#include <pthread.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "say.h"

static int ping, pong;

static void *run_answer(void *arg)
{
	uint64_t value, sum = 0;
	int i;

	(void)arg;
	for (i = 0; i < 500; i++) {
		if (read(ping, &value, 8) != 8)
			break;
		sum += value;
		if (write(pong, &value, 8) != 8)
			break;
	}
	return (void *)(uintptr_t)sum;
}

int main(void)
{
	uint64_t value = 5, sum = 0;
	pthread_t thread;
	struct pollfd p;
	void *result;
	int i, fd = eventfd(3, EFD_NONBLOCK);

	CHECK(fd >= 0 && write(fd, &value, 8) == 8);
	CHECK(read(fd, &value, 8) == 8 && value == 8);
	CHECK(FAILS(read(fd, &value, 8), EAGAIN));
	CHECK(FAILS(read(fd, &value, 4), EINVAL));
	value = ~0ull;
	CHECK(FAILS(write(fd, &value, 8), EINVAL));
	value = ~0ull - 1;
	CHECK(write(fd, &value, 8) == 8);
	value = 1;
	CHECK(FAILS(write(fd, &value, 8), EAGAIN));
	p = (struct pollfd){fd, POLLIN | POLLOUT, 0};
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
	close(fd);
	fd = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(read(fd, &value, 8) == 8 && value == 1);
	CHECK(read(fd, &value, 8) == 8 && value == 1);
	CHECK(FAILS(read(fd, &value, 8), EAGAIN));
	close(fd);
	ping = eventfd(0, 0);
	pong = eventfd(0, 0);
	pthread_create(&thread, NULL, run_answer, NULL);
	for (i = 1; i <= 500; i++) {
		value = i;
		if (write(ping, &value, 8) != 8 || read(pong, &value, 8) != 8)
			break;
		sum += value;
	}
	pthread_join(thread, &result);
	CHECK(sum == 125250 && (uintptr_t)result == sum);
	return say_done();
}
