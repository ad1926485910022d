/* SPDX-License-Identifier: MIT */
/*
 * Record locks on bytes of a file, beside programs that lock them otherwise.
 * usage: locker FILE COMMAND FIRST COUNT r|w
 *
 *   hold     lock, tell "locked", await "drop", unlock, tell "dropped", await
 *            "end"
 *   change   lock for reading, then as asked; then as hold
 *   split    lock, and unlock the byte in the middle; then as hold
 *   next     as split, but the rest in a program that it executes
 *   close    the same, but that program does not have the file
 *   keep     lock for reading, say what F_SETLK answers, tell "asking", await
 *            "end"
 *   ask      say what F_GETLK and F_SETLK answer
 *   take     tell "asking", wait for the lock, say so
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd;
static struct flock asked = {.l_whence = SEEK_SET};

static int lock_as(int type, int command)
{
	struct flock f = asked;

	f.l_type = (short)type;
	return fcntl(fd, command, &f) ? -errno : 0;
}

static void create_file(const char *name)
{
	close(open(name, O_WRONLY | O_CREAT, 0600));
}

static void await_file(const char *name)
{
	while (access(name, F_OK))
		usleep(1000);
}

static int offer_lock(void)
{
	create_file("locked");
	await_file("drop");
	if (lock_as(F_UNLCK, F_SETLK))
		return 2;
	create_file("dropped");
	await_file("end");
	return 0;
}

static int hold_lock(int split)
{
	struct flock middle = {.l_type = F_UNLCK, .l_len = 1};

	if (lock_as(asked.l_type, F_SETLK))
		return 1;
	middle.l_start = asked.l_start + asked.l_len / 2;
	if (split && fcntl(fd, F_SETLK, &middle))
		return 4;
	return split > 1 ? 0 : offer_lock();
}

static int execute_next(char **argv)
{
	int closes = !strcmp(argv[2], "close");

	if (hold_lock(2) || fcntl(fd, F_SETFD, closes ? FD_CLOEXEC : 0))
		return 5;
	argv[2] = "offer";
	execv(argv[0], argv);
	return 6;
}

static int keep_lock(void)
{
	if (lock_as(F_RDLCK, F_SETLK))
		return 1;
	printf("write lock %s\n",
	       lock_as(asked.l_type, F_SETLK) == -EAGAIN ? "taken" : "free");
	fflush(stdout);
	create_file("asking");
	await_file("end");
	return 0;
}

static void query_lock(void)
{
	struct flock f = asked;
	int set;

	if (fcntl(fd, F_GETLK, &f))
		f.l_type = -1;
	set = lock_as(asked.l_type, F_SETLK);
	printf("getlk %s, setlk %s\n", f.l_type == F_UNLCK ? "free" : "taken",
	       set == -EAGAIN || set == -EACCES ? "taken"
	       : set				? strerror(-set)
						: "free");
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	asked.l_start = strtoll(argv[3], NULL, 0);
	asked.l_len = strtoll(argv[4], NULL, 0);
	asked.l_type = *argv[5] == 'w' ? F_WRLCK : F_RDLCK;
	if (!strcmp(argv[2], "change") && lock_as(F_RDLCK, F_SETLK))
		return 3;
	if (!strcmp(argv[2], "keep"))
		return keep_lock();
	if (!strcmp(argv[2], "hold") || !strcmp(argv[2], "change"))
		return hold_lock(0);
	if (!strcmp(argv[2], "split"))
		return hold_lock(1);
	if (!strcmp(argv[2], "next") || !strcmp(argv[2], "close"))
		return execute_next(argv);
	if (!strcmp(argv[2], "offer"))
		return offer_lock();
	if (!strcmp(argv[2], "ask"))
		query_lock();
	if (!strcmp(argv[2], "take")) {
		create_file("asking");
		printf("take %d\n", lock_as(asked.l_type, F_SETLKW));
	}
	return 0;
}
