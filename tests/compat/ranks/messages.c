/* SPDX-License-Identifier: MIT */
/* A program that is linked with MPI, and what cannot be done in it. */
#include <OmniRpc.h>

int main(int argc, char *argv[])
{
	int started = 0, n = 0;

	OmniRpcMpiInit(&argc, &argv);
	MPI_Initialized(&started);
	printf("started %d\n", started);
	OmniRpcWait(OmniRpcMpiCallAsync("plain.double_it", 1, 4, &n));
	printf("result %d\n", n);
	OmniRpcMpi_Send(&n, 1, MPI_INT, 0, 0, OmniRpcMpiGetComm(NULL));
	OmniRpcMpiFinalize();
	return 0;
}
