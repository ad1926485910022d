/* SPDX-License-Identifier: MIT */
/* The library's threads in the program's process: they block all signals. */
#ifndef O2G_LIB_SPAWN_H
#define O2G_LIB_SPAWN_H

#include <pthread.h>
#include <signal.h>

static inline int o2g_spawn(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(thread, 0, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, 0);
	return -r;
}

#endif
