/* SPDX-License-Identifier: MIT */
/*
 * Functions of a library are bound at their first call: the loader runs between
 * caller and callee and must keep all argument registers, vectors included.
 */
#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>

double part_sum(double a, double b, double c, double d, double e, double f,
		double g, double h);
long part_numbers(long a, long b, long c, long d, long e, long f, long g);
int part_print(char *to, unsigned long n, const char *format, ...);
__m128d part_vector(__m128d a, __m128d b);
int part_calls_back(int n);
int program_back(int n);

#ifdef PART
double part_sum(double a, double b, double c, double d, double e, double f,
		double g, double h)
{
	return a + 2 * b + 4 * c + 8 * d + 16 * e + 32 * f + 64 * g + 128 * h;
}

long part_numbers(long a, long b, long c, long d, long e, long f, long g)
{
	return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f +
	       1000000 * g;
}

int part_print(char *to, unsigned long n, const char *format, ...)
{
	va_list list;
	int done;

	va_start(list, format);
	done = vsnprintf(to, n, format, list);
	va_end(list);
	return done;
}

__m128d part_vector(__m128d a, __m128d b)
{
	return _mm_add_pd(a, b);
}

int part_calls_back(int n)
{
	return program_back(n) + 1;
}
#else
#include <string.h>
#include "../c/say.h"

__attribute__((visibility("default"))) int program_back(int n)
{
	return n * 2;
}

int main(void)
{
	char text[80];
	double two[2];
	int i;

	for (i = 0; i < 2; i++) { /* bound, then called at once */
		CHECK(part_sum(1, 1, 1, 1, 1, 1, 1, 1.5) == 319);
		CHECK(part_numbers(1, 2, 3, 4, 5, 6, 7) == 7654321);
		part_print(text, sizeof(text), "%d %.2f %s %g", 7, 2.5, "x",
			   1e9);
		CHECK(!strcmp(text, "7 2.50 x 1e+09"));
		_mm_storeu_pd(two,
			      part_vector(_mm_set_pd(1, 2), _mm_set_pd(3, 4)));
		CHECK(two[0] == 6 && two[1] == 4);
		CHECK(part_calls_back(20) == 41);
	}
	return say_done();
}
#endif
