/* SPDX-License-Identifier: MIT */
/* Blocking calls met by a signal: EINTR, or started again with SA_RESTART. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include "say.h"

static pthread_t main_thread;
static volatile sig_atomic_t handled;
static int fds[2];

static void on_signal(int signo)
{
	handled += signo == SIGUSR1;
}

static void *interrupt_main(void *arg)
{
	usleep(40000);
	pthread_kill(main_thread, SIGUSR1);
	usleep(40000);
	if (arg && write(fds[1], "r", 1) != 1)
		return NULL;
	return arg;
}

static pthread_t start_interrupter(int flags, int write_later)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};
	pthread_t thread;

	sigaction(SIGUSR1, &sa, NULL);
	handled = 0;
	pthread_create(&thread, NULL, interrupt_main,
		       (void *)(intptr_t)write_later);
	return thread;
}

#define INTERRUPTED(flags, later, expression)                                  \
	do {                                                                   \
		pthread_t thread_ = start_interrupter(flags, later);           \
		CHECK(expression);                                             \
		CHECK(handled == 1);                                           \
		pthread_join(thread_, NULL);                                   \
	} while (0)

int main(void)
{
	struct timespec second = {1, 0}, left = {0, 0};
	struct pollfd p = {0, POLLIN, 0};
	int pair[2];
	char byte = 0;
	sem_t semaphore;

	main_thread = pthread_self();
	CHECK(pipe(fds) == 0);
	sem_init(&semaphore, 0, 0);
	p.fd = fds[0];
	INTERRUPTED(0, 0, FAILS(read(fds[0], &byte, 1), EINTR));
	INTERRUPTED(SA_RESTART, 1, read(fds[0], &byte, 1) == 1 && byte == 'r');
	INTERRUPTED(0, 0, FAILS(poll(&p, 1, 2000), EINTR));
	INTERRUPTED(SA_RESTART, 0, FAILS(poll(&p, 1, 2000), EINTR));
	INTERRUPTED(SA_RESTART, 0, FAILS(nanosleep(&second, &left), EINTR));
	CHECK(left.tv_sec == 0 && left.tv_nsec > 500000000);
	INTERRUPTED(0, 0, FAILS(sem_wait(&semaphore), EINTR));
	INTERRUPTED(0, 0, FAILS(pause(), EINTR));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	INTERRUPTED(0, 0, FAILS(recv(pair[0], &byte, 1, 0), EINTR));
	return say_done();
}
