// SPDX-License-Identifier: MIT
/*
 * OmniRPC's calls of worker programs by their path. Owns nothing: it opens
 * ordinary handles.
 */
#include "client.h"

#include <errno.h>
#include <limits.h>

int OmniRpcExecInit(int *argc, char ***argv)
{
	return OmniRpcInit(argc, argv);
}

int OmniRpcExecFinalize(void)
{
	return OmniRpcFinalize();
}

/* Agents run as their own users, so no other user can be chosen. */
static int user_wrong(const char *user)
{
	const char *own = getenv("USER");

	if (!own)
		own = getenv("LOGNAME");
	return user && *user && (!own || strcmp(user, own));
}

static OmniRpcExecHandle open_program(const char *host, const char *user,
				      const char *program)
{
	char path[PATH_MAX];
	OmniRpcExecHandle handle = NULL;

	if (user_wrong(user))
		grid_error_set(OMRPC_E_REFUSED,
			       "user %s cannot be chosen: programs run as the "
			       "user of the node's agent",
			       user);
	else if (!realpath(program, path))
		grid_error_set(OMRPC_E_NO_MODULE,
			       "there is no worker program %s: %s", program,
			       strerror(errno));
	else
		handle = OmniRpcCreateHandle(host && *host ? host : "localhost",
					     path);
	if (!handle) {
		grid_report_unsent("", program);
		grid_end_failed(grid_error_code());
	}
	return handle;
}

static int call_program(const char *host, const char *user, const char *program,
			const char *function, va_list args)
{
	OmniRpcExecHandle handle = open_program(host, user, program);

	return handle ? OmniRpcCallByHandleV(handle, function, args)
		      : grid_error_code();
}

int OmniRpcExecLocal(const char *program, const char *function, ...)
{
	va_list args;
	int code;

	va_start(args, function);
	code = call_program(NULL, NULL, program, function, args);
	va_end(args);
	return code;
}

int OmniRpcExecRemote(const char *host, const char *program,
		      const char *function, ...)
{
	va_list args;
	int code;

	va_start(args, function);
	code = call_program(host, NULL, program, function, args);
	va_end(args);
	return code;
}

int OmniRpcExecRemoteByUser(const char *host, const char *user,
			    const char *program, const char *function, ...)
{
	va_list args;
	int code;

	va_start(args, function);
	code = call_program(host, user, program, function, args);
	va_end(args);
	return code;
}

OmniRpcExecHandle OmniRpcExecOnHost(const char *host, const char *program)
{
	return open_program(host, NULL, program);
}

OmniRpcExecHandle OmniRpcExecOnHostByUser(const char *host, const char *user,
					  const char *program)
{
	return open_program(host, user, program);
}

int OmniRpcExecCall(OmniRpcExecHandle handle, const char *function, ...)
{
	va_list args;
	int code;

	va_start(args, function);
	code = OmniRpcCallByHandleV(handle, function, args);
	va_end(args);
	return code;
}

int OmniRpcExecTerminate(OmniRpcExecHandle handle)
{
	return OmniRpcDestroyHandle(handle);
}
