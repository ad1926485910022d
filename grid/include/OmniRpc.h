/* SPDX-License-Identifier: MIT */
/*
 * OmniRPC for master programs in C and C++, as libskeprpc gives it.
 *
 * A master is started with `skep run -- ./master`, which names the hub's socket
 * in SKEP_SOCKET. If it is started alone, it runs `skep run` beside itself
 * until it ends, with the hosts of OmniRPC's option --hostfile or of the file
 * hosts.xml of the current directory, or with this computer alone. Every
 * function may be called from any thread. OmniRPC programs do not check return
 * codes: a call that fails, unless the program cancelled it, is one line on
 * standard error, and ends the program with exit code 1 as soon as it asks for
 * the result. With SKEP_ERRORS=return in the environment, before OmniRpcInit,
 * functions return OMRPC_OK or one of the negative codes below, and
 * OmniRpcLastErrorText says what went wrong.
 *
 * Arguments of a call are given as OmniRPC has them: IN scalars by value, OUT
 * and INOUT scalars and all arrays as pointers, strings as char *; of a WORK
 * array a pointer that is not used, such as NULL. All of it is sent from the
 * caller's memory, which is free for other use when the function returns; OUT
 * and INOUT arguments are written straight into the caller's memory until the
 * call has ended.
 */
#ifndef OMNIRPC_H
#define OMNIRPC_H

/* OmniRPC's header includes these, and its programs count on it. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef USE_MPI
#include <mpi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OMRPC_OK 0
#define OMRPC_ERROR -1 /* wrong use; nothing was sent */

/* Errors of the hub or a worker: the numbers of enum skep_error_code. */
#define OMRPC_E_PROTOCOL -101
#define OMRPC_E_REVISION -102  /* update the library or the hub */
#define OMRPC_E_NO_MODULE -103 /* no such worker program */
#define OMRPC_E_BAD_MODULE -104
#define OMRPC_E_NO_FUNCTION -105
#define OMRPC_E_ARGUMENTS -106 /* sizes do not fit the module's interface */
#define OMRPC_E_WORKER -107    /* it ended or was killed too often */
#define OMRPC_E_CANCELLED -108
#define OMRPC_E_REFUSED -109
#define OMRPC_E_NO_NODE -110 /* no node can run it */
#define OMRPC_E_INTERNAL -111
/* What this side found. */
#define OMRPC_E_NO_HUB -120 /* not reached, or gone for good */
#define OMRPC_E_NO_MEMORY -121

/* A call under way or ended; NULL is none. */
typedef void *OmniRpcRequest;
/* A module, found by the hub. */
typedef void *OmniRpcHandle;
/* A worker program on a host. */
typedef void *OmniRpcExecHandle;

/*
 * Connects to the hub. argc and argv may be NULL; OmniRPC's --debug and
 * --hostfile FILE are taken out of them. A failure is also printed on standard
 * error, because OmniRPC programs do not check return codes.
 */
int OmniRpcInit(int *argc, char ***argv);
/*
 * Ends the session: calls that did not end are dropped, all requests and
 * handles become invalid. No other thread may be in the library. After it
 * OmniRpcInit may be called again.
 */
int OmniRpcFinalize(void);

/*
 * Gives the arguments of the module's Initialize, which every worker that
 * starts from now on gets first, also one that replaces a lost worker. Returns
 * when the hub has them; their memory is free then. Binds the module.
 */
int OmniRpcModuleInit(const char *module, ...);
int OmniRpcModuleInitV(const char *module, va_list args);
/* As in OmniRPC: returns OMRPC_OK and has no effect. Nodes start workers when
 * calls need them. */
int OmniRpcModuleReserve(int workers);

/*
 * `name` is "module.function", or "function" alone, which is looked for in the
 * modules bound so far, the last one first, and then in all worker programs of
 * the run; it is an error if two have it.
 */
int OmniRpcCall(const char *name, ...);
int OmniRpcCallV(const char *name, va_list args);
/* NULL: the call was not sent. */
OmniRpcRequest OmniRpcCallAsync(const char *name, ...);
OmniRpcRequest OmniRpcCallAsyncV(const char *name, va_list args);

/* How the call ended, after it has. May be asked any number of times. */
int OmniRpcWait(OmniRpcRequest request);
/* 1: it has ended, well or not; 0: it has not; OMRPC_ERROR for NULL. */
int OmniRpcProbe(OmniRpcRequest request);
/* OMRPC_OK, or how the first one in the list that failed has ended. */
int OmniRpcWaitAll(int count, OmniRpcRequest request[]);
/*
 * Index of a request that has ended and that WaitAny did not return before;
 * entries may be NULL. OMRPC_ERROR when there is none to wait for.
 */
int OmniRpcWaitAny(int count, OmniRpcRequest request[]);
/*
 * The hub forgets the call; it ends with OMRPC_E_CANCELLED, unless its result
 * was on its way. Wait for it before its memory is used for something else.
 */
int OmniRpcCancel(OmniRpcRequest request);
/*
 * Frees the library's memory of a request (some 300 bytes after its
 * end); cancels it and waits if it has not ended. Finalize does it for all.
 */
int OmniRpcDestroyRequest(OmniRpcRequest request);

/*
 * Handles name a module once, for many calls. `host` is NULL, or the name of
 * the node that runs the calls; localhost is the one of this computer. Unlike
 * OmniRPC's, a handle is not one process: what calls leave in global variables
 * of the worker may not be there in the next one, what Initialize made always
 * is. NULL: there is no such module or node.
 */
OmniRpcHandle OmniRpcCreateHandle(const char *host, const char *module);
int OmniRpcDestroyHandle(OmniRpcHandle handle);
int OmniRpcCallByHandle(OmniRpcHandle handle, const char *function, ...);
int OmniRpcCallByHandleV(OmniRpcHandle handle, const char *function,
			 va_list args);
OmniRpcRequest OmniRpcCallAsyncByHandle(OmniRpcHandle handle,
					const char *function, ...);
OmniRpcRequest OmniRpcCallAsyncByHandleV(OmniRpcHandle handle,
					 const char *function, va_list args);

/*
 * One or more sentences about the last error in this thread; "" when none was.
 * Good until the next call of the library in this thread.
 */
const char *OmniRpcLastErrorText(void);

/*
 * Worker programs by the path that they have here; a node gets a copy. `host`
 * is the name of the node that runs the calls, localhost the one of this
 * computer. A user other than that of this program cannot be chosen. As with
 * handles, calls of one OmniRpcExecHandle may run in different processes.
 */
int OmniRpcExecInit(int *argc, char ***argv);
int OmniRpcExecFinalize(void);
int OmniRpcExecLocal(const char *program, const char *function, ...);
int OmniRpcExecRemote(const char *host, const char *program,
		      const char *function, ...);
int OmniRpcExecRemoteByUser(const char *host, const char *user,
			    const char *program, const char *function, ...);
OmniRpcExecHandle OmniRpcExecOnHost(const char *host, const char *program);
OmniRpcExecHandle OmniRpcExecOnHostByUser(const char *host, const char *user,
					  const char *program);
int OmniRpcExecCall(OmniRpcExecHandle handle, const char *function, ...);
int OmniRpcExecTerminate(OmniRpcExecHandle handle);

/*
 * Workers that are MPI jobs, of functions with Backend "MPI" or built with
 * omrpc-cc-mpi. The job runs on one node, which needs the MPI that the worker
 * program was built with; each rank gets all arguments, and rank 0's results
 * come back. It stays for the node's next call with as many ranks. The other
 * functions call such workers, too, with one rank on each processor of the
 * node.
 *
 * MPI is started and ended as well, if the program is linked with it.
 */
void OmniRpcMpiInit(int *argc, char ***argv);
void OmniRpcMpiFinalize(void);
/* Handles for calls with this number of ranks; valid until Finalize. */
OmniRpcHandle OmniRpcMpiCreateHandle(int ranks, const char *module);
OmniRpcRequest OmniRpcMpiCallAsyncByHandle(OmniRpcHandle handle, int ranks,
					   const char *function, ...);
OmniRpcRequest OmniRpcMpiCallAsyncByHandleV(OmniRpcHandle handle, int ranks,
					    const char *function, va_list args);
OmniRpcRequest OmniRpcMpiCallAsync(const char *name, int ranks, ...);
OmniRpcRequest OmniRpcCallAsyncMPI(const char *name, int ranks, ...);
OmniRpcRequest OmniRpcCallAsyncVMPI(const char *name, int ranks, va_list args);
/* 1: no call of the handle has failed; 0: one has, or there is no such handle.
 * Calls may still be made: the job is started again. */
int OmniRpcMpiCheckHandle(OmniRpcHandle handle);
int OmniRpcMpiAskHandleAlive(int id);
/* For tests: from now on the handle counts as one whose call failed. */
int OmniRpcMpiStopHeartBeat(OmniRpcHandle handle);
short OmniRpcGetRPID(OmniRpcHandle handle);
/* The number of the newest handle with a failed call, if `code` is one of a
 * failure; else -1. */
int OmniRpcMpiGetErrorHandleId(int code);

/* How the functions below fail: always, as calls do. */
int skep_mpi_refuse(const char *function);

#ifdef USE_MPI
/* OmniRPC's messages between a program and the ranks of its workers. */
#define OmniRpcMpiGetComm(handle)                                              \
	(skep_mpi_refuse("OmniRpcMpiGetComm"), MPI_COMM_NULL)
#define OmniRpcMpi_Send(buf, count, type, to, tag, comm)                       \
	skep_mpi_refuse("OmniRpcMpi_Send")
#define OmniRpcMpi_Recv(buf, count, type, from, tag, comm, status)             \
	skep_mpi_refuse("OmniRpcMpi_Recv")
#define OmniRpcMpi_Bcast(buf, count, type, root, comm)                         \
	skep_mpi_refuse("OmniRpcMpi_Bcast")
#define OmniRpcMpi_Test(request, flag, status)                                 \
	skep_mpi_refuse("OmniRpcMpi_Test")
/* The same over Fujitsu's MPI, and the name of its port. */
#define OmniRpcMpi_FJMPISend(buf, count, type, to, tag, comm, port)            \
	skep_mpi_refuse("OmniRpcMpi_FJMPISend")
#define OmniRpcMpi_FJMPIRecv(buf, count, type, from, tag, comm, status, port)  \
	skep_mpi_refuse("OmniRpcMpi_FJMPIRecv")
#define OmniRpcMpiGetPort(handle)                                              \
	(skep_mpi_refuse("OmniRpcMpiGetPort"), (char *)NULL)
#endif

/* Beyond OmniRPC ---------------------------------------------------------- */

/* What the worker ran on. */
enum skep_info_substrate {
	SKEP_INFO_LINUX = 1,
	SKEP_INFO_BEE_WINDOWS,
	SKEP_INFO_BEE_LINUX,
	SKEP_INFO_BARE,
};

struct skep_info {
	char node[64];
	uint32_t substrate; /* enum skep_info_substrate */
	uint32_t attempt;   /* 1: the first worker did it */
	uint64_t exec_ns;   /* inside the function */
	uint64_t wall_ns;   /* from the call until its result was here */
	uint64_t bytes_in, bytes_out;
	/* Facts from bee; 0 on other substrates. */
	uint64_t nonce, calls;
	uint8_t program[32]; /* SHA-256 of the worker program that ran */
};

/* OMRPC_ERROR while the call has no result. */
int skep_call_info(OmniRpcRequest request, struct skep_info *info);

/*
 * An object of a class of an interface file (DefClass), which is named
 * "module/class" or "module.class", lives in a process of its own on one node:
 * `host`, or with NULL one that the hub chooses. Its methods run there one at a
 * time, in the order in which they were called. If that process ends, or a
 * method that runs is cancelled or loses its node, all later methods fail with
 * the reason.
 */
typedef void *OmniRpcObject;
/* NULL: there is no such class or node, or no room. */
OmniRpcObject OmniRpcCreateObject(const char *host, const char *name);
/* It ends after the methods that were called before. Finalize does it for all.
 */
int OmniRpcDestroyObject(OmniRpcObject object);
int OmniRpcCallByObject(OmniRpcObject object, const char *method, ...);
int OmniRpcCallByObjectV(OmniRpcObject object, const char *method,
			 va_list args);
OmniRpcRequest OmniRpcCallAsyncByObject(OmniRpcObject object,
					const char *method, ...);
OmniRpcRequest OmniRpcCallAsyncByObjectV(OmniRpcObject object,
					 const char *method, va_list args);

#ifdef __cplusplus
}
#endif

#endif
