/* SPDX-License-Identifier: MIT */
/*
 * The snapshot file: docs/design/snapshot.md. A head, sections, and the SHA-256
 * of both. Each section has a head, and its payload is filled up with zeros to
 * a multiple of 8. Sections come in the order of their types; each AREA is
 * followed by its pages. FILE and EARLY were sent while the program ran. FILE
 * is for who can refuse while it still does. Of EARLY pages later ones replace
 * earlier ones, and those that lie in no area count for nothing.
 * If the program has child processes, all processes of its run have a MEMBER,
 * of which the first is the process that the other sections are of, and the
 * snapshots of the others, each one whole, are cut into PARTs.
 * Numbers are little-endian.
 */
#ifndef BEE_CORE_SNAPSHOT_H
#define BEE_CORE_SNAPSHOT_H

#include "abi/include/snapshot.h"
#include "bee/core/bee.h"

#define BEE_SNAP_MAGIC "beesnap\n"
#define BEE_SNAP_VERSION 7u
#define BEE_SNAP_DIGEST 32u
#define BEE_SNAP_PAGES 256u /* most pages of one section */
#define BEE_SNAP_PIPE_MAX (1u << 20)
#define BEE_SNAP_PIPES 512u
#define BEE_SNAP_DESCS 2048u
#define BEE_SNAP_CONTENT_MAX (1u << 20)
#define BEE_SNAP_PART_MAX (1u << 20)
#define BEE_SNAP_MEMBERS 64u
#define BEE_SNAP_SHARES 4096u

struct bee_snap_head {
	char magic[8];
	u32 version, zero;
};

enum bee_snap_type {
	BEE_SNAP_FILE = 1, /* struct bee_snap_file */
	BEE_SNAP_EARLY,	   /* as PAGE */
	BEE_SNAP_CPU,
	BEE_SNAP_PROGRAM,
	BEE_SNAP_PROCESS, /* struct abi_snap_process */
	BEE_SNAP_LIBRARY, /* struct bee_snap_library */
	BEE_SNAP_AREA,	  /* struct abi_snap_area */
	BEE_SNAP_PAGE,	  /* u64 address, then pages; all others are zeros */
	BEE_SNAP_THREAD,  /* struct abi_snap_thread, then vector state */
	BEE_SNAP_PIPE,	  /* struct bee_snap_pipe, then bytes */
	BEE_SNAP_REMOVED, /* struct bee_snap_removed */
	BEE_SNAP_CONTENT, /* struct bee_snap_content, then bytes; others are 0
			   */
	BEE_SNAP_DESC,	  /* struct abi_snap_desc */
	BEE_SNAP_NUMBER,  /* struct abi_snap_number */
	BEE_SNAP_WATCH,	  /* struct abi_snap_watch */
	BEE_SNAP_SIGNAL,  /* struct abi_snap_signal */
	BEE_SNAP_MEMBER,  /* struct bee_snap_member */
	BEE_SNAP_SHARED,  /* struct bee_snap_shared */
	BEE_SNAP_PART,	  /* struct bee_snap_part, then bytes */
	BEE_SNAP_END,
};

struct bee_snap_section {
	u32 type, zero;
	u64 len;
};

#define BEE_CPU_WORDS 16

/* What the program may have found out about the CPU. */
struct bee_snap_cpu {
	u32 word[BEE_CPU_WORDS]; /* as bee_cpu_words gives them */
	u64 xsave_mask, xsave_size;
	u32 offset[8]; /* of the XSAVE components */
};

struct bee_snap_program {
	u64 monotonic_ns, realtime_ns; /* when it was frozen */
	u64 cpu_ns, user_ns, system_ns;
	u8 file[32]; /* SHA-256 of the program's file */
	u8 text[32]; /* of its rewritten text and stubs */
};

/* A library that the program has mapped, or its loader, which has no addresses
 * because it is where bee loads it. */
struct bee_snap_library {
	u64 text, text_end; /* pages of its text, */
	u64 offset;	    /* and where in its file they begin */
	u64 stubs, stubs_end;
	u8 digest[32]; /* of its rewritten text and stubs: SHA-256 */
	u32 is_loader, zero;
	char path[ABI_PATH_MAX];
};

/* A file with text that the program had mapped when its memory was first sent.
 * Without a path: the program itself. */
struct bee_snap_file {
	u64 revision; /* of the rewriter */
	u8 sha256[32];
	char path[ABI_PATH_MAX];
};

/* The same pipe in each process that has an end of it. */
struct bee_snap_pipe {
	u32 pipe, capacity;
	u32 reads, zero; /* 1: the process has the end to read from, so what is
			    in the pipe follows */
};

/* A regular file that the program has open, and that has no name any more. */
struct bee_snap_removed {
	u32 number; /* of its first description */
	u32 mode;
	u64 size;
	s64 atime_ns, mtime_ns;
};

struct bee_snap_content {
	u32 number, zero; /* of the REMOVED before it */
	u64 offset;
};

#define BEE_SNAP_NONE 0xffffffffu

/* A process of the run. */
struct bee_snap_member {
	u32 number;	    /* from 0, and above its parent's */
	u32 parent;	    /* number; NONE: it has lost its parent, or is the
			       first */
	u32 group, session; /* number of the leader; NONE: it is outside */
	u32 pid;	    /* the guest's number of the process */
	u32 ended;	    /* 1: its parent has not waited for it yet, */
	s32 status;	    /* and will get this */
	u32 zero;
};

/* The file `handle` of a process is the same open file description as those of
 * other processes with the same `group`. */
struct bee_snap_shared {
	u32 number, handle; /* of the process, and of its abi_snap_desc */
	u32 group, zero;
};

struct bee_snap_part {
	u32 number, zero; /* of its MEMBER */
};

/* A file in memory that bee_snap_parse has checked. */
struct bee_snapshot {
	const u8 *bytes;
	u64 len; /* without the digest */
	/* Moves what came early for an area into its place; NULL: early pages
	 * are in the file. 0 or an errno. */
	s64 (*place)(u64 start, u64 len);
	const struct bee_snap_cpu *cpu;
	const struct bee_snap_program *program;
	const struct abi_snap_process *process;
	u32 number; /* of its MEMBER, if there are some */
};

/*
 * snapshot.c. bytes: 8-byte aligned; they must remain. NULL, or what is wrong.
 * Checks the digest, the order and size of all sections, and that pages lie in
 * their area.
 */
const char *bee_snap_parse(struct bee_snapshot *s, const u8 *bytes, u64 len);
/* Its parts, for a reader that has the digest of all bytes, and no early pages
 * among those that it keeps. `bytes` has a struct bee_snap_head at least. */
const char *bee_snap_head_wrong(const u8 *bytes);
const char *bee_snap_walk(struct bee_snapshot *s, const u8 *bytes, u64 len);
/* Whether no section has such pages, or such a file. */
int bee_snap_pages_wrong(u64 addr, u64 bytes);
int bee_snap_file_wrong(const struct bee_snap_file *file);
/* The next section of `type` from *at on, which starts at 0 and is advanced;
 * NULL: there is none. */
const void *bee_snap_next(const struct bee_snapshot *s, u64 *at, u32 type,
			  u64 *len);

/* snapcpu.c: this CPU as the guest sees it. */
void bee_snap_cpu_read(struct bee_snap_cpu *cpu);
/* NULL, or what of `had` this CPU lacks. */
const char *bee_snap_cpu_lacks(const struct bee_snap_cpu *had);

/* What one page is, as far as the host knows. */
enum bee_look {
	BEE_LOOK_NONE,	  /* zeros: it does not exist */
	BEE_LOOK_SAME,	  /* not written since the look before */
	BEE_LOOK_WRITTEN, /* perhaps */
};

struct bee_early; /* what was sent while the program ran; pages.c */

struct bee_page_digest {
	u64 word[2]; /* the first is not 0 */
};

/* save.c. What the host adds; fields below `why` are save.c's. */
struct bee_save {
	s64 (*write)(struct bee_save *s, const void *bytes, u64 len);
	/* Memory of the guest, whatever its protection. 0 or an errno. */
	s64 (*read_memory)(struct bee_save *s, u64 addr, void *buf, u64 len);
	/* The first page from addr on that may be other than zeros, or end. */
	u64 (*next_touched)(struct bee_save *s, u64 addr, u64 end);
	/* Of pages from addr on, at most BEE_SNAP_PAGES. With `protect` the
	 * next look tells which were written since this one. */
	void (*look)(struct bee_save *s, u64 addr, u64 pages, u8 *look,
		     u32 protect);
	/* Before looks with `protect` at an area. */
	void (*watch)(struct bee_save *s, u64 start, u64 end);
	/* NULL, or why this file cannot be saved. */
	const char *(*judge)(struct bee_save *s, s32 handle);
	/* Copies what is in a pipe, which keeps it; bytes, or an errno. */
	s64 (*peek)(struct bee_save *s, s32 handle, void *buf, u64 len);
	/* Reads from the first data of a file at or after *offset, which is set
	 * to where that is, even if it was opened for writing only. Bytes, 0 at
	 * its end, or an errno. */
	s64 (*read_data)(struct bee_save *s, s32 handle, u64 *offset, void *buf,
			 u64 len);
	/* Two pages with different bytes have the same digest with a
	 * probability of less than 2^-60. Only for bee_save_early. */
	void (*digest)(const struct bee_save *s, const void *page,
		       struct bee_page_digest *out);
	s64 (*thread_cpu)(u32 thread); /* ns */
	/* NULL, or writes the other processes of the run, which are at rest. */
	void (*members)(struct bee_save *s);
	s32 handle; /* the host's own */
	s32 memory, map;
	u32 hurry; /* the host may set it: no more rounds */
	char why[320];
	struct skep_sha256 sha;
	u64 written, most;
	u64 early_bytes; /* written while the program ran */
	u64 looked;	 /* pages whose contents were read since then */
	u32 watches;	 /* look tells SAME pages; the host may set it */
	u8 *buf;
	struct bee_early *early;
	u32 live; /* the program runs */
	u32 failed;
};

/* All threads are at rest. 0, or -1 and a part of a sentence in why. */
int bee_save(struct bee_save *s);
/* Before that, while threads run: writes most of the pages. If it fails,
 * bee_save does. */
void bee_save_early(struct bee_save *s);
/* All threads are at rest. 1: a mapping reaches beyond the end of its file. The
 * dynamic loader has one for a moment while it maps a library. */
int bee_save_is_loading(struct bee_save *s);
/* Frees what both have. */
void bee_save_end(struct bee_save *s);
/* The same judgement without a file; threads may run. ABI_SNAP_SOON: the same,
 * but in a moment it may be another one. */
int bee_save_judge(struct bee_save *s);

/* Of save.c, for pages.c. The failure is -1, and the first one counts. */
int bee_save_fail(struct bee_save *s, const char *before, const char *name,
		  const char *after);
void bee_save_bytes(struct bee_save *s, const void *bytes, u64 len);
void bee_save_section(struct bee_save *s, u32 type, u64 len);
/* A section with two parts, the second of which may be empty. */
void bee_save_two(struct bee_save *s, u32 type, const void *head, u64 head_len,
		  const void *bytes, u64 len);
/* removed.c: the files without a name. */
void bee_save_removed(struct bee_save *s);
/* If the file of a description has no name: 1, and the description says so. */
int bee_is_removed(struct abi_snap_desc *d, s32 handle);
/* pages.c */
struct bee_early *bee_early_new(void);
void bee_early_free(struct bee_early *e);
void bee_save_pages(struct bee_save *s, const struct abi_snap_area *a,
		    u32 is_file);
void bee_save_rounds(struct bee_save *s);

/*
 * restore.c, in place of abi_exec: the program of bee.snapshot is loaded, and
 * bee.proc initialized. 0, or -1 and a sentence in why. bee_restore_threads
 * then starts all threads but the first.
 */
int bee_restore(const struct abi_host *os, char *why, u64 size);
/* Before that: makes the pipes of s, but those that were made before. Processes
 * that are forked then get their ends of them. 0, or -1 and a sentence in why.
 */
int bee_restore_pipes(const struct abi_host *os, const struct bee_snapshot *s,
		      char *why, u64 size);
/* The same for a file that processes share: it is opened for the first one of
 * its group, and stays so for all that are forked. A file that the process of s
 * does not have is left out. */
int bee_restore_shared(const struct abi_host *os, const struct bee_snapshot *s,
		       const struct bee_snap_shared *of, char *why, u64 size);
int bee_restore_threads(const struct abi_host *os);
/* Loads what else the calling thread had, if it was restored: vector state and
 * slots. */
void bee_restore_state(u32 thread);
/* library.c: makes the library again, at the same addresses. 0 or an errno; all
 * fields are possible ones. */
struct bee_image;
s64 bee_library_load(const struct bee_snap_library *s,
		     const struct bee_image **image);

#endif
