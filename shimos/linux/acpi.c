// SPDX-License-Identifier: MIT
#include "acpi.h"

#include "bytes.h"

/* Where each table lies. */
#define RSDP 0
#define XSDT 64
#define FADT 128
#define DSDT 448
#define MADT 512

#define ROOT_LENGTH 36
#define HEADER 36
#define FADT_LENGTH 276
#define MADT_BEGIN 44
#define APIC_BASE 0xfee00000ull /* where every processor has it after reset */

#define MINOR 5 /* ACPI 6.5: from 6.3 on MAY_COME has a meaning */
#define BOOT_NO_VGA 4
#define BOOT_NO_MSI 8
#define BOOT_NO_CMOS 0x20
#define FORCE_PHYSICAL                                                         \
	(1u << 19) /* else CPU 0 answers to Linux's logical id                 \
		    */
#define HARDWARE_REDUCED (1u << 20)
#define ENABLED 1
#define MAY_COME 2 /* not enabled, but not to be ignored */

static u8 sum_bytes(const u8 *at, u32 length)
{
	u8 sum = 0;
	u32 i;

	for (i = 0; i < length; i++)
		sum = (u8)(sum + at[i]);
	return sum;
}

static void begin_table(u8 *at, const char *name, u8 revision, u32 length)
{
	shimos_bytes_copy(at, name, 4);
	shimos_bytes_put(at + 4, length, 4);
	at[8] = revision;
	shimos_bytes_copy(at + 10, "SKEP  PARTLINX", 14);
	shimos_bytes_put(at + 24, 1, 4);
	shimos_bytes_copy(at + 28, "SKEP", 4);
	shimos_bytes_put(at + 32, 1, 4);
}

static void end_table(u8 *at)
{
	u32 length = (u32)shimos_bytes_get(at + 4, 4);

	at[9] = (u8)-sum_bytes(at, length);
}

static void write_root(u8 *at, u64 start)
{
	u8 *r = at + RSDP, *x = at + XSDT;

	shimos_bytes_copy(r, "RSD PTR ", 8);
	shimos_bytes_copy(r + 9, "SKEP  ", 6);
	r[15] = 2;
	shimos_bytes_put(r + 20, ROOT_LENGTH, 4);
	shimos_bytes_put(r + 24, start + XSDT, 8);
	r[8] = (u8)-sum_bytes(r, 20);
	r[32] = (u8)-sum_bytes(r, ROOT_LENGTH);
	begin_table(x, "XSDT", 1, HEADER + 16);
	shimos_bytes_put(x + HEADER, start + FADT, 8);
	shimos_bytes_put(x + HEADER + 8, start + MADT, 8);
	end_table(x);
}

static void write_fixed(u8 *at, u64 start)
{
	u8 *f = at + FADT, *d = at + DSDT;

	begin_table(f, "FACP", 6, FADT_LENGTH);
	shimos_bytes_put(f + 109, BOOT_NO_VGA | BOOT_NO_MSI | BOOT_NO_CMOS, 2);
	shimos_bytes_put(f + 112, FORCE_PHYSICAL | HARDWARE_REDUCED, 4);
	f[131] = MINOR;
	shimos_bytes_put(f + 140, start + DSDT, 8);
	end_table(f);
	begin_table(d, "DSDT", 2, HEADER);
	end_table(d);
}

/* Ids from 255 on need the longer entry. */
static u32 write_core(u8 *at, u32 uid, u32 apic_id, u8 flags)
{
	if (apic_id < 255) {
		at[1] = 8;
		at[2] = (u8)uid;
		at[3] = (u8)apic_id;
		at[4] = flags;
		return 8;
	}
	at[0] = 9;
	at[1] = 16;
	shimos_bytes_put(at + 4, apic_id, 4);
	at[8] = flags;
	shimos_bytes_put(at + 12, uid, 4);
	return 16;
}

void shimos_acpi_write(void *to, u64 start,
		       const struct skep_partition_core *core, u32 cores,
		       u32 boot, u64 apic_base)
{
	u8 *at = to, *m = at + MADT;
	u32 i, length = MADT_BEGIN;

	write_root(at, start);
	write_fixed(at, start);
	length += write_core(m + length, cores, boot, MAY_COME);
	for (i = 0; i < cores; i++)
		length += write_core(m + length, i, core[i].apic_id, ENABLED);
	begin_table(m, "APIC", 5, length);
	shimos_bytes_put(m + HEADER, apic_base ? apic_base : APIC_BASE, 4);
	end_table(m);
}
