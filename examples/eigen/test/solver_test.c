// SPDX-License-Identifier: MIT
/*
 * The whole master on engines of this process: right answers against LAPACK,
 * and answers that must fail because something was planted.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "examples/eigen/circle.h"
#include "examples/eigen/lapack.h"
#include "examples/eigen/master.h"
#include "tests/tap.h"

static char said[65536]; /* what the last run printed */

/* Runs the master with stdout and stderr in `said`; its exit code. */
static int run_on(const struct eigen_engine *engine, const char *words)
{
	char line[1024], *argv[32] = {"eigen"}, *word;
	struct eigen_options options;
	int argc = 1, code, status, out = fileno(tmpfile());
	ssize_t got;
	pid_t child;

	snprintf(line, sizeof(line), "%s", words);
	for (word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	fflush(stdout);
	child = fork();
	if (!child) {
		dup2(out, 1);
		dup2(out, 2);
		code = eigen_options_read(argc, argv, &options);
		if (!code)
			code = eigen_master_run(&options, engine);
		else
			code = code > 0 ? 0 : EIGEN_USAGE;
		fflush(stdout);
		_exit(code);
	}
	waitpid(child, &status, 0);
	got = pread(out, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_solver(const char *words)
{
	return run_on(&eigen_engine_local, words);
}

/* Engines that cheat ------------------------------------------------------ */

static void (*real_done)(void *, struct eigen_call *);
static void (*plant)(struct eigen_call *);

static void planted_done(void *arg, struct eigen_call *call)
{
	plant(call);
	real_done(arg, call);
}

static int planted_run(const struct eigen_problem *p, struct eigen_call *call,
		       int count, void (*done)(void *, struct eigen_call *),
		       void *arg, char why[EIGEN_WHY])
{
	real_done = done;
	return eigen_engine_local.run(p, call, count, planted_done, arg, why);
}

static const struct eigen_engine planted = {"planted", planted_run};

static void one_wrong_number(struct eigen_call *call)
{
	if (call->index == 17)
		call->y[100] *= 1 + 1e-5;
}

static void not_a_number(struct eigen_call *call)
{
	if (call->index == 3)
		call->y[5] = NAN;
}

static void other_program(struct eigen_call *call)
{
	strcpy(call->program, call->index == 9 ? "beef" : "f00d");
}

/* One call of bee, and what it proves. */
static int bee_index;
static unsigned bee_nonce, bee_emulated;

static void one_of_bee(struct eigen_call *call)
{
	call->bee = call->index == bee_index;
	call->nonce = bee_nonce;
	call->emulated = bee_emulated;
}

static void plant_failed(struct eigen_call *call)
{
	if (call->index == 1) {
		call->status = -1;
		strcpy(call->why, "planted sentence");
	}
}

/* The check of a result, for which there may be no memory. */
static int check_fails;
int __real_eigen_contour_check(double complex z, int block,
			       const struct eigen_sparse *a,
			       const struct eigen_sparse *b, const double *v,
			       const double complex *y,
			       struct eigen_check *check);
int __wrap_eigen_contour_check(double complex z, int block,
			       const struct eigen_sparse *a,
			       const struct eigen_sparse *b, const double *v,
			       const double complex *y,
			       struct eigen_check *check);
int __wrap_eigen_contour_check(double complex z, int block,
			       const struct eigen_sparse *a,
			       const struct eigen_sparse *b, const double *v,
			       const double complex *y,
			       struct eigen_check *check)
{
	return check_fails ? -ENOMEM
			   : __real_eigen_contour_check(z, block, a, b, v, y,
							check);
}

static void test_planted(void)
{
	check_fails = 1;
	tap_ok(run_solver("--size 2") == EIGEN_WRONG &&
		       strstr(said, "no memory for its check"),
	       "a result that cannot be checked fails the run");
	check_fails = 0;
	plant = one_wrong_number;
	tap_ok(run_on(&planted, "--size 6") == EIGEN_WRONG &&
		       strstr(said, "does not solve the equation"),
	       "one wrong number of one worker fails the run");
	plant = not_a_number;
	tap_ok(run_on(&planted, "--size 6") == EIGEN_WRONG &&
		       strstr(said, "does not solve the equation"),
	       "a result that is no number fails the run");
	plant = plant_failed;
	tap_ok(run_on(&planted, "--size 6") == EIGEN_WRONG &&
		       strstr(said, "planted sentence"),
	       "a failed call fails the run and is explained");
	plant = other_program;
	tap_ok(run_on(&planted, "--size 6") == EIGEN_REFUSED &&
		       strstr(said, "eigen: this process ran program f00d, "
				    "this process ran beef\n"),
	       "nodes with different programs are refused");
	plant = one_of_bee;
	for (bee_index = 0; bee_index < 40; bee_index += 39) {
		bee_nonce = 0;
		bee_emulated = 1;
		tap_ok(run_on(&planted, "--size 3") == EIGEN_REFUSED &&
			       strstr(said, "did not prove"),
		       "call %d of bee without its nonce is refused",
		       bee_index);
		bee_nonce = 1;
		bee_emulated = 0;
		tap_ok(run_on(&planted, "--size 3") == EIGEN_REFUSED &&
			       strstr(said, "did not prove"),
		       "call %d of bee without emulated calls is refused",
		       bee_index);
		bee_emulated = 1;
		tap_ok(run_on(&planted, "--size 3") == EIGEN_RIGHT,
		       "call %d of bee with its proof is taken", bee_index);
	}
}

/* The master's own cases -------------------------------------------------- */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void test_wall_time(void)
{
	double begin = now_seconds(), wall = -1, most;
	const char *at;
	int code = run_solver("--size 3");

	most = now_seconds() - begin + 0.01;
	at = strstr(said, "wall time  ");
	if (at)
		sscanf(at, "wall time  %lf s for the calls\n", &wall);
	tap_ok(code == EIGEN_RIGHT && wall >= 0 && wall <= most,
	       "the calls of a run of %.2f s take %.2f s", most, wall);
}

static void test_box(void)
{
	tap_ok(run_solver("--size 6") == EIGEN_RIGHT && strstr(said, "LAPACK"),
	       "a small box agrees with LAPACK");
	tap_ok(run_solver("--size 9") == EIGEN_RIGHT && strstr(said, "ARPACK"),
	       "a larger box agrees with ARPACK");
	tap_ok(run_solver("--elements 7,7,7 --edges 1,1,1 --center 75 --radius "
			  "40") == EIGEN_RIGHT,
	       "a cube's triple eigenvalues are all found");
	tap_ok(run_solver("--elements 9,9,9 --edges 1,1,1 --center 75 --radius "
			  "40") == EIGEN_RIGHT,
	       "triple eigenvalues are all found beside ARPACK's");
	tap_ok(run_solver(
		       "--elements 7,8,9 --edges 1,1.0001,1.0002 --center 75 "
		       "--radius 40") == EIGEN_RIGHT,
	       "clustered eigenvalues are all found");
	tap_ok(run_solver("--size 6 --no-reference") == EIGEN_RIGHT &&
		       strstr(said, "reference  none"),
	       "without a reference the count by inertia is checked");
	tap_ok(run_solver("--elements 3,3,3") == EIGEN_RIGHT,
	       "a box with few unknowns has all its eigenvalues");
	tap_ok(run_solver("--elements 3,3,3 --json /dev/null") == EIGEN_RIGHT,
	       "a run may leave a report");
	tap_ok(run_solver("--elements 3,3,3 --json /dev/full") == EIGEN_WRONG,
	       "a report that cannot be written fails the run");
	run_solver("--size 6 --center -5 --radius 1");
	tap_ok(!!strstr(said, "inside     0 eigenvalues by inertia"),
	       "a circle without eigenvalues is counted");
}

/* What the sanitizer's allocator has given out. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* Libraries keep what they set up in a first run; a later one adds nothing. */
static void test_memory(void)
{
	char name[] = "eigen", option[] = "--elements", box[] = "3,3,3";
	char *argv[] = {name, option, box, NULL};
	struct eigen_options options;
	size_t before = 0, after = 0;
	pid_t child;
	int i, status;

	fflush(stdout);
	child = fork();
	if (!child) {
		dup2(open("/dev/null", O_WRONLY), 1);
		dup2(1, 2);
		for (i = 0; i < 3; i++) {
			before = after;
			if (eigen_options_read(3, argv, &options) ||
			    eigen_master_run(&options, &eigen_engine_local))
				_exit(2);
			after = __sanitizer_get_current_allocated_bytes();
		}
		_exit(after != before);
	}
	waitpid(child, &status, 0);
	tap_ok(status == 0, "a run leaves no memory behind");
}

static void test_edge(void)
{
	const struct eigen_box box = {{6, 7, 8}, {1, 1.1, 1.25}};
	double *value = eigen_box_values(&box), radius;
	char line[200];
	int i;
	const double offset[] = {1e-3, -1e-3, 1e-6, -1e-6};

	for (i = 0; i < 4; i++) {
		radius = (value[8] - 60) * (1 + offset[i]);
		snprintf(line, sizeof(line),
			 "--size 6 --center 60 --radius %.17g", radius);
		tap_ok(run_solver(line) == EIGEN_RIGHT,
		       "an eigenvalue %g radii from the circle is placed right",
		       offset[i]);
	}
	snprintf(line, sizeof(line), "--size 6 --center 60 --radius %.17g",
		 (value[8] - 60) * (1 + 1e-12));
	tap_ok(run_solver(line) == EIGEN_WRONG && strstr(said, "on the circle"),
	       "an eigenvalue on the circle fails the run");
	free(value);
}

static void test_subspace(void)
{
	tap_ok(run_solver("--size 8 --block 4 --moments 2 --center 75 --radius "
			  "45") == EIGEN_WRONG &&
		       strstr(said, "subspace is full") &&
		       strstr(said, "take a larger --block"),
	       "a subspace that is too small fails with advice");
}

/*
 * A = diag(1, 2, 3, 1e12), and a subspace whose vectors are off by 1e-13
 * towards the last one, as solves in this arithmetic leave them. The values are
 * right to 1e-14, and |A x| is a tenth off for all that.
 */
static void test_large_norm(void)
{
	const struct eigen_contour c = {.center = 2,
					.radius = 1.5,
					.points = 40,
					.block = 3,
					.moments = 1,
					.drop = 1e-12};
	const int place[] = {0, 1, 2, 3};
	const double stiff[] = {1, 2, 3, 1e12}, one[] = {1, 1, 1, 1};
	double v[12], s[12] = {1, 0, 0, 1e-13, 0, 1, 0, 1e-13, 0, 0, 1, 1e-13};
	struct eigen_sparse a, b;
	struct eigen_found found;
	double worst = 0;
	int i;

	eigen_contour_block(4, 3, v);
	eigen_sparse_build(&a, 4, 4, place, place, stiff);
	eigen_sparse_build(&b, 4, 4, place, place, one);
	tap_ok(!eigen_contour_extract(&c, &a, &b, v, s, &found) &&
		       found.count == 3,
	       "three eigenvalues beside a very large one are found");
	for (i = 0; i < found.count; i++)
		worst = fmax(worst, found.pair[i].residual);
	tap_ok(worst > 0 && worst < 1e-12,
	       "a residual is measured against the norms of the matrices");
	free(found.pair);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

static void test_usage(void)
{
	static const char *const wrong[] = {
		"--size 1",
		"--size 1e9",
		"--size 3x",
		"--elements 3,3",
		"--points 7",
		"--points 0",
		"--center 3",
		"--center 1 --radius -1",
		"--center 1 --radius 0",
		"--tol 0",
		"--center nan --radius 1",
		"--matrix-a x",
		"--bogus",
		"--tol",
		"extra",
		"--matrix-a /nonexistent --matrix-b /x",
	};
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		tap_ok(run_solver(wrong[i]) == EIGEN_USAGE && *said,
		       "wrong use: %s", wrong[i]);
}

/* Random pencils ---------------------------------------------------------- */

static unsigned int state = 1;

static double next_random(void)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) * 0x1p-24 - 0.5;
}

static void write_matrix(const char *name, int n, double diagonal, int band)
{
	FILE *to = fopen(name, "w");
	int i, j, count = 0;

	for (i = 0; i < n; i++)
		count += 1 + (i < band ? i : band);
	fprintf(to,
		"%%%%MatrixMarket matrix coordinate real symmetric\n"
		"%d %d %d\n",
		n, n, count);
	for (i = 0; i < n; i++) {
		for (j = i - band < 0 ? 0 : i - band; j < i; j++)
			fprintf(to, "%d %d %.17g\n", i + 1, j + 1,
				next_random());
		fprintf(to, "%d %d %.17g\n", i + 1, i + 1,
			diagonal + next_random());
	}
	fclose(to);
}

static void test_pencils(void)
{
	char folder[] = "/tmp/eigen-test-XXXXXX", a[64], b[64], line[300];
	int i;

	if (!mkdtemp(folder))
		return;
	snprintf(a, sizeof(a), "%s/a.mtx", folder);
	snprintf(b, sizeof(b), "%s/b.mtx", folder);
	for (i = 0; i < 5; i++) {
		write_matrix(a, 60 + 40 * i, 0, 3 + i);
		write_matrix(b, 60 + 40 * i, 8, 2);
		snprintf(line, sizeof(line),
			 "--matrix-a %s --matrix-b %s --center 0.013 --radius "
			 "0.021",
			 a, b);
		tap_ok(run_solver(line) == EIGEN_RIGHT,
		       "random pencil %d agrees with LAPACK", i);
	}
	snprintf(line, sizeof(line), "--matrix-a %s --matrix-b %s", a, b);
	tap_ok(run_solver(line) == EIGEN_RIGHT && strstr(said, "chosen"),
	       "a circle is chosen for matrices from files");
	snprintf(line, sizeof(line), "--matrix-a %s --matrix-b %s", a, a);
	tap_ok(run_solver(line) == EIGEN_USAGE &&
		       strstr(said, "not positive definite"),
	       "a B that is not positive definite is refused");
	unlink(a);
	unlink(b);
	rmdir(folder);
}

/* The trace estimate of three eigenvalues, without an error of its own. */
static void test_estimate_fits(void)
{
	struct eigen_contour c = {.center = 4, .radius = 4, .block = 16};
	struct eigen_pair pair[] = {{2, 0}, {4, 0}, {7, 0}};
	struct eigen_found found = {
		.rank = 5, .count = 3, .pair = pair, .estimate = 4};
	struct eigen_evidence e = {.contour = &c,
				   .found = &found,
				   .tolerance = 1e-8,
				   .inertia = 3};
	struct eigen_verdict v;

	c.moments = 4;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 0, "an estimate that differs by 1 fits");
	found.estimate = 4.01;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "trace estimate"),
	       "and one that differs by more does not");
}

/* The verdict, without a run ---------------------------------------------- */

static void test_verdict(void)
{
	const struct eigen_contour c = {.center = 5,
					.radius = 5,
					.points = 40,
					.block = 16,
					.moments = 4};
	struct eigen_pair pair[] = {{2, 1e-14}, {4, 1e-14}, {7, 1e-14}};
	struct eigen_found found = {.rank = 5,
				    .count = 3,
				    .pair = pair,
				    .estimate = 3.1,
				    .error = 0.2};
	const double reference[] = {2, 4, 7}, fewer[] = {2, 7};
	struct eigen_evidence e = {.contour = &c,
				   .found = &found,
				   .tolerance = 1e-8,
				   .inertia = 3,
				   .reference = reference,
				   .reference_count = 3};
	struct eigen_verdict v;

	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 0 && v.difference == 0, "a correct result passes");
	e.inertia = 4;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "missing"),
	       "a missing eigenvalue fails by inertia alone");
	e.inertia = 3;
	e.reference = fewer;
	e.reference_count = 2;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "the reference has 2"),
	       "a count that differs from the reference's fails");
	e.reference = reference;
	e.reference_count = 3;
	found.count = 2;
	e.inertia = 2;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1, "a missing eigenvalue fails by the reference");
	found.count = 3;
	e.inertia = 3;
	found.estimate = 6;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "trace estimate"),
	       "a trace estimate that does not fit fails");
	found.estimate = NAN;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1, "a trace estimate that is no number fails");
	found.estimate = 3.1;
	pair[1].residual = 1e-4;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "residual"),
	       "a large residual fails");
	pair[1].residual = 1e-14;
	pair[1].value = 4.001;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && strstr(v.fault[0], "difference"),
	       "a difference from the reference fails");
}

/* Each pair counts, the first and the last too. */
static void test_each_pair(void)
{
	const struct eigen_contour c = {
		.center = 5, .radius = 5, .points = 40, .block = 16};
	int i;

	for (i = 0; i < 3; i++) {
		struct eigen_pair pair[] = {{2, 1e-14}, {4, 1e-14}, {7, 1e-14}};
		struct eigen_found found = {.rank = 5,
					    .count = 3,
					    .pair = pair,
					    .estimate = 3,
					    .error = 0.2};
		struct eigen_evidence e = {.contour = &c,
					   .found = &found,
					   .tolerance = 1e-8,
					   .inertia = 3};
		struct eigen_verdict v;

		pair[i].residual = 1e-4;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1 && v.residual == 1e-4,
		       "the residual of pair %d counts", i);
		pair[i].residual = NAN;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1 && isnan(v.residual),
		       "a residual of pair %d that is no number counts", i);
		pair[i].residual = 1e-8;
		pair[i].value = i % 2 ? 10 - 1e-10 : 1e-10;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1 && strstr(v.fault[0], "on the circle"),
		       "pair %d on the circle is at fault, not its residual",
		       i);
	}
}

/* The known values of a box, each of them, and their number. */
static void test_exact(void)
{
	const struct eigen_contour c = {
		.center = 5, .radius = 5, .points = 40, .block = 16};
	struct eigen_pair pair[] = {{2, 0}, {4, 0}, {7, 0}};
	struct eigen_found found = {.count = 3, .pair = pair, .estimate = 3};
	double exact[] = {2, 4, 7};
	struct eigen_evidence e = {.contour = &c,
				   .found = &found,
				   .tolerance = 0.5,
				   .inertia = 3,
				   .exact = exact,
				   .exact_count = 3};
	struct eigen_verdict v;
	int i;

	eigen_verdict_make(&e, &v);
	tap_ok(!v.faults && v.exact == 0, "the known values are right");
	for (i = 0; i < 3; i++) {
		exact[i] = 2 * pair[i].value;
		eigen_verdict_make(&e, &v);
		tap_ok(!v.faults && v.exact == 0.5,
		       "value %d may differ by the tolerance", i);
		exact[i] *= 2;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1 && v.exact == 0.75 &&
			       strstr(v.fault[0], "are known, and differ by "
						  "7.5e-01."),
		       "value %d may not differ by more", i);
		exact[i] = NAN;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1, "value %d may not be no number", i);
		e.exact = NULL;
		e.reference = exact;
		e.reference_count = 3;
		eigen_verdict_make(&e, &v);
		tap_ok(v.faults == 1, "nor may a reference's value %d", i);
		e.exact = exact;
		e.reference = NULL;
		exact[i] = pair[i].value;
	}
	e.exact_count = 2;
	eigen_verdict_make(&e, &v);
	tap_ok(v.faults == 1 && isinf(v.exact), "none may be missing");
}

/* No more faults are kept than there is room for. */
static void test_many_faults(void)
{
	const struct eigen_contour c = {
		.center = 5, .radius = 5, .points = 40, .block = 16};
	struct eigen_pair pair[10];
	struct eigen_found found = {.count = 10, .pair = pair, .estimate = 10};
	struct eigen_evidence e = {.contour = &c,
				   .found = &found,
				   .tolerance = 1e-8,
				   .inertia = 10};
	struct eigen_verdict v;
	int i;

	for (i = 0; i < 10; i++)
		pair[i] = (struct eigen_pair){10, 0};
	eigen_verdict_make(&e, &v);
	for (i = 0; i < v.faults && strstr(v.fault[i], "on the circle"); i++)
		;
	tap_ok(i == 8, "%d of ten faults are kept", i);
}

/* The worker's own bounds -------------------------------------------------- */

static void test_worker(void)
{
	int ia[] = {0, 1, 3}, ja[] = {0, 0, 1}, upper[] = {0, 1, 1};
	int falling[] = {0, 3, 1}, outside[] = {0, 1, 900};
	double a[] = {2, -1, 2}, b[] = {1, 0, 1}, v[] = {1, -1}, y[4];
	double zero[] = {0, 0, 0};
	int order[] = {2, 1}, twice[] = {1, 1};

	tap_ok(eigen_solve(2, 1, 0, 1, y) < 0, "solve before initialize");
	tap_ok(eigen_initialize(2, 3, 3, 1, ia, upper, a, ia, ja, b, v, order) <
			       0 &&
		       eigen_solve(2, 1, 0, 1, y) < 0 && *eigen_why(),
	       "an upper triangle is refused, by solve too");
	tap_ok(eigen_initialize(2, 3, 3, 1, falling, ja, a, ia, ja, b, v,
				order) < 0,
	       "falling row starts are refused");
	tap_ok(eigen_initialize(2, 3, 3, 1, outside, ja, a, ia, ja, b, v,
				order) < 0,
	       "row starts outside are refused");
	tap_ok(eigen_initialize(2, 3, 3, 1, ia, ja, a, ia, ja, b, v, twice) < 0,
	       "an order that names an unknown twice is refused");
	tap_ok(!eigen_initialize(2, 3, 3, 1, ia, ja, a, ia, ja, b, v, order) &&
		       !eigen_solve(2, 1, 0, 1, y),
	       "a small pencil is solved");
	/* (i - 2) y0 + y1 = 1, y0 + (i - 2) y1 = -1: y = 1 / (i - 3) */
	tap_ok(fabs(y[0] + 0.3) < 1e-15 && fabs(y[1] + 0.1) < 1e-15,
	       "a small pencil is solved correctly");
	tap_ok(eigen_solve(3, 1, 0, 1, y) < 0 && eigen_solve(2, 2, 0, 1, y) < 0,
	       "sizes that differ from initialize's are refused");
	tap_ok(!eigen_initialize(2, 3, 3, 1, ia, ja, zero, ia, ja, zero, v,
				 order) &&
		       eigen_solve(2, 1, 0, 1, y) < 0 &&
		       strstr(eigen_why(), "singular"),
	       "a singular matrix is an error with a message");
	eigen_finish();
}

int main(void)
{
	test_worker();
	test_verdict();
	test_estimate_fits();
	test_each_pair();
	test_exact();
	test_many_faults();
	test_wall_time();
	test_box();
	test_memory();
	test_edge();
	test_subspace();
	test_large_norm();
	test_planted();
	test_pencils();
	test_usage();
	return tap_done();
}
