// SPDX-License-Identifier: MIT
/*
 * The numbers between the problem and the answer, each step by itself: sparse
 * matrices, the circle and its subspace, estimates, the limits of checks. MUMPS
 * ends with errors that this test plants.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dmumps_c.h>
#include <zmumps_c.h>

#include "examples/eigen/box.h"
#include "examples/eigen/calls.h"
#include "examples/eigen/circle.h"
#include "examples/eigen/lapack.h"
#include "examples/eigen/reference.h"
#include "tests/tap.h"

/* More than a GiB at once is no memory. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

/* MUMPS ------------------------------------------------------------------- */

#define JOB_INIT -1
#define FACTORISE 2
static int start_fails;	    /* MUMPS cannot be started */
static int planted, detail; /* the error of factorisations, and its number */
static int failing, calls;  /* so many of them fail; how many there were */
static int space[8];	    /* the work space that each was given, percent */
static int by_values, by_pattern; /* how the last one ordered: ICNTL 6, 12 */
static int ordering;		  /* and ICNTL 7; 1: as given */

static int plant_failure(int job, const MUMPS_INT *icntl, MUMPS_INT *infog)
{
	if (job == JOB_INIT && start_fails) {
		infog[0] = -13;
		return 1;
	}
	if (job != FACTORISE)
		return 0;
	if (calls < 8)
		space[calls] = icntl[13];
	by_values = icntl[5];
	by_pattern = icntl[11];
	ordering = icntl[6];
	if (calls++ >= failing)
		return 0;
	infog[0] = planted;
	infog[1] = detail;
	return 1;
}

void dmumps_c(DMUMPS_STRUC_C *mumps)
{
	void (*real)(DMUMPS_STRUC_C *) =
		(__typeof__(real))dlsym(RTLD_NEXT, "dmumps_c");

	if (!plant_failure(mumps->job, mumps->icntl, mumps->infog))
		real(mumps);
}

void zmumps_c(ZMUMPS_STRUC_C *mumps)
{
	void (*real)(ZMUMPS_STRUC_C *) =
		(__typeof__(real))dlsym(RTLD_NEXT, "zmumps_c");

	if (!plant_failure(mumps->job, mumps->icntl, mumps->infog))
		real(mumps);
}

/* LAPACK ------------------------------------------------------------------ */

enum { QR = 1, BASIS, SINGULAR, RITZ };
static int lapack_fails; /* which of these does not converge */

void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau,
	     double *work, const int *lwork, int *info)
{
	__typeof__(dgeqrf_) *real =
		(__typeof__(real))dlsym(RTLD_NEXT, "dgeqrf_");

	real(m, n, a, lda, tau, work, lwork, info);
	*info = lapack_fails == QR ? 1 : *info;
}

void dorgqr_(const int *m, const int *n, const int *k, double *a,
	     const int *lda, const double *tau, double *work, const int *lwork,
	     int *info)
{
	__typeof__(dorgqr_) *real =
		(__typeof__(real))dlsym(RTLD_NEXT, "dorgqr_");

	real(m, n, k, a, lda, tau, work, lwork, info);
	*info = lapack_fails == BASIS ? 1 : *info;
}

void dgesvd_(const char *jobu, const char *jobvt, const int *m, const int *n,
	     double *a, const int *lda, double *s, double *u, const int *ldu,
	     double *vt, const int *ldvt, double *work, const int *lwork,
	     int *info, size_t one, size_t other)
{
	__typeof__(dgesvd_) *real =
		(__typeof__(real))dlsym(RTLD_NEXT, "dgesvd_");

	real(jobu, jobvt, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, info,
	     one, other);
	*info = lapack_fails == SINGULAR ? 1 : *info;
}

void dsygv_(const int *itype, const char *jobz, const char *uplo, const int *n,
	    double *a, const int *lda, double *b, const int *ldb, double *w,
	    double *work, const int *lwork, int *info, size_t one, size_t other)
{
	__typeof__(dsygv_) *real = (__typeof__(real))dlsym(RTLD_NEXT, "dsygv_");

	real(itype, jobz, uplo, n, a, lda, b, ldb, w, work, lwork, info, one,
	     other);
	*info = lapack_fails == RITZ ? 1 : *info;
}

static void plant_error(int error, int count)
{
	planted = error;
	detail = 4711;
	failing = count;
	calls = 0;
}

static const int two_rows[] = {0, 1, 1}, two_columns[] = {0, 0, 1};
static const double two[] = {2, -1, 2}, unit[] = {1, 0, 1};

static void make_pair(struct eigen_sparse *a, struct eigen_sparse *b)
{
	if (eigen_sparse_build(a, 2, 3, two_rows, two_columns, two) ||
	    eigen_sparse_build(b, 2, 3, two_rows, two_columns, unit))
		abort();
}

static const struct {
	const char *what;
	int error, count, code, calls;
} ends[] = {
	{"too little work space twice", -9, 2, 0, 3},
	{"too little at another place", -8, 1, 0, 2},
	{"too little three times", -9, 9, -ENOMEM, 3},
	{"no memory", -13, 9, -ENOMEM, 1},
	{"a singular matrix", -10, 9, -EDOM, 1},
	{"a matrix that is singular by its pattern", -6, 9, -EDOM, 1},
	{"integers too small", -11, 9, -ENOMEM, 1},
};

/* 2 is approximate minimum fill, in the MUMPS guide. */
static void test_ordering(const struct eigen_sparse *a,
			  const struct eigen_sparse *b)
{
	int order[] = {2, 1};
	struct eigen_factor *f = eigen_factor_new(a, b, NULL);

	TAP(f && eigen_factor_at(f, 2) == 1 && ordering == 2);
	eigen_factor_free(f);
	f = eigen_factor_new(a, b, order);
	tap_ok(f && eigen_factor_at(f, 2) == 1 && ordering == 1 &&
		       !memcmp(eigen_factor_order(f), order, sizeof(order)),
	       "the order is MUMPS's own, or the one that was given");
	eigen_factor_free(f);
}

static void test_factor(void)
{
	struct eigen_sparse a, b;
	struct eigen_factor *f;
	size_t i;

	make_pair(&a, &b);
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		int r;

		f = eigen_factor_new(&a, &b, NULL);
		plant_error(ends[i].error, ends[i].count);
		r = f ? eigen_factor_at(f, 2) : 1;
		tap_ok((ends[i].code ? r == ends[i].code : r == 1) &&
			       calls == ends[i].calls &&
			       (calls < 2 || space[1] == 3 * space[0]),
		       "a factorisation with %s: %d after %d", ends[i].what, r,
		       calls);
		eigen_factor_free(f);
	}
	tap_ok(space[0] == 50 && !by_values && by_pattern == 1,
	       "a factorisation gets half of the estimated work space more, "
	       "and "
	       "an order that no value changes");
	plant_error(0, 0);
	start_fails = 1;
	f = eigen_factor_new(&a, &b, NULL);
	tap_ok(!f, "without MUMPS there is no factorisation");
	tap_ok(eigen_factor_definite(&b) == -ENOMEM,
	       "without MUMPS nothing is said about B");
	start_fails = 0;
	eigen_factor_free(f);
	plant_error(-10, 9);
	tap_ok(!eigen_factor_definite(&b), "a singular B is not definite");
	plant_error(-13, 9);
	tap_ok(eigen_factor_definite(&b) == -ENOMEM,
	       "without memory nothing is said about B");
	plant_error(0, 0);
	TAP(eigen_factor_definite(&b) == 1);
	test_ordering(&a, &b);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* Each rule of a matrix that comes over the network is checked. */
static void test_check(void)
{
	static const struct {
		const char *what;
		int start[3], column[3];
		double value[3];
		int code;
	} cases[] = {
		{"nothing wrong", {0, 1, 3}, {0, 0, 1}, {1, 2, 3}, 0},
		{"a first row later", {1, 1, 3}, {0, 0, 1}, {1, 2, 3}, -EINVAL},
		{"too few", {0, 1, 2}, {0, 0, 1}, {1, 2, 3}, -EINVAL},
		{"a row beyond", {0, 4, 3}, {0, 0, 1}, {1, 2, 3}, -EINVAL},
		{"a row backwards", {0, -1, 3}, {0, 0, 1}, {1, 2, 3}, -EINVAL},
		{"a column twice", {0, 1, 3}, {0, 1, 1}, {1, 2, 3}, -EINVAL},
		{"a column before the first",
		 {0, 1, 3},
		 {0, -1, 1},
		 {1, 2, 3},
		 -EINVAL},
		{"the other half", {0, 1, 3}, {1, 0, 1}, {1, 2, 3}, -EINVAL},
		{"no number", {0, 1, 3}, {0, 0, 1}, {1, NAN, 3}, -EINVAL},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct eigen_sparse m = {2, 3, (int *)cases[i].start,
					 (int *)cases[i].column,
					 (double *)cases[i].value};

		tap_ok(eigen_sparse_check(&m) == cases[i].code,
		       "a matrix with %s", cases[i].what);
	}
}

static void test_worker(void)
{
	struct eigen_sparse a, b;
	double v[] = {1, -1}, y[4];
	int order[] = {2, 1}, outside[] = {3, 1}, none[] = {0, 2};
	size_t i;

	make_pair(&a, &b);
	TAP(eigen_initialize(1, 1, 1, 1, (int[]){0, 1}, (int[]){0},
			     (double[]){2}, (int[]){0, 1}, (int[]){0},
			     (double[]){1}, v, (int[]){1}) == 0 &&
	    eigen_solve(1, 1, 0, 1, y) == 0);
	for (i = 0; i < 2; i++) {
		int r = eigen_initialize(2, 3, b.nnz, 1, a.start, a.column,
					 a.value, b.start, b.column, b.value, v,
					 i ? outside : none);

		tap_ok(r == -EINVAL && strstr(eigen_why(), "order"),
		       "an order whose first number is %d is refused",
		       i ? 3 : 0);
	}
	TAP(eigen_initialize(2, 3, b.nnz, 1, a.start, a.column, a.value,
			     b.start, b.column, b.value, v, order) == 0);
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		char text[60];
		int r;

		snprintf(text, sizeof(text), "error %d (4711)", ends[i].error);
		plant_error(ends[i].error, ends[i].count);
		r = eigen_solve(2, 1, 0, 1, y);
		tap_ok(r == ends[i].code && calls == ends[i].calls &&
			       (calls < 2 || space[1] == 3 * space[0]) &&
			       (r == 0 || strstr(eigen_why(), text)),
		       "a worker with %s: %d after %d, %s", ends[i].what, r,
		       calls, r ? eigen_why() : "solved");
	}
	TAP(eigen_initialize(2, 3, b.nnz, 1, a.start, a.column, a.value,
			     b.start, b.column, b.value, v, order) == 0);
	plant_error(0, 0);
	tap_ok(eigen_solve(2, 1, 0, 1, y) == 0 && space[0] == 50 &&
		       !by_values && by_pattern == 1 && ordering == 1,
	       "a worker gets half of the estimated work space more, and an "
	       "order that no value changes");
	plant_error(0, 0);
	eigen_finish();
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* The clock says these times instead of its own: a call takes half a second. */
static const struct timespec *planted_time;
static const struct timespec half_second[] = {{10, 900000000}, {11, 400000000}};

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*real)(clockid_t, struct timespec *) =
		(__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");

	if (!planted_time)
		return real(clock, now);
	*now = *planted_time++;
	return 0;
}

static void count_call(void *arg, struct eigen_call *call)
{
	*(int *)arg += call->status == 0;
}

/* The engine of this process leaves nothing of its problem behind. */
static void test_local(void)
{
	struct eigen_problem p = {.block = 1};
	double complex y[2];
	struct eigen_call call = {.z = CMPLX(0, 1), .y = y};
	char why[EIGEN_WHY];
	double v[] = {1, -1};
	int order[] = {1, 2}, good = 0;

	make_pair(&p.a, &p.b);
	p.v = v;
	p.order = order;
	planted_time = half_second;
	TAP(eigen_engine_local.run(&p, &call, 1, count_call, &good, why) == 0 &&
	    good == 1);
	tap_ok(planted_time == half_second + 2 &&
		       fabs(call.exec_ms - 500) < 1e-6,
	       "a call in this process has its time in milliseconds");
	planted_time = NULL;
	TAP(!call.status && !*call.why);
	plant_error(-13, 9);
	TAP(eigen_engine_local.run(&p, &call, 1, count_call, &good, why) == 0 &&
	    good == 1);
	tap_ok(call.status == -ENOMEM && strstr(call.why, "error -13 (4711)"),
	       "a call in this process that fails says why: %s", call.why);
	plant_error(0, 0);
	tap_ok(eigen_solve(2, 1, 0, 1, (double *)y) < 0 &&
		       strstr(eigen_why(), "Initialize was not called"),
	       "a run in this process ends with its problem");
	eigen_sparse_free(&p.a);
	eigen_sparse_free(&p.b);
}

/* Matrices ---------------------------------------------------------------- */

static void test_sparse(void)
{
	const int row[] = {0, 1}, column[] = {0, 0}, corner[] = {0};
	const double value[] = {3, -4}, one[] = {1};
	struct eigen_sparse m;

	TAP(eigen_sparse_build(&m, 2, 2, row, column, value) == 0);
	tap_ok(eigen_sparse_norm(&m) == 7,
	       "the norm of a matrix is its largest row, even the first");
	eigen_sparse_free(&m);
	TAP(eigen_sparse_build(&m, 1, 1, corner, corner, one) == 0);
	tap_ok(eigen_sparse_check(&m) == 0, "one number is a lower triangle");
	eigen_sparse_free(&m);
	TAP(eigen_sparse_build(&m, 3, 0, corner, corner, one) == 0);
	tap_ok(eigen_sparse_check(&m) == 0, "empty rows are a lower triangle");
	eigen_sparse_free(&m);
	TAP(eigen_sparse_build(&m, INT_MAX - 1, 0, corner, corner, one) ==
	    -ENOMEM);
	tap_ok(!m.start && !m.column && !m.value,
	       "a matrix without room is refused and leaves nothing");
}

/* A size or a place that no matrix can have. */
static void test_sparse_refused(void)
{
	static const struct {
		int n, count, row, column;
	} bad[] = {{0, 0, 0, 0},      {-1, 0, 0, 0}, {INT_MAX, 0, 0, 0},
		   {2, -1, 0, 0},     {2, 1, 2, 0},  {2, 1, 0, 2},
		   {2, 1, -1, 0},     {2, 1, 0, -1}, {1, 1, 1, 1},
		   {2, 1, INT_MAX, 0}};
	const double one[] = {1};
	struct eigen_sparse m;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		memset(&m, 0xff, sizeof(m));
		tap_ok(eigen_sparse_build(&m, bad[i].n, bad[i].count,
					  &bad[i].row, &bad[i].column,
					  one) == -EINVAL &&
			       !m.start && !m.column && !m.value,
		       "a matrix of size %d with %d entries, one at %d, %d, is "
		       "refused",
		       bad[i].n, bad[i].count, bad[i].row, bad[i].column);
	}
	TAP(eigen_sparse_build(&m, 2, 1, (int[]){1}, (int[]){1}, one) == 0);
	eigen_sparse_free(&m);
}

/* The points are on the circle, none on the axis, and in pairs. */
static void test_points(void)
{
	struct eigen_contour c = {.center = 3, .radius = 2};
	int j;

	for (c.points = 4; c.points <= 40; c.points += 2) {
		int wrong = 0;

		for (j = 0; j < c.points; j++) {
			double complex z = eigen_contour_point(&c, j);
			double complex other =
				eigen_contour_point(&c, c.points - 1 - j);

			wrong += fabs(cabs(z - 3) - 2) > 1e-12 ||
				 cabs(z - conj(other)) > 1e-12 ||
				 (cimag(z) > 0) != (j < c.points / 2) ||
				 fabs(cimag(z)) < 0.1;
		}
		tap_ok(!wrong, "%d points are pairs, the upper ones first",
		       c.points);
	}
}

static void test_box(void)
{
	struct eigen_box flat = {{1, 5, 5}, {1, 1, 1}};
	struct eigen_sparse a, b;

	memset(&a, 0xff, sizeof(a));
	memset(&b, 0xff, sizeof(b));
	TAP(eigen_box_build(&flat, &a, &b) == -EINVAL);
	tap_ok(!a.start && !a.column && !a.value && !b.start && !b.value,
	       "a box that has no unknowns leaves no matrices");
}

/* The circle and its subspace --------------------------------------------- */

/* Values 1, 2, 3 ... but for a wide gap below two of them. */
static void test_choose(int first, int past)
{
	struct eigen_contour c = {0};
	double value[60];
	int i;

	for (i = 0; i < 60; i++)
		value[i] = i + (i >= first ? 2 : 0) + (i >= past ? 3 : 0);
	eigen_circle_choose(value, 60, &c);
	tap_ok(fabs(c.center - c.radius -
		    (value[first] + value[first - 1]) / 2) < 1e-12 &&
		       fabs(c.center + c.radius -
			    (value[past] + value[past - 1]) / 2) < 1e-12,
	       "a chosen circle passes through the gaps below values %d and %d",
	       first, past);
}

/* A subspace for the eigenvalues of twice the circle, and a quarter more. */
static const struct {
	const char *what;
	int points, n, wide, block, moments; /* given */
	int want_block, want_moments;
} sizes[] = {
	{"few eigenvalues", 40, 1000, 10, 0, 0, 16, 2},
	{"as many as the columns hold", 40, 1000, 100, 0, 0, 16, 9},
	{"more than the points allow", 40, 1000, 200, 0, 0, 26, 10},
	{"fewer points", 8, 1000, 100, 0, 0, 67, 2},
	{"a given block", 40, 1000, 100, 20, 0, 20, 7},
	{"given moments", 40, 1000, 100, 0, 4, 34, 4},
	{"fewer unknowns than columns", 40, 9, 9, 0, 0, 9, 3},
	{"a block and moments", 40, 1000, 100, 4, 2, 4, 2},
	{"128 in full columns", 40, 1000, 96, 0, 0, 16, 8},
	{"128 by full moments", 40, 1000, 96, 0, 4, 32, 4},
	{"180 by all points", 40, 1000, 138, 0, 0, 18, 10},
};

static void test_size(void)
{
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct eigen_contour c = {.points = sizes[i].points,
					  .block = sizes[i].block,
					  .moments = sizes[i].moments};

		eigen_circle_size(&c, sizes[i].n, sizes[i].wide);
		tap_ok(c.block == sizes[i].want_block &&
			       c.moments == sizes[i].want_moments,
		       "the subspace for %s: %d x %d", sizes[i].what, c.block,
		       c.moments);
	}
}

/* Every node and every build begins with the same block: the top bits of
 * splitmix64 from its seed, computed by another program.
 */
static void test_block(void)
{
	static const char want[] = "--+---+-+-+++++-+-++++-++--+++---+--"
				   "---+---++----++--++-++++--+-";
	double v[64];
	char signs[65] = "";
	int i;

	eigen_contour_block(16, 4, v);
	for (i = 0; i < 64; i++)
		signs[i] = v[i] == 1 ? '+' : v[i] == -1 ? '-' : '?';
	tap_ok(!strcmp(signs, want), "the block begins with %s", signs);
}

/* Answers ----------------------------------------------------------------- */

static const int place[] = {0, 1, 2, 3};

/* Extracts from S for the diagonal matrices a and 1. */
static int extract_pairs(const double *diagonal, int block, const double *v,
			 double *s, struct eigen_contour c,
			 struct eigen_found *found)
{
	const double one[] = {1, 1, 1, 1};
	struct eigen_sparse a, b;
	int error;

	c.points = 40;
	c.block = block;
	c.moments = 1;
	c.drop = c.drop > 0 ? c.drop : 1e-12;
	if (eigen_sparse_build(&a, 4, 4, place, place, diagonal) ||
	    eigen_sparse_build(&b, 4, 4, place, place, one))
		abort();
	error = eigen_contour_extract(&c, &a, &b, v, s, found);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
	return error;
}

/* A step of LAPACK that does not converge gives no eigenvalues. */
static void test_unconverged(void)
{
	const double diagonal[] = {1, 2, 30, 40};
	const struct eigen_contour circle = {.center = 1.5, .radius = 1};
	const double v[20] = {1};
	struct eigen_found found;
	int block;

	for (lapack_fails = 0; lapack_fails <= RITZ; lapack_fails++)
		for (block = 2; block <= 5;
		     block += 3) { /* 5: above the size */
			double s[20] = {2, 0, 0, 0, 0, 4, 0, 0};
			const int reached =
				lapack_fails == 0 ||
				(block > 4 && lapack_fails < SINGULAR);

			tap_ok(extract_pairs(diagonal, block, v, s, circle,
					     &found) == (reached ? 0 : -EDOM) &&
				       (reached || !found.count),
			       "step %d fails with %d columns", lapack_fails,
			       block);
			free(found.pair);
		}
	lapack_fails = 0;
}

static void test_estimate(void)
{
	const double diagonal[] = {1, 2, 30, 40};
	const double v[] = {1, 1, 1, 1, 1, 1, 1, 1};
	double s[] = {2, 0, 0, 0, 0, 4, 0, 0};
	struct eigen_found found;

	/* v^T S is 2 and 4: their mean, and that mean's deviation */
	TAP(extract_pairs(diagonal, 2, v, s,
			  (struct eigen_contour){.center = 2, .radius = 1.5},
			  &found) == 0);
	tap_ok(found.estimate == 3 && found.error == 1 && found.count == 2,
	       "the trace is estimated at %g +- %g", found.estimate,
	       found.error);
	free(found.pair);
}

static void test_scale(void)
{
	const double diagonal[] = {1e-9, 3e-9, 5e-9, 7e-9};
	const double v[] = {1, 1, 1, 1};
	double s[] = {0, 1e-9, 0, 0}, empty[] = {0, 0, 0, 0};
	const struct eigen_contour c = {.center = 3e-9, .radius = 1e-9};
	struct eigen_found found;

	tap_ok(extract_pairs(diagonal, 1, v, s, c, &found) == 0 &&
		       found.rank == 1 && found.count == 1 &&
		       fabs(found.pair[0].value - 3e-9) < 1e-20,
	       "one eigenvalue of a tiny circle is found");
	free(found.pair);
	tap_ok(extract_pairs(diagonal, 1, v, empty, c, &found) == -EDOM,
	       "solutions that are zero span no subspace");
	free(found.pair);
}

/* A direction exactly at the limit is noise. */
static void test_drop(void)
{
	const double diagonal[] = {1, 2, 3, 4};
	const double v[] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct eigen_found found;
	int over;

	for (over = 0; over < 2; over++) {
		double s[] = {1, 0, 0, 0, 0, 0.25 + over * 0x1p-20, 0, 0};

		tap_ok(extract_pairs(diagonal, 2, v, s,
				     (struct eigen_contour){.center = 2,
							    .radius = 1.5,
							    .drop = 0.25},
				     &found) == 0 &&
			       found.rank == 1 + over &&
			       found.count == 1 + over,
		       "of a direction %s the limit the rank is %d",
		       over ? "above" : "at", found.rank);
		free(found.pair);
	}
}

/*
 * Beside an eigenvalue as large as the norms a worker's rounding errors are
 * larger: A = diag(1e6, 1), z = 1e6 + 0.001 i, y = 1 / (z - a).
 */
static void test_limit(void)
{
	const double diagonal[] = {1e6, 1}, one[] = {1, 1}, v[] = {1, 1};
	const double complex z = CMPLX(1e6, 1e-3);
	double complex y[] = {1 / (z - 1e6), 1 / (z - 1)};
	struct eigen_check check;
	struct eigen_sparse a, b;

	TAP(!eigen_sparse_build(&a, 2, 2, place, place, diagonal) &&
	    !eigen_sparse_build(&b, 2, 2, place, place, one));
	y[0] *= 1 + 1e-6;
	TAP(eigen_contour_check(z, 1, &a, &b, v, y, &check) == 0);
	tap_ok(check.residual > 1e-7 && check.residual <= check.limit,
	       "rounding beside a large eigenvalue is accepted: %.1e of %.1e",
	       check.residual, check.limit);
	y[0] *= 1 + 1e-2;
	TAP(eigen_contour_check(z, 1, &a, &b, v, y, &check) == 0);
	tap_ok(check.residual > check.limit,
	       "a larger error than rounding is not accepted");
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* 60 columns for diag(1, 2, ..., 100), of which the circle has 12. */
static void test_columns(double scale)
{
	enum { N = 100, BLOCK = 60 };
	static double v[N * BLOCK], s[N * BLOCK], rising[N], one[N];
	static double complex y[N * BLOCK];
	static int index[N];
	struct eigen_contour c = {.center = 10.5,
				  .radius = 6,
				  .points = 40,
				  .block = BLOCK,
				  .moments = 1,
				  .drop = 1e-12};
	struct eigen_found found;
	struct eigen_sparse a, b;
	int i, j, same = 0;

	memset(s, 0, sizeof(s));
	for (i = 0; i < N; i++) {
		index[i] = i;
		rising[i] = i + 1;
		one[i] = 1;
	}
	TAP(!eigen_sparse_build(&a, N, N, index, index, rising) &&
	    !eigen_sparse_build(&b, N, N, index, index, one));
	eigen_contour_block(N, BLOCK, v);
	for (i = 0; i < N * BLOCK; i++)
		v[i] *= scale;
	for (j = 0; j < c.points; j++) {
		for (i = 0; i < N * BLOCK; i++)
			y[i] = v[i] /
			       (eigen_contour_point(&c, j) - rising[i % N]);
		eigen_contour_add(&c, N, j, y, s);
	}
	TAP(!eigen_contour_extract(&c, &a, &b, v, s, &found));
	for (i = 0; i < found.count; i++)
		same += fabs(found.pair[i].value - (5 + i)) < 1e-9;
	tap_ok(found.count == 12 && same == 12 && !found.full,
	       "of 100 eigenvalues 12 are found with 60 columns of %g: %d",
	       scale, found.count);
	free(found.pair);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* diag(1, 2, ..., n), too large for LAPACK, so that ARPACK finds what lies
 * within 0.9 of a center that no eigenvalue, or some, lie below.
 */
static void test_reference(void)
{
	enum { N = EIGEN_REFERENCE_DENSE + 1 };
	static int index[N];
	static double rising[N], one[N];
	struct eigen_reference reference;
	struct eigen_sparse a, b;
	struct eigen_factor *f;
	int i;

	for (i = 0; i < N; i++) {
		index[i] = i;
		rising[i] = i + 1;
		one[i] = 1;
	}
	TAP(!eigen_sparse_build(&a, N, N, index, index, rising) &&
	    !eigen_sparse_build(&b, N, N, index, index, one));
	f = eigen_factor_new(&a, &b, NULL);
	for (i = 0; i < 3; i++) {
		TAP(eigen_reference_find(&a, &b, f, i + 0.5, 0.9, 2,
					 &reference) == 0);
		tap_ok(reference.count == 1 + !!i &&
			       fabs(reference.value[0] - fmax(i, 1)) < 1e-9 &&
			       fabs(reference.value[!!i] - i - 1) < 1e-9,
		       "ARPACK's values with %d below the center", i);
		free(reference.value);
	}
	plant_error(-10, 9);
	tap_ok(eigen_reference_find(&a, &b, f, 1.5, 0.9, 2, &reference) ==
			       -EDOM &&
		       !reference.value,
	       "without a factorisation there is no reference");
	failing = 0;
	eigen_factor_free(f);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* What the sanitizer's allocator has given out. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* Libraries keep what they set up in a first call; a later one adds nothing. */
static void test_no_reference(void)
{
	int index[] = {0, 1};
	double one[] = {1, 1}, minus[] = {-1, -1};
	struct eigen_sparse a, b;
	struct eigen_reference reference;
	size_t before = 0;
	int i, r = 0;

	TAP(!eigen_sparse_build(&a, 2, 2, index, index, one) &&
	    !eigen_sparse_build(&b, 2, 2, index, index, minus));
	for (i = 0; i < 2; i++) {
		before = __sanitizer_get_current_allocated_bytes();
		r = eigen_reference_find(&a, &b, NULL, 1, 1, 1, &reference);
	}
	tap_ok(r == -EDOM && !reference.value &&
		       __sanitizer_get_current_allocated_bytes() == before,
	       "LAPACK refuses a negative B, and no memory is left behind");
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

int main(void)
{
	test_factor();
	test_check();
	test_worker();
	test_local();
	test_sparse();
	test_sparse_refused();
	test_points();
	test_box();
	test_choose(1, 13);
	test_choose(5, 20);
	test_choose(12, 32);
	test_size();
	test_block();
	test_estimate();
	test_unconverged();
	test_scale();
	test_drop();
	test_limit();
	test_columns(1);
	test_columns(1e-6);
	test_reference();
	test_no_reference();
	return tap_done();
}
