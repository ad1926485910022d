/* SPDX-License-Identifier: MIT */
/* Arguments, environment and the auxiliary vector. */
#include <elf.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "say.h"

extern char **environ;

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static void check_auxv(void)
{
	const unsigned char *random = (void *)getauxval(AT_RANDOM);
	const Elf64_Phdr *phdr = (void *)getauxval(AT_PHDR);
	int i, sum = 0, loads = 0, loader = 0;

	CHECK(getauxval(AT_PAGESZ) == 4096);
	CHECK(getauxval(AT_PHENT) == sizeof(Elf64_Phdr));
	CHECK(phdr);
	for (i = 0; phdr && i < (int)getauxval(AT_PHNUM); i++) {
		loads += phdr[i].p_type == PT_LOAD;
		loader += phdr[i].p_type == PT_INTERP;
	}
	CHECK(loads >= 2);
	CHECK(getauxval(AT_ENTRY));
	CHECK(random);
	for (i = 0; random && i < 16; i++)
		sum += random[i];
	CHECK(sum > 0);
	CHECK(getauxval(AT_SECURE) == 0);
	CHECK(getauxval(AT_CLKTCK) == 100);
	CHECK(getauxval(AT_UID) == getuid());
	CHECK(getauxval(AT_EGID) == getegid());
	CHECK(!getauxval(AT_BASE) == !loader);
	printf("execfn %s\n", base_name((const char *)getauxval(AT_EXECFN)));
	CHECK(FAILS(getauxval(9999) ? 0 : -1, ENOENT));
}

static void check_ids(void)
{
	struct utsname name;

	CHECK(getpid() > 1);
	CHECK(getppid() >= 0);
	CHECK(uname(&name) == 0);
	printf("sysname %s machine %s\n", name.sysname, name.machine);
	CHECK(atoi(name.release) >= 4);
	CHECK(sysconf(_SC_PAGESIZE) == 4096);
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
	CHECK(sysconf(_SC_CLK_TCK) == 100);
	CHECK(sysconf(_SC_OPEN_MAX) >= 64);
}

int main(int argc, char **argv)
{
	int i;

	printf("argc %d\n", argc);
	printf("argv[0] %s\n", base_name(argv[0]));
	for (i = 1; i < argc; i++)
		printf("argv[%d] [%s]\n", i, argv[i]);
	CHECK(argv[argc] == NULL);
	CHECK(environ > argv && (char *)environ < argv[0]);
	CHECK(((unsigned long)argv & 7) == 0);
	printf("CONF_ENV [%s]\n", getenv("CONF_ENV") ? getenv("CONF_ENV") : "");
	CHECK(setenv("CONF_NEW", "x=y", 1) == 0);
	CHECK(!strcmp(getenv("CONF_NEW"), "x=y"));
	check_auxv();
	check_ids();
	return say_done();
}
