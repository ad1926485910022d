/* SPDX-License-Identifier: MIT */
/*
 * Real symmetric sparse matrices: the lower triangle by rows; columns are
 * counted from 0 and ascend in each row. Workers get matrices in this form.
 */
#ifndef EIGEN_SPARSE_H
#define EIGEN_SPARSE_H

#include <complex.h>

struct eigen_sparse {
	int n;	     /* rows and columns */
	int nnz;     /* stored entries: start[n] */
	int *start;  /* n + 1 */
	int *column; /* nnz */
	double *value;
};

/*
 * Makes a matrix of `count` entries. An entry above the diagonal is stored at
 * its mirror image below; entries at the same place are added. -EINVAL: an
 * index is out of range.
 */
int eigen_sparse_build(struct eigen_sparse *m, int n, int count, const int *row,
		       const int *column, const double *value);
void eigen_sparse_free(struct eigen_sparse *m);

/* 0 if eigen_sparse_build could have made this structure. */
int eigen_sparse_check(const struct eigen_sparse *m);

/* y = m x; x and y must not overlap. */
void eigen_sparse_multiply(const struct eigen_sparse *m, const double *x,
			   double *y);
void eigen_sparse_multiply_complex(const struct eigen_sparse *m,
				   const double complex *x, double complex *y);

/* Row and column of each entry, counted from 1 as Fortran does. */
void eigen_sparse_places(const struct eigen_sparse *m, int *row, int *column);

/* Largest sum of absolute values in a row; NAN without memory. */
double eigen_sparse_norm(const struct eigen_sparse *m);

#endif
