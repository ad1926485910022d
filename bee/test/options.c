/* SPDX-License-Identifier: MIT */
/*
 * The command line: what each option sets, and which values it refuses with
 * which words.
 */
#include <stddef.h>
#include <string.h>

#include "base/errno.h"
#include "bee/core/bee.h"
#include "tests/tap.h"

#define WORDS 8

static struct bee_options o;
static char why[160];

/* Parses up to three words before the program "p" and its argument. */
static int parse_line(const char *first, const char *second, const char *third)
{
	static char copy[5][80];
	static char *argv[WORDS];
	const char *words[] = {first, second, third, "p", "-x"};
	int i, argc = 0;

	argv[argc++] = (char *)"bee";
	for (i = 0; i < 5; i++) {
		if (!words[i])
			continue;
		snprintf(copy[i], sizeof(copy[i]), "%s", words[i]);
		argv[argc++] = copy[i];
	}
	argv[argc] = NULL;
	*why = 0;
	return bee_options_parse(&o, argc, argv, why);
}

/* Whether the options are those of an empty line, but for one field. */
static int is_alone(void *field, u64 size)
{
	static struct bee_options none;
	struct bee_options copy;

	memset(field, 0, size);
	copy = o;
	copy.program = NULL;
	copy.argv = NULL;
	return !memcmp(&copy, &none, sizeof(copy));
}

static void check_flags(void)
{
	const struct {
		const char *word;
		u8 *flag;
		int ends;
	} flags[] = {
		{"--probe", &o.probe, 1},
		{"--list-syscalls", &o.list, 1},
		{"--trace", &o.trace, 0},
		{"--idle", &o.idle, 0},
		{"--help", &o.help, 1},
		{"-h", &o.help, 1},
		{"--version", &o.version, 1},
		{"--child", &o.child, 0},
		{"--clean-env", &o.clean_env, 0},
		{"--no-debugger", &o.no_debugger, 0},
		{"--load-only", &o.load_only, 0},
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		int ok = !parse_line(flags[i].word, NULL, NULL) &&
			 *flags[i].flag == 1 &&
			 (flags[i].ends ? !o.program
					: !strcmp(o.program, "p") &&
						  o.argv[0] == o.program &&
						  !strcmp(o.argv[1], "-x"));

		tap_ok(ok && is_alone(flags[i].flag, 1), "%s", flags[i].word);
	}
}

static void check_texts(void)
{
	const struct {
		const char *word;
		const char **text;
	} texts[] = {
		{"--report", &o.report}, {"--cache", &o.cache},
		{"--root", &o.root},	 {"--cwd", &o.cwd},
		{"--name", &o.name},	 {"--cpu", &o.cpu},
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char want[80];
		int ok = !parse_line(texts[i].word, "-v", NULL) &&
			 *texts[i].text && !strcmp(*texts[i].text, "-v") &&
			 (texts[i].text == &o.cpu ? !o.program
						  : !strcmp(o.program, "p"));

		tap_ok(ok && is_alone(texts[i].text, sizeof(char *)),
		       "%s and its text", texts[i].word);
		snprintf(want, sizeof(want),
			 "option %s needs a value; see bee --help",
			 texts[i].word);
		tap_ok(parse_line(texts[i].word, "", NULL) == BEE_EXIT_USAGE &&
			       !strcmp(why, want),
		       "%s", why);
	}
}

/* refused: the value is none; else what it sets. */
static const struct {
	const char *word, *text;
	u64 value;
	int refused;
} numbers[] = {
	{"--memory", "0", 0, 0},
	{"--memory", "1", 1, 0},
	{"--memory", "4097", 4097, 0},
	{"--memory", "3k", 3 << 10, 0},
	{"--memory", "3K", 3 << 10, 0},
	{"--memory", "3m", 3 << 20, 0},
	{"--memory", "3M", 3 << 20, 0},
	{"--memory", "3g", 3ull << 30, 0},
	{"--memory", "3G", 3ull << 30, 0},
	{"--memory", "18446744073709551615", ~0ull, 0},
	{"--memory", "18446744073709551616", 0, 1},
	{"--memory", "99999999999999999999", 0, 1},
	{"--memory", "17179869183G", 17179869183ull << 30, 0},
	{"--memory", "17179869184G", 0, 1},
	{"--memory", "18014398509481983K", 18014398509481983ull << 10, 0},
	{"--memory", "18014398509481984K", 0, 1},
	{"--memory", "", 0, 1},
	{"--memory", "K", 0, 1},
	{"--memory", "-1", 0, 1},
	{"--memory", "3KB", 0, 1},
	{"--memory", "3T", 0, 1},
	{"--memory", "3a", 0, 1},
	{"--nonce", "0", 0, 0},
	{"--nonce", "a0Fg", 0, 1},
	{"--nonce", "a0F", 0xa0f, 0},
	{"--nonce", "0xa0F", 0xa0f, 0},
	{"--nonce", "0XA", 0xa, 0},
	{"--nonce", "ffffffffffffffff", ~0ull, 0},
	{"--nonce", "10000000000000000", 0, 1},
	{"--nonce", "0x", 0, 1},
	{"--nonce", "", 0, 1},
	{"--stream", "3", 3, 0},
	{"--stream", "2", 0, 1},
	{"--stream", "0", 0, 1},
	{"--stream", "3k", 0, 1},
	{"--control", "3", 3, 0},
	{"--control", "2", 0, 1},
	{"--stream", "", 0, 1},
	{"--resume", "3", 3, 0},
	{"--resume", "2", 0, 1},
	{"--resume", "x", 0, 1},
};

static void check_numbers(void)
{
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const char *word = numbers[i].word;
		int code = parse_line(word, numbers[i].text, NULL);
		u64 *field = !strcmp(word, "--memory")	  ? &o.memory
			     : !strcmp(word, "--nonce")	  ? &o.nonce
			     : !strcmp(word, "--stream")  ? &o.stream
			     : !strcmp(word, "--control") ? &o.control
							  : &o.resume;

		if (numbers[i].refused)
			tap_ok(code == BEE_EXIT_USAGE &&
				       strstr(why, "needs a value") &&
				       strstr(why, word),
			       "%s '%s' is refused", word, numbers[i].text);
		else
			tap_ok(!code && *field == numbers[i].value &&
				       is_alone(field, sizeof(*field)),
			       "%s %s", word, numbers[i].text);
	}
}

static void check_variables(void)
{
	static char assignment[] = "A=";
	static char *argv[2 * (BEE_ENV_MAX + 1) + 3];
	int i, argc = 1;

	tap_ok(!parse_line("--env", "A=1=2", NULL) && o.envs == 1 &&
		       !strcmp(o.env[0], "A=1=2") && !o.env[1] && !o.clean_env,
	       "a variable");
	tap_ok(parse_line("--env", "A", NULL) == BEE_EXIT_USAGE &&
		       parse_line("--env", "=1", NULL) == BEE_EXIT_USAGE &&
		       parse_line("--env", "", NULL) == BEE_EXIT_USAGE,
	       "one without a name or a value is refused");
	argv[0] = (char *)"bee";
	for (i = 0; i < BEE_ENV_MAX; i++) {
		argv[argc++] = (char *)"--env";
		argv[argc++] = assignment;
	}
	argv[argc] = (char *)"p";
	tap_ok(!bee_options_parse(&o, argc + 1, argv, why) &&
		       o.envs == BEE_ENV_MAX &&
		       o.env[BEE_ENV_MAX - 1] == assignment &&
		       !o.env[BEE_ENV_MAX],
	       "512 variables");
	argv[argc++] = (char *)"--env";
	argv[argc++] = assignment;
	argv[argc++] = (char *)"p";
	tap_ok(bee_options_parse(&o, argc, argv, why) == BEE_EXIT_USAGE,
	       "one more is refused");
}

static void check_words(void)
{
	static char *alone[] = {(char *)"bee", (char *)"--idle", NULL};
	static char *last[] = {(char *)"bee", (char *)"--cwd", NULL};

	tap_ok(parse_line("--odd", NULL, NULL) == BEE_EXIT_USAGE &&
		       !strcmp(why, "unknown option '--odd'; see bee --help"),
	       "%s", why);
	tap_ok(bee_options_parse(&o, 2, alone, why) == BEE_EXIT_USAGE &&
		       !strcmp(why, "no program given; see bee --help"),
	       "%s", why);
	tap_ok(bee_options_parse(&o, 2, last, why) == BEE_EXIT_USAGE,
	       "an option without its value at the end is refused");
	tap_ok(!parse_line("--", "--idle", NULL) && !o.idle &&
		       !strcmp(o.program, "--idle") && !strcmp(o.argv[1], "p"),
	       "after -- a program's name may begin with a dash");
	tap_ok(!parse_line("--name", "n", NULL) && !strcmp(o.argv[0], "p"),
	       "a name alone changes no argument");
	tap_ok(!parse_line("--name", "n", "--child") &&
		       !strcmp(o.argv[0], "n") && !strcmp(o.program, "p"),
	       "a child's first argument is its name");
}

/* Words before the program, which the command of snapshots takes for itself. */
static const struct {
	const char *word[3], *why; /* NULL: accepted */
} snapshots[] = {
	{{"--snapshot", "f", NULL}, "process number"},
	{{"--end", NULL, NULL}, "--end belongs to --snapshot"},
	{{"--restore", "f", NULL}, "takes no arguments"},
	{{"--restore", "f", "--clean-env"}, "takes no arguments"},
	{{"--restore", "", NULL}, "needs a value"},
	{{"--snapshot", "", NULL}, "needs a value"},
};

/* Without a second word: parse_line adds the program and its argument. */
static int parse_words(const char *a, const char *b, const char *c,
		       const char *d)
{
	static char copy[4][20];
	static char *argv[6] = {(char *)"bee"};
	const char *word[] = {a, b, c, d};
	int i, argc = 1;

	for (i = 0; i < 4 && word[i]; i++) {
		snprintf(copy[i], sizeof(copy[i]), "%s", word[i]);
		argv[argc++] = copy[i];
	}
	argv[argc] = NULL;
	*why = 0;
	return bee_options_parse(&o, argc, argv, why);
}

static void check_snapshots(void)
{
	size_t i;

	for (i = 0; i < sizeof(snapshots) / sizeof(*snapshots); i++)
		tap_ok(parse_line(snapshots[i].word[0], snapshots[i].word[1],
				  snapshots[i].word[2]) == BEE_EXIT_USAGE &&
			       strstr(why, snapshots[i].why),
		       "%s", why);
	tap_ok(!parse_words("--snapshot", "f", "123", NULL) && o.pid == 123 &&
		       !strcmp(o.snapshot, "f") && !o.end,
	       "--snapshot and a process number");
	tap_ok(!parse_words("--snapshot", "f", "--end", "123") && o.end,
	       "--end");
	tap_ok(parse_words("--snapshot", "f", "1", NULL) == BEE_EXIT_USAGE &&
		       parse_words("--snapshot", "f", "12x", NULL) ==
			       BEE_EXIT_USAGE &&
		       parse_words("--snapshot", "f", "2147483648", NULL) ==
			       BEE_EXIT_USAGE &&
		       parse_words("--snapshot", "f", NULL, NULL) ==
			       BEE_EXIT_USAGE,
	       "other process numbers are refused");
	tap_ok(!parse_words("--restore", "f", NULL, NULL) &&
		       !strcmp(o.restore, "f") && o.program == o.restore,
	       "--restore");
	tap_ok(!parse_words("--restore", "f", "p", NULL) &&
		       !strcmp(o.program, "p"),
	       "--restore and a program");
	tap_ok(parse_words("--restore", "f", "--snapshot", "g") ==
		       BEE_EXIT_USAGE,
	       "both are refused");
}

int main(void)
{
	check_flags();
	check_texts();
	check_numbers();
	check_variables();
	check_words();
	check_snapshots();
	return tap_done();
}
