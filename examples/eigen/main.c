// SPDX-License-Identifier: MIT
/* The master program. */
#include "examples/eigen/master.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct eigen_options options;
	int read = eigen_options_read(argc, argv, &options), code;

	if (read)
		code = read > 0 ? EIGEN_RIGHT : EIGEN_USAGE;
	else
		code = eigen_master_run(&options,
					options.local ? &eigen_engine_local
						      : &eigen_engine_remote);
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	fputs("eigen: the answer can't be written: standard output is full or "
	      "closed\n",
	      stderr);
	return code ? code : EIGEN_WRONG;
}
