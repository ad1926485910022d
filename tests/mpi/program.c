/* SPDX-License-Identifier: MIT */
/*
 * An MPI program that goes through what matching, flow control and waiting can
 * get wrong. Rank 0 prints a line "ok - NAME" or "not ok - NAME" per check;
 * every rank takes part in every check.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE (32 << 20)
#define CHECK(ok) (bad |= !(ok))

static int rank, ranks;

static void fill_buffer(void *buffer, size_t length, unsigned seed)
{
	uint8_t *byte = buffer;

	for (size_t i = 0; i < length; i++)
		byte[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static int buffer_filled(const void *buffer, size_t length, unsigned seed)
{
	const uint8_t *byte = buffer;

	for (size_t i = 0; i < length; i++)
		if (byte[i] != (uint8_t)(i * 31 + i / 251 + seed))
			return 0;
	return 1;
}

/* Every rank sends to the next, ever longer messages. */
static int test_ring(void)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	char *out = malloc(4 << 20), *in = malloc(4 << 20);
	int bad = 0;

	for (int size = 0; size <= 4 << 20; size = size ? size * 8 : 1) {
		MPI_Status status;
		int count;

		fill_buffer(out, (size_t)size, (unsigned)rank);
		MPI_Sendrecv(out, size, MPI_BYTE, next, size % 97, in, size,
			     MPI_BYTE, last, size % 97, MPI_COMM_WORLD,
			     &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(count == size && status.MPI_SOURCE == last);
		CHECK(buffer_filled(in, (size_t)size, (unsigned)last));
	}
	free(out);
	free(in);
	return bad;
}

static int test_alltoall(void)
{
	enum { MOST = 100000 };
	int *out = malloc(sizeof(int) * MOST * (size_t)ranks);
	int *in = malloc(sizeof(int) * MOST * (size_t)ranks);
	int bad = 0;

	for (int n = 1; n <= MOST; n *= 10) {
		for (int i = 0; i < n * ranks; i++)
			out[i] = rank * 1000003 + i;
		MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
		for (int i = 0; i < n * ranks; i++)
			CHECK(in[i] == i / n * 1000003 + rank * n + i % n);
	}
	free(out);
	free(in);
	return bad;
}

static int test_sum(void)
{
	double one = rank + 1, all = 0;
	int bad = 0;

	for (int i = 0; i < 200; i++) {
		MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM,
			      MPI_COMM_WORLD);
		CHECK(all == ranks * (ranks + 1) / 2.0);
	}
	return bad;
}

/* Rank 0 learns length and sender first, in three ways. */
static int test_probe(void)
{
	int bad = 0;

	for (int round = 0; round < 3; round++) {
		char buffer[5000];
		int size = 100 * rank + 10 * round;

		fill_buffer(buffer, (size_t)size, (unsigned)size);
		if (rank)
			MPI_Send(buffer, size, MPI_BYTE, 0, round,
				 MPI_COMM_WORLD);
		for (int i = 1; !rank && i < ranks; i++) {
			MPI_Message message;
			MPI_Status status;
			int count, flag = 0;

			if (round == 0)
				MPI_Probe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD,
					  &status);
			while (round == 1 && !flag)
				MPI_Iprobe(MPI_ANY_SOURCE, round,
					   MPI_COMM_WORLD, &flag, &status);
			if (round == 2)
				MPI_Mprobe(MPI_ANY_SOURCE, round,
					   MPI_COMM_WORLD, &message, &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			CHECK(count == 100 * status.MPI_SOURCE + 10 * round);
			if (round == 2)
				MPI_Mrecv(buffer, count, MPI_BYTE, &message,
					  &status);
			else
				MPI_Recv(buffer, count, MPI_BYTE,
					 status.MPI_SOURCE, round,
					 MPI_COMM_WORLD, &status);
			CHECK(buffer_filled(buffer, (size_t)count,
					    (unsigned)count));
		}
	}
	return bad;
}

/* Messages of one sender keep their order, whoever else sends. */
static int any_source(void)
{
	enum { EACH = 300 };
	int seen[256] = {0}, bad = 0;

	if (rank) {
		for (int i = 0; i < EACH; i++)
			MPI_Send(&i, 1, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
		return 0;
	}
	for (int i = 0; i < EACH * (ranks - 1); i++) {
		MPI_Status status;
		int number;

		MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
			 MPI_COMM_WORLD, &status);
		CHECK(number == seen[status.MPI_SOURCE % 256]++);
		CHECK(status.MPI_TAG == number % 3);
	}
	return bad;
}

/* A message of 32 MiB without a receive yet, then a small one with a receive:
 * the receiver takes them the other way round. */
static int test_overtake(void)
{
	char *buffer = malloc(HUGE);
	int bad = 0, small = 0;

	if (rank == 1) {
		MPI_Request request;

		fill_buffer(buffer, HUGE, 77);
		small = 42;
		MPI_Isend(buffer, HUGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
			  &request);
		MPI_Send(&small, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	if (rank == 0) {
		MPI_Recv(&small, 1, MPI_INT, 1, 2, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		CHECK(small == 42);
		MPI_Recv(buffer, HUGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		CHECK(buffer_filled(buffer, HUGE, 77));
	}
	free(buffer);
	return bad;
}

/* Thousands of messages wait for receives that come in the reverse order. */
static int test_unexpected(void)
{
	enum { COUNT = 3000 };
	int bad = 0, number;

	if (rank == 1)
		for (int i = 0; i < COUNT; i++)
			MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
	if (rank == 0)
		for (int i = COUNT - 1; i >= 0; i--) {
			MPI_Recv(&number, 1, MPI_INT, 1, i, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			CHECK(number == i);
		}
	return bad;
}

/* More receives at once than operations fit anywhere, posted before sends. */
static int test_posted(void)
{
	enum { COUNT = 20000 };
	static MPI_Request request[COUNT];
	static int in[COUNT];
	int peer = rank ^ 1, bad = 0;

	if (peer >= ranks)
		return 0;
	for (int i = 0; i < COUNT; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD,
			  &request[i]);
	for (int i = 0; i < COUNT; i++)
		MPI_Send(&i, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
	MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE);
	for (int i = 0; i < COUNT; i++)
		CHECK(in[i] == i);
	return bad;
}

static int test_synchronous(void)
{
	int bad = 0, number = 0;

	for (int i = 0; i < 20; i++) {
		if (rank == 1)
			MPI_Ssend(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
		if (rank == 0) {
			MPI_Recv(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			CHECK(number == i);
		}
	}
	return bad;
}

static int test_truncated(void)
{
	int big[4] = {1, 2, 3, 4}, one = 0, bad = 0, class = 0, code;

	if (rank == 1)
		MPI_Send(big, 4, MPI_INT, 0, 6, MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		code = MPI_Recv(&one, 1, MPI_INT, 1, 6, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
		MPI_Error_class(code, &class);
		CHECK(class == MPI_ERR_TRUNCATE);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	}
	return bad;
}

static int test_cancelled(void)
{
	MPI_Request request;
	MPI_Status status;
	int bad = 0, number, flag = 0;

	MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 999, MPI_COMM_WORLD,
		  &request);
	MPI_Cancel(&request);
	MPI_Wait(&request, &status);
	MPI_Test_cancelled(&status, &flag);
	CHECK(flag);
	return bad;
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* Not judged: what a rank costs that waits for another. */
static int test_waiting(void)
{
	double cpu, start;
	int number = 0, bad = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		usleep(1000000);
		MPI_Send(&rank, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
	}
	if (rank == 0) {
		cpu = cpu_ms();
		start = MPI_Wtime();
		MPI_Recv(&number, 1, MPI_INT, 1, 7, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		printf("# waited %.0f ms with %.0f ms of processor time\n",
		       (MPI_Wtime() - start) * 1000, cpu_ms() - cpu);
		CHECK(number == 1);
	}
	return bad;
}

static const struct {
	const char *name;
	int (*run)(void);
} checks[] = {
	{"ring", test_ring},
	{"all to all", test_alltoall},
	{"sum", test_sum},
	{"probe", test_probe},
	{"any source", any_source},
	{"a small message overtakes a huge one", test_overtake},
	{"unexpected messages in reverse", test_unexpected},
	{"20000 receives at once", test_posted},
	{"synchronous sends", test_synchronous},
	{"truncation", test_truncated},
	{"cancelled receive", test_cancelled},
	{"waiting", test_waiting},
};

int main(int argc, char **argv)
{
	int failed = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		int bad, any = 0;

		if (!rank) {
			printf("# %s\n", checks[i].name);
			fflush(stdout);
		}
		bad = checks[i].run();
		MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
		failed |= any;
		if (!rank)
			printf("%sok - %s\n", any ? "not " : "",
			       checks[i].name);
		fflush(stdout);
	}
	MPI_Finalize();
	return failed;
}
