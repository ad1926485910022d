// SPDX-License-Identifier: MIT
/*
 * Owns one factorisation of the complex symmetric matrix z B - A by sequential
 * MUMPS (CeCILL-C). The analysis is made once, because the pattern is the same
 * for each z; the numerical factorisation is made in each call. Not
 * thread-safe.
 *
 * MUMPS gets the entries of A and then those of B, and adds entries at the same
 * place. The order of elimination comes with the matrices, and nothing here
 * depends on time, threads or the processor, so equal programs give equal bits
 * on any machine. (SCOTCH's orderings differ from run to run, and PORD ends the
 * process if it cannot handle a graph.)
 */
#include <complex.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmumps_c.h>

#include "examples/eigen/sparse.h"
#include "examples/eigen/worker.h"

enum { JOB_INIT = -1, JOB_END = -2, ANALYSE = 1, FACTORISE = 2, SOLVE = 3 };
#define COMM_WORLD                                                             \
	-987654 /* MUMPS' number for all processes, with or without MPI        \
		 */
#define ORDER_GIVEN 1
#define SPACE_PERCENT 50 /* more work space than the analysis estimates */
/* Counted from 1, as in the MUMPS guide. */
#define ICNTL(i) icntl[(i)-1]
#define INFOG(i) infog[(i)-1]

static struct {
	ZMUMPS_STRUC_C mumps;
	struct eigen_sparse a, b;
	const double *v;
	int l, live, status;
	char why[EIGEN_WHY];
	double *column; /* B v, one column */
} worker;

static int set_failure(int error, const char *what)
{
	snprintf(worker.why, sizeof(worker.why), "%s", what);
	return error;
}

/* A sentence that says what a user can do about an error of MUMPS. */
static const char *describe_error(int code)
{
	switch (code) {
	case -5:
	case -7:
	case -13:
		return "not enough memory; take a smaller problem or a node "
		       "with more";
	case -6:
	case -10:
		return "the matrix z B - A is singular; move the circle";
	case -8:
	case -9:
	case -11:
	case -14:
	case -20:
		return "its work space was too small three times";
	default:
		return "see the user's guide of MUMPS for this number";
	}
}

static int mumps_run(int job)
{
	int code, detail;

	worker.mumps.job = job;
	zmumps_c(&worker.mumps);
	code = worker.mumps.INFOG(1);
	detail = worker.mumps.INFOG(2);
	if (code >= 0)
		return 0;
	snprintf(worker.why, sizeof(worker.why),
		 "MUMPS ended with error %d (%d): %s.", code, detail,
		 describe_error(code));
	return code == -10 || code == -6 ? -EDOM : -ENOMEM;
}

static void mumps_options(ZMUMPS_STRUC_C *mumps)
{
	/* No messages. */
	mumps->ICNTL(1) = mumps->ICNTL(2) = mumps->ICNTL(3) = 0;
	mumps->ICNTL(4) = 0;
	/* No permutation by values, because z is not known at the analysis. */
	mumps->ICNTL(6) = 0;
	mumps->ICNTL(7) = ORDER_GIVEN;
	/* Ordinary ordering, by the pattern alone. */
	mumps->ICNTL(12) = 1;
	mumps->ICNTL(14) = SPACE_PERCENT;
}

static int prepare_solver(int *order)
{
	ZMUMPS_STRUC_C *mumps = &worker.mumps;
	int count = worker.a.nnz + worker.b.nnz, error;

	mumps->par = 1;
	mumps->sym = 2; /* symmetric, not Hermitian */
	mumps->comm_fortran = COMM_WORLD;
	error = mumps_run(JOB_INIT);
	if (error)
		return error;
	worker.live = 1;
	mumps_options(mumps);
	mumps->n = worker.a.n;
	mumps->nnz = count;
	mumps->perm_in = order;
	mumps->irn = malloc(count * sizeof(*mumps->irn));
	mumps->jcn = malloc(count * sizeof(*mumps->jcn));
	mumps->a = malloc(count * sizeof(*mumps->a));
	worker.column = malloc(worker.a.n * sizeof(*worker.column));
	if (!mumps->irn || !mumps->jcn || !mumps->a || !worker.column)
		return set_failure(-ENOMEM,
				   "Not enough memory for the matrices.");
	eigen_sparse_places(&worker.a, mumps->irn, mumps->jcn);
	eigen_sparse_places(&worker.b, mumps->irn + worker.a.nnz,
			    mumps->jcn + worker.a.nnz);
	error = mumps_run(ANALYSE);
	mumps->perm_in = NULL;
	return error;
}

/* 0 if `order` has each number from 1 to n once. */
static int order_check(int n, const int *order)
{
	char *seen = calloc(n, 1);
	int i = 0;

	if (!seen)
		return set_failure(-ENOMEM,
				   "Not enough memory for the matrices.");
	while (i < n && order[i] >= 1 && order[i] <= n && !seen[order[i] - 1]++)
		i++;
	free(seen);
	return i == n ? 0
		      : set_failure(-EINVAL, "The order of elimination does "
					     "not name each unknown once.");
}

int eigen_initialize(int n, int nnza, int nnzb, int l, int *ia, int *ja,
		     double *a, int *ib, int *jb, double *b, double *v,
		     int *order)
{
	eigen_finish();
	worker.a = (struct eigen_sparse){n, nnza, ia, ja, a};
	worker.b = (struct eigen_sparse){n, nnzb, ib, jb, b};
	worker.v = v;
	worker.l = l;
	if (l < 1 || n < 1 || nnza < 1 || nnzb < 1 || nnza > INT_MAX - nnzb ||
	    eigen_sparse_check(&worker.a) || eigen_sparse_check(&worker.b))
		worker.status =
			set_failure(-EINVAL, "A or B is not a lower triangle "
					     "by rows, or empty.");
	else
		worker.status = order_check(n, order);
	if (!worker.status)
		worker.status = prepare_solver(order);
	return worker.status;
}

static void put_values(double complex z)
{
	ZMUMPS_COMPLEX *into = worker.mumps.a;
	int k;

	for (k = 0; k < worker.a.nnz; k++, into++)
		*into = (ZMUMPS_COMPLEX){-worker.a.value[k], 0};
	for (k = 0; k < worker.b.nnz; k++, into++)
		*into = (ZMUMPS_COMPLEX){creal(z) * worker.b.value[k],
					 cimag(z) * worker.b.value[k]};
}

static void put_right_side(double *y)
{
	int i, j, n = worker.a.n;

	for (j = 0; j < worker.l; j++) {
		eigen_sparse_multiply(&worker.b, worker.v + (size_t)j * n,
				      worker.column);
		for (i = 0; i < n; i++) {
			*y++ = worker.column[i];
			*y++ = 0;
		}
	}
}

/* Delayed pivots can need more space than the analysis estimated. */
static int factorise_matrix(void)
{
	int attempt, error, code;

	for (attempt = 0; attempt < 3; attempt++) {
		error = mumps_run(FACTORISE);
		code = worker.mumps.INFOG(1);
		if (code != -8 && code != -9 && code != -14 && code != -20)
			break;
		worker.mumps.ICNTL(14) *= 3;
	}
	return error;
}

int eigen_solve(int n, int l, double zre, double zim, double *y)
{
	int error;

	if (!worker.live && !worker.status)
		return set_failure(-EINVAL, "Initialize was not called.");
	if (worker.status)
		return worker.status;
	if (n != worker.a.n || l != worker.l)
		return set_failure(-EINVAL,
				   "n or l is not that of Initialize.");
	put_values(CMPLX(zre, zim));
	error = factorise_matrix();
	if (error)
		return error;
	put_right_side(y);
	worker.mumps.rhs = (ZMUMPS_COMPLEX *)y; /* only SOLVE reads it */
	worker.mumps.nrhs = l;
	worker.mumps.lrhs = n;
	return mumps_run(SOLVE);
}

const char *eigen_why(void)
{
	return worker.why;
}

void eigen_finish(void)
{
	if (worker.live) {
		free(worker.mumps.irn);
		free(worker.mumps.jcn);
		free(worker.mumps.a);
		worker.mumps.irn = worker.mumps.jcn = NULL;
		worker.mumps.a = NULL;
		mumps_run(JOB_END);
		free(worker.column);
	}
	memset(&worker, 0, sizeof(worker));
}
