/* SPDX-License-Identifier: MIT */
/* sysvipc(7): memory, semaphores and messages, within and between processes. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define PAGE 4096

static void *at_offset(char *base, long offset)
{
	return base + offset;
}

static int child_exits(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Two attachments of one segment, one of them only to be read. */
static void check_attach(int id)
{
	struct shmid_ds seg;
	char *one = shmat(id, NULL, 0), *two = shmat(id, NULL, SHM_RDONLY);

	CHECK(one != (void *)-1 && two != (void *)-1 && one != two);
	CHECK(one[0] == 0 && one[3 * PAGE - 1] == 0);
	strcpy(one, "here");
	CHECK(!strcmp(two, "here"));
	CHECK(FAILS(mprotect(two, PAGE, PROT_READ | PROT_WRITE), EACCES));
	CHECK(shmctl(id, IPC_STAT, &seg) == 0 && seg.shm_nattch == 2 &&
	      seg.shm_segsz == 3 * PAGE - 5 && seg.shm_cpid == getpid() &&
	      seg.shm_lpid == getpid() && seg.shm_perm.mode == 0600);
	CHECK(FAILS(shmdt(at_offset(two, PAGE)), EINVAL));
	CHECK(shmdt(two) == 0 && FAILS(shmdt(two), EINVAL));
	CHECK(munmap(at_offset(one, PAGE), PAGE) == 0);
	CHECK(shmctl(id, IPC_STAT, &seg) == 0 && !strcmp(one, "here"));
	CHECK(shmdt(one) == 0 && FAILS(shmdt(one), EINVAL));
	CHECK(shmctl(id, IPC_STAT, &seg) == 0 && seg.shm_nattch == 0);
}

/* At an address that the program chose. */
static void check_address(int id)
{
	char *room = mmap(NULL, 8 * PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at;

	CHECK(room != MAP_FAILED);
	CHECK(FAILS((long)shmat(id, room + PAGE, 0), EINVAL));
	CHECK(FAILS((long)shmat(id, room + 7, SHM_REMAP), EINVAL));
	CHECK(FAILS((long)shmat(id, NULL, SHM_REMAP), EINVAL));
	at = shmat(id, room + PAGE + 7, SHM_REMAP | SHM_RND);
	CHECK(at == room + PAGE && !strcmp(at, "here"));
	CHECK(madvise(at, PAGE, MADV_DONTNEED) == 0 && !strcmp(at, "here"));
	CHECK(shmdt(at) == 0 && munmap(room, 8 * PAGE) == 0);
	at = shmat(id, room + PAGE, 0);
	CHECK(at == room + PAGE && !strcmp(at, "here") && shmdt(at) == 0);
}

/* What a child stores, its parent has. */
static void check_memory(void)
{
	key_t key = (key_t)(getpid() & 0x7fffffff);
	int id = shmget(key, 3 * PAGE - 5, IPC_CREAT | IPC_EXCL | 0600);
	struct shmid_ds seg;
	char *at;
	pid_t child;

	if (!CHECK(id >= 0))
		return;
	CHECK(shmget(key, PAGE, 0) == id);
	CHECK(FAILS(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600), EEXIST));
	CHECK(FAILS(shmget(key, 100 * PAGE, 0), EINVAL));
	check_attach(id);
	check_address(id);
	at = shmat(id, NULL, 0);
	child = fork();
	if (child == 0) {
		strcpy(at, "there");
		_exit(shmctl(id, IPC_STAT, &seg) == 0 && seg.shm_nattch == 2
			      ? 5
			      : 6);
	}
	CHECK(child_exits(child) == 5 && !strcmp(at, "there"));
	CHECK(shmctl(id, IPC_RMID, NULL) == 0 && !strcmp(at, "there"));
	CHECK(shmdt(at) == 0 && FAILS((long)shmat(id, NULL, 0), EINVAL));
	CHECK(FAILS((long)shmat(-1, NULL, 0), EINVAL));
	CHECK(FAILS(shmctl(id, IPC_STAT, &seg), EINVAL));
}

static int set_value(int id, int index, int value)
{
	return semctl(id, index, SETVAL, value);
}

static int add_value(int id, short index, short add, short flags)
{
	struct sembuf op = {(unsigned short)index, add, flags};

	return semop(id, &op, 1);
}

static void on_alarm(int signo)
{
	(void)signo;
}

/* A handler ends a wait, and so does time. */
static void check_sem_waits(int id)
{
	struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct sembuf op = {1, -1, 0};
	struct timespec soon = {0, 20000000};
	long long before = say_now_ns();

	CHECK(FAILS(add_value(id, 1, -1, IPC_NOWAIT), EAGAIN));
	CHECK(FAILS(semtimedop(id, &op, 1, &soon), EAGAIN));
	CHECK(say_now_ns() - before >= 20000000);
	CHECK(sigaction(SIGALRM, &act, NULL) == 0);
	ualarm(20000, 0);
	CHECK(FAILS(add_value(id, 1, -1, 0), EINTR));
}

static void check_semaphores(void)
{
	int id = semget(IPC_PRIVATE, 3, 0600), i;
	unsigned short values[3] = {4, 0, 9};
	struct semid_ds set;
	pid_t child;

	if (!CHECK(id >= 0))
		return;
	CHECK(semctl(id, 0, SETALL, values) == 0);
	memset(values, 0, sizeof(values));
	CHECK(semctl(id, 0, GETALL, values) == 0 && values[0] == 4 &&
	      values[1] == 0 && values[2] == 9);
	CHECK(FAILS(semctl(id, 0, GETALL, NULL), EFAULT));
	CHECK(semctl(id, 0, IPC_STAT, &set) == 0 && set.sem_nsems == 3);
	CHECK(set_value(id, 2, 1) == 0 && semctl(id, 2, GETVAL) == 1 &&
	      semctl(id, 2, GETPID) == getpid());
	check_sem_waits(id);
	/* A child that dies gives back what it took with SEM_UNDO. */
	child = fork();
	if (child == 0)
		_exit(add_value(id, 0, -3, SEM_UNDO) == 0 &&
				      semctl(id, 0, GETVAL) == 1
			      ? 5
			      : 6);
	CHECK(child_exits(child) == 5 && semctl(id, 0, GETVAL) == 4);
	/* Turns between two processes. */
	CHECK(set_value(id, 0, 0) == 0 && set_value(id, 1, 0) == 0);
	child = fork();
	if (child == 0) {
		for (i = 0; i < 100; i++)
			if (add_value(id, 0, -1, 0) || add_value(id, 1, 1, 0))
				_exit(6);
		_exit(5);
	}
	for (i = 0; i < 100; i++)
		if (add_value(id, 0, 1, 0) || add_value(id, 1, -1, 0))
			break;
	CHECK(i == 100 && child_exits(child) == 5);
	CHECK(semctl(id, 0, IPC_RMID) == 0 &&
	      FAILS(add_value(id, 0, 1, 0), EINVAL));
}

struct message {
	long type;
	char text[32];
};

static void *send_late(void *arg)
{
	struct message m = {7, "late"};

	poll(NULL, 0, 30);
	if (msgsnd(*(int *)arg, &m, 5, 0))
		say_bad = 1;
	return NULL;
}

static void check_messages(void)
{
	int id = msgget(IPC_PRIVATE, 0600);
	struct message m = {3, "three"}, got;
	struct msqid_ds queue;
	pthread_t thread;
	pid_t child;

	if (!CHECK(id >= 0))
		return;
	CHECK(msgsnd(id, &m, 6, 0) == 0);
	m = (struct message){2, "two"};
	CHECK(msgsnd(id, &m, 4, 0) == 0);
	CHECK(msgctl(id, IPC_STAT, &queue) == 0 && queue.msg_qnum == 2 &&
	      queue.msg_lspid == getpid() && queue.msg_lrpid == 0);
	CHECK(FAILS(msgrcv(id, &got, 2, 0, 0), E2BIG));
	CHECK(msgrcv(id, &got, 32, -2, 0) == 4 && got.type == 2 &&
	      !strcmp(got.text, "two"));
	CHECK(msgrcv(id, &got, 2, 0, MSG_NOERROR) == 2 && got.type == 3);
	CHECK(FAILS(msgrcv(id, &got, 32, 0, IPC_NOWAIT), ENOMSG));
	m.type = 0;
	CHECK(FAILS(msgsnd(id, &m, 4, 0), EINVAL));
	pthread_create(&thread, NULL, send_late, &id);
	CHECK(msgrcv(id, &got, 32, 7, 0) == 5 && !strcmp(got.text, "late"));
	pthread_join(thread, NULL);
	child = fork();
	if (child == 0) {
		m = (struct message){1, "child"};
		_exit(msgsnd(id, &m, 6, 0) == 0 ? 5 : 6);
	}
	CHECK(msgrcv(id, &got, 32, 0, 0) == 6 && !strcmp(got.text, "child"));
	CHECK(child_exits(child) == 5);
	CHECK(msgctl(id, IPC_RMID, NULL) == 0);
	CHECK(FAILS(msgrcv(id, &got, 32, 0, 0), EINVAL));
}

int main(void)
{
	check_memory();
	check_semaphores();
	check_messages();
	return say_done();
}
