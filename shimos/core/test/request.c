// SPDX-License-Identifier: MIT
/* Requests against a machine of 8 CPUs, two to a core, and two nodes. */
#include <string.h>

#include "base/errno.h"
#include "../map.h"
#include "../request.h"
#include "tests/tap.h"

#define MIB (1ull << 20)

static const u32 cores[8] = {0, 0, 2, 2, 4, 4, 6, 6};
static struct shimos_machine machine;
static struct shimos_allow allow;
static struct shimos_create ask;
static char why[SHIMOS_WHY];

static void reset_request(void)
{
	memset(&machine, 0, sizeof(machine));
	machine.present[0] = 0xff;
	machine.online[0] = 0xbf; /* without 6 */
	machine.lent[0] = 0;
	machine.spare[0] = machine.spare[1] = 512 * MIB;
	machine.nodes = 3;
	machine.core = cores;
	machine.cpus = 8;
	machine.root = 1;
	memset(&allow, 0, sizeof(allow));
	allow.revision = SHIMOS_REVISION;
	allow.cpus[0] = 0x3c;
	allow.bytes[0] = 64 * MIB;
	memset(&ask, 0, sizeof(ask));
	ask.revision = SHIMOS_REVISION;
	ask.cpus[0] = 0x0c;
	ask.bytes[0] = 64 * MIB;
}

static int check_request(void)
{
	struct shimos_text t;

	shimos_text_begin(&t, why, sizeof(why));
	return shimos_request_check(&ask, &allow, &machine, &t);
}

/* One thing is wrong, and the sentence names it and what would work. */
static void expect_refused(const char *name, int err, const char *a,
			   const char *b)
{
	int got = check_request();

	if (!tap_ok(got == -err && strstr(why, a) && strstr(why, b),
		    "request: %s", name))
		printf("# %d: %s\n", got, why);
	reset_request();
}

static void test_cpus(void)
{
	reset_request();
	tap_ok(!check_request() && !*why,
	       "request: two halves of a core are lent");
	ask.cpus[0] = 1;
	expect_refused("CPU 0", LINUX_EINVAL, "CPU 0 stays with Linux",
		       "1-5,7");
	ask.cpus[0] = 0x100;
	expect_refused("a CPU that is not there", LINUX_EINVAL,
		       "CPU 8 is not in", "1-5,7");
	machine.present[0] = 0x1ff;
	ask.cpus[0] = 0x100;
	expect_refused("a CPU behind the last one", LINUX_EINVAL,
		       "CPU 8 is not in", "1-5,7");
	ask.cpus[63] = 1ull << 63;
	expect_refused("the last CPU that can be named", LINUX_EINVAL,
		       "CPU 4095", "1-5,7");
	ask.cpus[0] = 0xc0;
	expect_refused("a CPU that is offline", LINUX_EINVAL,
		       "CPU 6 is offline", "1-5,7");
	machine.lent[0] = 8;
	expect_refused("a CPU of another partition", LINUX_EINVAL,
		       "CPU 3 belongs to another", "1-2,4-5,7");
	machine.lent[0] = 0xfe;
	expect_refused("when all are lent", LINUX_EBUSY, "another partition",
		       "no CPU can be lent now");
	ask.cpus[0] = 0;
	expect_refused("no CPU", LINUX_EINVAL, "no CPU was requested", "1-5,7");
	memset(ask.cpus, 0xff, 4 * 8);
	expect_refused("CPU 0 among 256", LINUX_EINVAL, "CPU 0 stays", "1-5,7");
	memset(ask.cpus, 0xff, 5 * 8);
	expect_refused("too many CPUs", LINUX_EINVAL, "at most 256", "");
	ask.cpus[0] = 0x08;
	expect_refused("half a core", LINUX_EINVAL,
		       "CPU 2 is the hyperthread sibling", "--split");
	ask.cpus[0] = 0x02;
	expect_refused("the half that Linux keeps", LINUX_EINVAL,
		       "CPU 0 is the hyperthread sibling", "--split");
	ask.cpus[0] = 0x08;
	ask.flags = SHIMOS_SPLIT;
	tap_ok(!check_request(),
	       "request: half a core, if half cores are allowed");
	reset_request();
	ask.cpus[0] = 0x80;
	tap_ok(!check_request(), "request: the other half is offline already");
	reset_request();
}

static void test_memory(void)
{
	struct shimos_text t;

	ask.bytes[0] = 1024 * MIB;
	expect_refused("more memory than can be had", LINUX_ENOMEM,
		       "node 0 could spare about 512 MiB", "less");
	ask.bytes[0] = 512 * MIB;
	tap_ok(!check_request(), "request: all memory that can be had");
	ask.bytes[0] = ~0ull & ~(2 * MIB - 1);
	expect_refused("all memory that can be named", LINUX_ENOMEM, "node 0",
		       "512 MiB");
	ask.bytes[1] = 3 * MIB;
	expect_refused("half a block", LINUX_EINVAL, "multiples of 2 MiB", "");
	ask.bytes[63] = 2 * MIB;
	expect_refused("a node without memory", LINUX_EINVAL,
		       "node 63 has no memory", "numactl");
	shimos_text_begin(&t, why, sizeof(why));
	tap_ok(!shimos_request_memory(&ask, 62 * MIB, &t),
	       "request: 2 MiB remain for the program");
	tap_ok(shimos_request_memory(&ask, 64 * MIB, &t) == -LINUX_EINVAL &&
		       strstr(why, "more than 64 MiB"),
	       "request: nothing would remain for the program");
	shimos_text_begin(&t, why, sizeof(why));
	tap_ok(shimos_request_memory(&ask, 62 * MIB + 1, &t) == -LINUX_EINVAL,
	       "request: a byte less than 2 MiB would remain");
}

static void test_rights(void)
{
	struct shimos_text t;

	machine.root = 0;
	expect_refused("without an allowance", LINUX_EPERM, "no allowance",
		       "skep part allow");
	machine.root = 0;
	machine.member = 1;
	tap_ok(!check_request(), "request: within the allowance");
	machine.used[0] = 2 * MIB;
	expect_refused("beyond what is left of the allowance", LINUX_ENOMEM,
		       "another 62 MiB", "less");
	machine.root = 0;
	machine.member = 1;
	machine.used[0] = 1ull << 40;
	expect_refused("an allowance that was lowered below what is lent",
		       LINUX_ENOMEM, "another 0 MiB", "");
	machine.root = 0;
	machine.member = 1;
	ask.cpus[0] = 0x82;
	ask.flags = SHIMOS_SPLIT;
	expect_refused("a CPU beyond the allowance", LINUX_EINVAL,
		       "CPU 1 is not in the allowance", "lent: 2-5");
	shimos_text_begin(&t, why, sizeof(why));
	allow.cpus[0] = 1;
	tap_ok(shimos_allow_check(&allow, &t) == -LINUX_EINVAL &&
		       strstr(why, "CPU 0"),
	       "request: no allowance has CPU 0");
	reset_request();
}

static void test_form(void)
{
	ask.revision = 2;
	expect_refused("another revision of the request", LINUX_EINVAL,
		       "revision 2", "one build");
	ask.flags = 4;
	expect_refused("an unknown flag", LINUX_EINVAL, "flag", "");
	ask.zero = 1;
	expect_refused("a field that must be 0", LINUX_EINVAL, "flag", "");
	memset(ask.name, 'x', sizeof(ask.name));
	expect_refused("a name without an end", LINUX_EINVAL, "name", "31");
	strcpy(ask.name, "a\033b");
	expect_refused("a name that is not printable", LINUX_EINVAL, "name",
		       "31");
	strcpy(ask.name, "a b");
	expect_refused("a name with a blank", LINUX_EINVAL, "name", "31");
	strcpy(ask.name, "a\177");
	expect_refused("a name that ends unprintably", LINUX_EINVAL, "name",
		       "31");
	strcpy(ask.name, "!a-name.of_31_characters,at0:9~");
	tap_ok(!check_request() && !*why, "request: a name of 31 characters");
	reset_request();
}

static void test_kinds(void)
{
	machine.kind = SHIMOS_XEN;
	expect_refused("Xen", LINUX_EOPNOTSUPP, "Xen", "bare metal");
	machine.kind = SHIMOS_CONFIDENTIAL;
	expect_refused("a confidential guest", LINUX_EOPNOTSUPP, "confidential",
		       "another machine");
	machine.kind = SHIMOS_ENCRYPTED;
	expect_refused("encrypted memory", LINUX_EOPNOTSUPP, "SME",
		       "mem_encrypt");
	machine.kind = SHIMOS_NO_TSC;
	expect_refused("a clock that is not the TSC", LINUX_EOPNOTSUPP, "TSC",
		       "clocksource");
}

int main(void)
{
	reset_request();
	test_cpus();
	test_memory();
	test_rights();
	test_form();
	test_kinds();
	return tap_done();
}
