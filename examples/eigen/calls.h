/* SPDX-License-Identifier: MIT */
/*
 * The calls of one run. This process (local.c) or workers on nodes (remote.c)
 * compute them; no other code depends on which.
 */
#ifndef EIGEN_CALLS_H
#define EIGEN_CALLS_H

#include <complex.h>
#include <stdint.h>

#include "examples/eigen/sparse.h"
#include "examples/eigen/worker.h"

struct eigen_problem {
	struct eigen_sparse a, b;
	int block;
	double *v;  /* n x block */
	int *order; /* of elimination; n numbers from 1 */
};

struct eigen_call {
	int index;
	double complex z;
	double complex *y; /* n x block; given by the master */
	int status;	   /* 0, or a negative error that `why` explains */
	char why[EIGEN_WHY];
	int ended;

	/* Where and how it ran. */
	char node[64];
	const char *substrate;
	int bee; /* bee has proved that it ran the call */
	unsigned int attempt;
	double exec_ms, wall_ms;
	uint64_t bytes_in, bytes_out, nonce, emulated;
	char program[65]; /* SHA-256 of the program, empty when local */
};

struct eigen_engine {
	const char *name;
	/*
	 * Runs all calls, in any order. `done` is called in this thread after
	 * each. Returns 0, or -1 with a sentence in `why` if it cannot run the
	 * calls. The failure of a single call is in that call's status.
	 */
	int (*run)(const struct eigen_problem *problem, struct eigen_call *call,
		   int count, void (*done)(void *, struct eigen_call *),
		   void *arg, char why[EIGEN_WHY]);
};

extern const struct eigen_engine eigen_engine_local, eigen_engine_remote;

#endif
