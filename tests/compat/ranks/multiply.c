/* SPDX-License-Identifier: MIT */
#include <mpi.h>

void multiply(int *n, int by);

void multiply(int *n, int by)
{
	MPI_Comm_size(MPI_COMM_WORLD, n);
	*n *= by;
}
