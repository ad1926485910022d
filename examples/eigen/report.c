// SPDX-License-Identifier: MIT
/* Prints a run. Names of nodes come from the network: see put_text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "examples/eigen/report.h"

#define EVERY 8 /* calls between two lines if the output is no terminal */

void eigen_report_problem(const struct eigen_run *run)
{
	const struct eigen_contour *c = &run->contour;
	const struct eigen_options *o = &run->options;
	const struct eigen_problem *p = &run->problem;

	if (o->matrix_a)
		printf("problem    %s, %s", o->matrix_a, o->matrix_b);
	else
		printf("problem    box of %d x %d x %d finite elements",
		       o->box.elements[0], o->box.elements[1],
		       o->box.elements[2]);
	printf(", %d unknowns, %d + %d entries\n", p->a.n, p->a.nnz, p->b.nnz);
	printf("circle     center %.10g radius %.10g (%s), %d points\n",
	       c->center, c->radius, o->circle_given ? "given" : "chosen",
	       c->points);
	printf("subspace   block %d, moments %d\n", c->block, c->moments);
	printf("inside     %d eigenvalues by inertia\n", run->inertia);
	fflush(stdout);
}

/* Prints a name without characters that could control a terminal. */
static void put_text(FILE *to, const char *text)
{
	for (; *text; text++)
		putc(*text >= ' ' && *text < 127 ? *text : '?', to);
}

void eigen_report_call(struct eigen_run *run, const struct eigen_call *call)
{
	int total = run->contour.points;

	if (!call->status && !isatty(2) && run->ended != total &&
	    run->ended - run->last_reported < EVERY)
		return;
	run->last_reported = run->ended;
	fprintf(stderr, "%3d/%d  point %d  ", run->ended, total, call->index);
	if (call->status) {
		fputs("failed: ", stderr);
		put_text(stderr, call->why);
	} else {
		put_text(stderr, call->node);
		fprintf(stderr, " (%s)  %.0f ms%s",
			call->substrate ? call->substrate : "unknown",
			call->exec_ms, call->attempt > 1 ? "  run again" : "");
	}
	putc('\n', stderr);
}

static void put_values(const struct eigen_run *run)
{
	const struct eigen_found *found = &run->found;
	const struct eigen_reference *reference = &run->reference;
	int i, most = found->count;

	if (reference->count > most)
		most = reference->count;
	printf("\n   #  eigenvalue              reference               "
	       "residual"
	       "\n");
	for (i = 0; i < most; i++) {
		printf("%4d  ", i + 1);
		if (i < found->count)
			printf("%-22.15g", found->pair[i].value);
		else
			printf("%-22s", "-");
		if (i < reference->count)
			printf("  %-22.15g", reference->value[i]);
		else
			printf("  %-22s", "-");
		if (i < found->count)
			printf("  %.1e", found->pair[i].residual);
		putchar('\n');
	}
	putchar('\n');
}

void eigen_report_answer(const struct eigen_run *run)
{
	const struct eigen_found *found = &run->found;
	const struct eigen_verdict *verdict = &run->verdict;
	int i;

	put_values(run);
	printf("count      %d found, %d by inertia, trace estimate %.2f +- "
	       "%.2f\n",
	       found->count, run->inertia, found->estimate, found->error);
	printf("rank       %d of %d\n", found->rank,
	       run->contour.block * run->contour.moments);
	if (run->options.no_reference)
		printf("reference  none (--no-reference)\n");
	else
		printf("reference  %s: %d inside, largest relative difference "
		       "%.1e\n",
		       run->reference.method, run->reference.count,
		       verdict->difference);
	if (run->exact)
		printf("known      values of this grid, largest relative "
		       "difference %.1e\n",
		       verdict->exact);
	printf("residual   largest %.1e\n", verdict->residual);
	for (i = 0; i < verdict->faults; i++)
		printf("WRONG      %s\n", verdict->fault[i]);
	fflush(stdout);
}

/* The calls of one node or substrate, for their median. */
struct group {
	const char *node, *substrate;
	int calls, again;
	double median_ms;
	uint64_t bytes_in, bytes_out;
};

/* `node` NULL: all nodes of the substrate. */
static int in_group(const struct eigen_call *call, const struct group *group)
{
	return call->ended && !call->status && call->substrate &&
	       !strcmp(call->substrate, group->substrate) &&
	       (!group->node || !strcmp(call->node, group->node));
}

/* Is call i at place calls / 2 of its group, counted from 0 in ascending order?
 * Equal times are in the order of the calls. */
static int is_median(const struct eigen_run *run, int i,
		     const struct group *group)
{
	double ms = run->call[i].exec_ms;
	int j, place = 0;

	for (j = 0; j < run->contour.points; j++) {
		double other = run->call[j].exec_ms;

		if (in_group(&run->call[j], group))
			place += other < ms || (other == ms && j < i);
	}
	return place == group->calls / 2;
}

static void collect_group(const struct eigen_run *run, const char *node,
			  const char *substrate, struct group *group)
{
	int i;

	*group = (struct group){.node = node, .substrate = substrate};
	for (i = 0; i < run->contour.points; i++) {
		const struct eigen_call *call = &run->call[i];

		if (!in_group(call, group))
			continue;
		group->calls++;
		group->again += call->attempt > 1;
		group->bytes_in += call->bytes_in;
		group->bytes_out += call->bytes_out;
	}
	for (i = 0; i < run->contour.points; i++) {
		if (in_group(&run->call[i], group) && is_median(run, i, group))
			group->median_ms = run->call[i].exec_ms;
	}
}

/* Is call i the first one with its node (or substrate)? */
static int first_of(const struct eigen_run *run, int i, int by_node)
{
	const struct eigen_call *call = &run->call[i];
	int j;

	if (!call->ended || call->status || !call->substrate)
		return 0;
	for (j = 0; j < i; j++) {
		const struct eigen_call *other = &run->call[j];

		if (other->ended && !other->status && other->substrate &&
		    !strcmp(other->substrate, call->substrate) &&
		    (!by_node || !strcmp(other->node, call->node)))
			return 0;
	}
	return 1;
}

void eigen_report_nodes(const struct eigen_run *run)
{
	struct group group;
	double linux_ms = 0;
	int i, total = run->contour.points;

	for (i = 0; i < total; i++) {
		if (!first_of(run, i, 1))
			continue;
		collect_group(run, run->call[i].node, run->call[i].substrate,
			      &group);
		printf("node       ");
		put_text(stdout, group.node);
		printf(" (%s): %d calls, %d run again, median %.0f ms, %" PRIu64
		       " bytes in, %" PRIu64 " out\n",
		       group.substrate, group.calls, group.again,
		       group.median_ms, group.bytes_in, group.bytes_out);
	}
	collect_group(run, NULL, "linux", &group);
	linux_ms = group.median_ms;
	for (i = 0; i < total; i++) {
		if (!first_of(run, i, 0))
			continue;
		collect_group(run, NULL, run->call[i].substrate, &group);
		printf("substrate  %s: %d of the %d calls, median solve "
		       "%.0f ms",
		       group.substrate, group.calls, total, group.median_ms);
		if (linux_ms > 0 && strcmp(group.substrate, "linux"))
			printf(", linux takes %.3f of that",
			       linux_ms / group.median_ms);
		putchar('\n');
	}
	printf("wall time  %.2f s for the calls\n", run->wall_s);
}

static void json_text(FILE *to, const char *text)
{
	putc('"', to);
	for (; text && *text; text++) {
		unsigned char c = *text;

		if (c < ' ' || c == '"' || c == '\\' || c > 126)
			fprintf(to, "\\u%04x", c);
		else
			putc(c, to);
	}
	putc('"', to);
}

static void json_number(FILE *to, const char *name, double value)
{
	if (isfinite(value))
		fprintf(to, "\"%s\": %.17g", name, value);
	else
		fprintf(to, "\"%s\": null", name);
}

static void json_call(FILE *to, const struct eigen_call *call, int last)
{
	fprintf(to,
		"    {\"point\": %d, \"re\": %.17g, \"im\": %.17g, \"status\": "
		"%d, \"why\": ",
		call->index, creal(call->z), cimag(call->z), call->status);
	json_text(to, call->why);
	fputs(", \"node\": ", to);
	json_text(to, call->node);
	fputs(", \"substrate\": ", to);
	json_text(to, call->substrate);
	fprintf(to,
		", \"attempt\": %u, \"exec_ms\": %.3f, \"wall_ms\": %.3f, "
		"\"bytes_in\": %" PRIu64 ", \"bytes_out\": %" PRIu64
		", \"nonce\": \"%016" PRIx64 "\", \"emulated_calls\": %" PRIu64
		", \"program\": \"%s\"}%s\n",
		call->attempt, call->exec_ms, call->wall_ms, call->bytes_in,
		call->bytes_out, call->nonce, call->emulated, call->program,
		last ? "" : ",");
}

static void json_answer(FILE *to, const struct eigen_run *run)
{
	const struct eigen_verdict *verdict = &run->verdict;
	int i;

	fputs("  \"eigenvalues\": [", to);
	for (i = 0; i < run->found.count; i++)
		fprintf(to, "%s\n    {\"value\": %.17g, \"residual\": %.3e}",
			i ? "," : "", run->found.pair[i].value,
			run->found.pair[i].residual);
	fputs("],\n  \"reference\": {\"method\": ", to);
	json_text(to, run->reference.method);
	fputs(", \"values\": [", to);
	for (i = 0; i < run->reference.count; i++)
		fprintf(to, "%s%.17g", i ? ", " : "", run->reference.value[i]);
	fputs("]},\n  ", to);
	json_number(to, "estimate", run->found.estimate);
	fputs(", ", to);
	json_number(to, "estimate_error", run->found.error);
	fprintf(to, ", \"inertia\": %d, \"rank\": %d, \"full\": %s,\n  ",
		run->inertia, run->found.rank,
		run->found.full ? "true" : "false");
	json_number(to, "largest_difference", verdict->difference);
	fputs(", ", to);
	json_number(to, "largest_residual", verdict->residual);
	fputs(",\n  \"faults\": [", to);
	for (i = 0; i < verdict->faults; i++) {
		fputs(i ? ", " : "", to);
		json_text(to, verdict->fault[i]);
	}
	fputs("],\n", to);
}

static void json_substrates(FILE *to, const struct eigen_run *run)
{
	struct group group;
	int i, some = 0;

	fputs("  \"substrates\": {", to);
	for (i = 0; i < run->contour.points; i++) {
		if (!first_of(run, i, 0))
			continue;
		collect_group(run, NULL, run->call[i].substrate, &group);
		fprintf(to,
			"%s\n    \"%s\": {\"calls\": %d, \"median_ms\": %.3f}",
			some++ ? "," : "", group.substrate, group.calls,
			group.median_ms);
	}
	fputs("},\n", to);
}

int eigen_report_json(const struct eigen_run *run, int exit_code)
{
	const struct eigen_contour *c = &run->contour;
	FILE *to = fopen(run->options.json, "w");
	int i, bad;

	if (!to) {
		perror(run->options.json);
		return -1;
	}
	fprintf(to,
		"{\n  \"exit_code\": %d, \"wall_s\": %.6f, \"engine\": \"%s\","
		"\n  \"unknowns\": %d, \"entries_a\": %d, \"entries_b\": %d,\n"
		"  \"circle\": {\"center\": %.17g, \"radius\": %.17g, "
		"\"points\": %d, \"given\": %s, \"block\": %d, \"moments\": "
		"%d},\n",
		exit_code, run->wall_s, run->engine->name, run->problem.a.n,
		run->problem.a.nnz, run->problem.b.nnz, c->center, c->radius,
		c->points, run->options.circle_given ? "true" : "false",
		c->block, c->moments);
	json_answer(to, run);
	json_substrates(to, run);
	fputs("  \"calls\": [\n", to);
	for (i = 0; run->call && i < c->points; i++)
		json_call(to, &run->call[i], i == c->points - 1);
	fputs("  ]\n}\n", to);
	bad = ferror(to);
	if (fclose(to) || bad) {
		perror(run->options.json);
		return -1;
	}
	return 0;
}
