/* SPDX-License-Identifier: MIT */
/* Calls that no kernel has: ENOSYS, and the program goes on. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

int main(void)
{
	CHECK(FAILS(syscall(9999), ENOSYS));
	CHECK(FAILS(syscall(-1), ENOSYS));
	CHECK(FAILS(syscall(400), ENOSYS));
	CHECK(FAILS(syscall(1000000), ENOSYS));
	CHECK(FAILS(syscall(1l << 33 | 5000), ENOSYS));
	CHECK(FAILS(syscall(SYS_create_module), ENOSYS));
	CHECK(syscall(SYS_getpid) == getpid());
	return say_done();
}
