// SPDX-License-Identifier: MIT
/* Says where it runs, and ends with the number that it was given. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

int main(int argc, char **argv)
{
	struct utsname un;
	char *text = malloc(1000);

	if (!text || uname(&un))
		return 1;
	snprintf(text, 1000, "hello %s from %s", argc > 1 ? argv[1] : "nobody",
		 un.version);
	puts(text);
	return argc > 2 ? atoi(argv[2]) : 0;
}
