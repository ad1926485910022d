// SPDX-License-Identifier: MIT
/* Reading settings. An invalid value is refused, never replaced. */
#include "settings.h"
#include "base/hex.h"
#include "available.h"
#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *or_environment(const char *given, const char *variable)
{
	return given ? given : getenv(variable);
}

static int read_secret(u8 secret[O2G_SECRET_SIZE], const char *text)
{
	if (!text || !*text)
		return o2g_error_set(
			-EACCES,
			"no secret for this job: start it with `skep mpirun`, "
			"or set SKEP_O2G_SECRET to the same 64 hexadecimal "
			"digits for each of its processes (`openssl rand -hex "
			"32` makes them)");
	for (int i = 0; i < O2G_SECRET_SIZE; i++) {
		int high = base_hex_digit(text[2 * i]);
		int low = high < 0 ? -1 : base_hex_digit(text[2 * i + 1]);

		if (low < 0)
			break;
		secret[i] = (u8)(high << 4 | low);
		if (i == O2G_SECRET_SIZE - 1 && !text[2 * i + 2])
			return 0;
	}
	return o2g_error_set(-EACCES, "the job's secret (SKEP_O2G_SECRET) is "
				      "malformed: want 64 hexadecimal digits");
}

/* Reads a number, optionally followed by K, M or G, within bounds. */
static int read_number(u64 *out, const char *variable, u64 least, u64 most)
{
	const char *text = getenv(variable);
	unsigned long long value;
	char *end;
	int shift = 0;

	if (!text || !*text)
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	end += shift > 0;
	if (errno || *end || end == text || *text == '-' ||
	    value > most >> shift || value << shift < least)
		return o2g_error_set(-EINVAL,
				     "%s=%s: want a number from %llu to %llu",
				     variable, text, least, most);
	*out = value << shift;
	return 0;
}

static int read_ports(struct o2g_settings *s, const char *text)
{
	unsigned long first, last;
	char *end;

	if (!text || !*text)
		return 0;
	first = last = strtoul(text, &end, 10);
	if (end != text && *end == '-') {
		const char *second = end + 1;

		last = strtoul(second, &end, 10);
		if (end == second)
			first = 0;
	}
	if (*end || first == 0 || last < first || last > 65535)
		return o2g_error_set(-EINVAL,
				     "ports '%s' (SKEP_O2G_PORTS): want "
				     "FIRST-LAST within 1-65535",
				     text);
	s->first_port = (u16)first;
	s->last_port = (u16)last;
	return 0;
}

static int read_interface(struct o2g_settings *s, const char *text)
{
	if (text && strlen(text) >= sizeof(s->interface))
		return o2g_error_set(
			-EINVAL,
			"the interface name '%s' (SKEP_O2G_IFACE) is too long",
			text);
	strcpy(s->interface, text ? text : "");
	return 0;
}

static int read_encrypt(struct o2g_settings *s, const struct o2g_options *o)
{
	const char *text = getenv("SKEP_O2G_ENCRYPT");
	const int yes = text && !strcmp(text, "yes");

	if (text && *text && !yes && strcmp(text, "no") != 0)
		return o2g_error_set(
			-EINVAL, "SKEP_O2G_ENCRYPT=%s: want yes or no", text);
	s->encrypt = yes || o->encrypt;
	return 0;
}

/* One numeric setting: where it is stored, the caller's value, and its
 * bounds. */
struct tunable {
	u64 value;
	u64 given;
	const char *variable;
	u64 least, most;
};

static int read_tunable(struct tunable *t)
{
	if (!t->given)
		return read_number(&t->value, t->variable, t->least, t->most);
	if (t->given < t->least || t->given > t->most)
		return o2g_error_set(-EINVAL,
				     "%llu for %s or its option: want a number "
				     "from %llu to %llu",
				     t->given, t->variable, t->least, t->most);
	t->value = t->given;
	return 0;
}

#define UNEXPECTED_MIN (512ull << 20)
#define UNEXPECTED_MAX (4ull << 30) /* the kernel engine's limit */

/* A sixteenth of the memory that is available now, within bounds. */
static u64 default_unexpected(void)
{
	const u64 share = o2g_memory_available() / 16;

	if (share < UNEXPECTED_MIN)
		return UNEXPECTED_MIN;
	return share < UNEXPECTED_MAX ? share : UNEXPECTED_MAX;
}

static int read_tunables(struct o2g_settings *s, const struct o2g_options *o)
{
	struct tunable t[] = {
		{8 << 20, o->credit, "SKEP_O2G_CREDIT", O2G_CREDIT_MIN,
		 O2G_CREDIT_MAX},
		{default_unexpected(), o->unexpected, "SKEP_O2G_UNEXPECTED",
		 1 << 20, 1ull << 40},
		{1 << 20, o->operations, "SKEP_O2G_OPERATIONS", 16, 1 << 23},
		{2000, o->nap_us, "SKEP_O2G_NAP_US", 1, 1000000},
		{20000, o->connect_ms, "SKEP_O2G_CONNECT_MS", 100, 600000},
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int r = read_tunable(&t[i]);

		if (r)
			return r;
	}
	s->credit = (u32)t[0].value;
	s->unexpected = t[1].value;
	s->operations = (u32)t[2].value;
	s->nap_us = (u32)t[3].value;
	s->connect_ms = (u32)t[4].value;
	return 0;
}

int o2g_settings_read(struct o2g_settings *s, const struct o2g_options *given)
{
	struct o2g_options o = {0};
	int r;

	memset(s, 0, sizeof(*s));
	if (given) { /* the program was built with fewer options */
		if (given->size < sizeof(given->size) ||
		    given->size > sizeof(o))
			return o2g_error_set(
				-EINVAL,
				"o2g_options.size is %zu, this library knows "
				"%zu: set it to sizeof(struct o2g_options)",
				given->size, sizeof(o));
		memcpy(&o, given, given->size);
	}
	r = read_secret(s->secret, or_environment(o.secret, "SKEP_O2G_SECRET"));
	if (r == 0)
		r = read_interface(
			s, or_environment(o.interface, "SKEP_O2G_IFACE"));
	if (r == 0)
		r = read_ports(s, or_environment(o.ports, "SKEP_O2G_PORTS"));
	if (r == 0)
		r = o2g_choice_read(
			&s->engine,
			or_environment(o.engine, "SKEP_O2G_ENGINE"));
	if (r == 0)
		r = read_encrypt(s, &o);
	return r ? r : read_tunables(s, &o);
}
