/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * A Linux kernel on a partition ("compute Linux"): what `skep part linux`, the
 * boot image and the module inside that kernel agree on. struct skep_linux lies
 * in the mailbox at SKEP_LINUX_MAIL. Each side treats all that the other one
 * writes as hostile: copy once, check, use.
 *
 * The command writes the first part and then calls START. The boot image
 * refuses, or sets the state to booting and enters the kernel. The module
 * inside sets it to up, and to one of the ends; after an end nothing else is
 * written. The command may change `size` at any time.
 */
#ifndef SKEP_LINUX_H
#define SKEP_LINUX_H

#include <skep/types.h>

#define SKEP_LINUX_MAIL 0x1000 /* offset in the mailbox */
#define SKEP_LINUX_MAGIC 0x58554e4c
#define SKEP_LINUX_REVISION 3
#define SKEP_LINUX_COMMAND 2048
#define SKEP_LINUX_WHY 192
#define SKEP_LINUX_RING 0x10000 /* bytes, a power of 2 */
#define SKEP_LINUX_RANGES 126	/* as many as a kernel takes */
#define SKEP_LINUX_DEVICES 8
#define SKEP_LINUX_QUEUES 2   /* of a device */
#define SKEP_LINUX_CONFIG 64  /* bytes */
#define SKEP_LINUX_TAG "skep" /* of the file system */
/* Of the kernel's command line: its own IPv4 address on the link to the first
 * Linux, in a network of four. */
#define SKEP_LINUX_ADDRESS_WORD "skep.address="
/* Given to a restart, with a number behind it: the exit code of the program
 * that the kernel ran. */
#define SKEP_LINUX_EXIT_WORD "skep-exit "

enum skep_linux_state {
	SKEP_LINUX_NONE,
	SKEP_LINUX_BOOTING,
	SKEP_LINUX_UP,
	SKEP_LINUX_END, /* from here on: the kernel does nothing more */
	SKEP_LINUX_REFUSED = SKEP_LINUX_END, /* `why` says what is wrong */
	SKEP_LINUX_RESTART,
	SKEP_LINUX_POWER_OFF,
	SKEP_LINUX_HALT,
	SKEP_LINUX_PANIC,
	SKEP_LINUX_EXIT /* of its program, with `code` */
};

/* Counters of bytes that run freely: put - take bytes are in the ring, from
 * take % SKEP_LINUX_RING on. One side writes each. */
struct skep_linux_ring {
	u32 put, zero[15];
	u32 take, zero2[15];
};
SKEP_ASSERT_SIZE(struct skep_linux_ring, 128);

/* Part of the pool, whose addresses the kernel uses. */
struct skep_linux_range {
	u64 start, length; /* physical */
	u64 offset;	   /* in the pool */
};
SKEP_ASSERT_SIZE(struct skep_linux_range, 24);

/* A split virtqueue (virtio 1.2, section 2.7) in the kernel's memory, little
 * endian, without indirect descriptors and events. Nobody is notified: each
 * side looks. */
struct skep_linux_queue {
	u64 descriptors, available, used; /* physical addresses */
	u32 size;			  /* entries, a power of 2 */
	u32 zero;
};
SKEP_ASSERT_SIZE(struct skep_linux_queue, 32);

/*
 * A virtio device. The command writes `kind`, `queues`, `features` and `config`
 * before START, and `served`; the kernel writes the rest. `ready` changes to 1
 * when the queues are described, and to 0 when the kernel wants their memory
 * back, which it has when `served` is 0 then.
 */
struct skep_linux_device {
	u32 kind;     /* its number in virtio; 0: neither this one nor more */
	u32 queues;   /* that it has */
	u64 features; /* of its kind: VIRTIO_F_VERSION_1 is understood */
	u32 ready, served;
	u32 zero[2];
	u8 config[SKEP_LINUX_CONFIG];
	struct skep_linux_queue queue[SKEP_LINUX_QUEUES];
};
SKEP_ASSERT_SIZE(struct skep_linux_device, 160);

struct skep_linux {
	u32 magic, revision;
	/* Files, by their offsets in the pool, which are multiples of 4096. */
	u64 kernel, kernel_length; /* a bzImage */
	u64 initrd, initrd_length; /* a cpio archive, or several */
	u32 state;
	u32 code;   /* with SKEP_LINUX_EXIT */
	u32 ranges; /* of the pool; the boot image writes them */
	u32 size;   /* of the terminal: rows << 16 | columns; 0: not known */
	u32 zero[18];
	char command[SKEP_LINUX_COMMAND]; /* words for the kernel */
	char why[SKEP_LINUX_WHY];
	u8 zero2[64];
	struct skep_linux_ring out, in;
	u8 out_bytes[SKEP_LINUX_RING]; /* from the kernel's console */
	u8 in_bytes[SKEP_LINUX_RING];  /* to it */
	struct skep_linux_device device[SKEP_LINUX_DEVICES];
	struct skep_linux_range range[SKEP_LINUX_RANGES];
};
SKEP_ASSERT_SIZE(struct skep_linux, 2688 + 2 * SKEP_LINUX_RING +
					    160 * SKEP_LINUX_DEVICES +
					    24 * SKEP_LINUX_RANGES);

#endif
