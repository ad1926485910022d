/* SPDX-License-Identifier: MIT */
/*
 * A dynamic program with libraries that it opened, which a snapshot must keep,
 * waits until the file `go` exists; then it uses, closes and opens them, and
 * says whether it is unharmed. usage: loads LIBRARY OTHER
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "await.h"

typedef unsigned long (*part_fn)(void);

static void *open_library(const char *name, part_fn *f)
{
	void *library = dlopen(name, RTLD_NOW);

	if (!library)
		report_wrong(dlerror());
	*f = (part_fn)dlsym(library, "part_self");
	if (!*f || (*f)() != pthread_self())
		report_wrong(name);
	return library;
}

int main(int argc, char **argv)
{
	part_fn f, other;
	void *library, *second;
	int i;

	if (argc != 3)
		report_wrong("usage");
	library = open_library(argv[1], &f);
	for (i = 0; i < 2; i++) { /* leaves free places among the others */
		second = open_library(argv[2], &other);
		if (!i && dlclose(second))
			report_wrong("dlclose");
	}
	await_go();
	if (f() != pthread_self() || other() != pthread_self())
		report_wrong("libraries");
	if (dlclose(library) || dlclose(second))
		report_wrong("dlclose");
	library = open_library(argv[1], &f);
	if (f() != pthread_self())
		report_wrong("a library that is opened again");
	printf("unharmed\n");
	fflush(stdout);
	_exit(0);
}
