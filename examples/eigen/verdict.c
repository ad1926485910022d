// SPDX-License-Identifier: MIT
/* Owns the rules that make an answer right. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "examples/eigen/verdict.h"

#define EDGE 1e-9 /* in radii: so near the circle, inside is undecided */

__attribute__((format(printf, 2, 3))) static void
add_fault(struct eigen_verdict *verdict, const char *format, ...)
{
	va_list ap;

	if (verdict->faults == 8)
		return;
	va_start(ap, format);
	vsnprintf(verdict->fault[verdict->faults++], sizeof(*verdict->fault),
		  format, ap);
	va_end(ap);
}

/* The larger of two numbers; one that is no number is larger than all. */
static double larger_of(double worst, double one)
{
	return isnan(worst) || one <= worst ? worst : one;
}

/* The largest relative difference; infinite if the numbers of values differ. */
static double largest_difference(const struct eigen_found *found,
				 const double *value, int count)
{
	double worst = 0;
	int i;

	if (count != found->count)
		return INFINITY;
	for (i = 0; i < count; i++)
		worst = larger_of(worst, fabs(found->pair[i].value - value[i]) /
						 fmax(fabs(value[i]), 1e-300));
	return worst;
}

static void judge_counts(const struct eigen_evidence *e,
			 struct eigen_verdict *verdict)
{
	const struct eigen_found *found = e->found;

	if (found->full)
		add_fault(verdict,
			  "The subspace is full (rank %d of %d): take a larger "
			  "--block, more --moments or a smaller --radius.",
			  found->rank, e->contour->block * e->contour->moments);
	if (found->count != e->inertia)
		add_fault(
			verdict,
			"%d eigenvalues were found, %d are inside the circle "
			"by "
			"inertia: %s.",
			found->count, e->inertia,
			found->count < e->inertia
				? "some are missing; take a larger --block or "
				  "more --points"
				: "some are spurious; take more --points");
	if (e->reference && found->count != e->reference_count)
		add_fault(verdict,
			  "%d eigenvalues were found, the reference has %d.",
			  found->count, e->reference_count);
	/* With few columns the estimated deviation is inaccurate. */
	if (!(fabs(found->estimate - found->count) <=
	      4 * found->error * (1 + 8.0 / e->contour->block) + 1))
		add_fault(verdict,
			  "The trace estimate %.2f +- %.2f does not fit %d "
			  "eigenvalues.",
			  found->estimate, found->error, found->count);
}

static void judge_pairs(const struct eigen_evidence *e,
			struct eigen_verdict *verdict)
{
	const struct eigen_found *found = e->found;
	int i;

	for (i = 0; i < found->count; i++) {
		const struct eigen_pair *pair = &found->pair[i];
		double gap = fabs(fabs(pair->value - e->contour->center) /
					  e->contour->radius -
				  1);

		verdict->residual =
			larger_of(verdict->residual, pair->residual);
		if (gap < EDGE)
			add_fault(
				verdict,
				"The eigenvalue %.15g is on the circle: change "
				"--radius a little.",
				pair->value);
	}
	if (!(verdict->residual <= e->tolerance))
		add_fault(
			verdict,
			"The largest residual is %.1e, above --tol %.1e: take "
			"more --points or a larger --block.",
			verdict->residual, e->tolerance);
}

void eigen_verdict_make(const struct eigen_evidence *e,
			struct eigen_verdict *verdict)
{
	memset(verdict, 0, sizeof(*verdict));
	judge_counts(e, verdict);
	judge_pairs(e, verdict);
	if (e->reference)
		verdict->difference = largest_difference(e->found, e->reference,
							 e->reference_count);
	/* Another number of values was judged before. */
	if (!isinf(verdict->difference) &&
	    !(verdict->difference <= e->tolerance))
		add_fault(
			verdict,
			"The largest relative difference from the reference is "
			"%.1e, above --tol %.1e.",
			verdict->difference, e->tolerance);
	if (!e->exact)
		return;
	verdict->exact = largest_difference(e->found, e->exact, e->exact_count);
	if (!(verdict->exact <= e->tolerance))
		add_fault(
			verdict,
			"The eigenvalues of this box are known, and differ by "
			"%.1e.",
			verdict->exact);
}
