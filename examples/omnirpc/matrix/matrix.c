/* SPDX-License-Identifier: MIT */
/* A product of matrices by rows; ranges of the interface file select them. */
#include <OmniRpc.h>

#define SIZE 120
#define ROWS 30

static double a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];

int main(int argc, char *argv[])
{
	OmniRpcRequest request[SIZE / ROWS];
	int i, j, wrong = 0;

	for (i = 0; i < SIZE; i++) {
		for (j = 0; j < SIZE; j++)
			a[i][j] = i + 2 * j;
		b[i][SIZE - 1 - i] = 1; /* turns the columns around */
	}
	OmniRpcInit(&argc, &argv);
	for (i = 0; i < SIZE / ROWS; i++)
		request[i] = OmniRpcCallAsync("matrix.rows", SIZE, i * ROWS,
					      (i + 1) * ROWS, a, b, c);
	OmniRpcWaitAll(SIZE / ROWS, request);
	for (i = 0; i < SIZE; i++)
		for (j = 0; j < SIZE; j++)
			wrong += c[i][j] != a[i][SIZE - 1 - j];
	OmniRpcFinalize();
	printf("%d wrong elements of %d\n", wrong, SIZE * SIZE);
	return wrong != 0;
}
