/* SPDX-License-Identifier: MIT */
/* The report, line by line, of a run that is made up here. */
#include <string.h>

#include "bee/core/core.h"
#include "tests/tap.h"

struct bee bee;

void bee_os_message(const char *line)
{
	(void)line;
}

u64 abi_count_calls(const struct abi_proc *p)
{
	return p ? 12 : 0;
}

u32 abi_count_refused(const struct abi_proc *p, u32 nr)
{
	return p && nr == 101 ? 3 : p && nr == 500 ? 1 : 0;
}

const char *abi_syscall_name(u32 nr)
{
	return nr == 101 ? "ptrace" : NULL;
}

const char *abi_syscall_route(u32 nr)
{
	return nr == 101 ? "refused" : "";
}

const char *abi_syscall_limit(const struct abi_host *host, u32 nr)
{
	return host && nr == 101 ? "none" : NULL;
}

static const char want[] =
	"nonce 00000000000abcde\nstatus 256\ncalls 12\nentry_us 7000\n"
	"load_us 5001\nrewrite_us 3002\nstub_bytes 99\nimages 3\nimages_cached "
	"2\n"
	"sites_syscall 4 3\nsites_fs_stub 0 0\nsites_fs_inplace 0 0\n"
	"sites_cpuid 0 0\nsites_xgetbv 2 2\nsha256_load ";

static void check_report(void)
{
	struct bee_options options = {.nonce = 0xabcde};
	char text[4096];
	u64 len;

	bee.options = &options;
	bee.image.started_ns = 1000000;
	bee.image.load_ns = 5001999;
	bee.sums.rewrite_ns = 3002000;
	bee.sums.stub_bytes = 99;
	bee.sums.images = 3;
	bee.sums.cached = 2;
	bee.sums.found[BEE_SITE_SYSCALL] = 4;
	bee.sums.patched[BEE_SITE_SYSCALL] = 3;
	bee.sums.found[BEE_SITE_XGETBV] = 2;
	bee.sums.patched[BEE_SITE_XGETBV] = 2;
	bee.image.sha_load[31] = 0xf1;
	bee.image.sha_file[0] = 0x2e;
	len = bee_report(text, sizeof(text), 256);
	tap_ok(len == strlen(text) && strstr(text, "\ncalls 0\nentry_us 0\n"),
	       "a program that was not entered has no times and no calls");
	bee.image.entered_ns = 8000999;
	bee.proc = (struct abi_proc *)&bee;
	bee_report(text, sizeof(text), 256);
	tap_ok(!strncmp(text, want, sizeof(want) - 1),
	       "times are in microseconds, sites found and patched");
	tap_ok(strstr(text, "0000f1\nsha256_file 2e0000") &&
		       strstr(text, "\nrefused ptrace 3\n"
				    "refused unknown 1\n"),
	       "the report has digests and the names of refused calls");
}

static void check_list(void)
{
	static const struct abi_host host;

	tap_ok(!strcmp(bee_list(&host), "101\tptrace\trefused\tnone\n"),
	       "the list has a line for each system call");
}

int main(void)
{
	check_report();
	check_list();
	return tap_done();
}
