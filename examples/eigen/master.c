// SPDX-License-Identifier: MIT
/* Owns one run: the problem, the circle, the calls and the answer. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/eigen/circle.h"
#include "examples/eigen/market.h"
#include "examples/eigen/master.h"
#include "examples/eigen/report.h"

static int report_failure(int code, const char *what)
{
	fprintf(stderr, "eigen: %s\n", what);
	return code;
}

static int report_error(int error, const char *what)
{
	return report_failure(EIGEN_WRONG,
			      error == -ENOMEM ? "not enough memory" : what);
}

static int load_matrix(const char *name, struct eigen_sparse *m)
{
	char why[EIGEN_MARKET_WHY];
	FILE *from = fopen(name, "r");
	int error;

	if (!from) {
		fprintf(stderr, "eigen: %s: %s\n", name, strerror(errno));
		return EIGEN_USAGE;
	}
	error = eigen_market_read(from, m, why);
	fclose(from);
	if (!error)
		return 0;
	fprintf(stderr, "eigen: %s: %s\n", name, why);
	return error == -ENOMEM ? EIGEN_WRONG : EIGEN_USAGE;
}

static int load_matrices(struct eigen_run *run)
{
	struct eigen_problem *p = &run->problem;
	int code;

	if (!run->options.matrix_a) {
		if (eigen_box_build(&run->options.box, &p->a, &p->b))
			return report_failure(EIGEN_WRONG, "not enough memory");
		run->exact_all = eigen_box_values(&run->options.box);
		return run->exact_all ? 0
				      : report_failure(EIGEN_WRONG,
						       "not enough memory");
	}
	code = load_matrix(run->options.matrix_a, &p->a);
	if (!code)
		code = load_matrix(run->options.matrix_b, &p->b);
	if (code)
		return code;
	if (p->a.n != p->b.n || !p->a.nnz || !p->b.nnz)
		return report_failure(
			EIGEN_USAGE,
			"A and B are empty or differ in their size");
	code = eigen_factor_definite(&p->b);
	if (code < 0)
		return report_error(code, "B cannot be factored");
	return code ? 0
		    : report_failure(EIGEN_USAGE, "B is not positive definite");
}

/* Chooses the circle, counts the eigenvalues inside, chooses the subspace. */
static int choose_circle(struct eigen_run *run)
{
	struct eigen_contour *c = &run->contour;
	struct eigen_problem *p = &run->problem;
	int n = p->a.n, wide;

	p->order = malloc(n * sizeof(*p->order));
	if (!p->order)
		return report_failure(EIGEN_WRONG, "not enough memory");
	if (run->exact_all)
		eigen_box_order(&run->options.box, p->order);
	run->factor = eigen_factor_new(&p->a, &p->b,
				       run->exact_all ? p->order : NULL);
	if (!run->factor)
		return report_failure(EIGEN_WRONG, "A cannot be analysed");
	memcpy(p->order, eigen_factor_order(run->factor),
	       n * sizeof(*p->order));
	if (!run->options.circle_given) {
		if (run->exact_all)
			eigen_circle_choose(run->exact_all, n, c);
		else if (eigen_circle_search(run->factor, n,
					     eigen_sparse_norm(&p->a) /
						     eigen_sparse_norm(&p->b),
					     c))
			return report_failure(EIGEN_WRONG,
					      "no circle can be chosen; give "
					      "--center and --radius");
	}
	run->inertia = eigen_circle_count(run->factor, c, 1);
	wide = eigen_circle_count(run->factor, c, 2);
	if (run->inertia < 0 || wide < 0)
		return report_failure(EIGEN_WRONG,
				      "A - sigma B cannot be factored where "
				      "the circle meets the real axis");
	eigen_circle_size(c, n, wide);
	return 0;
}

static int prepare_calls(struct eigen_run *run)
{
	struct eigen_contour *c = &run->contour;
	struct eigen_problem *p = &run->problem;
	size_t size = (size_t)p->a.n * c->block;
	int j;

	p->block = c->block;
	p->v = malloc(size * sizeof(*p->v));
	run->s = calloc(size * c->moments, sizeof(*run->s));
	run->call = calloc(c->points, sizeof(*run->call));
	if (!p->v || !run->s || !run->call)
		return report_failure(EIGEN_WRONG, "not enough memory");
	eigen_contour_block(p->a.n, c->block, p->v);
	for (j = 0; j < c->points; j++) {
		run->call[j].index = j;
		run->call[j].z = eigen_contour_point(c, j);
		run->call[j].y = malloc(size * sizeof(*run->call[j].y));
		if (!run->call[j].y)
			return report_failure(EIGEN_WRONG, "not enough memory");
	}
	return 0;
}

/* Workers are not trusted: checks that the solution solves the equation. */
static void check_call(struct eigen_run *run, struct eigen_call *call)
{
	struct eigen_problem *p = &run->problem;
	struct eigen_check result;

	if (call->status)
		return;
	if (eigen_contour_check(call->z, p->block, &p->a, &p->b, p->v, call->y,
				&result)) {
		call->status = -ENOMEM;
		snprintf(call->why, EIGEN_WHY, "no memory for its check");
	} else if (!(result.residual <= result.limit)) {
		call->status = -EBADMSG;
		snprintf(call->why, EIGEN_WHY,
			 "the result does not solve the equation: residual "
			 "%.1e, limit %.1e",
			 result.residual, result.limit);
	}
}

static void call_done(void *arg, struct eigen_call *call)
{
	struct eigen_run *run = arg;

	call->ended = 1;
	run->ended++;
	check_call(run, call);
	run->failed += call->status != 0;
	eigen_report_call(run, call);
	while (run->next < run->contour.points && run->call[run->next].ended) {
		struct eigen_call *one = &run->call[run->next];

		if (!one->status)
			eigen_contour_add(&run->contour, run->problem.a.n,
					  run->next, one->y, run->s);
		free(one->y);
		one->y = NULL;
		run->next++;
	}
}

static double clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* bee must have proved that it ran the calls, and all nodes must have run the
 * same program. */
static int refuse_run(const struct eigen_run *run)
{
	int i;

	for (i = 0; i < run->contour.points; i++) {
		const struct eigen_call *call = &run->call[i];

		if (call->bee && (!call->nonce || !call->emulated)) {
			fprintf(stderr,
				"eigen: point %d on %s: bee did not prove that "
				"it ran the worker\n",
				i, call->node);
			return EIGEN_REFUSED;
		}
		if (strcmp(call->program, run->call[0].program)) {
			fprintf(stderr,
				"eigen: %s ran program %.16s, %s ran %.16s\n",
				run->call[0].node, run->call[0].program,
				call->node, call->program);
			return EIGEN_REFUSED;
		}
	}
	return 0;
}

static int compute_points(struct eigen_run *run)
{
	char why[EIGEN_WHY] = "";
	double begin = clock_seconds();
	int error;

	error = run->engine->run(&run->problem, run->call, run->contour.points,
				 call_done, run, why);
	run->wall_s = clock_seconds() - begin;
	if (error)
		return report_failure(EIGEN_WRONG, why);
	if (run->failed) {
		fprintf(stderr, "eigen: %d of the %d calls failed\n",
			run->failed, run->contour.points);
		return EIGEN_WRONG;
	}
	return refuse_run(run);
}

/* Finds the known values inside the circle: neighbours in the ascending list.
 */
static void pick_exact(struct eigen_run *run)
{
	const struct eigen_contour *c = &run->contour;
	int i;

	for (i = 0; run->exact_all && i < run->problem.a.n; i++) {
		if (fabs(run->exact_all[i] - c->center) >= c->radius)
			continue;
		if (!run->exact)
			run->exact = &run->exact_all[i];
		run->exact_count++;
	}
	if (run->exact_all && !run->exact)
		run->exact = run->exact_all; /* none inside */
}

static int judge_run(struct eigen_run *run)
{
	struct eigen_evidence e = {.contour = &run->contour,
				   .found = &run->found,
				   .tolerance = run->options.tolerance,
				   .inertia = run->inertia};
	struct eigen_problem *p = &run->problem;
	int error;

	error = eigen_contour_extract(&run->contour, &p->a, &p->b, p->v, run->s,
				      &run->found);
	if (error)
		return report_error(error, "no subspace comes out of the "
					   "solutions; is the circle empty?");
	pick_exact(run);
	e.exact = run->exact;
	e.exact_count = run->exact_count;
	if (run->options.no_reference) {
		run->reference.method = "none";
	} else {
		error = eigen_reference_find(
			&p->a, &p->b, run->factor, run->contour.center,
			run->contour.radius, run->inertia, &run->reference);
		if (error)
			return report_error(error,
					    "the reference did not converge");
	}
	e.reference = run->reference.value;
	e.reference_count = run->reference.count;
	eigen_verdict_make(&e, &run->verdict);
	eigen_report_answer(run);
	return run->verdict.faults ? EIGEN_WRONG : EIGEN_RIGHT;
}

static void release_run(struct eigen_run *run)
{
	int j;

	for (j = 0; run->call && j < run->contour.points; j++)
		free(run->call[j].y);
	free(run->call);
	free(run->s);
	free(run->problem.v);
	free(run->problem.order);
	eigen_sparse_free(&run->problem.a);
	eigen_sparse_free(&run->problem.b);
	eigen_factor_free(run->factor);
	free(run->found.pair);
	free(run->reference.value);
	free(run->exact_all);
}

int eigen_master_run(const struct eigen_options *options,
		     const struct eigen_engine *engine)
{
	struct eigen_run run = {.options = *options,
				.engine = engine,
				.contour = options->contour};
	int code = load_matrices(&run);

	if (!code)
		code = choose_circle(&run);
	if (!code)
		code = prepare_calls(&run);
	if (!code) {
		eigen_report_problem(&run);
		code = compute_points(&run);
		if (!code)
			code = judge_run(&run);
		eigen_report_nodes(&run);
		if (options->json && eigen_report_json(&run, code) && !code)
			code = EIGEN_WRONG;
	}
	release_run(&run);
	return code;
}
