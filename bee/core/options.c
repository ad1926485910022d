/* SPDX-License-Identifier: MIT */
/* The command line. Keeps pointers into argv, owns nothing. */
#include "base/hex.h"
#include "bee/core/bee.h"

const char bee_usage[] =
	"usage: bee [options] program [args]\n"
	"\n"
	"Run an x86-64 Linux program. Options end at the program.\n"
	"\n"
	"  --cwd DIR          the program's working directory\n"
	"  --root DIR         directory that the program sees as /; no "
	"sandbox\n"
	"  --env NAME=VALUE   set a variable (any number of times)\n"
	"  --clean-env        pass no variables but those of --env\n"
	"  --memory BYTES     limit of the program's memory (K, M, G)\n"
	"  --idle             use the CPU only when it is idle\n"
	"  --cache DIR        keep rewritten programs in this directory\n"
	"  --load-only        load and rewrite the program, but do not run it\n"
	"  --report FILE      write what was loaded, patched and counted\n"
	"  --nonce HEX        value that system call 0xBEE returns as proof\n"
	"  --name NAME        the program's argv[0]\n"
	"  --snapshot FILE    save the running program of the bee with the\n"
	"                     process number that follows in FILE; it goes on\n"
	"  --end              after --snapshot: it ends when it is saved\n"
	"  --restore FILE     go on with the program that was saved in FILE;\n"
	"                     its path may follow\n"
	"  --control N        inherited socket on which snapshots are asked "
	"for\n"
	"  --cpu HEX          name what this CPU lacks of one that --cpu -\n"
	"                     printed\n"
	"  --stream N         inherited stream (descriptor, on Windows handle\n"
	"                     of a two-way pipe) that the program gets as 3;\n"
	"                     the report is written at the start too\n"
	"  --no-debugger      on Windows: faults cost less, but may damage "
	"what\n"
	"                     lies below a small stack, or end the program\n"
	"  --trace            print system calls on the error stream\n"
	"  --list-syscalls    print which system calls are answered, and how\n"
	"  --probe            print what bee finds on this machine\n"
	"  --help, --version\n"
	"\n"
	"Exit code: the program's; 126 refused to load, 127 not found,\n"
	"128 + n ended by signal n, 2 wrong use.\n";

static int write_reason(char why[160], const char *before, const char *word,
			const char *after)
{
	struct abi_text text;

	abi_text_init(&text, why, 160);
	abi_text_str(&text, before);
	abi_text_str(&text, word);
	abi_text_str(&text, after);
	return BEE_EXIT_USAGE;
}

/* Parses digits of `base`; returns the rest of the text, or NULL if there are
 * none or too many. */
static const char *parse_number(const char *s, u32 base, u64 *out)
{
	u64 value = 0, next;
	const char *start = s;
	s32 d;

	while ((d = base_hex_digit(*s)) >= 0 && d < (s32)base) {
		if (__builtin_mul_overflow(value, base, &next) ||
		    __builtin_add_overflow(next, (u64)d, &value))
			return 0;
		s++;
	}
	*out = value;
	return s == start ? 0 : s;
}

static int parse_bytes(const char *s, u64 *out)
{
	u32 shift = 0;

	s = parse_number(s, 10, out);
	if (!s)
		return -1;
	switch (*s) {
	case 'K':
	case 'k':
		shift = 10;
		break;
	case 'M':
	case 'm':
		shift = 20;
		break;
	case 'G':
	case 'g':
		shift = 30;
		break;
	}
	if (shift)
		s++;
	if (*s || *out > ~0ull >> shift)
		return -1;
	*out <<= shift;
	return 0;
}

static int parse_nonce(const char *s, u64 *out)
{
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	s = parse_number(s, 16, out);
	return s && !*s ? 0 : -1;
}

static int parse_stream(const char *s, u64 *out)
{
	s = parse_number(s, 10, out);
	return s && !*s && *out > 2 ? 0 : -1;
}

static int add_env(struct bee_options *o, const char *value)
{
	const char *s = value;

	while (*s && *s != '=')
		s++;
	if (!*s || s == value || o->envs == BEE_ENV_MAX)
		return -1;
	o->env[o->envs++] = value;
	o->env[o->envs] = 0;
	return 0;
}

static u8 *find_flag(struct bee_options *o, const char *word)
{
	const struct {
		const char *name;
		u8 *flag;
	} flags[] = {
		{"--probe", &o->probe},
		{"--list-syscalls", &o->list},
		{"--trace", &o->trace},
		{"--idle", &o->idle},
		{"--help", &o->help},
		{"-h", &o->help},
		{"--version", &o->version},
		{"--child", &o->child},
		{"--clean-env", &o->clean_env},
		{"--no-debugger", &o->no_debugger},
		{"--load-only", &o->load_only},
		{"--end", &o->end},
	};
	u32 i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (abi_streq(word, flags[i].name))
			return flags[i].flag;
	return 0;
}

/* 1: the option was handled, 0: there is no such option, -1: its value is
 * wrong. */
static int parse_valued(struct bee_options *o, const char *word,
			const char *value)
{
	if (abi_streq(word, "--memory"))
		return parse_bytes(value, &o->memory) ? -1 : 1;
	if (abi_streq(word, "--nonce"))
		return parse_nonce(value, &o->nonce) ? -1 : 1;
	if (abi_streq(word, "--stream"))
		return parse_stream(value, &o->stream) ? -1 : 1;
	if (abi_streq(word, "--control"))
		return parse_stream(value, &o->control) ? -1 : 1;
	if (abi_streq(word, "--resume"))
		return parse_stream(value, &o->resume) ? -1 : 1;
	if (abi_streq(word, "--env"))
		return add_env(o, value) ? -1 : 1;
	if (abi_streq(word, "--report"))
		o->report = value;
	else if (abi_streq(word, "--cache"))
		o->cache = value;
	else if (abi_streq(word, "--root"))
		o->root = value;
	else if (abi_streq(word, "--name"))
		o->name = value;
	else if (abi_streq(word, "--cpu"))
		o->cpu = value;
	else if (abi_streq(word, "--cwd"))
		o->cwd = value;
	else if (abi_streq(word, "--snapshot"))
		o->snapshot = value;
	else if (abi_streq(word, "--restore"))
		o->restore = value;
	else if (abi_streq(word, "--restored"))
		o->restored = value;
	else
		return 0;
	return *value ? 1 : -1;
}

/* The words after --snapshot and --restore; other words belong to them. */
static int take_snapshot(struct bee_options *o, int words, char **word,
			 char why[160])
{
	const char *rest;

#ifdef _WIN32
	return write_reason(why, "snapshots are not available on Windows yet; ",
			    "run the program under bee on Linux", "");
#endif
	if (o->snapshot && o->restore)
		return write_reason(why, "--snapshot and --restore exclude ",
				    "each other", "; see bee --help");
	if (o->end && !o->snapshot)
		return write_reason(why, "--end belongs to ", "--snapshot",
				    "; see bee --help");
	if (o->restore && (words > 1 || o->cwd || o->name || o->envs ||
			   o->clean_env || o->stream))
		return write_reason(why,
				    "--restore takes no arguments, names, "
				    "variables, folders or streams: ",
				    "the program has its own",
				    "; see bee --help");
	o->program = o->restore;
	o->argv = word;
	if (o->restore)
		return 0;
	rest = words == 1 ? parse_number(word[0], 10, &o->pid) : 0;
	if (!rest || *rest || o->pid < 2 || o->pid > 0x7fffffff)
		return write_reason(why, "--snapshot FILE needs the process ",
				    "number of a running bee",
				    "; see bee --help");
	return 0;
}

static int check_control(struct bee_options *o, char why[160])
{
#ifdef _WIN32
	if (o->control || o->cpu)
		return write_reason(why,
				    "--control and --cpu serve snapshots, "
				    "which are ",
				    "not available on Windows yet", "");
#endif
	if (o->control && (o->stream || o->snapshot))
		return write_reason(why, "--control excludes ",
				    "--stream and --snapshot",
				    "; see bee --help");
	return 0;
}

int bee_options_parse(struct bee_options *o, int argc, char **argv,
		      char why[160])
{
	int i, took;
	u8 *set;

	abi_memset(o, 0, sizeof(*o));
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (abi_streq(argv[i], "--")) {
			i++;
			break;
		}
		set = find_flag(o, argv[i]);
		if (set) {
			*set = 1;
			continue;
		}
		took = parse_valued(o, argv[i],
				    i + 1 < argc ? argv[i + 1] : "");
		if (took == 0)
			return write_reason(why, "unknown option '", argv[i],
					    "'; see bee --help");
		if (took < 0)
			return write_reason(why, "option ", argv[i],
					    " needs a value; see bee --help");
		i++;
	}
	if (o->help || o->version || o->probe || o->list)
		return 0;
	took = check_control(o, why);
	if (took || o->cpu)
		return took;
	if (o->snapshot || o->restore || o->end) {
		took = take_snapshot(o, argc - i, argv + i, why);
		if (took || o->snapshot || i >= argc)
			return took;
	}
	if (i >= argc)
		return write_reason(why, "no program given; see bee ", "--help",
				    "");
	o->program = argv[i];
	o->argv = argv + i;
	if (o->name &&
	    o->child) /* the parent passes the command line on unchanged */
		argv[i] = (char *)(__UINTPTR_TYPE__)o->name;
	return 0;
}
