/* SPDX-License-Identifier: MIT */
/*
 * The Fortran routines of BLAS, LAPACK and ARPACK that the master calls, as
 * gfortran passes arguments: by reference, and the lengths of strings at the
 * end.
 */
#ifndef EIGEN_LAPACK_H
#define EIGEN_LAPACK_H

#include <stddef.h>

void dgemm_(const char *ta, const char *tb, const int *m, const int *n,
	    const int *k, const double *alpha, const double *a, const int *lda,
	    const double *b, const int *ldb, const double *beta, double *c,
	    const int *ldc, size_t, size_t);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau,
	     double *work, const int *lwork, int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a,
	     const int *lda, const double *tau, double *work, const int *lwork,
	     int *info);
void dgesvd_(const char *jobu, const char *jobvt, const int *m, const int *n,
	     double *a, const int *lda, double *s, double *u, const int *ldu,
	     double *vt, const int *ldvt, double *work, const int *lwork,
	     int *info, size_t, size_t);
void dsygv_(const int *itype, const char *jobz, const char *uplo, const int *n,
	    double *a, const int *lda, double *b, const int *ldb, double *w,
	    double *work, const int *lwork, int *info, size_t, size_t);
void dsaupd_(int *ido, const char *bmat, const int *n, const char *which,
	     const int *nev, const double *tol, double *resid, const int *ncv,
	     double *v, const int *ldv, int *iparam, int *ipntr, double *workd,
	     double *workl, const int *lworkl, int *info, size_t, size_t);
void dseupd_(const int *rvec, const char *howmny, int *select, double *d,
	     double *z, const int *ldz, const double *sigma, const char *bmat,
	     const int *n, const char *which, const int *nev, const double *tol,
	     double *resid, const int *ncv, double *v, const int *ldv,
	     int *iparam, int *ipntr, double *workd, double *workl,
	     const int *lworkl, int *info, size_t, size_t, size_t);

#endif
