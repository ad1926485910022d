// SPDX-License-Identifier: MIT
/*
 * bee --probe checks each assumption about the host and prints a line about it.
 * docs/windows.md says where each was observed.
 */
#include "probe.h"
#include "view.h"
#include <psapi.h>
#include <stdio.h>

#define MIB (1ull << 20)

static int bad;

void bee_probe_line(const char *name, enum probe_state state,
		    const char *format, ...)
{
	static const char *const states[] = {"ok", "accepted", "absent", "bad"};
	va_list ap;

	bad += state == PROBE_BAD;
	printf("%-18s %-9s ", name, states[state]);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
}

static void probe_image(void)
{
	MEMORY_BASIC_INFORMATION m;
	u64 base = (u64)GetModuleHandleW(NULL);
	int ok;

	ok = VirtualQuery((void *)SKEP_IMAGE_START, &m, sizeof(m)) &&
	     (u64)m.AllocationBase == base &&
	     m.RegionSize == SKEP_IMAGE_END - SKEP_IMAGE_START;
	bee_probe_line("guest-image", ok ? PROBE_OK : PROBE_BAD,
		       "0x%x to 0x%x, protection 0x%lx", SKEP_IMAGE_START,
		       SKEP_IMAGE_END, ok ? m.Protect : 0);
}

static void probe_arena(void)
{
	void *all = VirtualAlloc((void *)SKEP_ARENA_START,
				 WIN_WINDOW_START - SKEP_ARENA_START,
				 MEM_RESERVE, PAGE_NOACCESS);
	int err = all ? 0 : (int)GetLastError();

	if (all)
		VirtualFree(all, 0, MEM_RELEASE);
	if (!err)
		err = bee_mem_reserve();
	bee_probe_line("guest-arena", err ? PROBE_BAD : PROBE_OK,
		       "192 GiB at 0x%llx, error %d", SKEP_ARENA_START, err);
}

static u64 committed_bytes(void)
{
	PROCESS_MEMORY_COUNTERS c = {.cb = sizeof(c)};

	if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &c, sizeof(c)))
		return 0;
	return c.PagefileUsage;
}

/* Does a read-only section use commit charge before and after its first use? */
static void commit_charge(void)
{
	u64 before = committed_bytes(), after;
	s64 err = bee_mem_commit(SKEP_IMAGE_START, 64 * MIB,
				 ABI_PROT_READ | ABI_PROT_WRITE);

	after = committed_bytes();
	bee_probe_line("guest-commit",
		       err		    ? PROBE_BAD
		       : before < 512 * MIB ? PROBE_OK
					    : PROBE_ACCEPTED,
		       "%llu MiB at the start, %llu MiB with 64 MiB writable",
		       before / MIB, after / MIB);
}

static void probe_slots(void)
{
	int err = bee_thread_slots_take();

	bee_probe_line("tls-slots", err ? PROBE_BAD : PROBE_OK,
		       "indices %d to %d, all below 64", BEE_SLOT_FIRST,
		       BEE_SLOT_FIRST + SKEP_SLOT_COUNT - 1);
	if (err)
		return;
	TlsSetValue(BEE_SLOT_FIRST, (void *)0x1234);
	__asm__ volatile("mov %%gs:%c1, %0" : "=r"(err) : "i"(BEE_SLOT(0)));
	bee_probe_line("tls-layout", err == 0x1234 ? PROBE_OK : PROBE_BAD,
		       "slot %d is gs:[0x%x]", BEE_SLOT_FIRST, BEE_SLOT(0));
	TlsSetValue(BEE_SLOT_FIRST, NULL);
}

static void probe_winsock(void)
{
	s64 s = bee_sock_open(2, 2, 0);

	bee_probe_line("winsock", s < 0 ? PROBE_BAD : PROBE_OK,
		       "a datagram socket: %lld", s);
}

int bee_probe(void)
{
	struct abi_host_info info;

	bee_info(&info);
	bee_probe_line("host", PROBE_OK, "%s, %u CPUs", info.machine,
		       info.cpus);
	probe_image();
	probe_arena();
	commit_charge();
	probe_slots();
	bee_probe_cpu();
	probe_winsock();
	bee_probe_files();
	bee_probe_policy();
	fflush(stdout);
	return bad ? 1 : 0;
}
