/* SPDX-License-Identifier: MIT */
/*
 * What becomes of many messages whose receives are posted while the receiver
 * computes and calls nothing: with no reader of the socket its window closes.
 *
 * Rank 1 posts 2,048 receives of 8 KiB and works for five seconds; rank 0 sends
 * them all. It prints how long that took rank 0, and how long rank 1 waited for
 * the last of them after its work.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "rank.h"

enum { COUNT = 2048, SIZE = 8 << 10 };
#define WORK 5.0 /* seconds */

static MPI_Request request[COUNT];

static double send_flood(char *b)
{
	double t;

	MPI_Recv(0, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	t = clock_seconds();
	for (int i = 0; i < COUNT; i++)
		MPI_Isend(b + i * SIZE, SIZE, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
			  &request[i]);
	MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE);
	return clock_seconds() - t;
}

static double receive_flood(char *b)
{
	double t;

	for (int i = 0; i < COUNT; i++)
		MPI_Irecv(b + i * SIZE, SIZE, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
			  &request[i]);
	MPI_Send(0, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
	compute_for(WORK);
	t = clock_seconds();
	MPI_Waitall(COUNT, request, MPI_STATUSES_IGNORE);
	t = clock_seconds() - t;
	for (int i = 0; i < COUNT; i++)
		if (b[i * SIZE] != (char)i || b[(i + 1) * SIZE - 1] != (char)i)
			exit_failed("wrong bytes");
	return t;
}

int main(int argc, char **argv)
{
	char *b = malloc(COUNT * SIZE);
	double left;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 1 || ranks != 2 || !b)
		exit_failed("usage: flood, on 2 ranks with 16 MiB each");
	for (int i = 0; rank == 0 && i < COUNT; i++)
		memset(b + i * SIZE, i, SIZE);
	left = rank ? receive_flood(b) : send_flood(b);
	if (rank == 0)
		printf("result held-2048x8K %.0f ms\n", left * 1e3);
	MPI_Bcast(&left, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	if (rank == 0)
		printf("result left-2048x8K %.0f ms\n", left * 1e3);
	MPI_Finalize();
	free(b);
	return 0;
}
