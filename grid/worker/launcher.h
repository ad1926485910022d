/* SPDX-License-Identifier: MIT */
/* `skep mpirun`, which starts the ranks of a worker's job and ends with them.
 */
#ifndef GRID_WORKER_LAUNCHER_H
#define GRID_WORKER_LAUNCHER_H

#include <skep/types.h>

/*
 * The descriptor that can be read when a child has ended, or a negative errno.
 * To be called before other threads are made, because they must not take
 * SIGCHLD.
 */
int launcher_open(void);
/* Starts so many ranks of a program; 0 or a negative errno. SKEP_PROGRAM names
 * skep. */
int launcher_start(const char *program, u32 ranks);
/* Reaps all children that have ended; whether there is no launcher. */
int launcher_reap(void);
/* Waits for its end, at most so many milliseconds. */
void launcher_await(u64 ms);
/* Ends it, after so many milliseconds by force, and all that it left. */
void launcher_end(u64 ms);
/* The last line that it printed; call it after launcher_end. */
const char *launcher_last_line(void);

#endif
