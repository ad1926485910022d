// SPDX-License-Identifier: MIT
/*
 * The functions for masters. Owns the program's only session; `opening` guards
 * it against being opened twice.
 */
#include <skep/assert.h>

#include "back.h"
#include "client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct grid_client *client;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static __thread char error_text[4200];
static __thread int error_code, error_reported;

int grid_error_set(int code, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(error_text, sizeof(error_text), format, ap);
	va_end(ap);
	error_code = code;
	error_reported = 0;
	return code;
}

int grid_error_code(void)
{
	return error_code;
}

int grid_error_reported(void)
{
	return error_reported;
}

void grid_error_tell(void)
{
	error_reported = 1;
}

const char *OmniRpcLastErrorText(void)
{
	return error_text;
}

struct grid_client *grid_session(void)
{
	struct grid_client *c = __atomic_load_n(&client, __ATOMIC_ACQUIRE);

	if (!c)
		grid_error_set(OMRPC_ERROR, "there is no session with the hub: "
					    "call OmniRpcInit first");
	return c;
}

/* Uses the hub of `skep run`, or starts one for this program. */
static int open_session(const char *hostfile)
{
	const char *path = getenv("SKEP_SOCKET");
	char started[PATH_MAX];
	struct grid_client *c;
	int code;

	if (client)
		return grid_error_set(OMRPC_ERROR,
				      "OmniRpcInit has already been called");
	if (path && *path && hostfile)
		return grid_error_set(
			OMRPC_ERROR, "--hostfile is not read under `skep run`, "
				     "which brings the nodes: give it to that, "
				     "or start this program alone");
	if (!path || !*path) {
		if (!hostfile && !access("hosts.xml", R_OK))
			hostfile = "hosts.xml";
		code = grid_holder_start(hostfile, started, sizeof(started));
		if (code)
			return code;
		path = started;
	}
	code = grid_client_open(&c, path);
	if (!code)
		__atomic_store_n(&client, c, __ATOMIC_RELEASE);
	else
		grid_holder_end();
	return code;
}

/* Removes OmniRPC's options from the program's arguments. */
static int take_options(int *argc, char ***argv, const char **hostfile)
{
	int i, kept = 1;

	if (grid_errors_check())
		return grid_error_set(OMRPC_ERROR, "SKEP_ERRORS must be "
						   "return or exit");
	omrpc_debug_flag = getenv("OMRPC_DEBUG") != NULL;
	if (!argc || !argv || *argc < 1)
		return 0;
	for (i = 1; i < *argc; i++) {
		if (!strcmp((*argv)[i], "--hostfile")) {
			if (++i == *argc)
				return grid_error_set(OMRPC_ERROR,
						      "--hostfile needs the "
						      "name of a file");
			*hostfile = (*argv)[i];
			continue;
		}
		if (!strcmp((*argv)[i], "--debug"))
			omrpc_debug_flag = 1;
		else
			(*argv)[kept++] = (*argv)[i];
	}
	*argc = kept;
	(*argv)[kept] = NULL;
	return 0;
}

int OmniRpcInit(int *argc, char ***argv)
{
	const char *hostfile = NULL;
	int code;

	code = take_options(argc, argv, &hostfile);
	pthread_mutex_lock(&opening);
	if (!code)
		code = open_session(hostfile);
	pthread_mutex_unlock(&opening);
	if (code)
		fprintf(stderr, "OmniRpcInit: %s\n", error_text);
	grid_error_tell();
	return grid_end_failed(code);
}

/* A program that never asked for the status of a failed call must not exit with
 * 0. */
static void end_unseen(struct grid_client *c)
{
	struct skep_request *r;
	int code = 0;

	pthread_mutex_lock(&c->lock);
	for (r = c->request; r && !code; r = r->next) {
		if (r->ended && !r->quiet)
			code = r->code;
	}
	pthread_mutex_unlock(&c->lock);
	if (!code)
		return;
	grid_error_tell();
	grid_end_failed(code);
}

int OmniRpcFinalize(void)
{
	struct grid_client *c;

	if (grid_back_refuse("end the session"))
		return OMRPC_E_REFUSED;
	pthread_mutex_lock(&opening);
	c = grid_session();
	client = NULL;
	pthread_mutex_unlock(&opening);
	if (!c)
		return OMRPC_ERROR;
	end_unseen(c);
	grid_client_close(c);
	grid_ranks_free();
	grid_made_free();
	grid_holder_end();
	return OMRPC_OK;
}

/* Modules ----------------------------------------------------------------- */

static int init_module(const char *module, va_list args)
{
	struct grid_client *c = grid_session();
	struct skep_request *r;
	struct skep_handle *m;
	int f, code;

	if (!c)
		return OMRPC_ERROR;
	m = grid_module_bind(c, module, strlen(module));
	if (!m)
		return grid_error_code();
	f = grid_module_initialize(&m->module);
	if (f < 0)
		return grid_error_set(OMRPC_E_NO_FUNCTION,
				      "module %s has no Initialize", m->name);
	r = grid_call_start(c, m, (u32)f, args);
	if (!r)
		return grid_error_code();
	code = grid_request_wait(c, r);
	grid_request_free(c, r);
	return code;
}

int OmniRpcModuleInitV(const char *module, va_list args)
{
	int code = init_module(module, args);

	if (code)
		grid_report_unsent(module, "Initialize");
	return grid_end_failed(code);
}

int OmniRpcModuleInit(const char *module, ...)
{
	va_list args;
	int code;

	va_start(args, module);
	code = OmniRpcModuleInitV(module, args);
	va_end(args);
	return code;
}

int OmniRpcModuleReserve(int workers)
{
	(void)workers;
	return OMRPC_OK;
}

static OmniRpcHandle open_handle(const char *host, const char *module)
{
	struct grid_client *c = grid_session();

	if (!c)
		return NULL;
	if (host)
		return grid_module_bind_host(c, host, module);
	return grid_module_bind(c, module, strlen(module));
}

OmniRpcHandle OmniRpcCreateHandle(const char *host, const char *module)
{
	OmniRpcHandle handle = open_handle(host, module);

	if (!handle)
		grid_report_unsent("", module);
	return handle;
}

/* The module stays bound, and keeps what Initialize was given. */
int OmniRpcDestroyHandle(OmniRpcHandle handle)
{
	if (!handle)
		return grid_error_set(OMRPC_ERROR, "the handle is NULL");
	return grid_session() ? OMRPC_OK : OMRPC_ERROR;
}

/* Calls ------------------------------------------------------------------- */

static OmniRpcRequest start_call(struct grid_client *c, struct skep_handle *m,
				 int f, va_list args)
{
	if (f < 0 || grid_function_refuse_init(m, f))
		return NULL;
	return grid_call_start(c, m, (u32)f, args);
}

static OmniRpcRequest call_named(const char *name, va_list args)
{
	struct grid_client *c = grid_session();
	struct skep_handle *m;
	int f;

	if (!c)
		return NULL;
	f = grid_module_function(c, name, &m);
	return start_call(c, m, f, args);
}

OmniRpcRequest OmniRpcCallAsyncV(const char *name, va_list args)
{
	OmniRpcRequest r = call_named(name, args);

	if (!r) {
		grid_report_unsent("", name);
		grid_end_failed(grid_error_code());
	}
	return r;
}

static OmniRpcRequest call_handle(OmniRpcHandle handle, const char *function,
				  va_list args)
{
	struct grid_client *c = grid_session();

	if (!c)
		return NULL;
	if (!handle) {
		grid_error_set(OMRPC_ERROR, "the handle is NULL");
		return NULL;
	}
	return start_call(c, handle, grid_handle_function(handle, function),
			  args);
}

OmniRpcRequest OmniRpcCallAsyncByHandleV(OmniRpcHandle handle,
					 const char *function, va_list args)
{
	OmniRpcRequest r = call_handle(handle, function, args);
	const struct skep_handle *m = handle;

	if (!r) {
		grid_report_unsent(handle ? m->name : "", function);
		grid_end_failed(grid_error_code());
	}
	return r;
}

OmniRpcRequest OmniRpcCallAsync(const char *name, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, name);
	r = OmniRpcCallAsyncV(name, args);
	va_end(args);
	return r;
}

OmniRpcRequest OmniRpcCallAsyncByHandle(OmniRpcHandle handle,
					const char *function, ...)
{
	OmniRpcRequest r;
	va_list args;

	va_start(args, function);
	r = OmniRpcCallAsyncByHandleV(handle, function, args);
	va_end(args);
	return r;
}

static int finish_call(OmniRpcRequest r)
{
	int code;

	if (!r)
		return grid_error_code();
	code = grid_request_wait(client, r);
	grid_request_free(client, r);
	return grid_end_failed(code);
}

int OmniRpcCallV(const char *name, va_list args)
{
	return finish_call(OmniRpcCallAsyncV(name, args));
}

int OmniRpcCallByHandleV(OmniRpcHandle handle, const char *function,
			 va_list args)
{
	return finish_call(OmniRpcCallAsyncByHandleV(handle, function, args));
}

int OmniRpcCall(const char *name, ...)
{
	va_list args;
	int code;

	va_start(args, name);
	code = OmniRpcCallV(name, args);
	va_end(args);
	return code;
}

int OmniRpcCallByHandle(OmniRpcHandle handle, const char *function, ...)
{
	va_list args;
	int code;

	va_start(args, function);
	code = OmniRpcCallByHandleV(handle, function, args);
	va_end(args);
	return code;
}

/* Requests ---------------------------------------------------------------- */

static struct grid_client *client_of(OmniRpcRequest r)
{
	struct grid_client *c = grid_session();

	if (c && !r)
		grid_error_set(OMRPC_ERROR, "the request is NULL: its call "
					    "was not sent");
	return r ? c : NULL;
}

int OmniRpcWait(OmniRpcRequest request)
{
	struct grid_client *c = client_of(request);

	return grid_end_failed(c ? grid_request_wait(c, request) : OMRPC_ERROR);
}

int OmniRpcProbe(OmniRpcRequest request)
{
	struct grid_client *c = client_of(request);
	struct skep_request *r = request;
	int ended;

	if (!c)
		return grid_end_failed(OMRPC_ERROR);
	ended = grid_request_ended(c, r);
	if (ended)
		grid_end_failed(grid_request_wait(c, r));
	return ended;
}

/* Waits for all, even after a failure. */
int OmniRpcWaitAll(int count, OmniRpcRequest request[])
{
	int i, failed = -1;

	for (i = 0; i < count; i++) {
		if (OmniRpcWait(request[i]) && failed < 0)
			failed = i;
	}
	return failed < 0 ? OMRPC_OK : OmniRpcWait(request[failed]);
}

#define RUNNING -1
#define NONE -2

/* The caller holds lock. The index of a request that has ended, or a negative
 * code. */
static int find_ended(struct grid_client *c, int count,
		      OmniRpcRequest request[])
{
	struct skep_request *r;
	int i, waiting = NONE;

	skep_assert(pthread_mutex_trylock(&c->lock));
	(void)c;
	for (i = 0; i < count; i++) {
		r = request[i];
		if (!r || r->returned)
			continue;
		if (r->ended) {
			r->returned = 1;
			return i;
		}
		waiting = RUNNING;
	}
	return waiting;
}

int OmniRpcWaitAny(int count, OmniRpcRequest request[])
{
	struct grid_client *c = grid_session();
	int i;

	if (!c)
		return OMRPC_ERROR;
	for (i = 0; i < count; i++) {
		if (request[i] && grid_back_refuse_wait(request[i]))
			return grid_end_failed(OMRPC_E_REFUSED);
	}
	pthread_mutex_lock(&c->lock);
	while ((i = find_ended(c, count, request)) == RUNNING)
		pthread_cond_wait(&c->ended, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (i == NONE)
		return grid_error_set(OMRPC_ERROR, "no request is left to "
						   "wait for");
	grid_end_failed(grid_request_wait(c, request[i]));
	return i;
}

int OmniRpcCancel(OmniRpcRequest request)
{
	struct grid_client *c = client_of(request);
	struct skep_request *r = request;

	if (!c)
		return OMRPC_ERROR;
	if (grid_request_ended(c, r))
		return OMRPC_OK;
	grid_request_hush(c, r);
	return grid_request_cancel(c, r);
}

int OmniRpcDestroyRequest(OmniRpcRequest request)
{
	struct grid_client *c = client_of(request);

	if (!c)
		return OMRPC_ERROR;
	if (!grid_request_ended(c, request) && grid_back_refuse_wait(request))
		return OMRPC_E_REFUSED;
	/* If it cannot be cancelled, the session is over, and that ends the
	 * request. */
	OmniRpcCancel(request);
	grid_request_wait(c, request);
	grid_request_free(c, request);
	return OMRPC_OK;
}

int skep_call_info(OmniRpcRequest request, struct skep_info *info)
{
	struct grid_client *c = client_of(request);
	const struct skep_request *r = request;
	int ready;

	if (!c)
		return OMRPC_ERROR;
	pthread_mutex_lock(&c->lock);
	ready = r->ended && !r->code;
	if (ready)
		*info = r->info;
	pthread_mutex_unlock(&c->lock);
	return ready ? OMRPC_OK
		     : grid_error_set(OMRPC_ERROR, "the call has no result");
}
