/* SPDX-License-Identifier: MIT */
/* A program that looks at no code: what fails must not end as if it were right.
 */
#include <OmniRpc.h>
#include <pthread.h>

static void call_bad(int i)
{
	double r;

	OmniRpcCall("fails.bad", -i, &r, &r);
}

static void end_thread(int i)
{
	(void)i;
	pthread_exit(NULL);
}

static void end_program(int i)
{
	exit(i);
}

int main(int argc, char *argv[])
{
	double r = 0;
	char *none = "there/is/none", own[] = "written";
	void *request;

	OmniRpcInit(&argc, &argv);
	if (!strcmp(argv[1], "arguments"))
		OmniRpcCall("fails.bad", -1, &r, &r);
	else if (!strcmp(argv[1], "async"))
		OmniRpcWait(OmniRpcCallAsync("fails.bad", 1 << 30, NULL, &r));
	else if (!strcmp(argv[1], "module"))
		OmniRpcModuleInit("nothing", 1);
	else if (!strcmp(argv[1], "name"))
		OmniRpcCall("nowhere", &r);
	else if (!strcmp(argv[1], "twice"))
		OmniRpcCall("good", &r);
	else if (!strcmp(argv[1], "path"))
		OmniRpcExecLocal(none, "good", &r);
	else if (!strcmp(argv[1], "file"))
		OmniRpcCall("fails.move", none, own);
	else if (!strcmp(argv[1], "user"))
		OmniRpcExecRemoteByUser("localhost", "nobody-like-this",
					"fails.rex", "good", &r);
	else if (!strcmp(argv[1], "inside"))
		OmniRpcCall("fails.stepped", 1, call_bad);
	else if (!strcmp(argv[1], "thread"))
		OmniRpcCall("fails.stepped", 1, end_thread);
	else if (!strcmp(argv[1], "exit"))
		OmniRpcCall("fails.stepped", 7, end_program);
	else if (!strcmp(argv[1], "cancel")) {
		request = OmniRpcCallAsync("fails.good", &r);
		OmniRpcCancel(request);
		OmniRpcWait(request);
	}
	printf("result %g\n", r);
	OmniRpcFinalize();
	return 0;
}
