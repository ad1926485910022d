/* SPDX-License-Identifier: MIT */
/*
 * The provider through the installed libfabric: every call, every flag, and
 * what is refused.
 *
 * usage: fi FOLDER-OF-THE-PROVIDER [test...]
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tests/tap.h>

#include "pair.h"

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"info", test_info},	   {"objects", test_objects},
	{"vector", test_vector},   {"tagged", test_tagged},
	{"msg", test_msg},	   {"queue", test_queue},
	{"peek", test_peek},	   {"multi", test_multi},
	{"counter", test_counter}, {"wait", test_wait},
	{"threads", test_threads}, {"access", test_access},
	{"located", test_located}, {"sets", test_sets},
	{"limits", test_limits},   {"arguments", test_arguments},
	{"kept", test_kept},	   {"atomic", test_atomic},
};

void check_condition(bool ok, const char *function, int line, const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	tap_ok(ok, "%s:%d %s", function, line, text);
	pthread_mutex_unlock(&lock);
}

static bool test_wanted(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 2;
}

int main(int argc, char **argv)
{
	static const char secret[] = "0123456789abcdef0123456789abcdef"
				     "0123456789abcdef0123456789abcdef";

	if (argc > 1 && !strncmp(argv[1], "--", 2))
		return process_child(argc, argv);
	if (argc < 2) {
		fprintf(stderr, "usage: fi FOLDER-OF-THE-PROVIDER [test...]\n");
		return 2;
	}
	setenv("FI_PROVIDER_PATH", argv[1], 1);
	setenv("SKEP_O2G_SECRET", secret, 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		if (test_wanted(tests[i].name, argc, argv))
			tests[i].run();
	if (test_wanted("processes", argc, argv))
		test_processes(argv[0]);
	return tap_done();
}
