/* SPDX-License-Identifier: MIT */
/* Functions of this program that workers call. */
#include <OmniRpc.h>
#include <complex.h>

static int order, total;

static void square_root(double x, double *f)
{
	if (f[0] != order++)
		exit(9);
	f[0] = x * x - 2;
	f[1] = 2 * x;
}

static void add_one(const double *c, double *d)
{
	int i;

	for (i = 0; i < 9; i++)
		d[i] = c[i] + 1;
	order = order * 10 + 1;
}

static void negate_all(const double *c, double *d)
{
	int i;

	for (i = 0; i < 9; i++)
		d[i] = -c[i];
	order = order * 10 + 2;
}

static void note_end(void)
{
	order = order * 10 + 3;
}

static void take_all(char a, unsigned char b, short c, unsigned short d, int e,
		     unsigned f, long g, float h, double i, char *s, int j,
		     int k, float *l, long *m, short *n, double complex *o)
{
	*m = a == -1 && b == 255 && c == -300 && d == 65535 && e == -70000 &&
	     f == 4000000000u && g == -5000000000l && h == 0.5f && i == -0.25 &&
	     !strcmp(s, "a string") && j == 11 && k == 12 && l[0] == 1.5f &&
	     l[1] == 2.5f;
	*n = (short)(*n + 10);
	*o = 4 + 5 * I;
}

static void sum_all(double a, double b, double c, double d, double e, double f,
		    double g, double h, double i, float j, int k, int l, int m,
		    int n, int o, int p, int q, short r, double *s)
{
	*s = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i +
	     10 * j + 11 * k + 12 * l + 13 * m + 14 * n + 15 * o + 16 * p +
	     17 * q + 18 * r;
}

static void add_up(int i, int *sum)
{
	total += i;
	*sum = total;
}

static void put_square(int i, int *v)
{
	*v = i * i;
}

static int try_turn(void)
{
	double a[9], b[9];
	int i;

	for (i = 0; i < 9; i++)
		a[i] = i;
	order = 0;
	OmniRpcCall("callbacks.turn", 3, a, b, add_one, negate_all, note_end);
	for (i = 0; i < 9; i++) {
		if (b[i] != -a[i] - 1)
			return 0;
	}
	return order == 123;
}

static int try_async(void)
{
	OmniRpcRequest r[4];
	int calls[4], i;

	for (i = 0; i < 4; i++)
		r[i] = OmniRpcCallAsync("callbacks.by_c", 1, &calls[i],
					put_square);
	OmniRpcWaitAll(4, r);
	for (i = 0; i < 4; i++) {
		if (calls[i])
			return 0;
		OmniRpcDestroyRequest(r[i]);
	}
	return 1;
}

int main(int argc, char *argv[])
{
	double root = 0, sum = 0;
	int steps = 0, calls = 0, out[100], i;
	long all[2] = {0, 0};

	OmniRpcInit(&argc, &argv);
	OmniRpcCall("callbacks.newton", 1.0, &root, &steps, square_root);
	if (root * root - 2 > 1e-9 || steps < 3 || steps > 8)
		return 1;
	if (!try_turn())
		return 2;
	OmniRpcCall("callbacks.types", all, take_all);
	if (all[0] != 1 || all[1] != 3405)
		return 3;
	OmniRpcCall("callbacks.many", &sum, sum_all);
	if (sum != 1785 - 324)
		return 4;
	OmniRpcCall("callbacks.count", 100, &calls, add_up);
	if (calls != 5050 || total != 5050)
		return 5;
	OmniRpcCall("callbacks.by_c", 100, out, put_square);
	for (i = 0; i < 100; i++) {
		if (out[i] != i * i)
			return 6;
	}
	if (!try_async())
		return 7;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
