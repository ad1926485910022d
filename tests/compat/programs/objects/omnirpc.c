/* SPDX-License-Identifier: MIT */
/* Remote objects in OmniRPC's way: state, order, losses, and what is refused.
 */
#include <OmniRpc.h>

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       OmniRpcLastErrorText());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)
#define SAYS(words) CHECK(strstr(OmniRpcLastErrorText(), words))

static double total_of(OmniRpcObject o)
{
	double x = -1;
	int n;

	CHECK(!OmniRpcCallByObject(o, "get", &x, &n));
	return x;
}

static void give_next(int i, double *x)
{
	*x = i + 1;
}

static void test_state(void)
{
	OmniRpcObject a = OmniRpcCreateObject(NULL, "objects/sum");
	OmniRpcObject b = OmniRpcCreateObject("", "objects.sum");
	OmniRpcObject t = OmniRpcCreateObject(NULL, "objects/text");
	OmniRpcRequest r[9], got;
	char *all;
	double x;
	int i, n;

	CHECK(a && b && t);
	CHECK(!OmniRpcCallByObject(a, "add", 1.5));
	CHECK(!OmniRpcCallByObject(b, "each", 3, give_next));
	CHECK(!OmniRpcCallByObject(t, "add", "one"));
	CHECK(total_of(a) == 1.5 && total_of(b) == 6);
	CHECK(!OmniRpcCallByObject(t, "get", &all) && !strcmp(all, "one"));
	free(all);
	CHECK(!OmniRpcDestroyObject(a));
	a = OmniRpcCreateObject(NULL, "objects/sum");
	for (i = 0; i < 9; i++)
		r[i] = OmniRpcCallAsyncByObject(a, "digits", i + 1);
	got = OmniRpcCallAsyncByObject(a, "get", &x, &n);
	CHECK(!OmniRpcDestroyObject(a)); /* after those */
	CHECK(!OmniRpcWaitAll(9, r) && !OmniRpcWait(got) && x == 123456789);
	for (i = 0; i < 9; i++)
		OmniRpcDestroyRequest(r[i]);
	OmniRpcDestroyRequest(got);
	CHECK(!OmniRpcDestroyObject(b) && !OmniRpcDestroyObject(t));
}

/* In a function that a worker calls, objects and modules may be new. */
static void use_object(int i, double *x)
{
	OmniRpcObject o = OmniRpcCreateObject(NULL, "objects/sum");

	CHECK(o && !OmniRpcCallByObject(o, "add", 2.0 * i + 1));
	*x = total_of(o);
	CHECK(!OmniRpcDestroyObject(o));
	CHECK(!OmniRpcCall("squared", 3, &i) && i == 9);
}

static void test_inside(void)
{
	OmniRpcObject o = OmniRpcCreateObject(NULL, "objects/sum");

	CHECK(!OmniRpcCallByObject(o, "each", 3, use_object));
	CHECK(total_of(o) == 9);
	CHECK(!OmniRpcDestroyObject(o));
}

static void test_losses(void)
{
	OmniRpcObject o = OmniRpcCreateObject(NULL, "objects/sum");
	OmniRpcObject other = OmniRpcCreateObject(NULL, "objects/sum");

	CHECK(!OmniRpcCallByObject(other, "add", 1.0));
	CHECK(OmniRpcCallByObject(o, "die", 3) == OMRPC_E_WORKER);
	CHECK(OmniRpcCallByObject(o, "add", 1.0) == OMRPC_E_WORKER);
	SAYS("the object of the class sum on the node");
	SAYS("status 3");
	CHECK(total_of(other) == 1);
	CHECK(!OmniRpcDestroyObject(o) && !OmniRpcDestroyObject(other));
}

static void test_refusals(void)
{
	OmniRpcObject o = OmniRpcCreateObject(NULL, "objects/sum");

	CHECK(OmniRpcCallByObject(o, "next") == OMRPC_E_NO_FUNCTION);
	SAYS("the class sum of module objects has no method next");
	CHECK(!OmniRpcDestroyObject(o));
	CHECK(OmniRpcCallByObject(o, "add", 1.0) == OMRPC_ERROR);
	SAYS("the object was not made by OmniRpcCreateObject, or it was");
	CHECK(OmniRpcDestroyObject(o) == OMRPC_ERROR);
	CHECK(OmniRpcCallByObject(NULL, "add", 1.0) == OMRPC_ERROR);
	CHECK(!OmniRpcCreateObject(NULL, "objects/none"));
	SAYS("module objects has no class none");
	CHECK(!OmniRpcCreateObject("nowhere", "objects/sum"));
	SAYS("nowhere");
	CHECK(OmniRpcCall("objects.digits", 1) == OMRPC_E_REFUSED);
	SAYS("make an object of it");
}

int main(int argc, char *argv[])
{
	OmniRpcObject o;

	setenv("SKEP_ERRORS", "return", 1);
	OmniRpcInit(&argc, &argv);
	test_state();
	test_inside();
	test_losses();
	test_refusals();
	o = OmniRpcCreateObject(NULL, "objects/sum");
	OmniRpcFinalize();
	OmniRpcInit(NULL, NULL);
	CHECK(OmniRpcCallByObject(o, "add", 1.0) == OMRPC_ERROR);
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
