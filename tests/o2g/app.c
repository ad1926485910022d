/* SPDX-License-Identifier: MIT */
/*
 * An MPI program that does one thing per run, for tests that look at the job
 * from outside. Each rank says "rank R pid P" first.
 *
 *   app quiet             nothing
 *   app sum               one sum over all ranks
 *   app exit STATUS       rank 0 exits with it
 *   app leave             exit() without MPI_Finalize()
 *   app stdin             rank 0 says what it read, to a line "end" at most
 *   app traffic           messages round the ring, until it is ended
 *   app until FILE        the same, until that file is there
 *   app stubborn          the same, deaf to SIGINT and SIGTERM
 *   app die               the same; the last rank kills itself amid it
 *   app processes         fork, system, popen and exec amid traffic
 *   app posted BYTES      rank 1 sends it to a receive that waits
 *   app rally             ranks 0 and 1 alone, back and forth, without naps
 *   app window BYTES      rank 0 puts 8 times as many into the windows of the
 *                         others and gets them back
 *   app file PATH         all ranks write a file together, and read it back
 *   app spawn             starts two more, which send numbers to the first
 *   app talk              N x N messages of 0 to 64 KiB
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, ranks;
static char inbox[65536], outbox[65536];

static int pass_number(int number)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	int in = -1;

	MPI_Sendrecv(&number, 1, MPI_INT, next, 1, &in, 1, MPI_INT, last, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (in == number)
		return 0;
	printf("rank %d: %d came instead of %d\n", rank, in, number);
	return 1;
}

/* Rank 0 ends it for all, once that file is there. */
static int run_traffic(const char *file, int dies)
{
	int bad = 0, on = 1;

	for (int i = 0; on; i++) {
		bad |= pass_number(i);
		if (i == 100) {
			printf("rank %d is talking\n", rank);
			fflush(stdout);
		}
		if (i == 1000 && dies && rank == ranks - 1)
			kill(getpid(), SIGKILL);
		if (file && i % 100 == 0) {
			on = access(file, F_OK) != 0;
			MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
		}
	}
	return bad;
}

static int run_stubborn(void)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	return run_traffic(0, 0);
}

static int read_input(void)
{
	char line[100] = "";
	int lines = 0;

	while (rank == 0 && strcmp(line, "end\n") != 0 &&
	       fgets(line, sizeof(line), stdin))
		lines++;
	if (rank == 0)
		printf("rank 0 read %d lines, the last: %s", lines, line);
	return pass_number(1);
}

static int fork_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(7);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return !WIFEXITED(status) || WEXITSTATUS(status) != 7;
}

static int exec_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 9", (char *)0);
		_exit(1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return !WIFEXITED(status) || WEXITSTATUS(status) != 9;
}

static int popen_child(void)
{
	char line[100] = "";
	FILE *pipe = popen("echo piped", "r");

	if (!pipe)
		return 1;
	if (!fgets(line, sizeof(line), pipe))
		line[0] = 0;
	return pclose(pipe) != 0 || strcmp(line, "piped\n") != 0;
}

static int start_processes(void)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} way[] = {{"fork", fork_child},
		   {"exec", exec_child},
		   {"popen", popen_child}};
	int bad = 0, round = 0;

	for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
		MPI_Request request;
		int in = -1, failed;

		/* A receive waits while the process is doubled. */
		MPI_Irecv(&in, 1, MPI_INT, (rank + ranks - 1) % ranks, 2,
			  MPI_COMM_WORLD, &request);
		failed = way[i].run();
		MPI_Send(&round, 1, MPI_INT, (rank + 1) % ranks, 2,
			 MPI_COMM_WORLD);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		if (failed || in != round++)
			printf("rank %d: %s went wrong\n", rank, way[i].name);
		bad |= failed || pass_number(round);
	}
	if (system("exit 3") >> 8 != 3) {
		printf("rank %d: system went wrong\n", rank);
		bad = 1;
	}
	return bad | pass_number(99);
}

static int run_posted(int bytes)
{
	char *buffer = malloc((size_t)bytes);
	MPI_Request request;
	double start;
	int zero;

	memset(buffer, rank == 1 ? 'x' : 0, (size_t)bytes);
	pass_number(1);
	if (rank == 0) {
		MPI_Irecv(buffer, bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD,
			  &request);
		/* Rank 1 learns that it waits. */
		MPI_Send(&rank, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
		start = MPI_Wtime();
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		printf("# %d bytes came %.0f ms after they were asked for\n",
		       bytes, (MPI_Wtime() - start) * 1000);
		if (buffer[0] != 'x' || buffer[bytes - 1] != 'x')
			return 1;
	} else if (rank == 1) {
		MPI_Recv(&zero, 1, MPI_INT, 0, 4, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		MPI_Send(buffer, bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	}
	free(buffer);
	return 0;
}

static int talk_to_all(void)
{
	int bad = 0;

	for (int size = 0; size <= (int)sizeof(inbox); size = size * 4 + 1)
		for (int peer = 0; peer < ranks; peer++) {
			MPI_Status status;
			int count;

			MPI_Sendrecv(outbox, size, MPI_BYTE,
				     (rank + peer) % ranks, size, inbox, size,
				     MPI_BYTE, (rank + ranks - peer) % ranks,
				     size, MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			bad |= count != size;
		}
	return bad;
}

/* Ranks 0 and 1 play over whatever lies between them, while rank 0 expects a
 * message besides. Sleeps on the way, which only a network's naps would be. */
static int run_rally(void)
{
	enum { ROUNDS = 3000 };
	struct rusage before, after;
	MPI_Request expected;
	char ball = 0, late = 0;
	long sleeps;

	if (rank > 1)
		return 0;
	MPI_Irecv(&late, 1, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD,
		  &expected);
	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < ROUNDS; i++) {
		if (rank == i % 2)
			MPI_Send(&ball, 1, MPI_BYTE, 1 - rank, 1,
				 MPI_COMM_WORLD);
		else
			MPI_Recv(&ball, 1, MPI_BYTE, 1 - rank, 1,
				 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	getrusage(RUSAGE_THREAD, &after);
	sleeps = after.ru_nvcsw - before.ru_nvcsw;
	MPI_Send(&ball, 1, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD);
	MPI_Wait(&expected, MPI_STATUS_IGNORE);
	printf("rank %d slept %ld times in %d rounds\n", rank, sleeps, ROUNDS);
	return sleeps > ROUNDS / 10;
}

/* Puts and gets in flight together, one window's length apart. */
static int access_window(char *own, MPI_Win win, int bytes, int target)
{
	enum { FLIGHT = 8 };
	int bad = 0;

	for (int round = 0; round < 10; round++) {
		memset(own, round + 1, (size_t)bytes * FLIGHT);
		for (int i = 0; i < FLIGHT; i++)
			MPI_Put(own + (long)i * bytes, bytes, MPI_BYTE, target,
				(long)i * bytes, bytes, MPI_BYTE, win);
		MPI_Win_flush(target, win);
		memset(own, 0, (size_t)bytes * FLIGHT);
		for (int i = 0; i < FLIGHT; i++)
			MPI_Get(own + (long)i * bytes, bytes, MPI_BYTE, target,
				(long)i * bytes, bytes, MPI_BYTE, win);
		MPI_Win_flush(target, win);
		for (long i = 0; i < (long)bytes * FLIGHT; i++)
			bad |= own[i] != round + 1;
	}
	return bad;
}

static int check_window(int bytes)
{
	char *base, *own = malloc((size_t)bytes * 8), done = 0;
	MPI_Request request;
	MPI_Win win;
	int bad = 0;

	MPI_Win_allocate((long)bytes * 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
			 &base, &win);
	memset(base, 0, (size_t)bytes * 8);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int target = 1; target < ranks && rank == 0; target++)
		bad |= access_window(own, win, bytes, target);
	if (rank == 0)
		printf("put and got%s\n", bad ? ", and not the same" : "");
	MPI_Win_unlock_all(win);
	MPI_Irecv(&done, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &request);
	for (int i = 0; i < ranks && rank == 0; i++)
		MPI_Send(&done, 1, MPI_BYTE, i, 9, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (long i = 0; i < (long)bytes * 8 && rank; i++)
		bad |= base[i] != 10;
	MPI_Win_free(&win);
	free(own);
	return bad;
}

/* All ranks add to one number of rank 0 and take tickets from another, in a
 * window of which they promise what an MPI needs to leave this to the network;
 * rank 0 only sleeps in a barrier. */
static int share_numbers(void)
{
	enum { TICKETS = 200 };
	long *base, mine = rank + 1, one = 1, ticket, last = -1, sum = 0;
	MPI_Info info;
	MPI_Win win;
	int bad = 0;

	MPI_Info_create(&info);
	MPI_Info_set(info, "accumulate_ops", "same_op");
	MPI_Info_set(info, "which_accumulate_ops", "sum");
	MPI_Info_set(info, "disable_shm_accumulate", "true");
	MPI_Win_allocate(2 * sizeof(long), sizeof(long), info, MPI_COMM_WORLD,
			 &base, &win);
	base[0] = base[1] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TICKETS && rank; i++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, win);
		MPI_Accumulate(&mine, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM,
			       win);
		MPI_Win_flush(0, win);
		bad |= ticket <= last;
		last = ticket;
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 1; i < ranks; i++)
		sum += TICKETS * (i + 1L);
	if (rank == 0) {
		bad |= base[0] != TICKETS * (ranks - 1L) || base[1] != sum;
		printf("tickets and sums%s\n", bad ? ", and not all" : "");
	}
	MPI_Win_free(&win);
	MPI_Info_free(&info);
	return bad;
}

static int share_file(const char *path)
{
	const int mode =
		MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
	const MPI_Offset size = sizeof(outbox);
	const int other = (rank + 1) % ranks;
	MPI_File file;
	int bad = 0;

	if (MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file))
		return 1;
	memset(outbox, 'a' + rank, sizeof(outbox));
	MPI_File_write_at_all(file, rank * size, outbox, (int)size, MPI_BYTE,
			      MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
	MPI_File_read_at_all(file, other * size, inbox, (int)size, MPI_BYTE,
			     MPI_STATUS_IGNORE);
	for (size_t i = 0; i < sizeof(inbox); i++)
		bad |= inbox[i] != 'a' + other;
	if (MPI_File_close(&file) || bad)
		return 1;
	printf("rank %d wrote and read a file\n", rank);
	return 0;
}

static char *own_path;

static int spawn_ranks(void)
{
	MPI_Comm more;
	int errors[2], number, sum = 0;

	MPI_Comm_spawn(own_path, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0,
		       MPI_COMM_WORLD, &more, errors);
	for (int i = 0; i < 2 && rank == 0; i++) {
		MPI_Recv(&number, 1, MPI_INT, i, 1, more, MPI_STATUS_IGNORE);
		sum += number;
	}
	MPI_Comm_disconnect(&more);
	return rank == 0 && sum != 41 + 42;
}

/* What was started so. */
static int run_spawned(MPI_Comm parent)
{
	int number = 41 + rank;

	MPI_Send(&number, 1, MPI_INT, 0, 1, parent);
	MPI_Comm_disconnect(&parent);
	MPI_Finalize();
	return 0;
}

static int run_command(const char *what, const char *word)
{
	int number = atoi(word);

	if (!strcmp(what, "sum")) {
		int sum = 0;

		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		return sum != ranks * (ranks - 1) / 2;
	}
	if (!strcmp(what, "rally"))
		return run_rally();
	if (!strcmp(what, "tickets"))
		return share_numbers();
	if (!strcmp(what, "window"))
		return check_window(number);
	if (!strcmp(what, "file"))
		return share_file(word);
	if (!strcmp(what, "spawn"))
		return spawn_ranks();
	if (!strcmp(what, "exit"))
		return rank ? 0 : number;
	if (!strcmp(what, "leave")) {
		pass_number(1);
		MPI_Barrier(MPI_COMM_WORLD);
		exit(0);
	}
	if (!strcmp(what, "stdin"))
		return read_input();
	if (!strcmp(what, "traffic"))
		return run_traffic(0, 0);
	if (!strcmp(what, "until"))
		return run_traffic(word, 0);
	if (!strcmp(what, "stubborn"))
		return run_stubborn();
	if (!strcmp(what, "die"))
		return run_traffic(0, 1);
	if (!strcmp(what, "processes"))
		return start_processes();
	if (!strcmp(what, "posted"))
		return run_posted(number);
	if (!strcmp(what, "talk"))
		return talk_to_all();
	return strcmp(what, "quiet") ? 2 : 0;
}

int main(int argc, char **argv)
{
	MPI_Comm parent;
	int status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	printf("rank %d pid %d\n", rank, getpid());
	fflush(stdout);
	own_path = argv[0];
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL)
		return run_spawned(parent);
	status = run_command(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
	MPI_Finalize();
	return status;
}
