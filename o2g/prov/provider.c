/* SPDX-License-Identifier: MIT */
/*
 * The entry point of the provider. It uses the log and the parameters of the
 * library that opens it. They are looked up in that library, because a process
 * may have several copies of libfabric and this file must load into each.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prov.h"

static void provider_cleanup(void)
{
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	/* Later versions skip a provider that reports an older version than
	 * theirs; the interface has been stable since 1.5. */
	.fi_version = FI_VERSION(2, 99),
	.name = PROV_NAME,
	.getinfo = prov_info_get,
	.fabric = prov_fabric_open,
	.cleanup = provider_cleanup,
};

static struct {
	__typeof__(fi_log) *log;
	__typeof__(fi_log_enabled) *log_enabled;
	__typeof__(fi_param_define) *param_define;
	__typeof__(fi_param_get) *param_get;
	__typeof__(fi_strerror) *strerror;
} host;

static const struct parameter {
	const char *name;
	enum fi_param_type type;
	const char *help;
} parameters[] = {
	{"iface", FI_PARAM_STRING,
	 "Network interface or address to listen on (SKEP_O2G_IFACE)"},
	{"ports", FI_PARAM_STRING,
	 "TCP ports to listen on, FIRST-LAST (SKEP_O2G_PORTS)"},
	{"engine", FI_PARAM_STRING,
	 "What matches messages: auto, kernel or user"},
	{"credit", FI_PARAM_STRING,
	 "Bytes that each peer may send without permission"},
	{"unexpected", FI_PARAM_STRING,
	 "Maximum bytes buffered for unexpected messages"},
	{"operations", FI_PARAM_STRING,
	 "Maximum number of operations in flight"},
	{"nap_us", FI_PARAM_STRING,
	 "Longest sleep, in microseconds, of a program that only polls (none)"},
	{"rma", FI_PARAM_STRING,
	 "yes (default) or no: whether FI_RMA and FI_ATOMIC are offered"},
	{"linger_ms", FI_PARAM_STRING,
	 "How long closing an endpoint waits for slow peers (10000)"},
};

static void find_host(void *caller)
{
	void *library = RTLD_DEFAULT;
	Dl_info info;

	if (dladdr(caller, &info)) {
		void *loaded = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);

		if (loaded)
			library = loaded;
	}
	host.log = dlsym(library, "fi_log");
	host.log_enabled = dlsym(library, "fi_log_enabled");
	host.param_define = dlsym(library, "fi_param_define");
	host.param_get = dlsym(library, "fi_param_get");
	host.strerror = dlsym(library, "fi_strerror");
}

unsigned prov_forks;

static void count_fork(void)
{
	prov_forks++;
}

FI_EXT_INI
{
	if (pthread_atfork(NULL, NULL, count_fork))
		return NULL; /* no memory */
	find_host(__builtin_return_address(0));
	for (size_t i = 0; host.param_define && i < PROV_COUNT(parameters); i++)
		host.param_define(&provider, parameters[i].name,
				  parameters[i].type, "%s", parameters[i].help);
	return &provider;
}

void prov_log(enum fi_log_level level, enum fi_log_subsys subsys,
	      const char *format, ...)
{
	char line[256];
	va_list ap;

	if (!host.log || !host.log_enabled ||
	    !host.log_enabled(&provider, level, subsys))
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	host.log(&provider, level, subsys, PROV_NAME, 0, "%s\n", line);
}

/* libc knows no error above the system's own, such as FI_ETRUNC. */
const char *prov_strerror(int error)
{
	return host.strerror ? host.strerror(error) : strerror(error);
}

/* Parameters are read from libfabric as text, because it does not parse K, M
 * and G. */
static char *param_get(const char *name)
{
	char *text = NULL;

	if (!host.param_get || host.param_get(&provider, name, &text))
		return NULL;
	return text && *text ? text : NULL;
}

static int shift_of(char unit)
{
	switch (unit) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	}
	return 0;
}

/* Leaves the value unchanged if nothing is set. */
static int get_number(const char *name, uint64_t least, uint64_t most,
		      uint64_t *value)
{
	const char *text = param_get(name);
	unsigned long long n;
	char *end, upper[32];
	int shift;

	if (!text)
		return 0;
	errno = 0;
	n = strtoull(text, &end, 10);
	shift = shift_of(*end);
	if (isdigit((unsigned char)*text) && !errno && !end[shift > 0] &&
	    n <= most >> shift && n << shift >= least) {
		*value = n << shift;
		return 0;
	}
	for (n = 0; name[n] && n < sizeof(upper) - 1; n++)
		upper[n] = (char)toupper((unsigned char)name[n]);
	upper[n] = 0;
	fprintf(stderr,
		"libo2g-fi: FI_O2G_%s=%s: want a number from %" PRIu64
		" to %" PRIu64 ", which may end in K, M or G\n",
		upper, text, least, most);
	return -FI_EINVAL;
}

static int check_access(const char *text)
{
	if (!text || !strcmp(text, "yes") || !strcmp(text, "no"))
		return 0;
	fprintf(stderr, "libo2g-fi: FI_O2G_RMA=%s: want yes or no\n", text);
	return -FI_EINVAL;
}

bool prov_accesses(void)
{
	const char *wanted = param_get("rma");

	return !(wanted && !strcmp(wanted, "no"));
}

int prov_tunables_read(struct prov_tunables *t)
{
	const struct {
		const char *name;
		uint64_t least, most, *value;
	} number[] = {
		{"credit", 1, UINT32_MAX, &t->credit},
		{"unexpected", 1, UINT64_MAX, &t->unexpected},
		{"operations", 1, UINT32_MAX, &t->operations},
		{"nap_us", 1, UINT32_MAX, &t->nap_us},
		{"linger_ms", 0, INT_MAX, &t->linger_ms},
	};
	int error = check_access(param_get("rma"));

	*t = (struct prov_tunables){.interface = param_get("iface"),
				    .ports = param_get("ports"),
				    .engine = param_get("engine"),
				    .linger_ms = 10000};
	for (size_t i = 0; !error && i < PROV_COUNT(number); i++)
		error = get_number(number[i].name, number[i].least,
				   number[i].most, number[i].value);
	return error;
}
