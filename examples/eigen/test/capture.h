/* SPDX-License-Identifier: MIT */
/* What a part of a test prints, as text. */
#ifndef EIGEN_TEST_CAPTURE_H
#define EIGEN_TEST_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

static char said[65536];

/* What is printed from here to capture_end is in `said`. */
static int captured, was[3];

static void capture_begin(void)
{
	int fd;

	fflush(stdout);
	captured = fileno(tmpfile());
	for (fd = 1; fd <= 2; fd++) {
		was[fd] = dup(fd);
		dup2(captured, fd);
	}
}

static void capture_end(void)
{
	ssize_t got;
	int fd;

	fflush(stdout);
	for (fd = 1; fd <= 2; fd++) {
		dup2(was[fd], fd);
		close(was[fd]);
	}
	got = pread(captured, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = 0;
	close(captured);
}

#endif
