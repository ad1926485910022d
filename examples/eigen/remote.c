// SPDX-License-Identifier: MIT
/*
 * Runs the calls on workers: one asynchronous OmniRPC call for each point. A, B
 * and V are sent once to each node, as arguments of the module's Initialize.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <OmniRpc.h>

#include "examples/eigen/calls.h"

static const char *const substrate_name[] = {
	[0] = "unknown",
	[SKEP_INFO_LINUX] = "linux",
	[SKEP_INFO_BEE_WINDOWS] = "bee-windows",
	[SKEP_INFO_BEE_LINUX] = "bee-linux",
	[SKEP_INFO_BARE] = "bare",
};
#define SUBSTRATES (sizeof(substrate_name) / sizeof(*substrate_name))

static void describe_call(OmniRpcRequest request, struct eigen_call *call)
{
	struct skep_info info;
	size_t i;

	if (skep_call_info(request, &info) != OMRPC_OK)
		return;
	snprintf(call->node, sizeof(call->node), "%.*s",
		 (int)sizeof(info.node) - 1, info.node);
	call->substrate =
		substrate_name[info.substrate < SUBSTRATES ? info.substrate
							   : 0];
	call->bee = info.substrate == SKEP_INFO_BEE_WINDOWS ||
		    info.substrate == SKEP_INFO_BEE_LINUX;
	call->attempt = info.attempt;
	call->exec_ms = info.exec_ns * 1e-6;
	call->wall_ms = info.wall_ns * 1e-6;
	call->bytes_in = info.bytes_in;
	call->bytes_out = info.bytes_out;
	call->nonce = info.nonce;
	call->emulated = info.calls;
	for (i = 0; i < sizeof(info.program); i++)
		sprintf(call->program + 2 * i, "%02x", info.program[i]);
}

static void finish_call(OmniRpcRequest request, struct eigen_call *call)
{
	call->why[EIGEN_WHY - 1] = 0;
	if (OmniRpcWait(request) == OMRPC_OK) {
		describe_call(request, call);
		return;
	}
	call->status = -1;
	snprintf(call->why, EIGEN_WHY, "%s", OmniRpcLastErrorText());
}

static int send_all(const struct eigen_problem *p, struct eigen_call *call,
		    int count, OmniRpcRequest *request)
{
	int i;

	if (OmniRpcModuleInit("eigen", p->a.n, p->a.nnz, p->b.nnz, p->block,
			      p->a.start, p->a.column, p->a.value, p->b.start,
			      p->b.column, p->b.value, p->v,
			      p->order) != OMRPC_OK)
		return -1;
	for (i = 0; i < count; i++) {
		request[i] = OmniRpcCallAsync(
			"eigen.solve", p->a.n, p->block, creal(call[i].z),
			cimag(call[i].z), (double *)call[i].y, &call[i].status,
			call[i].why);
		if (!request[i])
			return -1;
	}
	return 0;
}

static int run_remote(const struct eigen_problem *p, struct eigen_call *call,
		      int count, void (*done)(void *, struct eigen_call *),
		      void *arg, char why[EIGEN_WHY])
{
	OmniRpcRequest *request = calloc(count, sizeof(OmniRpcRequest));
	int i, left = count, error = -1;

	setenv("SKEP_ERRORS", "return", 0); /* this program checks the codes */
	if (request && OmniRpcInit(NULL, NULL) == OMRPC_OK)
		error = send_all(p, call, count, request);
	while (!error && left) {
		i = OmniRpcWaitAny(count, request);
		if (i < 0 || i >= count) {
			error = -1;
			break;
		}
		finish_call(request[i], &call[i]);
		done(arg, &call[i]);
		left--;
	}
	if (error)
		snprintf(why, EIGEN_WHY, "%s",
			 request ? OmniRpcLastErrorText() : "No memory.");
	OmniRpcFinalize();
	free(request);
	return error;
}

const struct eigen_engine eigen_engine_remote = {"remote", run_remote};
