/* SPDX-License-Identifier: MIT */
/* Work for one processor until it is killed: it reads 32 MiB again and again.
 */
#include <stdlib.h>

#define WORDS (32UL << 20 >> 3)

int main(void)
{
	volatile unsigned long *words = calloc(WORDS, sizeof(*words));
	unsigned long i;

	if (!words)
		return 1;
	for (;;)
		for (i = 0; i < WORDS; i++)
			words[i] += i;
}
