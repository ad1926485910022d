// SPDX-License-Identifier: MIT
/* Owns the contour: its points, the moments, and the pairs extracted from them.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/contour.h"
#include "examples/eigen/lapack.h"

#define SEED 0x9e3779b97f4a7c15

double complex eigen_contour_point(const struct eigen_contour *c, int j)
{
	double theta = 2 * M_PI * (j + 0.5) / c->points;

	return CMPLX(c->center + c->radius * cos(theta),
		     c->radius * sin(theta));
}

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void eigen_contour_block(int n, int block, double *v)
{
	uint64_t state = SEED;
	size_t i, count = (size_t)n * block;

	for (i = 0; i < count; i++)
		v[i] = random_next(&state) >> 63 ? 1 : -1;
}

void eigen_contour_add(const struct eigen_contour *c, int n, int j,
		       const double complex *y, double *s)
{
	double complex t, weight;
	size_t i, size = (size_t)n * c->block;
	int k;

	t = (eigen_contour_point(c, j) - c->center) / c->radius;
	weight = t * c->radius / c->points;
	for (k = 0; k < c->moments; k++, s += size, weight *= t) {
		double re = creal(weight), im = cimag(weight);

		for (i = 0; i < size; i++)
			s[i] += re * creal(y[i]) - im * cimag(y[i]);
	}
}

/* All memory of eigen_contour_extract; one struct, so that one place frees it.
 */
struct room {
	double *tau, *work, *r, *u, *singular, *basis, *am, *value;
	double *small_a, *small_b, *x, *ax, *bx;
	int lwork;
};

static int room_make(struct room *room, int n, int columns)
{
	size_t square = (size_t)columns * columns, tall = (size_t)n * columns;

	memset(room, 0, sizeof(*room));
	room->lwork = 64 * columns + 256;
	room->tau = malloc(columns * sizeof(double));
	room->work = malloc(room->lwork * sizeof(double));
	room->r = calloc(square, sizeof(double));
	room->u = malloc(square * sizeof(double));
	room->singular = malloc(columns * sizeof(double));
	room->basis = malloc(tall * sizeof(double));
	room->am = malloc(tall * sizeof(double));
	room->value = malloc(columns * sizeof(double));
	room->small_a = malloc(square * sizeof(double));
	room->small_b = malloc(square * sizeof(double));
	room->x = malloc(n * sizeof(double));
	room->ax = malloc(n * sizeof(double));
	room->bx = malloc(n * sizeof(double));
	return room->tau && room->work && room->r && room->u &&
			       room->singular && room->basis && room->am &&
			       room->value && room->small_a && room->small_b &&
			       room->x && room->ax && room->bx
		       ? 0
		       : -ENOMEM;
}

static void room_free(struct room *room)
{
	free(room->tau);
	free(room->work);
	free(room->r);
	free(room->u);
	free(room->singular);
	free(room->basis);
	free(room->am);
	free(room->value);
	free(room->small_a);
	free(room->small_b);
	free(room->x);
	free(room->ax);
	free(room->bx);
}

static void multiply_dense(char ta, int m, int n, int k, const double *a,
			   int lda, const double *b, int ldb, double *c)
{
	const double one = 1, zero = 0;

	dgemm_(&ta, "N", &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &m, 1,
	       1);
}

/* The number of singular values above the noise, or -EDOM if there is none. */
static int rank_of(const struct eigen_contour *c, const double *singular,
		   int count)
{
	int rank = 0;

	if (!(singular[0] > 0) || !isfinite(singular[0]))
		return -EDOM;
	while (rank < count && singular[rank] > c->drop * singular[0])
		rank++;
	return rank;
}

/* For problems smaller than the subspace: S = U s W^T, and U is the basis. */
static int basis_wide(const struct eigen_contour *c, int n, int columns,
		      double *s, struct room *room)
{
	int info;

	dgesvd_("S", "N", &n, &columns, s, &n, room->singular, room->basis, &n,
		NULL, &columns, room->work, &room->lwork, &info, 1, 1);
	return info ? -EDOM : rank_of(c, room->singular, n);
}

/* S = Q R, R = U s W^T: the basis is Q times the columns of U above the noise.
 */
static int basis_make(const struct eigen_contour *c, int n, int columns,
		      double *s, struct room *room)
{
	int info, i, j, rank;

	dgeqrf_(&n, &columns, s, &n, room->tau, room->work, &room->lwork,
		&info);
	if (info)
		return -EDOM;
	for (j = 0; j < columns; j++) {
		for (i = 0; i <= j; i++)
			room->r[i + j * columns] = s[i + (size_t)j * n];
	}
	dorgqr_(&n, &columns, &columns, s, &n, room->tau, room->work,
		&room->lwork, &info);
	if (info)
		return -EDOM;
	dgesvd_("S", "N", &columns, &columns, room->r, &columns, room->singular,
		room->u, &columns, NULL, &columns, room->work, &room->lwork,
		&info, 1, 1);
	if (info)
		return -EDOM;
	rank = rank_of(c, room->singular, columns);
	if (rank < 0)
		return rank;
	multiply_dense('N', n, rank, columns, s, n, room->u, columns,
		       room->basis);
	return rank;
}

/* small = basis^T m basis, made exactly symmetric. */
static void project_matrix(const struct eigen_sparse *m, int rank,
			   struct room *room, double *small)
{
	int i, j, n = m->n;

	for (j = 0; j < rank; j++)
		eigen_sparse_multiply(m, room->basis + (size_t)j * n,
				      room->am + (size_t)j * n);
	multiply_dense('T', rank, rank, n, room->basis, n, room->am, n, small);
	for (j = 0; j < rank; j++) {
		for (i = 0; i < j; i++)
			small[i + j * rank] = small[j + i * rank] =
				(small[i + j * rank] + small[j + i * rank]) / 2;
	}
}

static double vector_norm(const double *x, int n)
{
	double sum = 0;
	int i;

	for (i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum);
}

/*
 * The backward error of Ritz pair j, as LAPACK measures it:
 * |A x - value B x| / ((|A| + |value| |B|) |x|). With the divisor
 * |A x| + |value| |B x| an exact small eigenvalue of a matrix with a large norm
 * would seem wrong.
 */
static double backward_error(const struct eigen_sparse *a,
			     const struct eigen_sparse *b, double size_a,
			     double size_b, int rank, int j, struct room *room)
{
	double value = room->value[j], scale;
	int i, n = a->n;

	multiply_dense('N', n, 1, rank, room->basis, n,
		       room->small_a + j * rank, rank, room->x);
	eigen_sparse_multiply(a, room->x, room->ax);
	eigen_sparse_multiply(b, room->x, room->bx);
	scale = (size_a + fabs(value) * size_b) * vector_norm(room->x, n);
	for (i = 0; i < n; i++)
		room->ax[i] -= value * room->bx[i];
	return scale > 0 && isfinite(scale) ? vector_norm(room->ax, n) / scale
					    : INFINITY;
}

static int solve_ritz(const struct eigen_contour *c,
		      const struct eigen_sparse *a,
		      const struct eigen_sparse *b, struct room *room,
		      struct eigen_found *found)
{
	double size_a = eigen_sparse_norm(a), size_b = eigen_sparse_norm(b);
	int rank = found->rank, itype = 1, info, j;

	if (isnan(size_a) || isnan(size_b))
		return -ENOMEM;
	project_matrix(a, rank, room, room->small_a);
	project_matrix(b, rank, room, room->small_b);
	dsygv_(&itype, "V", "L", &rank, room->small_a, &rank, room->small_b,
	       &rank, room->value, room->work, &room->lwork, &info, 1, 1);
	if (info)
		return -EDOM;
	found->pair = malloc((rank + 1ul) * sizeof(*found->pair));
	if (!found->pair)
		return -ENOMEM;
	for (j = 0; j < rank; j++) {
		if (fabs(room->value[j] - c->center) >= c->radius)
			continue;
		found->pair[found->count++] = (struct eigen_pair){
			room->value[j],
			backward_error(a, b, size_a, size_b, rank, j, room)};
	}
	return 0;
}

/* Hutchinson's estimator: the mean of v^T P v. P is the spectral projector, and
 * P V is the first moment in S. */
static void estimate_count(const struct eigen_contour *c, int n,
			   const double *v, const double *s,
			   struct eigen_found *found)
{
	double sum = 0, squares = 0, mean;
	int i, j;

	for (j = 0; j < c->block; j++) {
		double one = 0;

		for (i = 0; i < n; i++)
			one += v[i + (size_t)j * n] * s[i + (size_t)j * n];
		sum += one;
		squares += one * one;
	}
	mean = sum / c->block;
	found->estimate = mean;
	found->error =
		c->block < 2 ? INFINITY
			     : sqrt(fmax(0, squares / c->block - mean * mean) /
				    (c->block - 1));
}

int eigen_contour_extract(const struct eigen_contour *c,
			  const struct eigen_sparse *a,
			  const struct eigen_sparse *b, const double *v,
			  double *s, struct eigen_found *found)
{
	int columns = c->block * c->moments, error;
	struct room room;

	memset(found, 0, sizeof(*found));
	estimate_count(c, a->n, v, s, found);
	error = room_make(&room, a->n, columns);
	if (!error) {
		found->rank = columns > a->n
				      ? basis_wide(c, a->n, columns, s, &room)
				      : basis_make(c, a->n, columns, s, &room);
		error = found->rank < 0 ? found->rank : 0;
	}
	if (!error) {
		/* The whole space contains every eigenvector. */
		found->full = found->rank == columns && columns < a->n;
		error = solve_ritz(c, a, b, &room, found);
	}
	room_free(&room);
	return error;
}

static double norm_complex(const double complex *x, int n)
{
	return vector_norm((const double *)x, 2 * n);
}

/* Checks one column; r and t have n entries. */
static void check_column(double complex z, const struct eigen_sparse *a,
			 const struct eigen_sparse *b, double size,
			 const double *v, const double complex *y,
			 double complex *r, double complex *t,
			 struct eigen_check *check)
{
	double right, wrong, limit;
	int i, n = a->n;

	eigen_sparse_multiply(b, v, (double *)t);
	right = vector_norm((double *)t, n);
	for (i = 0; i < n; i++)
		r[i] = -((double *)t)[i];
	eigen_sparse_multiply_complex(a, y, t);
	for (i = 0; i < n; i++)
		r[i] -= t[i];
	eigen_sparse_multiply_complex(b, y, t);
	for (i = 0; i < n; i++)
		r[i] += z * t[i];
	wrong = norm_complex(r, n) / right;
	limit = 1e-13 * size * norm_complex(y, n) / right;
	/* Numbers beyond all bounds excuse nothing. */
	limit = limit > 1e-9 && isfinite(limit) ? limit : 1e-9;
	/* Keeps the column with the largest ratio of residual to limit; a NaN
	 * counts as the largest. */
	if (!(wrong * check->limit <= check->residual * limit))
		*check = (struct eigen_check){wrong, limit};
}

int eigen_contour_check(double complex z, int block,
			const struct eigen_sparse *a,
			const struct eigen_sparse *b, const double *v,
			const double complex *y, struct eigen_check *check)
{
	double complex *r = malloc(a->n * sizeof(*r));
	double complex *t = malloc(a->n * sizeof(*t));
	double size = eigen_sparse_norm(a) + cabs(z) * eigen_sparse_norm(b);
	int j, error;

	*check = (struct eigen_check){0, 1e-9};
	error = r && t && !isnan(size) ? 0 : -ENOMEM;
	for (j = 0; !error && j < block; j++) {
		check_column(z, a, b, size, v + (size_t)j * a->n,
			     y + (size_t)j * a->n, r, t, check);
		if (!(check->residual <= check->limit))
			break;
	}
	free(r);
	free(t);
	return error;
}
