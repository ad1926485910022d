// SPDX-License-Identifier: MIT
/*
 * Enters functions of the kernel that fixes change, each by what a program
 * does: `dynamos_enter WORD`. What the calls answer is looked at as far as old
 * and new functions agree.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROUNDS 20
#define PAGES 64

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

/* An unreachable port is told by ICMPv6, whose headers are looked through. */
static void enter_icmp6(void)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6,
				  .sin6_port = htons(9),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), refused = 0, i;

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		exit_failed("a socket to ::1");
	for (i = 0; i < ROUNDS; i++)
		refused += send(fd, "", 1, 0) < 0 && errno == ECONNREFUSED;
	if (!refused)
		exit_failed("nobody says that the port is closed");
	close(fd);
}

static char *map_pages(size_t size, int flags)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (at == MAP_FAILED)
		exit_failed("mmap");
	memset(at, 'x', size);
	return at;
}

static void enter_pageout(void)
{
	size_t size = PAGES * getpagesize();
	struct iovec v = {.iov_base = map_pages(size, 0), .iov_len = size};
	int self = syscall(SYS_pidfd_open, getpid(), 0), i;
	FILE *file = tmpfile();
	void *mapped;

	if (self < 0 || !file || ftruncate(fileno(file), size))
		exit_failed("a process and a file");
	mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fileno(file), 0);
	if (mapped == MAP_FAILED)
		exit_failed("mmap of a file");
	for (i = 0; i < ROUNDS; i++) {
		if (madvise(v.iov_base, size, MADV_PAGEOUT) ||
		    madvise(mapped, size, MADV_PAGEOUT))
			exit_failed("madvise");
		if (syscall(SYS_process_madvise, self, &v, 1, MADV_PAGEOUT,
			    0) != (long)size)
			exit_failed("process_madvise");
		if (((char *)v.iov_base)[size - 1] != 'x')
			exit_failed("a page that was out");
	}
}

/* Memory moves, and parts of a mapped file take another's place. */
static void enter_remap(void)
{
	size_t page = getpagesize(), size = PAGES * page;
	char *at = map_pages(size, 0), *shared;
	FILE *file = tmpfile();
	int i;

	if (!file || ftruncate(fileno(file), size))
		exit_failed("a file");
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
		      fileno(file), 0);
	if (shared == MAP_FAILED)
		exit_failed("mmap of a file");
	for (i = 0; i < ROUNDS; i++) {
		char *to = mmap(NULL, size, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		shared[(i + 1) * page] = (char)('a' + i);
		if (to == MAP_FAILED ||
		    mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
			    to ||
		    to[size - 1] != 'x')
			exit_failed("mremap");
		at = to;
		if (remap_file_pages(shared, page, 0, i + 1, 0) ||
		    shared[0] != 'a' + i)
			exit_failed("remap_file_pages");
	}
}

/* The call of 32-bit programs: a time that is none is refused. */
static void enter_settime(void)
{
	int *tv = (int *)map_pages(getpagesize(), MAP_32BIT), i;
	long result;

	for (i = 0; i < ROUNDS; i++) {
		tv[0] = 1;
		tv[1] = -1;
		__asm__ volatile("int $0x80"
				 : "=a"(result)
				 : "a"(79), "b"(tv), "c"(0)
				 : "memory", "r8", "r9", "r10", "r11");
		if ((int)result != -EINVAL)
			exit_failed("settimeofday");
	}
}

static int bpf_call(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* The verifier writes a look-up in a map of sockets as instructions. */
static void enter_xskmap(void)
{
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP,
			      .key_size = 4,
			      .value_size = 4,
			      .max_entries = 4};
	struct bpf_insn text[] = {
		{.code = BPF_ST | BPF_W | BPF_MEM, .dst_reg = 10, .off = -4},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X,
		 .dst_reg = 2,
		 .src_reg = 10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_FD},
		{0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr prog = {.prog_type = BPF_PROG_TYPE_XDP,
			       .insn_cnt = sizeof(text) / sizeof(text[0]),
			       .insns = (unsigned long)text,
			       .license = (unsigned long)"GPL"};
	int i, fd;

	text[3].imm = bpf_call(BPF_MAP_CREATE, &map);
	if (text[3].imm < 0)
		exit_failed("a map");
	for (i = 0; i < ROUNDS; i++) {
		fd = bpf_call(BPF_PROG_LOAD, &prog);
		if (fd < 0)
			exit_failed("a program");
		close(fd);
	}
}

static void enter_persistent(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (syscall(SYS_keyctl, KEYCTL_GET_PERSISTENT, -1,
			    KEY_SPEC_PROCESS_KEYRING) < 0)
			exit_failed("keyctl");
}

/* Sockets and pipes want memory of the kernel, more than it has at hand. */
static void enter_slab(void)
{
	static int fd[400][2];
	int i, k;

	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < 400; k++)
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd[k]))
				exit_failed("socketpair");
		for (k = 0; k < 400; k++) {
			close(fd[k][0]);
			close(fd[k][1]);
		}
	}
}

/* A file that signals: both ends of a pipe, and one that is both. */
static void enter_fasync(void)
{
	char name[] = "/tmp/enter-fifo";
	int fd[3], i, k, flags;

	signal(SIGIO, SIG_IGN);
	unlink(name);
	if (pipe(fd) || mkfifo(name, 0600))
		exit_failed("pipes");
	fd[2] = open(name, O_RDWR);
	for (i = 0; i < ROUNDS; i++)
		for (k = 0; k < 3; k++) {
			flags = fcntl(fd[k], F_GETFL);
			if (fcntl(fd[k], F_SETFL, flags | O_ASYNC) ||
			    fcntl(fd[k], F_SETFL, flags))
				exit_failed("fcntl");
		}
	unlink(name);
}

static void enter_links(void)
{
	static const char *const names[] = {"/proc/self/cwd", "/proc/self/root",
					    "/proc/self/exe", "/proc/self/fd/0",
					    "/proc/self/ns/mnt"};
	char text[4096];
	size_t k;
	int i, fd;

	for (i = 0; i < ROUNDS; i++)
		for (k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			if (readlink(names[k], text, sizeof(text)) <= 0)
				exit_failed(names[k]);
			fd = open(names[k], O_PATH);
			if (fd < 0)
				exit_failed(names[k]);
			close(fd);
		}
}

/* To nobody, over the tunnel that is there. */
static void send_on(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(9),
				 .sin_addr.s_addr = htonl(0xc0a84e02)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i;

	for (i = 0; i < ROUNDS; i++)
		if (sendto(fd, "", 1, 0, (void *)&to, sizeof(to)) != 1)
			exit_failed("192.168.78.2");
	close(fd);
}

static struct rule {
	struct nlmsghdr head;
	struct audit_rule_data data;
	char path[64];
} rule = {
	.data = {.flags = AUDIT_FILTER_EXIT,
		 .action = AUDIT_ALWAYS,
		 .field_count = 1,
		 .fields = {AUDIT_WATCH},
		 .fieldflags = {AUDIT_EQUAL}},
	.path = "/tmp/enter-watched",
};

static void change_rule(int fd, int type)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr is;
		char more[256];
	} answer;

	rule.head.nlmsg_type = type;
	rule.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	rule.head.nlmsg_len = offsetof(struct rule, path) + strlen(rule.path);
	rule.data.values[0] = rule.data.buflen = strlen(rule.path);
	memset(rule.data.mask, 0xff, sizeof(rule.data.mask));
	if (send(fd, &rule, rule.head.nlmsg_len, 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < (int)sizeof(answer.head))
		exit_failed("audit");
	errno = -answer.is.error;
	if (answer.head.nlmsg_type != NLMSG_ERROR || errno)
		exit_failed("a rule of audit");
}

/* A file that is watched comes and goes. */
static void enter_watch(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT), i, file;

	if (fd < 0)
		exit_failed("a socket of audit");
	for (i = 0; i < ROUNDS; i++) {
		change_rule(fd, AUDIT_ADD_RULE);
		file = open(rule.path, O_CREAT | O_RDWR, 0600);
		if (file < 0 || close(file) || unlink(rule.path))
			exit_failed(rule.path);
		change_rule(fd, AUDIT_DEL_RULE);
	}
	close(fd);
}

static const struct {
	const char *word;
	void (*enter)(void);
} words[] = {
	{"icmp6", enter_icmp6},
	{"pageout", enter_pageout},
	{"settime", enter_settime},
	{"xskmap", enter_xskmap},
	{"persistent", enter_persistent},
	{"slab", enter_slab},
	{"send", send_on},
	{"watch", enter_watch},
	{"fasync", enter_fasync},
	{"links", enter_links},
	{"remap", enter_remap},
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc == 2 && i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(argv[1], words[i].word)) {
			words[i].enter();
			return 0;
		}
	fprintf(stderr, "one word is expected:");
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		fprintf(stderr, " %s", words[i].word);
	fputc('\n', stderr);
	return 2;
}
