/* SPDX-License-Identifier: MIT */
/*
 * The door of the provider. The library that opens it lends its log and its
 * parameters; they are looked up in that very library, since a process may
 * hold several copies of libfabric and this file must load into each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "prov.h"

static void cleanup(void)
{
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	/* Later versions skip a provider that says less than their own; the
	 * interface that it uses has been stable since 1.5. */
	.fi_version = FI_VERSION(2, 99),
	.name = PROV_NAME,
	.getinfo = prov_info_get,
	.fabric = prov_fabric_open,
	.cleanup = cleanup,
};

static struct {
	__typeof__(fi_log) *log;
	__typeof__(fi_log_enabled) *log_enabled;
	__typeof__(fi_param_define) *param_define;
	__typeof__(fi_param_get) *param_get;
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
	{"engine", FI_PARAM_STRING, "Who matches messages: auto, kernel or user"},
	{"credit", FI_PARAM_INT,
	 "Bytes that each peer may send before they are asked for"},
	{"unexpected", FI_PARAM_SIZE_T,
	 "Most bytes held for messages without a receive"},
	{"operations", FI_PARAM_INT, "Most operations in flight"},
	{"nap_us", FI_PARAM_INT,
	 "Longest nap, in microseconds, of a program that only polls"},
	{"linger_ms", FI_PARAM_INT,
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
}

FI_EXT_INI
{
	find_host(__builtin_return_address(0));
	for (size_t i = 0; host.param_define && i < count_of(parameters); i++)
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

static void get(const char *name, void *value)
{
	int error = host.param_get ? host.param_get(&provider, name, value)
				   : -FI_ENODATA;

	if (error && error != -FI_ENODATA)
		prov_log(FI_LOG_WARN, FI_LOG_CORE,
			 "FI_O2G_%s makes no sense and is ignored", name);
}

void prov_tunables_read(struct prov_tunables *tunables)
{
	*tunables = (struct prov_tunables){.linger_ms = 10000};
	get("iface", &tunables->interface);
	get("ports", &tunables->ports);
	get("engine", &tunables->engine);
	get("credit", &tunables->credit);
	get("unexpected", &tunables->unexpected);
	get("operations", &tunables->operations);
	get("nap_us", &tunables->nap_us);
	get("linger_ms", &tunables->linger_ms);
}
