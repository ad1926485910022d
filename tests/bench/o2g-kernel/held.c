/* SPDX-License-Identifier: MIT */
/*
 * How long a sender is held, and what is left to do, while the receiver
 * computes for 300 ms and calls nothing.
 *
 *   held posted    the receive is posted before the work
 *   held late      after it
 *
 * Rank 0 sends to rank 1: 64 KiB, 4 MiB, 32 MiB. It prints the medians of how
 * long MPI_Send took there, and MPI_Wait after the work here.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "rank.h"

enum { TIMES = 3 };
#define WORK 0.3 /* seconds */

static int late;

static double send_message(char *b, int size)
{
	double t;

	/* The receive is posted, or the work begun, before it sends. */
	MPI_Recv(0, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	t = clock_seconds();
	MPI_Send(b, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	return clock_seconds() - t;
}

static double receive_message(char *b, int size)
{
	MPI_Request request;
	double t;

	memset(b, 0, (size_t)size);
	if (!late)
		MPI_Irecv(b, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
	MPI_Send(0, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
	compute_for(WORK);
	t = clock_seconds();
	if (late)
		MPI_Irecv(b, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	t = clock_seconds() - t;
	if (b[0] != 'x' || b[size - 1] != 'x')
		exit_failed("wrong bytes");
	return t;
}

static double median_of(const double *v)
{
	double a = v[0], b = v[1], c = v[2];

	if ((a <= b) == (b <= c))
		return b;
	return (b <= a) == (a <= c) ? a : c;
}

static void measure_size(int size)
{
	char *b = malloc((size_t)size);
	double held[TIMES], left[TIMES];

	if (!b)
		exit_failed("out of memory");
	memset(b, 'x', (size_t)size);
	for (int i = 0; i < TIMES; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		held[i] = left[i] =
			rank ? receive_message(b, size) : send_message(b, size);
		MPI_Bcast(&left[i], 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("result held-%dK %.2f ms\nresult left-%dK %.2f ms\n",
		       size >> 10, median_of(held) * 1e3, size >> 10,
		       median_of(left) * 1e3);
	free(b);
}

int main(int argc, char **argv)
{
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 2 || ranks != 2)
		exit_failed("usage: held posted|late, on 2 ranks");
	late = !strcmp(argv[1], "late");
	measure_size(64 << 10);
	measure_size(4 << 20);
	measure_size(32 << 20);
	MPI_Finalize();
	return 0;
}
