// SPDX-License-Identifier: MIT
/*
 * Owns the list of bound modules. client->lock guards its head. With `binding`
 * locked, one thread at a time asks the hub, so that no module is bound twice.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 0x1200 /* a host's name and a path */

static struct skep_handle *first_module(struct grid_client *c)
{
	struct skep_handle *m;

	pthread_mutex_lock(&c->lock);
	m = c->modules;
	pthread_mutex_unlock(&c->lock);
	return m;
}

static struct skep_handle *find_bound(struct grid_client *c, const char *name,
				      u64 len)
{
	struct skep_handle *m = first_module(c);

	while (m && (strlen(m->key) != len || memcmp(m->key, name, len)))
		m = m->next;
	return m;
}

/* The module takes over the manifest of the request. */
static struct skep_handle *module_of(struct skep_request *r, const char *name,
				     u64 len)
{
	struct skep_handle *m = calloc(1, sizeof(*m));
	const char *why = "out of memory for its manifest";

	if (m)
		m->key = strndup(name, len);
	if (m && m->key &&
	    !grid_module_open(&m->module, r->manifest, r->bytes, &why)) {
		memcpy(m->name, m->module.head.name, sizeof(m->name));
		m->number = r->module;
		m->bytes = r->manifest;
		r->manifest = NULL;
		return m;
	}
	grid_error_set(OMRPC_E_BAD_MODULE, "module %.*s: %s", (int)len, name,
		       why);
	if (m)
		free(m->key);
	free(m);
	return NULL;
}

static struct skep_handle *ask_hub(struct grid_client *c, const char *name,
				   u64 len)
{
	struct skep_request *r = grid_request_new(c, GRID_BIND, NULL);
	struct skep_handle *m = NULL;
	struct grid_kept *kept;

	if (!r)
		return NULL;
	grid_kept_new(c, SKEP_BIND, name, (u32)len, 0, &kept);
	if (!kept || grid_request_send(c, r, kept, NULL)) {
		grid_request_abandon(c, r);
		return NULL;
	}
	if (!grid_request_wait(c, r))
		m = module_of(r, name, len);
	grid_request_free(c, r);
	if (!m)
		return NULL;
	pthread_mutex_lock(&c->lock);
	m->next = c->modules;
	c->modules = m;
	pthread_mutex_unlock(&c->lock);
	return m;
}

struct skep_handle *grid_module_bind(struct grid_client *c, const char *name,
				     u64 len)
{
	struct skep_handle *m;

	if (!len || len >= KEY_MAX ||
	    (len >= SKEP_NAME_MAX && !memchr(name, '@', len))) {
		grid_error_set(OMRPC_E_NO_MODULE,
			       "a module's name must have 1 to %d characters",
			       SKEP_NAME_MAX - 1);
		return NULL;
	}
	pthread_mutex_lock(&c->binding);
	m = find_bound(c, name, len);
	if (!m)
		m = ask_hub(c, name, len);
	pthread_mutex_unlock(&c->binding);
	return m;
}

int grid_handle_function(const struct skep_handle *m, const char *name)
{
	int f = grid_module_find(&m->module, name);
	u32 i;

	for (i = 0; f < 0 && i < m->module.head.functions; i++) {
		if (!strcmp(m->module.function[i].name, name) &&
		    grid_function_refuse_method(m, i))
			return OMRPC_E_REFUSED;
	}
	if (f < 0)
		return grid_error_set(OMRPC_E_NO_FUNCTION,
				      "module %s has no function %s", m->name,
				      name);
	return f;
}

int grid_function_refuse_init(const struct skep_handle *m, int f)
{
	const struct skep_function *function = &m->module.function[f];

	if (!(function->flags & SKEP_FUNCTION_INIT))
		return 0;
	return grid_error_set(
		OMRPC_E_NO_FUNCTION,
		"%s is module %s's Initialize: use OmniRpcModuleInit",
		function->name, m->name);
}

/* Finds a function in all of the hub's modules. */
static struct skep_handle *bind_function(struct grid_client *c,
					 const char *name)
{
	char key[SKEP_NAME_MAX + 1];
	int len = snprintf(key, sizeof(key), "?%s", name);

	if (len >= (int)sizeof(key)) {
		grid_error_set(OMRPC_E_NO_FUNCTION,
			       "a function's name must have 1 to %d characters",
			       SKEP_NAME_MAX - 1);
		return NULL;
	}
	return grid_module_bind(c, key, (u64)len);
}

struct skep_handle *grid_module_bind_host(struct grid_client *c,
					  const char *host, const char *module)
{
	char key[KEY_MAX];
	int len = snprintf(key, sizeof(key), "%s@%s", host, module);

	if (!*host || strchr(host, '@') || len >= (int)sizeof(key)) {
		grid_error_set(OMRPC_E_NO_NODE,
			       "%.80s is no name of a host, or too long with "
			       "what is to run there",
			       host);
		return NULL;
	}
	return grid_module_bind(c, key, (u64)len);
}

int grid_module_function(struct grid_client *c, const char *name,
			 struct skep_handle **module)
{
	const char *dot = strrchr(name, '.');
	struct skep_handle *m;

	if (dot) {
		*module = grid_module_bind(c, name, (u64)(dot - name));
		if (!*module)
			return OMRPC_ERROR;
		return grid_handle_function(*module, dot + 1);
	}
	for (m = first_module(c); m; m = m->next) {
		if (!strchr(m->key, '@') &&
		    grid_module_find(&m->module, name) >= 0)
			break;
	}
	*module = m ? m : bind_function(c, name);
	return *module ? grid_handle_function(*module, name) : OMRPC_ERROR;
}
