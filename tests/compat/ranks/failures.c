/* SPDX-License-Identifier: MIT */
/* A call that fails, then one that the same worker must do well. */
#include <OmniRpc.h>

static void hear_rank(int rank, int size, const char *bytes)
{
	printf("heard %d, %d bytes, the last is %d\n", rank, size,
	       bytes[size - 1]);
}

/* Rank `who` calls hear_rank() with n bytes; rank 1 ends before that as `how`
 * says.
 */
static OmniRpcRequest start_ask(int who, int how, int n)
{
	return OmniRpcMpiCallAsync("ranks.ask", 2, who, how, n, hear_rank);
}

static OmniRpcRequest start_call(const char *what)
{
	OmniRpcHandle two = OmniRpcMpiCreateHandle(2, "ranks");
	static char *back;
	static int n;

	if (!strcmp(what, "few"))
		return OmniRpcMpiCallAsync("ranks.pi", 0, 1, NULL, &n);
	if (!strcmp(what, "many"))
		return OmniRpcMpiCreateHandle(1025, "ranks");
	if (!strcmp(what, "other"))
		return OmniRpcMpiCallAsyncByHandle(two, 3, "fail", 0);
	if (!strcmp(what, "plain"))
		return OmniRpcMpiCallAsync("plain.double_it", 2, 1, &n);
	if (!strcmp(what, "handle"))
		return OmniRpcMpiCallAsyncByHandle(&n, 2, "fail", 0);
	if (!strcmp(what, "size"))
		return OmniRpcMpiCallAsyncByHandle(two, 2, "spread", -1, NULL,
						   "", &back, NULL);
	if (!strcmp(what, "init"))
		return OmniRpcMpiCallAsync("ranks.Initialize", 2, 0, NULL);
	if (!strcmp(what, "memory"))
		return OmniRpcMpiCallAsyncByHandle(two, 2, "fill", 300, &n);
	if (!strcmp(what, "hang"))
		return OmniRpcMpiCallAsyncByHandle(two, 2, "hang", &n);
	if (!strcmp(what, "one"))
		return start_ask(1, 0, 1);
	if (!strcmp(what, "large"))
		return start_ask(0, 0, 1 << 20);
	if (!strcmp(what, "largest"))
		return start_ask(0, 0, (1 << 20) - 32);
	if (!strcmp(what, "asking"))
		return start_ask(0, 3, 1);
	return OmniRpcMpiCallAsyncByHandle(two, 2, "fail", atoi(what));
}

int main(int argc, char *argv[])
{
	OmniRpcRequest r;
	double pi = 0;
	int n = 0;

	OmniRpcMpiInit(&argc, &argv);
	if (!strcmp(argv[1], "send"))
		skep_mpi_refuse("OmniRpcMpi_Send");
	r = start_call(argv[1]);
	if (r)
		OmniRpcWait(r);
	OmniRpcWait(OmniRpcMpiCallAsync("ranks.pi", 2, 1000, &pi, &n));
	printf("result %.3f\n", pi);
	OmniRpcMpiFinalize();
	return 0;
}
