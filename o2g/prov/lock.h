/* SPDX-License-Identifier: MIT */
/*
 * The provider's locks. A program that asked for FI_THREAD_DOMAIN never calls
 * into one domain from two threads at a time, and the locks are skipped:
 * locking costs more than some of the guarded work.
 */
#ifndef O2G_PROV_LOCK_H
#define O2G_PROV_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct lock {
	pthread_mutex_t mutex;
	bool idle; /* one thread at a time by itself */
};

static inline void prov_lock_init(struct lock *lock, bool idle)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->idle = idle;
}

static inline void prov_lock_destroy(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void prov_lock(struct lock *lock)
{
	if (!lock->idle)
		pthread_mutex_lock(&lock->mutex);
}

static inline bool prov_trylock(struct lock *lock)
{
	return lock->idle || !pthread_mutex_trylock(&lock->mutex);
}

static inline void prov_unlock(struct lock *lock)
{
	if (!lock->idle)
		pthread_mutex_unlock(&lock->mutex);
}

/* Asserts that the lock is held, in sanitizer builds. */
static inline void prov_assert_locked(struct lock *lock)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (!lock->idle && !pthread_mutex_trylock(&lock->mutex))
		abort();
#else
	(void)lock;
#endif
}

#endif
