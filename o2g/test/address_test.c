// SPDX-License-Identifier: MIT
/*
 * Which address an endpoint listens on, among the interfaces of a host that
 * this test makes up; and how settings are read.
 */
#define _GNU_SOURCE
#include <o2g/lib/address.h>
#include <o2g/lib/available.h>
#include <o2g/lib/o2g.h>
#include <o2g/lib/settings.h>
#include <tests/tap.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LO (IFF_UP | IFF_LOOPBACK)
#define MOST 4

struct interface {
	const char *name, *address; /* without an address: a packet socket */
	unsigned flags;
};

static const struct interface *host; /* MOST of them, or fewer */

static struct {
	struct ifaddrs entry;
	struct sockaddr_storage address;
} shown[MOST];

static void show_interface(int i)
{
	struct sockaddr_in *in = (void *)&shown[i].address;
	struct sockaddr_in6 *in6 = (void *)&shown[i].address;
	const char *text = host[i].address;

	memset(&shown[i], 0, sizeof(shown[i]));
	shown[i].entry.ifa_name = (char *)(size_t)host[i].name;
	shown[i].entry.ifa_flags = host[i].flags;
	if (!text)
		return;
	shown[i].entry.ifa_addr = (void *)&shown[i].address;
	in->sin_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	inet_pton(in->sin_family, text,
		  in->sin_family == AF_INET ? (void *)&in->sin_addr
					    : (void *)&in6->sin6_addr);
}

int getifaddrs(struct ifaddrs **list)
{
	int n = 0;

	*list = 0;
	while (n < MOST && host[n].name)
		show_interface(n++);
	for (int i = n; i-- > 0;) {
		shown[i].entry.ifa_next = *list;
		*list = &shown[i].entry;
	}
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

/* A host, what its user asks for, and what an endpoint listens on. */
struct choice {
	const char *what;
	const char *wish;
	const char *want; /* an address, or 0 when `error` is wanted */
	int error;
	struct interface host[MOST];
};

static const struct choice choices[] = {
	{"an address that other hosts may reach goes before loopback",
	 0,
	 "10.0.0.2:0",
	 0,
	 {{"lo", "127.0.0.1", LO}, {"eth0", "10.0.0.2", IFF_UP}}},
	{"loopback first in the list changes nothing",
	 "",
	 "10.0.0.2:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"lo", "127.0.0.1", LO}}},
	{"IPv6 of a network goes before IPv4 of loopback",
	 0,
	 "[2001:db8::2]:0",
	 0,
	 {{"lo", "127.0.0.1", LO}, {"eth0", "2001:db8::2", IFF_UP}}},
	{"IPv4 goes before IPv6",
	 0,
	 "10.0.0.2:0",
	 0,
	 {{"eth0", "2001:db8::2", IFF_UP}, {"eth0", "10.0.0.2", IFF_UP}}},
	{"IPv4 goes before IPv6, also as the first",
	 0,
	 "10.0.0.2:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"eth0", "2001:db8::2", IFF_UP}}},
	{"a link-local address is the last choice of a network",
	 0,
	 "[2001:db8::2]:0",
	 0,
	 {{"eth0", "169.254.3.4", IFF_UP}, {"eth1", "2001:db8::2", IFF_UP}}},
	{"a link-local address goes before loopback",
	 0,
	 "169.254.3.4:0",
	 0,
	 {{"lo", "127.0.0.1", LO}, {"eth0", "169.254.3.4", IFF_UP}}},
	{"a link-local IPv6 address, which needs a zone, is not used",
	 0,
	 0,
	 -EADDRNOTAVAIL,
	 {{"eth0", "fe80::1", IFF_UP}}},
	{"a link-local IPv6 address is not used by its interface's name either",
	 "eth0",
	 0,
	 -EADDRNOTAVAIL,
	 {{"eth0", "febf::1", IFF_UP}}},
	{"fec0:: is not link-local",
	 0,
	 "[fec0::1]:0",
	 0,
	 {{"eth0", "fec0::1", IFF_UP}}},
	{"an interface that is down is not used",
	 0,
	 "127.0.0.1:0",
	 0,
	 {{"eth0", "10.0.0.2", 0}, {"lo", "127.0.0.1", LO}}},
	{"an interface that is down is not used even if it is the only one",
	 0,
	 0,
	 -EADDRNOTAVAIL,
	 {{"eth0", "10.0.0.2", 0}}},
	{"loopback by its name",
	 "lo",
	 "127.0.0.1:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"lo", "127.0.0.1", LO}}},
	{"an interface without an address",
	 "ppp0",
	 0,
	 -EADDRNOTAVAIL,
	 {{"ppp0", 0, IFF_UP}}},
	{"an address by itself",
	 "10.0.0.3",
	 "10.0.0.3:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"eth1", "10.0.0.3", IFF_UP}}},
	{"an address with all of its bits",
	 "10.0.0.3/32",
	 "10.0.0.3:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"eth1", "10.0.0.3", IFF_UP}}},
	{"a network with one bit less",
	 "10.0.0.3/31",
	 "10.0.0.2:0",
	 0,
	 {{"eth0", "10.0.0.2", IFF_UP}, {"eth1", "10.0.0.3", IFF_UP}}},
	{"one bit too many is refused",
	 "10.0.0.3/33",
	 0,
	 -EINVAL,
	 {{"eth0", "10.0.0.3", IFF_UP}}},
	{"a network in the middle of a byte",
	 "10.16.0.0/12",
	 "10.31.0.1:0",
	 0,
	 {{"eth0", "10.32.0.1", IFF_UP}, {"eth1", "10.31.0.1", IFF_UP}}},
	{"IPv6 with all of its bits",
	 "2001:db8::3/128",
	 "[2001:db8::3]:0",
	 0,
	 {{"eth0", "2001:db8::2", IFF_UP}, {"eth1", "2001:db8::3", IFF_UP}}},
	{"a missing number of bits is refused",
	 "10.0.0.3/",
	 0,
	 -EINVAL,
	 {{"eth0", "10.0.0.3", IFF_UP}}},
	{"a name longer than any address",
	 "1234:1234:1234:1234:1234:1234:123.123.123.1234",
	 0,
	 -EADDRNOTAVAIL,
	 {{"eth0", "10.0.0.3", IFF_UP}}},
};

static void choose_addresses(void)
{
	for (unsigned i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		const struct choice *c = &choices[i];
		struct o2g_address got = {0};
		char text[O2G_ADDRESS_TEXT] = "";
		int r;

		host = c->host;
		r = o2g_address_choose(&got, c->wish);
		if (r == 0)
			o2g_address_text(text, &got);
		tap_ok(r == c->error && (!c->want || !strcmp(text, c->want)),
		       "%s: %s (%d)", c->what, text, r);
	}
}

static void read_settings(void)
{
	static const char low[] = "00112233445566778899aabbccddeeff"
				  "00112233445566778899aabbccddeeff";
	static const char high[] = "00112233445566778899AABBCCDDEEFF"
				   "00112233445566778899AABBCCDDEEFF";
	struct o2g_options o = {.size = sizeof(o), .secret = low};
	struct o2g_settings s, t;

	TAP(o2g_settings_read(&s, &o) == 0);
	/* a sixteenth of the available memory, within bounds */
	tap_ok(s.credit == 8 << 20 && s.unexpected >= 512ull << 20 &&
		       s.unexpected <= 4ull << 30 && s.operations == 1 << 20 &&
		       s.nap_us == 2000 && s.connect_ms == 20000 &&
		       s.first_port == 0,
	       "the defaults are those of libo2g(3)");
	o.secret = high;
	TAP(o2g_settings_read(&t, &o) == 0);
	tap_ok(!memcmp(s.secret, t.secret, sizeof(s.secret)) &&
		       s.secret[15] == 0xff && s.secret[10] == 0xaa,
	       "digits of a secret may be of either case");
	o.ports = "1-65535";
	tap_ok(o2g_settings_read(&s, &o) == 0 && s.first_port == 1 &&
		       s.last_port == 65535,
	       "the first and the last port may be used");
	o.ports = "0-5";
	TAP(o2g_settings_read(&s, &o) == -EINVAL);
	o.ports = "0";
	TAP(o2g_settings_read(&s, &o) == -EINVAL);
}

static void change_parts(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 1};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = 1};
	struct o2g_address four = {0}, six = {0}, other = {0}, same;
	char text[O2G_ADDRESS_TEXT];
	struct o2g_name name = {0};

	memset(&in.sin_addr, 1, sizeof(in.sin_addr));
	memset(&in6.sin6_addr, 1, sizeof(in6.sin6_addr));
	memcpy(&four.storage, &in, sizeof(in));
	memcpy(&six.storage, &in6, sizeof(in6));
	memset(&other.storage, 1, sizeof(other.storage));
	other.storage.ss_family = AF_UNIX;
	same = other;
	o2g_address_set_any(&four);
	o2g_address_set_port(&four, 5000);
	o2g_address_set_any(&six);
	o2g_address_set_port(&six, 5000);
	memcpy(&in, &four.storage, sizeof(in));
	memcpy(&in6, &six.storage, sizeof(in6));
	tap_ok(in.sin_addr.s_addr == INADDR_ANY && in.sin_port == htons(5000) &&
		       IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr) &&
		       in6.sin6_port == htons(5000),
	       "address and port are set in either family");
	o2g_address_set_any(&other);
	o2g_address_set_port(&other, 5000);
	tap_ok(!memcmp(&other, &same, sizeof(same)),
	       "an address of another family stays as it is");
	TAP(!strcmp(o2g_address_text(text, &other), "?"));
	TAP(o2g_address_to_name(&name, &other, &name.id) == -EAFNOSUPPORT);
}

static int meminfo = -1; /* what reads of /proc/meminfo find */

int open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	if (!strcmp(path, "/proc/meminfo"))
		return meminfo < 0 ? -1 : dup(meminfo);
	return openat(AT_FDCWD, path, flags, mode);
}

/* Of a file with that text. */
static u64 available_in(const char *text)
{
	u64 found;

	meminfo = memfd_create("meminfo", MFD_CLOEXEC);
	if (meminfo < 0 || write(meminfo, text, strlen(text)) < 0 ||
	    lseek(meminfo, 0, SEEK_SET))
		abort();
	found = o2g_memory_available();
	close(meminfo);
	meminfo = -1;
	return found;
}

/* Limits are shares of it. */
static void read_memory(void)
{
	const char *text = "MemTotal: 9000 kB\nMemFree:     8000 kB\n"
			   "MemAvailable:7 kB\nBuffers:    1 kB\n";
	int kept = dup(STDIN_FILENO);

	tap_ok(available_in(text) == 7 << 10, "memory: what is available");
	tap_ok(available_in("MemFree: 7 kB\n") > 1 << 20,
	       "memory: what is free, on a kernel that says no more");
	tap_ok(o2g_memory_available() > 1 << 20, "memory: or without the file");
	meminfo = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
	tap_ok(meminfo >= 0 && o2g_memory_available() > 1 << 20,
	       "memory: or one that can't be read");
	close(meminfo);
	close(STDIN_FILENO);
	meminfo = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	meminfo = fcntl(meminfo, F_DUPFD_CLOEXEC, 10);
	close(STDIN_FILENO);
	o2g_memory_available();
	tap_ok(meminfo >= 10 && fcntl(STDIN_FILENO, F_GETFD) < 0,
	       "memory: descriptor 0 is closed as others are");
	close(meminfo);
	meminfo = -1;
	if (kept >= 0) {
		dup2(kept, STDIN_FILENO);
		close(kept);
	}
}

int main(void)
{
	unsetenv("SKEP_O2G_CREDIT");
	unsetenv("SKEP_O2G_UNEXPECTED");
	unsetenv("SKEP_O2G_ENGINE");
	choose_addresses();
	change_parts();
	read_settings();
	read_memory();
	return tap_done();
}
