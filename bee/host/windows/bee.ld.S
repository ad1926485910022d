/* SPDX-License-Identifier: MIT */
/*
 * Layout of bee.exe (run through the C preprocessor first).
 *
 * The first section is the guest's IMAGE range: as part of a fixed-base image
 * nothing can be mapped there before us. It is read-only and has no bytes in
 * the file; pages become writable one by one with VirtualProtect. bee's own
 * sections follow it, out of reach of the guest's rel32 branches into stubs.
 * Debug sections would land below the image base, which loaders refuse.
 */
#include <skep/guest.h>

OUTPUT_FORMAT(pei-x86-64)
SECTIONS
{
	.guest SKEP_IMAGE_START (NOLOAD) : {
		bee_guest_start = .;
		KEEP(*(.guest))
		. = SKEP_IMAGE_END - SKEP_IMAGE_START;
		bee_guest_end = .;
	}
	.text SKEP_IMAGE_END : {
		KEEP(*(SORT_NONE(.init)))
		*(.text)
		*(SORT(.text$*))
		*(.text.*)
		. = ALIGN(8);
		___CTOR_LIST__ = .;
		__CTOR_LIST__ = .;
		LONG(-1); LONG(-1);
		KEEP(*(.ctors)); KEEP(*(SORT_BY_NAME(.ctors.*)));
		LONG(0); LONG(0);
		___DTOR_LIST__ = .;
		__DTOR_LIST__ = .;
		LONG(-1); LONG(-1);
		KEEP(*(.dtors)); KEEP(*(SORT_BY_NAME(.dtors.*)));
		LONG(0); LONG(0);
		KEEP(*(SORT_NONE(.fini)))
	}
	.data BLOCK(__section_alignment__) : {
		*(.data)
		*(SORT(.data$*))
		*(.data.*)
	}
	.rdata BLOCK(__section_alignment__) : {
		*(.rdata)
		*(SORT(.rdata$*))
		*(.eh_frame*)
		. = ALIGN(4);
		__rt_psrelocs_start = .;
		KEEP(*(.rdata_runtime_pseudo_reloc))
		__rt_psrelocs_end = .;
	}
	__rt_psrelocs_size = __rt_psrelocs_end - __rt_psrelocs_start;
	___RUNTIME_PSEUDO_RELOC_LIST_END__ = .;
	__RUNTIME_PSEUDO_RELOC_LIST_END__ = .;
	___RUNTIME_PSEUDO_RELOC_LIST__ = . - __rt_psrelocs_size;
	__RUNTIME_PSEUDO_RELOC_LIST__ = . - __rt_psrelocs_size;
	.pdata BLOCK(__section_alignment__) : { KEEP(*(.pdata*)) }
	.xdata BLOCK(__section_alignment__) : { KEEP(*(.xdata*)) }
	.bss BLOCK(__section_alignment__) : {
		*(.bss)
		*(.bss.*)
		*(.bss$*)
		*(COMMON)
	}
	.idata BLOCK(__section_alignment__) : {
		KEEP(SORT(*)(.idata$2))
		KEEP(SORT(*)(.idata$3))
		LONG(0); LONG(0); LONG(0); LONG(0); LONG(0);
		. = ALIGN(8);
		KEEP(SORT(*)(.idata$4))
		__IAT_start__ = .;
		SORT(*)(.idata$5)
		__IAT_end__ = .;
		KEEP(SORT(*)(.idata$6))
		KEEP(SORT(*)(.idata$7))
	}
	.CRT BLOCK(__section_alignment__) : {
		___crt_xc_start__ = .;
		KEEP(*(SORT(.CRT$XC*)))
		___crt_xc_end__ = .;
		___crt_xi_start__ = .;
		KEEP(*(SORT(.CRT$XI*)))
		___crt_xi_end__ = .;
		___crt_xl_start__ = .;
		KEEP(*(SORT(.CRT$XL*)))
		___crt_xp_start__ = .;
		KEEP(*(SORT(.CRT$XP*)))
		___crt_xp_end__ = .;
		___crt_xt_start__ = .;
		KEEP(*(SORT(.CRT$XT*)))
		___crt_xt_end__ = .;
	}
	.tls BLOCK(__section_alignment__) : {
		___tls_start__ = .;
		KEEP(*(.tls$AAA))
		KEEP(*(.tls))
		KEEP(*(SORT(.tls$*)))
		KEEP(*(.tls$ZZZ))
		___tls_end__ = .;
	}
	.rsrc BLOCK(__section_alignment__) : SUBALIGN(4) {
		KEEP(*(.rsrc))
		KEEP(*(.rsrc$*))
	}
	/DISCARD/ : {
		*(.debug*)
		*(.comment)
		*(.note*)
		*(.drectve)
		*(.gnu.lto_*)
	}
}
