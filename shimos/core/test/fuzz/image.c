// SPDX-License-Identifier: MIT
/* Any bytes as an image: what is accepted can be laid out. */
#include <stdlib.h>
#include <string.h>

#include "../../image.h"
#include <skep/shimos.h>

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char why[SHIMOS_WHY];
	struct skep_image h;
	const struct shimos_size one = {1, 1, SKEP_PARTITION_ALIGN};
	struct shimos_text t;
	u64 memory;
	int err;

	shimos_text_begin(&t, why, sizeof(why));
	err = shimos_image_check(data, size, &t);
	if (!err != !*why)
		abort(); /* a refusal without a reason, or the reverse */
	if (err)
		return 0;
	memcpy(&h, data, sizeof(h));
	memory = shimos_image_memory(&h, &one);
	if (!memory) /* with this much of it, 1 GiB is not enough */
		return 0;
	if (memory % SKEP_PARTITION_ALIGN || memory < h.memory ||
	    memory < shimos_image_free(&h, &one) + h.core_memory ||
	    shimos_image_partition(&h) < size || h.entry >= size)
		abort();
	return 0;
}
