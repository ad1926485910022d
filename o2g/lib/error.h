/* SPDX-License-Identifier: MIT */
/* The text of o2g_error(), and log lines on standard error. */
#ifndef O2G_LIB_ERROR_H
#define O2G_LIB_ERROR_H

/* Stores the text for this thread; returns `error`, a negative errno. */
__attribute__((format(printf, 2, 3))) int
o2g_error_set(int error, const char *format, ...);
/* Reads SKEP_O2G_LOG; later changes have no effect. */
void o2g_error_read_level(void);
/* Writes one line to standard error, about something that no call can report: a
 * thread finds that a peer cannot be reached. SKEP_O2G_LOG=0 disables it. */
__attribute__((format(printf, 1, 2))) void o2g_error_log(const char *format,
							 ...);

/* The same for details; only with SKEP_O2G_LOG=2. */
__attribute__((format(printf, 1, 2))) void
o2g_error_log_more(const char *format, ...);

#endif
