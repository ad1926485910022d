// SPDX-License-Identifier: MIT
/* The ledger of a run as text: "core N NAME COUNT" lines, then "end". */
#include <errno.h>
#include <stdio.h>

#include "abi/include/abi.h"
#include "proxy.h"

static const char *const op_names[MAIL_OPS] = {
	[MAIL_FILE_OPEN] = "open",   [MAIL_FILE_CLOSE] = "close",
	[MAIL_FILE_READ] = "read",   [MAIL_FILE_WRITE] = "write",
	[MAIL_FILE] = "file",	     [MAIL_NAME] = "path",
	[MAIL_SOCK_OPEN] = "socket", [MAIL_SOCK] = "sock",
	[MAIL_IO_WAIT] = "io_wait",  [MAIL_FAMILY] = "family",
	[MAIL_PIPE] = "pipe",	     [MAIL_LOG] = "log",
	[MAIL_EXIT] = "exit",	     [MAIL_PANIC] = "panic",
};

static const char *const nmi_names[MAIL_NMIS] = {
	[MAIL_NMI_FOREIGN] = "nmi-foreign", [MAIL_NMI_START] = "nmi-start",
	[MAIL_NMI_SIGNAL] = "nmi-signal",   [MAIL_NMI_MAPPING] = "nmi-mapping",
	[MAIL_NMI_EVENT] = "nmi-event",	    [MAIL_NMI_SLICE] = "nmi-slice",
	[MAIL_NMI_ANSWER] = "nmi-answer",
};

static void write_core(FILE *f, u32 core, const struct mail_ledger *l)
{
	u32 i;

	fprintf(f, "core %u threads %llu\n", core, l->threads);
	fprintf(f, "core %u threads-refused %llu\n", core, l->crowded);
	fprintf(f, "core %u switches %llu\n", core, l->switches);
	fprintf(f, "core %u calls %llu\n", core, l->calls);
	fprintf(f, "core %u faults %llu\n", core, l->faults);
	fprintf(f, "core %u pages %llu\n", core, l->pages);
	fprintf(f, "core %u large-pages %llu\n", core, l->large);
	for (i = 0; i < MAIL_NMIS; i++)
		fprintf(f, "core %u %s %llu\n", core, nmi_names[i], l->nmi[i]);
	for (i = 0; i < MAIL_OPS; i++)
		if (op_names[i])
			fprintf(f, "core %u forwarded-%s %llu\n", core,
				op_names[i], l->forwarded[i]);
	for (i = 0; i < MAIL_CALLS; i++)
		if (l->refused[i])
			fprintf(f, "core %u refused-%s %u\n", core,
				abi_syscall_name(i) ?: "unknown",
				l->refused[i]);
}

int sms_ledger_write(const char *path, u32 status)
{
	FILE *f = fopen(path, "we");
	u32 i;
	int err;

	if (!f)
		return -errno;
	fprintf(f, "sms-ledger 1\npartition %u\nstatus %u\n", sms_proxy.id,
		status);
	for (i = 0; i < sms_proxy.cores; i++)
		write_core(
			f, i,
			&((struct mail_slot *)(sms_proxy.mail + MAIL_SLOT(i)))
				 ->ledger);
	fprintf(f, "end\n");
	err = ferror(f);
	return fclose(f) || err ? -EIO : 0;
}
