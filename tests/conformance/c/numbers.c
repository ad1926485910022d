/* SPDX-License-Identifier: MIT */
/*
 * Floating point, its printing and reading, sorting. libm results are printed
 * to 12 digits: its variants per CPU may differ in the last bit.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include "say.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_rounding(void)
{
	static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD,
				    FE_TOWARDZERO};
	volatile double one = 1, three = 3;
	int i;

	for (i = 0; i < 4; i++) {
		fesetround(modes[i]);
		printf("third %a %a rint %g %g\n", one / three, -one / three,
		       rint(2.5 * one), rint(-1.5 * one));
	}
	fesetround(FE_TONEAREST);
	feclearexcept(FE_ALL_EXCEPT);
	one = one / 0.0;
	printf("inf %g divbyzero %d\n", one, !!fetestexcept(FE_DIVBYZERO));
}

static void print_functions(void)
{
	volatile double x = 0.7;

	printf("%.12g %.12g %.12g %.12g\n", sin(x), cos(x), tan(x), atan(x));
	printf("%.12g %.12g %.12g %.12g\n", exp(x), log(x), pow(x, 3.3),
	       sqrt(x));
	printf("%.12g %.12g %.12g %.12g\n", sinh(x), erf(x), tgamma(x),
	       cbrt(x));
	printf("%.15Lg %.15Lg\n", sinl(x), expl(x));
	printf("%.12g %.12g\n", fma(x, x, -0.49), hypot(3 * x, 4 * x));
}

int main(void)
{
	static double values[20000];
	double sum = 0, product = 1;
	unsigned seed = 1;
	int i;

	for (i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		values[i] = (double)seed / 65537.0 - 1e4;
		sum += values[i] / (i + 1);
		product *= 1 + values[i] * 1e-9;
	}
	printf("%a %a\n", sum, product);
	qsort(values, 20000, sizeof(double), by_value);
	printf("%.17g %.17g %.17g\n", values[0], values[10000], values[19999]);
	printf("%g %e %.3f %10.4g|%-12.2e|\n", 0.1, 12345.678, 2.0005, 1e10,
	       -1.5e-7);
	printf("%g %g %g %a %g\n", INFINITY, -INFINITY, -0.0, 0x1p-1074, 1e308);
	printf("%.17g %.17g %a\n", strtod("0.1", NULL), strtod("1e-320", NULL),
	       strtod("0x1.8p3", NULL));
	printf("%.20Lg %lld %llx\n", 1.0L / 3, 1ll << 62, ~0ull / 3);
	print_rounding();
	print_functions();
	return 0;
}
