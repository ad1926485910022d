// SPDX-License-Identifier: MIT
/* Owns a real symmetric factorisation by sequential MUMPS. Not thread-safe. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <dmumps_c.h>

#include "examples/eigen/factor.h"

enum { JOB_INIT = -1, JOB_END = -2, ANALYSE = 1, FACTORISE = 2, SOLVE = 3 };
#define COMM_WORLD -987654
enum { ORDER_GIVEN = 1, ORDER_MINIMUM_FILL = 2 };
#define SPACE_PERCENT 50
/* Counted from 1, as in the MUMPS guide. */
#define ICNTL(i) icntl[(i)-1]
#define INFOG(i) infog[(i)-1]

struct eigen_factor {
	DMUMPS_STRUC_C mumps;
	const struct eigen_sparse *a, *b;
	int live;
};

static int mumps_run(struct eigen_factor *f, int job)
{
	f->mumps.job = job;
	dmumps_c(&f->mumps);
	if (f->mumps.INFOG(1) >= 0)
		return 0;
	return f->mumps.INFOG(1) == -10 || f->mumps.INFOG(1) == -6 ? -EDOM
								   : -ENOMEM;
}

static int prepare_factor(struct eigen_factor *f, int *order)
{
	DMUMPS_STRUC_C *mumps = &f->mumps;
	size_t count = (size_t)f->a->nnz + f->b->nnz;
	int error;

	mumps->par = 1;
	mumps->sym = 2;
	mumps->comm_fortran = COMM_WORLD;
	if (count > INT_MAX || mumps_run(f, JOB_INIT))
		return -ENOMEM;
	f->live = 1;
	mumps->ICNTL(1) = mumps->ICNTL(2) = mumps->ICNTL(3) = 0;
	mumps->ICNTL(6) = 0;
	mumps->ICNTL(7) = order ? ORDER_GIVEN : ORDER_MINIMUM_FILL;
	mumps->ICNTL(12) = 1;
	mumps->ICNTL(13) = 1; /* no parallel root: its pivots are not counted */
	mumps->ICNTL(14) = SPACE_PERCENT;
	mumps->n = f->a->n;
	mumps->nnz = count;
	mumps->irn = malloc(count * sizeof(*mumps->irn));
	mumps->jcn = malloc(count * sizeof(*mumps->jcn));
	mumps->a = malloc(count * sizeof(*mumps->a));
	if (!mumps->irn || !mumps->jcn || !mumps->a)
		return -ENOMEM;
	eigen_sparse_places(f->a, mumps->irn, mumps->jcn);
	eigen_sparse_places(f->b, mumps->irn + f->a->nnz,
			    mumps->jcn + f->a->nnz);
	mumps->perm_in = order;
	error = mumps_run(f, ANALYSE);
	mumps->perm_in = NULL;
	return error;
}

struct eigen_factor *eigen_factor_new(const struct eigen_sparse *a,
				      const struct eigen_sparse *b, int *order)
{
	struct eigen_factor *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->a = a;
	f->b = b;
	if (prepare_factor(f, order)) {
		eigen_factor_free(f);
		return NULL;
	}
	return f;
}

const int *eigen_factor_order(const struct eigen_factor *f)
{
	return f->mumps.sym_perm;
}

void eigen_factor_free(struct eigen_factor *f)
{
	if (!f)
		return;
	free(f->mumps.irn);
	free(f->mumps.jcn);
	free(f->mumps.a);
	f->mumps.irn = f->mumps.jcn = NULL;
	f->mumps.a = NULL;
	if (f->live)
		mumps_run(f, JOB_END);
	free(f);
}

int eigen_factor_at(struct eigen_factor *f, double sigma)
{
	int k, attempt, error;

	for (k = 0; k < f->a->nnz; k++)
		f->mumps.a[k] = f->a->value[k];
	for (k = 0; k < f->b->nnz; k++)
		f->mumps.a[f->a->nnz + k] = -sigma * f->b->value[k];
	for (attempt = 0; attempt < 3; attempt++) {
		error = mumps_run(f, FACTORISE);
		if (!error)
			return f->mumps.INFOG(12);
		if (f->mumps.INFOG(1) != -8 && f->mumps.INFOG(1) != -9)
			return error;
		f->mumps.ICNTL(14) *= 3;
	}
	return error;
}

int eigen_factor_solve(struct eigen_factor *f, double *x)
{
	f->mumps.rhs = x; /* only SOLVE reads it */
	f->mumps.nrhs = 1;
	return mumps_run(f, SOLVE);
}

int eigen_factor_definite(const struct eigen_sparse *b)
{
	struct eigen_factor *f = eigen_factor_new(b, b, NULL);
	int negative;

	if (!f)
		return -ENOMEM;
	negative = eigen_factor_at(f, 0);
	eigen_factor_free(f);
	return negative == -EDOM ? 0 : negative < 0 ? negative : negative == 0;
}
