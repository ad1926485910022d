/* SPDX-License-Identifier: MIT */
/* An embarrassingly parallel problem: parts that share nothing are added up.
 * The count of pairs does not depend on the number of parts. */
#include <OmniRpc.h>

#define PARTS 16
#define PAIRS (1l << 20)

int main(int argc, char *argv[])
{
	OmniRpcRequest request[PARTS];
	double sums[PARTS][2];
	long rings[PARTS][10], count = 0;
	int i, k;

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < PARTS; i++)
		request[i] = OmniRpcCallAsync("ep.pairs", i * (PAIRS / PARTS),
					      PAIRS / PARTS, sums[i], rings[i]);
	OmniRpcWaitAll(PARTS, request);
	for (i = 0; i < PARTS; i++)
		for (k = 0; k < 10; k++)
			count += rings[i][k];
	OmniRpcFinalize();
	/* The area of a circle in its square is pi / 4. */
	printf("%ld pairs, pi is about %.2f\n", PAIRS, 4.0 * count / PAIRS);
	return 0;
}
