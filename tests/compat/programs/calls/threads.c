/* SPDX-License-Identifier: MIT */
/* Four threads call at the same time. */
#include <OmniRpc.h>
#include <pthread.h>

static void *call_often(void *first)
{
	int n = (int)(long)first, i, r = 0;

	for (i = 0; i < 20; i++, n += 10) {
		OmniRpcCall("calls.squared", n, &r);
		if (r != n * n)
			return first ? first : (void *)1;
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	pthread_t thread[4];
	void *bad;
	long i;

	OmniRpcInit(&argc, &argv);
	for (i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, call_often, (void *)i);
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], &bad);
		if (bad)
			return 1;
	}
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
