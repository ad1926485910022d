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
	if (argc > 1 && !strcmp(argv[1], "FJMPISend"))
		OmniRpcMpi_FJMPISend(&n, 1, MPI_INT, 0, 0, 0, NULL);
	if (argc > 1 && !strcmp(argv[1], "FJMPIRecv"))
		OmniRpcMpi_FJMPIRecv(&n, 1, MPI_INT, 0, 0, 0, NULL, NULL);
	if (argc > 1)
		puts(OmniRpcMpiGetPort(NULL));
	OmniRpcMpi_Send(&n, 1, MPI_INT, 0, 0, OmniRpcMpiGetComm(NULL));
	OmniRpcMpiFinalize();
	return 0;
}
