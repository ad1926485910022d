// SPDX-License-Identifier: MIT
/* Codes of GridRPC and what they mean. No state. */
#include "gridrpc.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_BYTES 80

/* GridRPC returns char *, so these may not be const. */
static char error_texts[GRPC_LAST_ERROR_CODE][TEXT_BYTES] = {
	[GRPC_NO_ERROR] = "no error",
	[GRPC_NOT_INITIALIZED] = "grpc_initialize has not been called",
	[GRPC_CONFIGFILE_NOT_FOUND] = "the configuration file is not there",
	[GRPC_CONFIGFILE_ERROR] = "the configuration file is wrong",
	[GRPC_SERVER_NOT_FOUND] = "no node can run it",
	[GRPC_FUNCTION_NOT_FOUND] = "no worker program has the function",
	[GRPC_INVALID_FUNCTION_HANDLE] = "the function handle is not valid",
	[GRPC_INVALID_SESSION_ID] = "the session is not valid",
	[GRPC_RPC_REFUSED] = "the call was refused",
	[GRPC_COMMUNICATION_FAILED] = "the session with the hub failed",
	[GRPC_SESSION_FAILED] = "the call failed",
	[GRPC_NOT_COMPLETED] = "the call has not ended",
	[GRPC_NONE_COMPLETED] = "no call has ended",
	[GRPC_OTHER_ERROR_CODE] = "an error inside the library",
	[GRPC_UNKNOWN_ERROR_CODE] = "there is no such error code",
	[GRPC_ALREADY_INITIALIZED] = "grpc_initialize was called before",
	[GRPC_TIMEOUT_NP] = "the time of the call is over",
	[GRPC_CANCELED_NP] = "the call was cancelled",
};

char *grpc_error_string(grpc_error_t error)
{
	if (error < 0 || error >= GRPC_LAST_ERROR_CODE)
		error = GRPC_UNKNOWN_ERROR_CODE;
	return error_texts[error];
}

/* This thread's last error. */
static __thread grpc_error_t last_error;

grpc_error_t grpc_last_error_get_np(void)
{
	return last_error;
}

grpc_error_t grpc_perror_np(char *text)
{
	const char *why = OmniRpcLastErrorText();

	fprintf(stderr, "%s: %s%s%s\n", text ? text : "",
		grpc_error_string(last_error), last_error && *why ? ": " : "",
		last_error ? why : "");
	return GRPC_NO_ERROR;
}

const char *skep_grpc_error_text(void)
{
	return OmniRpcLastErrorText();
}

grpc_error_t gridrpc_error_set(grpc_error_t error, const char *format, ...)
{
	char text[GRID_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	grid_error_set(OMRPC_ERROR, "%s", text);
	last_error = error;
	return error;
}

grpc_error_t gridrpc_error_memory(void)
{
	return gridrpc_error_set(GRPC_OTHER_ERROR_CODE, "out of memory");
}

static grpc_error_t error_of(int code)
{
	switch (code) {
	case OMRPC_OK:
		return GRPC_NO_ERROR;
	case OMRPC_E_NO_NODE:
		return GRPC_SERVER_NOT_FOUND;
	case OMRPC_E_NO_MODULE:
	case OMRPC_E_BAD_MODULE:
	case OMRPC_E_NO_FUNCTION:
		return GRPC_FUNCTION_NOT_FOUND;
	case OMRPC_E_ARGUMENTS:
	case OMRPC_E_REFUSED:
		return GRPC_RPC_REFUSED;
	case OMRPC_E_NO_HUB:
	case OMRPC_E_PROTOCOL:
	case OMRPC_E_REVISION:
		return GRPC_COMMUNICATION_FAILED;
	case OMRPC_E_WORKER:
	case OMRPC_E_CANCELLED:
		return GRPC_SESSION_FAILED;
	}
	return GRPC_OTHER_ERROR_CODE;
}

grpc_error_t gridrpc_error_of(int code)
{
	grpc_error_t error = error_of(code);

	if (error)
		last_error = error;
	return error;
}
