// SPDX-License-Identifier: MIT
/* The master program. */
#include "examples/eigen/master.h"

int main(int argc, char **argv)
{
	struct eigen_options options;
	int read = eigen_options_read(argc, argv, &options);

	if (read)
		return read > 0 ? EIGEN_RIGHT : EIGEN_USAGE;
	return eigen_master_run(&options, options.local ? &eigen_engine_local
							: &eigen_engine_remote);
}
