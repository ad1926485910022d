/* SPDX-License-Identifier: MIT */
/* timerfd: one shot, periodic, absolute, disarmed. */
#include <poll.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	struct itimerspec set = {{0, 0}, {1000, 0}}, old;
	long long start;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct pollfd p = {fd, POLLIN, 0};
	uint64_t count;

	CHECK(fd >= 0 && timerfd_settime(fd, 0, &set, NULL) == 0);
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(timerfd_gettime(fd, &old) == 0);
	CHECK(old.it_value.tv_sec > 0 && old.it_value.tv_sec <= 1000);
	set.it_value.tv_sec = 0;
	set.it_value.tv_nsec = 30000000;
	start = say_now_ns();
	CHECK(timerfd_settime(fd, 0, &set, NULL) == 0);
	CHECK(read(fd, &count, 8) == 8 && count == 1);
	CHECK(say_now_ns() - start >= 30000000);
	set.it_interval.tv_nsec = 10000000;
	set.it_value.tv_nsec = 10000000;
	CHECK(timerfd_settime(fd, 0, &set, NULL) == 0);
	usleep(55000);
	CHECK(read(fd, &count, 8) == 8 && count >= 5);
	CHECK(poll(&p, 1, 1000) == 1 && p.revents == POLLIN);
	memset(&set, 0, sizeof(set));
	CHECK(timerfd_settime(fd, 0, &set, &old) == 0);
	CHECK(old.it_interval.tv_nsec == 10000000);
	CHECK(poll(&p, 1, 30) == 0);
	clock_gettime(CLOCK_MONOTONIC, &set.it_value);
	CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &set, NULL) == 0);
	CHECK(read(fd, &count, 8) == 8 && count == 1);
	CHECK(close(fd) == 0);
	fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	CHECK(FAILS(read(fd, &count, 8), EAGAIN));
	CHECK(FAILS(timerfd_create(77, 0), EINVAL));
	return say_done();
}
