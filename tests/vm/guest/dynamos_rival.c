// SPDX-License-Identifier: MIT
/* One thread. BPF goes by system calls: a guest has no library for it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dynamos_rival.h"

#define TRACING "/sys/kernel/tracing/"
#define LIVEPATCH "/sys/kernel/livepatch/dynamos_rival/"
#define PROGRAMS 16

static int program[PROGRAMS], attached[PROGRAMS], programs;
static int map; /* of one count, that all programs add to */
static char *btf;
static size_t btf_size;

static int write_file(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = -errno;
	close(fd);
	return err;
}

static char *read_file(const char *path, size_t *size)
{
	size_t room = 1 << 16;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*size = 0;
	while (fd >= 0 && text &&
	       (n = read(fd, text + *size, room - *size - 1)) > 0) {
		*size += n;
		if (room - *size == 1)
			text = realloc(text, room *= 2);
	}
	close(fd);
	if (!text)
		exit(1);
	text[*size] = 0;
	return text;
}

void rival_begin(void)
{
	union bpf_attr attr;

	if (access(TRACING "kprobe_events", F_OK) &&
	    mount("tracefs", TRACING, "tracefs", 0, NULL)) {
		perror(TRACING);
		exit(1);
	}
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	map = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	if (map < 0) {
		perror("bpf");
		exit(1);
	}
	btf = read_file("/sys/kernel/btf/vmlinux", &btf_size);
}

static int set_probe(const char *kind, const char *symbol)
{
	char text[256];
	int err;

	snprintf(text, sizeof(text), "%s:skep/%s_%s %s\n", kind, kind, symbol,
		 symbol);
	err = write_file(TRACING "kprobe_events", text, O_APPEND);
	snprintf(text, sizeof(text), TRACING "events/skep/%s_%s/enable", kind,
		 symbol);
	return err ? err : write_file(text, "1", 0);
}

int rival_kprobe(const char *symbol)
{
	return set_probe("p", symbol);
}

int rival_kretprobe(const char *symbol)
{
	return set_probe("r", symbol);
}

void rival_probes_end(void)
{
	write_file(TRACING "events/skep/enable", "0", 0);
	write_file(TRACING "kprobe_events", "\n", O_TRUNC);
}

/* Lines are name, hits, misses. */
long rival_probe_hits(void)
{
	size_t size;
	char *text = read_file(TRACING "kprobe_profile", &size), *line = text;
	long hits = 0, n;

	while (line && *line) {
		if (sscanf(line, "%*s %ld", &n) == 1)
			hits += n;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	free(text);
	return hits;
}

int rival_graph(const char *symbol)
{
	int err = write_file(TRACING "set_ftrace_filter", symbol, O_TRUNC);

	if (!err)
		err = write_file(TRACING "set_graph_function", symbol, O_TRUNC);
	return err ? err
		   : write_file(TRACING "current_tracer", "function_graph", 0);
}

void rival_graph_end(void)
{
	write_file(TRACING "current_tracer", "nop", 0);
	write_file(TRACING "set_graph_function", "\n", O_TRUNC);
	write_file(TRACING "set_ftrace_filter", "\n", O_TRUNC);
}

long rival_graph_hits(const char *symbol)
{
	size_t size;
	char *text = read_file(TRACING "trace", &size), *at = text;
	long hits = 0;
	char call[128];

	snprintf(call, sizeof(call), "%s()", symbol);
	for (at = strstr(at, call); at; at = strstr(at + 1, call))
		hits++;
	free(text);
	return hits;
}

struct btf_head {
	unsigned short magic;
	unsigned char version, flags;
	unsigned int length, types, types_size, names, names_size;
};

struct btf_entry {
	unsigned int name, info, type;
};

/* Bytes that follow a type. */
static size_t btf_extra(const struct btf_entry *t)
{
	size_t members = t->info & 0xffff;

	switch (t->info >> 24 & 0x1f) {
	case 1:
	case 14:
	case 17:
		return 4;
	case 3:
		return 12;
	case 4:
	case 5:
	case 15:
	case 19:
		return members * 12;
	case 6:
	case 13:
		return members * 8;
	}
	return 0;
}

/* The number of a function's type, 0 without one. */
static int find_function(const char *symbol)
{
	const struct btf_head *head = (void *)btf;
	const char *types = btf + head->length + head->types;
	const char *names = btf + head->length + head->names;
	const struct btf_entry *t;
	size_t at = 0;
	int id;

	if (btf_size < sizeof(*head))
		return 0;
	for (id = 1; at < head->types_size; id++) {
		t = (const void *)(types + at);
		if ((t->info >> 24 & 0x1f) == 12 &&
		    !strcmp(names + t->name, symbol))
			return id;
		at += sizeof(*t) + btf_extra(t);
	}
	return 0;
}

int rival_bpf(const char *symbol, int fexit)
{
	const struct bpf_insn code[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_VALUE,
		 .imm = map},
		{.code = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 1},
		{.code = BPF_STX | BPF_DW | BPF_ATOMIC,
		 .dst_reg = 1,
		 .src_reg = 2,
		 .imm = BPF_ADD},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr;
	int p, a;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_TRACING;
	attr.expected_attach_type = fexit ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY;
	attr.attach_btf_id = find_function(symbol);
	attr.insns = (unsigned long)code;
	attr.insn_cnt = sizeof(code) / sizeof(*code);
	attr.license = (unsigned long)"GPL";
	p = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (p < 0 || programs == PROGRAMS)
		return p < 0 ? -errno : -ENOSPC;
	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.prog_fd = p;
	a = syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
	if (a < 0) {
		a = -errno;
		close(p);
		return a;
	}
	program[programs] = p;
	attached[programs++] = a;
	return 0;
}

void rival_bpf_end(void)
{
	while (programs--) {
		close(attached[programs]);
		close(program[programs]);
	}
	programs = 0;
}

long rival_bpf_hits(void)
{
	union bpf_attr attr;
	unsigned int key = 0;
	unsigned long long hits = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)&hits;
	if (syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)))
		return -errno;
	return hits;
}

int rival_is_named(const char *symbol, const char *who)
{
	size_t size;
	char *text = read_file(TRACING "enabled_functions", &size);
	char *line = strstr(text, symbol), *end;
	int is_named;

	end = line ? strchr(line, '\n') : NULL;
	end = end ? strchr(end + 1, '\n') : NULL;
	if (end)
		*end = 0;
	is_named = line && strstr(line, who);
	if (!is_named)
		printf("# %s\n", line ? line : "not there");
	free(text);
	return is_named;
}

static int await_settled(void)
{
	struct timespec t = {.tv_nsec = 20 * 1000 * 1000};
	char text[8];
	int i, fd;

	for (i = 0; i < 3000; i++) {
		fd = open(LIVEPATCH "transition", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return 0;
		if (read(fd, text, sizeof(text)) > 0 && *text == '0') {
			close(fd);
			return 0;
		}
		close(fd);
		nanosleep(&t, NULL);
	}
	return -ETIMEDOUT;
}

int rival_livepatch(const char *module, const char *options)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = syscall(SYS_finit_module, fd, options, 0) ? -errno : 0;
	close(fd);
	return err ? err : await_settled();
}

/* The module goes once the kernel's own reference has. */
int rival_livepatch_end(void)
{
	struct timespec t = {.tv_nsec = 20 * 1000 * 1000};
	int i, err = write_file(LIVEPATCH "enabled", "0", 0);

	if (!err)
		err = await_settled();
	for (i = 0; !err && i < 3000; i++) {
		if (!syscall(SYS_delete_module, "dynamos_rival", O_NONBLOCK))
			return 0;
		nanosleep(&t, NULL);
	}
	return err ? err : -errno;
}
