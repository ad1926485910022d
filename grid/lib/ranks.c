// SPDX-License-Identifier: MIT
/*
 * OmniRPC's functions for workers that are MPI jobs. Owns the program's handles
 * of such workers, which `lock` guards; what they say is in client->lock's
 * keeping.
 */
#include "client.h"

#include <limits.h>

/* The first member lets OmniRPC's other functions take these handles, too. */
struct ranks_handle {
	struct skep_handle module; /* a copy; its pointers are the client's */
	int ranks, id, lost;
	struct ranks_handle *next; /* the one made before */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranks_handle *handles;
static int last_id;

/* A program that is linked with MPI counts on OmniRPC to start it. */
extern int MPI_Init(int *argc, char ***argv) __attribute__((weak));
extern int MPI_Finalize(void) __attribute__((weak));
extern int MPI_Initialized(int *flag) __attribute__((weak));
static int mpi_started;

void OmniRpcMpiInit(int *argc, char ***argv)
{
	int started = 0;

	if (MPI_Initialized)
		MPI_Initialized(&started);
	if (MPI_Init && !started) {
		MPI_Init(argc, argv);
		mpi_started = 1;
	}
	OmniRpcInit(argc, argv);
}

void OmniRpcMpiFinalize(void)
{
	OmniRpcFinalize();
	if (MPI_Finalize && mpi_started)
		MPI_Finalize();
	mpi_started = 0;
}

/* Handles ------------------------------------------------------------------ */

/* 0, or a code with the error set. */
static int check_ranks(const char *what, int ranks)
{
	return ranks >= 1 && ranks <= SKEP_RANKS_MAX
		       ? 0
		       : grid_error_set(OMRPC_E_ARGUMENTS,
					"%s: a job has 1 to %d ranks, not %d",
					what, SKEP_RANKS_MAX, ranks);
}

static struct ranks_handle *add_handle(const struct skep_handle *m, int ranks)
{
	struct ranks_handle *h = calloc(1, sizeof(*h));

	if (!h) {
		grid_error_set(OMRPC_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	h->module = *m;
	h->ranks = ranks;
	pthread_mutex_lock(&lock);
	h->id = last_id++;
	h->next = handles;
	handles = h;
	pthread_mutex_unlock(&lock);
	return h;
}

static struct ranks_handle *open_handle(int ranks, const char *module)
{
	struct grid_client *c = grid_session();
	struct skep_handle *m;

	if (!c || check_ranks(module, ranks))
		return NULL;
	m = grid_module_bind(c, module, strlen(module));
	return m ? add_handle(m, ranks) : NULL;
}

OmniRpcHandle OmniRpcMpiCreateHandle(int ranks, const char *module)
{
	struct ranks_handle *h = open_handle(ranks, module);

	if (!h) {
		grid_report_unsent("", module);
		grid_end_failed(grid_error_code());
	}
	return h;
}

/* NULL with the error set: it is not, or no longer, one of ours. */
static struct ranks_handle *find_handle(OmniRpcHandle handle)
{
	struct ranks_handle *h;

	pthread_mutex_lock(&lock);
	for (h = handles; h && h != handle; h = h->next)
		;
	pthread_mutex_unlock(&lock);
	if (!h)
		grid_error_set(OMRPC_ERROR, "the handle was not made by "
					    "OmniRpcMpiCreateHandle");
	return h;
}

void grid_ranks_free(void)
{
	struct ranks_handle *h;

	pthread_mutex_lock(&lock);
	while ((h = handles)) {
		handles = h->next;
		free(h);
	}
	pthread_mutex_unlock(&lock);
}

/* Calls -------------------------------------------------------------------- */

static OmniRpcRequest start_call(struct grid_client *c,
				 const struct skep_handle *m, int f, int ranks,
				 int *lost, va_list args)
{
	if (f < 0 || check_ranks(m->module.function[f].name, ranks) ||
	    grid_function_refuse_init(m, f))
		return NULL;
	return grid_call_start_ranks(c, m, (u32)f, ranks, lost, args);
}

static OmniRpcRequest call_named(const char *name, int ranks, va_list args)
{
	struct grid_client *c = grid_session();
	struct skep_handle *m;
	int f;

	if (!c)
		return NULL;
	f = grid_module_function(c, name, &m);
	return f < 0 ? NULL : start_call(c, m, f, ranks, NULL, args);
}

static OmniRpcRequest call_handle(OmniRpcHandle handle, int ranks,
				  const char *function, va_list args)
{
	struct grid_client *c = grid_session();
	struct ranks_handle *h = c ? find_handle(handle) : NULL;

	if (!h)
		return NULL;
	if (ranks != h->ranks) {
		grid_error_set(OMRPC_E_ARGUMENTS,
			       "%s: the handle has %d ranks, not %d: make "
			       "another handle",
			       function, h->ranks, ranks);
		return NULL;
	}
	return start_call(c, &h->module,
			  grid_handle_function(&h->module, function), ranks,
			  &h->lost, args);
}

static OmniRpcRequest end_unsent(OmniRpcRequest r, const char *function)
{
	if (!r) {
		grid_report_unsent("", function);
		grid_end_failed(grid_error_code());
	}
	return r;
}

OmniRpcRequest OmniRpcCallAsyncVMPI(const char *name, int ranks, va_list args)
{
	return end_unsent(call_named(name, ranks, args), name);
}

OmniRpcRequest OmniRpcCallAsyncMPI(const char *name, int ranks, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, ranks);
	r = OmniRpcCallAsyncVMPI(name, ranks, args);
	va_end(args);
	return r;
}

OmniRpcRequest OmniRpcMpiCallAsync(const char *name, int ranks, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, ranks);
	r = OmniRpcCallAsyncVMPI(name, ranks, args);
	va_end(args);
	return r;
}

OmniRpcRequest OmniRpcMpiCallAsyncByHandleV(OmniRpcHandle handle, int ranks,
					    const char *function, va_list args)
{
	return end_unsent(call_handle(handle, ranks, function, args), function);
}

OmniRpcRequest OmniRpcMpiCallAsyncByHandle(OmniRpcHandle handle, int ranks,
					   const char *function, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, function);
	r = OmniRpcMpiCallAsyncByHandleV(handle, ranks, function, args);
	va_end(args);
	return r;
}

/* Lost workers ------------------------------------------------------------- */

/* 1: no call of the handle has failed. */
static int is_alive(const struct ranks_handle *h)
{
	struct grid_client *c = grid_session();
	int lost;

	if (!h || !c)
		return 0;
	pthread_mutex_lock(&c->lock);
	lost = h->lost;
	pthread_mutex_unlock(&c->lock);
	return !lost;
}

int OmniRpcMpiCheckHandle(OmniRpcHandle handle)
{
	return is_alive(find_handle(handle));
}

int OmniRpcMpiAskHandleAlive(int id)
{
	struct ranks_handle *h;

	pthread_mutex_lock(&lock);
	for (h = handles; h && h->id != id; h = h->next)
		;
	pthread_mutex_unlock(&lock);
	return is_alive(h);
}

int OmniRpcMpiStopHeartBeat(OmniRpcHandle handle)
{
	struct ranks_handle *h = find_handle(handle);
	struct grid_client *c = grid_session();

	if (!h || !c)
		return grid_end_failed(OMRPC_ERROR);
	pthread_mutex_lock(&c->lock);
	h->lost = 1;
	pthread_mutex_unlock(&c->lock);
	return OMRPC_OK;
}

short OmniRpcGetRPID(OmniRpcHandle handle)
{
	const struct ranks_handle *h = find_handle(handle);

	if (h && h->id <= SHRT_MAX)
		return (short)h->id;
	if (h)
		grid_error_set(OMRPC_ERROR, "the program has made more handles "
					    "than a short can number");
	grid_end_failed(OMRPC_ERROR);
	return -1;
}

/* The newest of the lost ones: codes of failed calls name no handle. */
int OmniRpcMpiGetErrorHandleId(int code)
{
	struct ranks_handle *h;
	int id = -1;

	if (code >= 0)
		return id;
	pthread_mutex_lock(&lock);
	for (h = handles; h && id < 0; h = h->next) {
		if (!is_alive(h))
			id = h->id;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

int skep_mpi_refuse(const char *function)
{
	grid_error_set(OMRPC_E_REFUSED,
		       "%s: the program and its workers have no communicator "
		       "in common, because workers come and go: pass the data "
		       "as arguments of calls",
		       function);
	return grid_end_failed(OMRPC_E_REFUSED);
}
