/* SPDX-License-Identifier: MIT */
/*
 * What `skep gen` writes for a worker program, and what libskepworker.a makes
 * of it. A program is linked from the generated NAME_stub.c, the user's files
 * and the library, statically:
 *
 *	cc -static NAME_stub.c user.c -lskepworker
 *
 * main() comes from the library. The stub defines skep_worker and nothing else
 * that other files can see. Only C's own types are used here, since the user's
 * text stands beside it.
 */
#ifndef SKEP_WORKER_H
#define SKEP_WORKER_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One function of the module. argument[i] points to parameter i:
 *
 *	scalars   the value, IN as well as OUT: *(double *)argument[i]
 *	arrays    the first element, whole array, row-major; what does not
 *		  travel is zero; never null
 *	strings   char *, ended by a zero
 *
 * The memory is aligned to 16 and may be written to, whatever its mode. It is
 * freed after the function returned, but the arguments of Initialize stay as
 * long as the process, so that it may keep pointers to them. `long` in the
 * manifest is C's long, 8 bytes.
 */
typedef void skep_worker_function(void *const *argument);

struct skep_worker {
	const void *manifest; /* <skep/module.h>, aligned to 8 */
	unsigned long long length;
	skep_worker_function *const *function; /* in the manifest's order */
};

extern const struct skep_worker skep_worker;

/*
 * Calls a function of the master that the running call was given: the one that
 * `function` of the manifest describes. argument[i] points to the i-th argument
 * that the master's function gets. Returns when that has returned. Only for the
 * thread that runs the call; if the call cannot go on, the worker ends.
 */
void skep_worker_callback(unsigned function, void *const *argument);

/*
 * What main() does, for programs that must have a main of their own: serves
 * calls until the agent ends the session. Returns the process's exit status,
 * see docs/design/grid.md.
 */
int skep_worker_main(const struct skep_worker *worker);

/*
 * The program of an MPI job: what main() does between MPI_Init and
 * MPI_Finalize, in each rank, from the folder of the worker that started the
 * job. 0, or 1 with a sentence on standard error: then the job is to be
 * aborted.
 */
int skep_rank_main(const struct skep_worker *worker, int rank, int size);
/*
 * What main() of the worker program does then: it has the session with the
 * agent, and runs `program`, the bytes of the other one, with `skep mpirun`.
 * The functions of `worker` are not used. Returns the exit status.
 */
int skep_ranks_main(const struct skep_worker *worker, const void *program,
		    unsigned long long length);

#ifdef __cplusplus
}
#endif
#endif
