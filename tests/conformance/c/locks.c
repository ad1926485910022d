/* SPDX-License-Identifier: MIT */
/*
 * File locks of the three kinds, inside one process: an open-file lock shows
 * what record locks are held, as neither owner is the other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include "say.h"

static int probe; /* open all the time: closing it would drop record locks */

static int lock_range(int fd, int command, int type, off_t start, off_t len)
{
	struct flock f = {.l_type = (short)type,
			  .l_whence = SEEK_SET,
			  .l_start = start,
			  .l_len = len};

	return fcntl(fd, command, &f);
}

/* What the first twelve bytes hold: w, r or - for each. */
static const char *list_locks(void)
{
	static char text[13];
	struct flock f;
	int i;

	for (i = 0; i < 12; i++) {
		f = (struct flock){.l_type = F_WRLCK, .l_start = i, .l_len = 1};
		if (fcntl(probe, F_OFD_GETLK, &f))
			return "error";
		text[i] = f.l_type == F_UNLCK	? '-'
			  : f.l_type == F_RDLCK ? 'r'
						: 'w';
	}
	return text;
}

static void check_ranges(int fd)
{
	struct flock f = {.l_type = F_WRLCK, .l_start = 4, .l_len = 1};

	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 2, 8));
	CHECK(!strcmp(list_locks(), "--wwwwwwww--"));
	CHECK(!lock_range(fd, F_SETLK, F_UNLCK, 4, 2));
	CHECK(!strcmp(list_locks(), "--ww--wwww--"));
	CHECK(!lock_range(fd, F_SETLK, F_RDLCK, 3, 4));
	CHECK(!strcmp(list_locks(), "--wrrrrwww--"));
	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 0, 5));
	CHECK(!strcmp(list_locks(), "wwwwwrrwww--"));
	CHECK(!fcntl(probe, F_OFD_GETLK, &f) && f.l_type == F_WRLCK);
	CHECK(f.l_whence == SEEK_SET && f.l_start == 0 && f.l_len == 5);
	CHECK(f.l_pid == getpid());
	f = (struct flock){.l_type = F_WRLCK, .l_start = 0, .l_len = 0};
	CHECK(!fcntl(fd, F_GETLK, &f) && f.l_type == F_UNLCK);
	CHECK(!lock_range(fd, F_SETLKW, F_WRLCK, 8, 0));
	CHECK(!strcmp(list_locks(), "wwwwwrrwwwww"));
	CHECK(!lock_range(fd, F_SETLK, F_UNLCK, 0, 0));
	CHECK(!strcmp(list_locks(), "------------"));
}

static void check_whence(int fd)
{
	struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = 2};

	CHECK(ftruncate(fd, 9) == 0 && lseek(fd, 3, SEEK_SET) == 3);
	CHECK(!fcntl(fd, F_SETLK, &f) && !strcmp(list_locks(), "---ww-------"));
	f.l_start = -2;
	f.l_whence = SEEK_END;
	CHECK(!fcntl(fd, F_SETLK, &f) && !strcmp(list_locks(), "---ww--ww---"));
	f = (struct flock){.l_type = F_UNLCK, .l_start = 8, .l_len = -4};
	CHECK(!fcntl(fd, F_SETLK, &f) && !strcmp(list_locks(), "---w----w---"));
	CHECK(!lock_range(fd, F_SETLK, F_UNLCK, 0, 0));
}

static void check_errors(int fd)
{
	int reader = open("locked2", O_RDONLY | O_CREAT, 0600);
	struct flock f = {.l_type = F_WRLCK, .l_pid = 1};

	CHECK(FAILS(lock_range(fd, F_SETLK, 7, 0, 1), EINVAL));
	CHECK(FAILS(lock_range(fd, F_SETLK, F_WRLCK, -1, 1), EINVAL));
	CHECK(FAILS(lock_range(fd, F_SETLK, F_WRLCK, 2, -4), EINVAL));
	CHECK(FAILS(lock_range(fd, F_SETLK, F_WRLCK, 0x7fffffffffffffff, 2),
		    EOVERFLOW));
	CHECK(FAILS(lock_range(reader, F_SETLK, F_WRLCK, 0, 1), EBADF));
	CHECK(!lock_range(reader, F_SETLK, F_RDLCK, 0, 1));
	CHECK(FAILS(fcntl(fd, F_OFD_SETLK, &f), EINVAL));
	CHECK(FAILS(lock_range(99, F_SETLK, F_WRLCK, 0, 1), EBADF));
	CHECK(FAILS(flock(fd, 3), EINVAL) && FAILS(flock(99, 1), EBADF));
	f.l_whence = 9;
	CHECK(FAILS(fcntl(fd, F_SETLK, &f), EINVAL));
	close(reader);
}

/* Closing any number of the file drops all record locks on it. */
static void check_close(int fd)
{
	int copy = dup(fd), other;
	void *map;

	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 0, 3));
	CHECK(!close(copy) && !strcmp(list_locks(), "------------"));
	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 0, 3));
	other = open("locked", O_RDWR);
	CHECK(!strcmp(list_locks(), "www---------"));
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, other, 0);
	CHECK(map != MAP_FAILED);
	CHECK(!close(other) && !strcmp(list_locks(), "------------"));
	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 5, 3));
	CHECK(!munmap(map, 4096) && !strcmp(list_locks(), "-----www----"));
	other = open("locked", O_RDWR);
	CHECK(dup2(fd, other) == other &&
	      !strcmp(list_locks(), "------------"));
	close(other);
}

static void check_open_file(int fd)
{
	int other = open("locked", O_RDWR), copy;

	CHECK(!lock_range(fd, F_OFD_SETLK, F_WRLCK, 0, 4));
	CHECK(FAILS(lock_range(other, F_OFD_SETLK, F_RDLCK, 2, 4), EAGAIN));
	CHECK(FAILS(lock_range(fd, F_SETLK, F_RDLCK, 2, 4), EAGAIN));
	CHECK(!lock_range(other, F_OFD_SETLK, F_WRLCK, 4, 2));
	CHECK(!strcmp(list_locks(), "wwwwww------"));
	copy = dup(other);
	CHECK(!close(other) && !strcmp(list_locks(), "wwwwww------"));
	CHECK(!close(copy) && !strcmp(list_locks(), "wwww--------"));
	CHECK(!lock_range(fd, F_OFD_SETLK, F_UNLCK, 0, 0));
}

static void check_flock(int fd)
{
	int other = open("locked", O_RDONLY);

	CHECK(!flock(fd, LOCK_SH) && !flock(other, LOCK_SH | LOCK_NB));
	CHECK(FAILS(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK));
	CHECK(!flock(other, LOCK_UN) && !flock(fd, LOCK_EX | LOCK_NB));
	CHECK(FAILS(flock(other, LOCK_SH | LOCK_NB), EWOULDBLOCK));
	CHECK(!lock_range(fd, F_SETLK, F_WRLCK, 0, 0)); /* another family */
	CHECK(!flock(fd, LOCK_UN) && !flock(other, LOCK_EX | LOCK_NB));
	close(other);
	CHECK(!flock(fd, LOCK_EX | LOCK_NB) && !flock(fd, LOCK_UN));
	other = open("locked", O_PATH);
	CHECK(FAILS(flock(other, LOCK_SH), EBADF));
	close(other);
}

/* Waiting ------------------------------------------------------------------ */

struct waiter {
	pthread_t id;
	int fd, by_flock, by_record, rc, error, ready, done;
};

static volatile sig_atomic_t signals;

static void on_signal(int sig)
{
	signals += sig == SIGUSR1;
}

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->ready, 1, __ATOMIC_SEQ_CST);
	w->rc = w->by_flock ? flock(w->fd, LOCK_EX)
			    : lock_range(w->fd,
					 w->by_record ? F_SETLKW : F_OFD_SETLKW,
					 F_WRLCK, 0, 1);
	w->error = errno;
	__atomic_store_n(&w->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void start_waiter(struct waiter *w)
{
	w->ready = w->done = 0;
	pthread_create(&w->id, NULL, wait_for_it, w);
	while (!__atomic_load_n(&w->ready, __ATOMIC_SEQ_CST))
		usleep(1000);
}

static void check_waits(int fd, int by_flock)
{
	struct waiter w = {.fd = open("locked", O_RDWR), .by_flock = by_flock};
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGUSR1, &sa, NULL);
	CHECK(!(by_flock ? flock(fd, LOCK_EX)
			 : lock_range(fd, F_OFD_SETLK, F_WRLCK, 0, 1)));
	start_waiter(&w);
	while (!__atomic_load_n(&w.done, __ATOMIC_SEQ_CST)) {
		pthread_kill(w.id, SIGUSR1);
		usleep(1000);
	}
	pthread_join(w.id, NULL);
	CHECK(w.rc == -1 && w.error == EINTR && signals > 0);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	start_waiter(&w);
	pthread_kill(w.id, SIGUSR1);
	usleep(20000);
	CHECK(!__atomic_load_n(&w.done, __ATOMIC_SEQ_CST));
	CHECK(!(by_flock ? flock(fd, LOCK_UN)
			 : lock_range(fd, F_OFD_SETLK, F_UNLCK, 0, 0)));
	pthread_join(w.id, NULL);
	CHECK(w.rc == 0);
	if (!by_flock) /* the open file has it, not the process */
		CHECK(FAILS(lock_range(fd, F_SETLK, F_RDLCK, 0, 1), EAGAIN));
	close(w.fd);
}

/* A number of the file is closed while a thread waits for a record lock: the
 * number that it waits with, or another one. */
static void check_closed(int fd)
{
	struct waiter w = {.fd = open("locked", O_RDWR), .by_record = 1};
	int other;

	CHECK(!lock_range(fd, F_OFD_SETLK, F_WRLCK, 0, 1));
	start_waiter(&w);
	usleep(20000);
	CHECK(!close(w.fd));
	CHECK(!lock_range(fd, F_OFD_SETLK, F_UNLCK, 0, 1));
	pthread_join(w.id, NULL);
	CHECK(w.rc == -1 && w.error == EBADF);
	CHECK(!strcmp(list_locks(), "------------"));
	CHECK(!lock_range(fd, F_OFD_SETLK, F_WRLCK, 0, 1));
	w.fd = open("locked", O_RDWR);
	other = open("locked", O_RDWR);
	start_waiter(&w);
	usleep(20000);
	CHECK(!close(other));
	CHECK(!lock_range(fd, F_OFD_SETLK, F_UNLCK, 0, 1));
	pthread_join(w.id, NULL);
	CHECK(w.rc == 0 && !strcmp(list_locks(), "w-----------"));
	other = dup(w.fd);
	CHECK(!close(other) && !strcmp(list_locks(), "------------"));
	close(w.fd);
}

#define MANY 300

/* Each file that is open may have a lock. */
static void check_many(void)
{
	int fd[MANY], i, locked = 0;
	char name[16];

	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many%d", i);
		fd[i] = open(name, O_RDWR | O_CREAT, 0600);
		locked += !lock_range(fd[i], F_SETLK, F_WRLCK, 0, 1);
		unlink(name);
	}
	CHECK(locked == MANY);
	for (i = 0; i < MANY; i++)
		close(fd[i]);
}

int main(void)
{
	int fd = open("locked", O_RDWR | O_CREAT | O_TRUNC, 0600);

	probe = open("locked", O_RDWR);
	CHECK(fd >= 0 && probe >= 0);
	check_ranges(fd);
	check_whence(fd);
	check_errors(fd);
	check_close(fd);
	check_open_file(fd);
	check_flock(fd);
	check_waits(fd, 0);
	check_waits(fd, 1);
	check_closed(fd);
	check_many();
	unlink("locked");
	unlink("locked2");
	return say_done();
}
