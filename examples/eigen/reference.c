// SPDX-License-Identifier: MIT
/* Owns the reference values. No step is shared with the contour method. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/lapack.h"
#include "examples/eigen/reference.h"

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void keep_inside(struct eigen_reference *reference, double center,
			double radius, int count)
{
	double *value = reference->value;
	int i;

	for (i = 0; i < count; i++) {
		if (fabs(value[i] - center) < radius)
			value[reference->count++] = value[i];
	}
	qsort(value, reference->count, sizeof(*value), compare_doubles);
}

static void spread_dense(const struct eigen_sparse *m, double *dense)
{
	int i, k;

	for (i = 0; i < m->n; i++) {
		for (k = m->start[i]; k < m->start[i + 1]; k++)
			dense[i + (size_t)m->column[k] * m->n] = m->value[k];
	}
}

static int dense_find(const struct eigen_sparse *a,
		      const struct eigen_sparse *b,
		      struct eigen_reference *reference)
{
	int n = a->n, itype = 1, lwork = 64 * n + 64, info, error = -ENOMEM;
	double *da = calloc((size_t)n * n, sizeof(double));
	double *db = calloc((size_t)n * n, sizeof(double));
	double *work = malloc(lwork * sizeof(double));

	reference->method = "LAPACK dsygv";
	reference->value = malloc(n * sizeof(double));
	if (da && db && work && reference->value) {
		spread_dense(a, da);
		spread_dense(b, db);
		dsygv_(&itype, "N", "L", &n, da, &n, db, &n, reference->value,
		       work, &lwork, &info, 1, 1);
		error = info ? -EDOM : 0;
	}
	free(da);
	free(db);
	free(work);
	return error;
}

struct lanczos {
	int n, nev, ncv, lworkl, iparam[11], ipntr[14], info;
	double *resid, *v, *workd, *workl;
	int *select;
};

/* Carries out the step that ARPACK requests by `ido`. */
static int lanczos_step(struct lanczos *z, int ido, struct eigen_factor *f,
			const struct eigen_sparse *b)
{
	double *x = z->workd + z->ipntr[0] - 1;
	double *y = z->workd + z->ipntr[1] - 1;

	switch (ido) {
	case -1:
		eigen_sparse_multiply(b, x, y);
		return eigen_factor_solve(f, y);
	case 1:
		memcpy(y, z->workd + z->ipntr[2] - 1, z->n * sizeof(*y));
		return eigen_factor_solve(f, y);
	case 2:
		eigen_sparse_multiply(b, x, y);
		return 0;
	default:
		return -EDOM;
	}
}

static int lanczos_run(struct lanczos *z, struct eigen_factor *f,
		       const struct eigen_sparse *b, double sigma,
		       double *value)
{
	const double tol = 0;
	const int vectors = 0;
	int ido = 0, error;

	z->iparam[0] = 1;
	z->iparam[2] = 300;
	z->iparam[6] = 3; /* shift and invert */
	for (;;) {
		dsaupd_(&ido, "G", &z->n, "LM", &z->nev, &tol, z->resid,
			&z->ncv, z->v, &z->n, z->iparam, z->ipntr, z->workd,
			z->workl, &z->lworkl, &z->info, 1, 2);
		if (ido == 99)
			break;
		error = lanczos_step(z, ido, f, b);
		if (error)
			return error;
	}
	if (z->info)
		return -EDOM;
	dseupd_(&vectors, "A", z->select, value, z->v, &z->n, &sigma, "G",
		&z->n, "LM", &z->nev, &tol, z->resid, &z->ncv, z->v, &z->n,
		z->iparam, z->ipntr, z->workd, z->workl, &z->lworkl, &z->info,
		1, 1, 2);
	return z->info ? -EDOM : z->iparam[4];
}

static int lanczos_find(const struct eigen_sparse *b, struct eigen_factor *f,
			double sigma, int expect,
			struct eigen_reference *reference)
{
	struct lanczos z = {.n = b->n, .nev = expect + 3};
	int i, found = -ENOMEM;

	z.ncv = 2 * z.nev + 20 < z.n ? 2 * z.nev + 20 : z.n;
	if (z.nev >= z.ncv)
		return -ERANGE;
	z.lworkl = z.ncv * (z.ncv + 8);
	z.resid = malloc(z.n * sizeof(double));
	z.v = malloc(sizeof(double) * z.n * z.ncv);
	z.workd = malloc(sizeof(double) * 3 * z.n);
	z.workl = malloc(z.lworkl * sizeof(double));
	z.select = malloc(z.ncv * sizeof(int));
	reference->method = "ARPACK dsaupd, shift and invert";
	reference->value = malloc(z.ncv * sizeof(double));
	z.info = 1; /* resid is given, so that runs are equal */
	for (i = 0; z.resid && i < z.n; i++)
		z.resid[i] = 1 + (i * 2654435761u >> 8) * 0x1p-24;
	if (z.resid && z.v && z.workd && z.workl && z.select &&
	    reference->value)
		found = lanczos_run(&z, f, b, sigma, reference->value);
	free(z.resid);
	free(z.v);
	free(z.workd);
	free(z.workl);
	free(z.select);
	return found;
}

int eigen_reference_find(const struct eigen_sparse *a,
			 const struct eigen_sparse *b, struct eigen_factor *f,
			 double center, double radius, int expect,
			 struct eigen_reference *reference)
{
	int count;

	memset(reference, 0, sizeof(*reference));
	if (a->n <= EIGEN_REFERENCE_DENSE) {
		count = dense_find(a, b, reference);
		count = count ? count : a->n;
	} else {
		count = eigen_factor_at(f, center);
		if (count >= 0)
			count = lanczos_find(b, f, center, expect, reference);
	}
	if (count < 0) {
		free(reference->value);
		reference->value = NULL;
		return count;
	}
	keep_inside(reference, center, radius, count);
	return 0;
}
