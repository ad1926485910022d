/* SPDX-License-Identifier: MIT */
/*
 * An integer sort of the size of NAS IS, class S: 65,536 keys below 2,048, ten
 * rounds of counting and exchanging, with 20 ms of work in each exchange.
 *
 *   sort posted    receives are posted, then it works, then it waits
 *   sort late      it works before it posts its receives
 *
 * Rank 0 prints by how much a round is longer than its work. What was sorted is
 * checked each time.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rank.h"

enum { KEYS = 1 << 16, KEY_MAX = 1 << 11, ROUNDS = 10, RANKS_MAX = 16 };
#define WORK 0.02 /* seconds */

static int ranks, late;
static uint16_t own[KEYS], sorted[KEYS], got[KEYS];
static int count[RANKS_MAX], start[RANKS_MAX], incoming[RANKS_MAX];

static int key_owner(uint16_t key)
{
	return key * ranks / KEY_MAX;
}

/* The keys by their owner. */
static void split_keys(int keys)
{
	int at[RANKS_MAX];

	memset(count, 0, sizeof(count));
	for (int i = 0; i < keys; i++)
		count[key_owner(own[i])]++;
	start[0] = at[0] = 0;
	for (int r = 1; r < ranks; r++)
		start[r] = at[r] = start[r - 1] + count[r - 1];
	for (int i = 0; i < keys; i++)
		sorted[at[key_owner(own[i])]++] = own[i];
}

static void receive_keys(MPI_Request *request)
{
	int at = 0;

	for (int r = 0; r < ranks; r++) {
		if (at + incoming[r] > KEYS)
			exit_failed("too many keys");
		MPI_Irecv(got + at, incoming[r], MPI_UINT16_T, r, 1,
			  MPI_COMM_WORLD, &request[r]);
		at += incoming[r];
	}
}

/* Every rank's keys to their owners; how many arrived. */
static int exchange_keys(void)
{
	MPI_Request request[2 * RANKS_MAX];
	int total = 0;

	MPI_Alltoall(count, 1, MPI_INT, incoming, 1, MPI_INT, MPI_COMM_WORLD);
	if (!late)
		receive_keys(request);
	for (int r = 0; r < ranks; r++)
		MPI_Isend(sorted + start[r], count[r], MPI_UINT16_T, r, 1,
			  MPI_COMM_WORLD, &request[ranks + r]);
	compute_for(WORK);
	if (late)
		receive_keys(request);
	MPI_Waitall(2 * ranks, request, MPI_STATUSES_IGNORE);
	for (int r = 0; r < ranks; r++)
		total += incoming[r];
	return total;
}

static void check_sorted(int total)
{
	int all = 0;

	for (int i = 0; i < total; i++)
		if (key_owner(got[i]) != rank)
			exit_failed("a key came to the wrong rank");
	MPI_Allreduce(&total, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (all != KEYS / ranks * ranks)
		exit_failed("keys were lost");
}

int main(int argc, char **argv)
{
	uint64_t state;
	double added = 0;
	int keys, total = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 2 || ranks > RANKS_MAX)
		exit_failed("usage: sort posted|late");
	late = !strcmp(argv[1], "late");
	keys = KEYS / ranks;
	state = (uint64_t)rank + 1;
	for (int i = 0; i < keys; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		own[i] = (uint16_t)((state >> 33) % KEY_MAX);
	}
	for (int round = 0; round <= ROUNDS; round++) {
		double t;

		own[round] = (uint16_t)round;
		split_keys(keys);
		MPI_Barrier(MPI_COMM_WORLD);
		t = clock_seconds();
		total = exchange_keys();
		if (round > 0) /* the first one connects */
			added += clock_seconds() - t - WORK;
	}
	check_sorted(total);
	if (rank == 0)
		printf("result sort-%s %.3f ms\n", argv[1],
		       added / ROUNDS * 1e3);
	MPI_Finalize();
	return 0;
}
