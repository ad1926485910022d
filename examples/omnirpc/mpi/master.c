/* SPDX-License-Identifier: MIT */
/* One call of a worker that is an MPI job. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	OmniRpcHandle two;
	double pi;
	int ranks;

	OmniRpcMpiInit(&argc, &argv);
	two = OmniRpcMpiCreateHandle(2, "pi");
	OmniRpcWait(OmniRpcMpiCallAsyncByHandle(two, 2, "integrate", 1000000,
						&pi, &ranks));
	printf("%d ranks: pi is %.10f\n", ranks, pi);
	OmniRpcMpiFinalize();
	return 0;
}
