// SPDX-License-Identifier: MIT
/* Calls each function of kinds.idl and prints what they return. */
#include <OmniRpc.h>

#include <complex.h>
#include <stdio.h>

static void check_error(int err)
{
	if (err != OMRPC_OK)
		printf("error %d: %s\n", err, OmniRpcLastErrorText());
}

static void call_scalars(void)
{
	long sum = 0;
	float half = 0;
	int twice = 21;
	char last = 0;

	check_error(OmniRpcCall("kinds.scalars", -1, 255, -1000, 65535, -7,
				4000000000u, 1l << 40, 3.0f, 0.25, "text!",
				&sum, &half, &twice, &last));
	printf("%ld %g %d %c\n", sum, half, twice, last);
}

static void call_arrays(void)
{
	double a[4] = {1, 2, 3, 4}, t[4] = {0};
	int part[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	double complex z[2] = {1 + 2 * I, 3 + 4 * I};
	int i;

	check_error(OmniRpcCall("kinds.arrays", 2, a, t, part, z, NULL));
	printf("%g %g %g %g |", t[0], t[1], t[2], t[3]);
	for (i = 0; i < 10; i++)
		printf(" %d", part[i]);
	printf(" | %g%+gi %g%+gi\n", creal(z[0]), cimag(z[0]), creal(z[1]),
	       cimag(z[1]));
}

int main(int argc, char **argv)
{
	short items[2] = {2, 0};
	int filled[3] = {0};

	check_error(OmniRpcInit(&argc, &argv));
	check_error(OmniRpcModuleInit("kinds", 100000l));
	call_scalars();
	call_arrays();
	check_error(OmniRpcCall("called", 1, 2.5f, items, filled));
	printf("%d %d %d\n", filled[0], filled[1], filled[2]);
	check_error(OmniRpcFinalize());
	return 0;
}
