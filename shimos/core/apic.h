/* SPDX-License-Identifier: MIT */
/*
 * Values for the local APIC that reset, start or interrupt another processor,
 * addressed by its physical id. xAPIC has two 32-bit registers, of which the
 * upper one is written first; x2APIC has one 64-bit register.
 */
#ifndef SHIMOS_APIC_H
#define SHIMOS_APIC_H

#include <skep/types.h>

#define SHIMOS_ICR_LOW 0x300 /* xAPIC: offsets from the APIC's base */
#define SHIMOS_ICR_HIGH 0x310
#define SHIMOS_ICR_PENDING 0x1000 /* xAPIC: not delivered yet */
#define SHIMOS_ICR_MSR 0x830	  /* x2APIC */

enum shimos_signal { SHIMOS_INIT, SHIMOS_SIPI, SHIMOS_NMI };

/* The lower half. page: the number, below 0x100, of the page where SIPI
 * starts. */
u32 shimos_apic_low(enum shimos_signal signal, u32 page);
/* xAPIC's upper half; -errno for an id that xAPIC cannot address. */
int shimos_apic_high(u32 id, u32 *high);
u64 shimos_apic_x2(enum shimos_signal signal, u32 page, u32 id);

#endif
