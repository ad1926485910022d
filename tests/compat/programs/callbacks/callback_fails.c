/* SPDX-License-Identifier: MIT */
/* What happens to a call whose worker dies, or whose function does what it may
 * not, once it has called this program. */
#include <OmniRpc.h>
#include <semaphore.h>

static int calls, waited;
static OmniRpcRequest itself;
static sem_t known;
static char text[200];

static void note_tick(int i)
{
	(void)i;
	calls++;
}

static void wait_itself(int i)
{
	(void)i;
	calls++;
	sem_wait(&known);
	waited = OmniRpcWait(itself);
	strncpy(text, OmniRpcLastErrorText(), sizeof(text) - 1);
}

int main(int argc, char *argv[])
{
	int steps = 0;
	double root = 0;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	if (OmniRpcCall("callbacks.die", 0, note_tick) != OMRPC_E_WORKER ||
	    calls)
		return 1;
	if (strstr(OmniRpcLastErrorText(), "had called its master"))
		return 2;
	if (OmniRpcCall("callbacks.die", 3, note_tick) != OMRPC_E_WORKER ||
	    calls != 3)
		return 3;
	if (!strstr(OmniRpcLastErrorText(),
		    "had called its master before, so it is not run again"))
		return 4;
	calls = 0;
	sem_init(&known, 0, 0);
	itself = OmniRpcCallAsync("callbacks.tell", wait_itself);
	sem_post(&known);
	if (OmniRpcWait(itself) || calls != 1 || waited != OMRPC_E_REFUSED ||
	    !strstr(text, "cannot wait for a call that it did not make"))
		return 5;
	if (OmniRpcCall("callbacks.newton", 1.0, &root, &steps, NULL) !=
		    OMRPC_E_ARGUMENTS ||
	    !strstr(OmniRpcLastErrorText(), "argument step"))
		return 6;
	if (OmniRpcCall("callbacks.step", 1.0, &root) != OMRPC_E_NO_FUNCTION)
		return 7;
	if (OmniRpcCall("callbacks.large", 300000, note_tick) !=
		    OMRPC_E_ARGUMENTS ||
	    !strstr(OmniRpcLastErrorText(), "at most 1048560 travel"))
		return 8;
	if (OmniRpcCall("callbacks.tell", note_tick) || calls != 2)
		return 9;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
