// SPDX-License-Identifier: MIT
/*
 * Memory ends at each allocation of each step in turn: the step says so, and
 * leaves nothing allocated. The linker passes allocations of the solver's own
 * files to the functions here; those of its libraries do not come here.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/eigen/box.h"
#include "examples/eigen/contour.h"
#include "examples/eigen/factor.h"
#include "examples/eigen/market.h"
#include "examples/eigen/master.h"
#include "examples/eigen/reference.h"
#include "examples/eigen/test/capture.h"
#include "examples/eigen/worker.h"
#include "tests/tap.h"

static int good = -1; /* so many allocations succeed before one fails */
static int live;

static void *count_one(void *p)
{
	live += p != NULL;
	return p;
}

static int must_fail(void)
{
	return good >= 0 && good-- == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : count_one(__real_malloc(size));
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return must_fail() ? NULL : count_one(__real_calloc(count, size));
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
	void *grown = must_fail() ? NULL : __real_realloc(p, size);

	return p ? grown : count_one(grown);
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}

/* The problem: a box of 27 unknowns. ----------------------------------------
 */

#define N 27
#define BLOCK 2
static const struct eigen_box box = {{4, 4, 4}, {1, 1, 1}};
static struct eigen_sparse a, b;
static struct eigen_factor *factor;
static double v[N * BLOCK];
static int order[N];

static int build_box(void)
{
	struct eigen_sparse x, y;
	int error = eigen_box_build(&box, &x, &y);

	eigen_sparse_free(&x);
	eigen_sparse_free(&y);
	return error;
}

static int list_values(void)
{
	double *value = eigen_box_values(&box);

	free(value);
	return value ? 0 : -ENOMEM;
}

static int make_factor(void)
{
	struct eigen_factor *f = eigen_factor_new(&a, &b, NULL);

	eigen_factor_free(f);
	return f ? 0 : -ENOMEM;
}

static int ask_definite(void)
{
	int r = eigen_factor_definite(&b);

	return r == 1 ? 0 : r;
}

static int find_norm(void)
{
	return isnan(eigen_sparse_norm(&a)) ? -ENOMEM : 0;
}

/* The projection to the first unknowns: S is a part of the unit matrix. */
static int extract_pairs(void)
{
	const struct eigen_contour c = {.center = 100,
					.radius = 1e6,
					.points = 8,
					.block = BLOCK,
					.moments = 1,
					.drop = 1e-12};
	struct eigen_found found;
	double s[N * BLOCK] = {1};
	int error;

	s[N + 1] = 1;
	error = eigen_contour_extract(&c, &a, &b, v, s, &found);
	free(found.pair);
	return error;
}

/* A wrong solution is never taken for a right one. */
static int check_wrong(void)
{
	static double complex y[N * BLOCK];
	struct eigen_check check;
	int error = eigen_contour_check(100, BLOCK, &a, &b, v, y, &check);

	return error || check.residual > check.limit ? error : 1;
}

static int find_reference(void)
{
	struct eigen_reference reference;
	int error = eigen_reference_find(&a, &b, factor, 30, 20, 3, &reference);

	free(reference.value);
	return error;
}

static int start_worker(void)
{
	int r = eigen_initialize(N, a.nnz, b.nnz, BLOCK, a.start, a.column,
				 a.value, b.start, b.column, b.value, v, order);

	if (r && !strstr(eigen_why(), "memory"))
		r = 1;
	eigen_finish();
	return r;
}

/* More entries than there is room for at first, and both halves of them. */
static int read_market(void)
{
	static char text[200000], why[EIGEN_MARKET_WHY];
	struct eigen_sparse m;
	size_t at;
	FILE *from;
	int i, error;

	at = sprintf(text, "%%%%MatrixMarket matrix coordinate real general\n"
			   "9000 9000 9000\n");
	for (i = 1; i <= 9000; i++)
		at += sprintf(text + at, "%d %d %d\n", i, i, i);
	from = fmemopen(text, at, "r");
	error = eigen_market_read(from, &m, why);
	fclose(from);
	if (!error && (m.nnz != 9000 || m.value[8999] != 9000))
		error = 1;
	if (error && (m.value || !strstr(why, "not enough memory")))
		error = 2;
	eigen_sparse_free(&m);
	return error;
}

static void test_step(const char *what, int least, int (*step)(void))
{
	int before = live, n = 0, kept, r, bad = 0;

	for (;; n++) {
		good = n;
		r = step();
		kept = good;
		good = -1;
		bad += live != before;
		if (kept >= 0)
			break;
		bad += r != -ENOMEM;
	}
	tap_ok(!bad && r == 0 && n >= least,
	       "memory ends at each of %d allocations of %s", n, what);
}

/* A whole run of the master: every end of memory is said, none is right. */
static int run_master(const char *matrix_a, const char *matrix_b)
{
	char name[] = "eigen", box_word[] = "--elements", sizes[] = "3,3,3";
	char *argv[] = {name, box_word, sizes, NULL};
	struct eigen_options o;
	int code;

	if (eigen_options_read(3, argv, &o))
		abort();
	o.matrix_a = matrix_a;
	o.matrix_b = matrix_b;
	o.json = "/dev/null";
	o.contour.points = 8;
	capture_begin();
	code = eigen_master_run(&o, &eigen_engine_local);
	capture_end();
	if (code == EIGEN_RIGHT)
		return 0;
	if (code == EIGEN_WRONG &&
	    (strstr(said, "emory") || strstr(said, "cannot be analysed") ||
	     strstr(said, "no circle can be chosen")))
		return -ENOMEM;
	printf("# code %d: %s\n", code, said);
	return 1;
}

static int run_box(void)
{
	return run_master(NULL, NULL);
}

static char file_a[] = "/tmp/eigen-memory-XXXXXX";
static char file_b[] = "/tmp/eigen-memory-XXXXXX";

static int run_file(void)
{
	return run_master(file_a, file_b);
}

static void write_diagonal(char *name, int step)
{
	FILE *to = fdopen(mkstemp(name), "w");
	int i;

	fputs("%%MatrixMarket matrix coordinate real symmetric\n4 4 4\n", to);
	for (i = 1; i <= 4; i++)
		fprintf(to, "%d %d %d\n", i, i, 1 + i * step);
	fclose(to);
}

static void test_master(void)
{
	write_diagonal(file_a, 1);
	write_diagonal(file_b, 0);
	test_step("a run on a box", 60, run_box);
	test_step("a run on files", 60, run_file);
	unlink(file_a);
	unlink(file_b);
}

int main(void)
{
	if (eigen_box_build(&box, &a, &b))
		abort();
	eigen_box_order(&box, order);
	eigen_contour_block(N, BLOCK, v);
	factor = eigen_factor_new(&a, &b, NULL);
	test_step("a box", 14, build_box);
	test_step("the values of a box", 1, list_values);
	test_step("a norm", 1, find_norm);
	test_step("a factor", 4, make_factor);
	test_step("the question whether B is definite", 4, ask_definite);
	test_step("the pairs of a subspace", 16, extract_pairs);
	test_step("the check of a solution", 4, check_wrong);
	test_step("a reference", 4, find_reference);
	test_step("a worker's start", 5, start_worker);
	test_step("a matrix from a file", 22, read_market);
	test_master();
	eigen_factor_free(factor);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
	tap_ok(live == 0, "all memory is freed");
	return tap_done();
}
