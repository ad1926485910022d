/* SPDX-License-Identifier: MIT */
/*
 * ACPI tables that describe a partition and nothing else of the machine: its
 * cores, and no timer, bus or interrupt controller but their local APICs. They
 * keep an unmodified kernel from the machine's devices.
 */
#ifndef SHIMOS_LINUX_ACPI_H
#define SHIMOS_LINUX_ACPI_H

#include <skep/partition.h>

#define SHIMOS_ACPI_BYTES (1024 + 16 * SKEP_PARTITION_CORES)

/* Writes the tables to `at`, which is SHIMOS_ACPI_BYTES of zeros at the
 * physical address `start`, a multiple of 16. The root pointer comes first.
 * `boot` is the machine's own boot processor. It is listed first, so that
 * kernels from 6.9 on see that they run on another one and then start their
 * other cores; and not enabled, so that none starts it. The first core, which
 * boots, follows. */
void shimos_acpi_write(void *at, u64 start,
		       const struct skep_partition_core *core, u32 cores,
		       u32 boot, u64 apic_base);

#endif
