/* SPDX-License-Identifier: MIT */
/* The 64-bit ELF structures that abi_elf_plan reads; names as in elf(5). */
#ifndef ABI_ELF_H
#define ABI_ELF_H

#include <skep/types.h>

#define ELF_MACHINE_X86_64 62
#define ELF_TYPE_REL 1
#define ELF_TYPE_EXEC 2
#define ELF_TYPE_DYN 3

#define ELF_PT_LOAD 1
#define ELF_PT_INTERP 3
#define ELF_PT_TLS 7
#define ELF_PT_GNU_STACK 0x6474e551

#define ELF_FLAG_X 1
#define ELF_FLAG_W 2
#define ELF_FLAG_R 4

#define ELF_PHDRS_MAX 128

struct elf_header {
	u8 ident[16];
	u16 type, machine;
	u32 version;
	u64 entry, phoff, shoff;
	u32 flags;
	u16 ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
SKEP_ASSERT_SIZE(struct elf_header, 64);

struct elf_phdr {
	u32 type, flags;
	u64 offset, vaddr, paddr, filesz, memsz, align;
};
SKEP_ASSERT_SIZE(struct elf_phdr, 56);

#endif
