// SPDX-License-Identifier: MIT
/* main() of worker programs; in a file of its own, so that it can be replaced.
 */
#include "grid/include/skep/worker.h"

int main(void)
{
	return skep_worker_main(&skep_worker);
}
