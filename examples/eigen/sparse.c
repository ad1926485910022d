// SPDX-License-Identifier: MIT
/* Makes sparse matrices, and multiplies them with vectors. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/sparse.h"

struct entry {
	int column;
	double value;
};

static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->column > y->column) - (x->column < y->column);
}

/* Sorts a row and adds entries of equal columns; returns how many are left. */
static int row_merge(struct entry *row, int count)
{
	int i, kept = 0;

	qsort(row, count, sizeof(*row), entry_compare);
	for (i = 0; i < count; i++) {
		if (kept && row[kept - 1].column == row[i].column)
			row[kept - 1].value += row[i].value;
		else
			row[kept++] = row[i];
	}
	return kept;
}

static int in_range(int n, int count, const int *row, const int *column)
{
	int i;

	for (i = 0; i < count; i++) {
		if (row[i] < 0 || row[i] >= n || column[i] < 0 ||
		    column[i] >= n)
			return 0;
	}
	return 1;
}

/* Puts the entries into their rows; first[i + 1] ends as the end of row i. */
static void scatter_entries(struct entry *into, int *first, int n, int count,
			    const int *row, const int *column,
			    const double *value)
{
	int i;

	for (i = 0; i < count; i++)
		first[(row[i] > column[i] ? row[i] : column[i]) + 1]++;
	for (i = 0; i < n; i++)
		first[i + 1] += first[i];
	for (i = count - 1; i >= 0; i--) {
		int r = row[i] > column[i] ? row[i] : column[i];
		int c = row[i] > column[i] ? column[i] : row[i];

		into[--first[r + 1]] = (struct entry){c, value[i]};
	}
	/* Now first[r + 1] is where row r begins. */
	memmove(first, first + 1, n * sizeof(*first));
	first[n] = count;
}

static void gather_rows(struct eigen_sparse *m, struct entry *sorted,
			const int *first)
{
	int i, k, at = 0;

	for (i = 0; i < m->n; i++) {
		int kept =
			row_merge(sorted + first[i], first[i + 1] - first[i]);

		m->start[i] = at;
		for (k = 0; k < kept; k++, at++) {
			m->column[at] = sorted[first[i] + k].column;
			m->value[at] = sorted[first[i] + k].value;
		}
	}
	m->start[m->n] = m->nnz = at;
}

int eigen_sparse_build(struct eigen_sparse *m, int n, int count, const int *row,
		       const int *column, const double *value)
{
	struct entry *sorted;
	int *first;

	memset(m, 0, sizeof(*m));
	if (n < 1 || n == INT_MAX || count < 0 ||
	    !in_range(n, count, row, column))
		return -EINVAL;
	m->n = n;
	sorted = malloc((count + 1ul) * sizeof(*sorted));
	first = calloc(n + 1ul, sizeof(*first));
	m->start = malloc((n + 1ul) * sizeof(*m->start));
	m->column = malloc((count + 1ul) * sizeof(*m->column));
	m->value = malloc((count + 1ul) * sizeof(*m->value));
	if (!sorted || !first || !m->start || !m->column || !m->value) {
		eigen_sparse_free(m);
		free(sorted);
		free(first);
		return -ENOMEM;
	}
	scatter_entries(sorted, first, n, count, row, column, value);
	gather_rows(m, sorted, first);
	free(sorted);
	free(first);
	return 0;
}

void eigen_sparse_free(struct eigen_sparse *m)
{
	free(m->start);
	free(m->column);
	free(m->value);
	memset(m, 0, sizeof(*m));
}

int eigen_sparse_check(const struct eigen_sparse *m)
{
	int i, k;

	if (m->n < 1 || m->nnz < 0 || m->start[0] != 0 ||
	    m->start[m->n] != m->nnz)
		return -EINVAL;
	for (i = 0; i < m->n; i++) {
		if (m->start[i + 1] < m->start[i] || m->start[i + 1] > m->nnz)
			return -EINVAL;
		for (k = m->start[i]; k < m->start[i + 1]; k++) {
			int before = k > m->start[i] ? m->column[k - 1] : -1;

			if (m->column[k] <= before || m->column[k] > i ||
			    !isfinite(m->value[k]))
				return -EINVAL;
		}
	}
	return 0;
}

void eigen_sparse_multiply(const struct eigen_sparse *m, const double *x,
			   double *y)
{
	int i, k;

	for (i = 0; i < m->n; i++) {
		double sum = 0;

		for (k = m->start[i]; k < m->start[i + 1]; k++) {
			int j = m->column[k];

			sum += m->value[k] * x[j];
			if (j != i)
				y[j] += m->value[k] * x[i];
		}
		y[i] = sum; /* later rows add to it */
	}
}

void eigen_sparse_multiply_complex(const struct eigen_sparse *m,
				   const double complex *x, double complex *y)
{
	int i, k;

	for (i = 0; i < m->n; i++) {
		double complex sum = 0;

		for (k = m->start[i]; k < m->start[i + 1]; k++) {
			int j = m->column[k];

			sum += m->value[k] * x[j];
			if (j != i)
				y[j] += m->value[k] * x[i];
		}
		y[i] = sum;
	}
}

void eigen_sparse_places(const struct eigen_sparse *m, int *row, int *column)
{
	int i, k;

	for (i = 0; i < m->n; i++) {
		for (k = m->start[i]; k < m->start[i + 1]; k++) {
			row[k] = i + 1;
			column[k] = m->column[k] + 1;
		}
	}
}

double eigen_sparse_norm(const struct eigen_sparse *m)
{
	double *sum = calloc(m->n, sizeof(*sum)), most = 0;
	int i, k;

	if (!sum)
		return NAN;
	for (i = 0; i < m->n; i++) {
		for (k = m->start[i]; k < m->start[i + 1]; k++) {
			sum[i] += fabs(m->value[k]);
			if (m->column[k] != i)
				sum[m->column[k]] += fabs(m->value[k]);
		}
	}
	for (i = 0; i < m->n; i++)
		most = sum[i] > most ? sum[i] : most;
	free(sum);
	return most;
}
