/* SPDX-License-Identifier: MIT */
/*
 * A library that is opened at run time, found by the program's RUNPATH: its
 * constructors, its functions, what it calls in the program, and that nothing
 * of it is left when it is closed, however often.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

int program_calls(int add);
int part_work(int n);
const char *part_name(void);

#ifdef PART
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static int opened;

__attribute__((constructor)) static void begin_part(void)
{
	opened = program_calls(1);
}

__attribute__((destructor)) static void end_part(void)
{
	program_calls(-1);
}

/* A system call of the library itself, and the thread's errno. */
int part_work(int n)
{
	long pid;

	__asm__ volatile("syscall"
			 : "=a"(pid)
			 : "a"((long)SYS_getpid)
			 : "rcx", "r11", "memory");
	errno = n;
	return pid == getpid() ? opened + errno : -1;
}

const char *part_name(void)
{
	return "part";
}
#else
#include <dlfcn.h>
#include <errno.h>
#include "../c/say.h"

#define NAME "libopen_library.so"
#define TIMES 300

static int calls, open_now;

__attribute__((visibility("default"))) int program_calls(int add)
{
	open_now += add;
	return ++calls;
}

static int count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[5000];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n++;
	if (f)
		fclose(f);
	return n;
}

static int use_once(int i)
{
	void *library = dlopen(NAME, i & 1 ? RTLD_NOW : RTLD_LAZY);
	int (*work)(int) =
		library ? (int (*)(int))dlsym(library, "part_work") : NULL;
	int ok = work && open_now == 1 && work(i) == calls + i;

	return library && !dlclose(library) && ok;
}

static void check_names(void)
{
	void *library = dlopen(NAME, RTLD_NOW | RTLD_GLOBAL);
	void *f = library ? dlsym(library, "part_name") : NULL;
	Dl_info info;

	CHECK(f && !strcmp(((const char *(*)(void))f)(), "part"));
	CHECK(f && dladdr(f, &info) && info.dli_saddr == f &&
	      strstr(info.dli_fname, NAME) &&
	      !strcmp(info.dli_sname, "part_name"));
	CHECK(dlsym(RTLD_DEFAULT, "part_name") == f);
	CHECK(library && !dlsym(library, "no_such_name") && dlerror());
	CHECK(library && !dlclose(library));
	CHECK(!dlopen("/nowhere/libnone.so", RTLD_NOW) &&
	      strstr(dlerror(), "libnone.so"));
	CHECK(!dlopen("/etc/passwd", RTLD_NOW) && dlerror());
}

int main(void)
{
	int i, good = 0, before;

	CHECK(use_once(7)); /* the first time leaves memory of the loader */
	before = count_maps();
	for (i = 0; i < TIMES; i++)
		good += use_once(i);
	CHECK(good == TIMES);
	CHECK(count_maps() == before);
	check_names();
	return say_done();
}
#endif
