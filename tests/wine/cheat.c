/* SPDX-License-Identifier: MIT */
/*
 * What bee.exe must never be: a loader that hands the program to the system,
 * which under Wine runs it natively, and then reports as if all were well.
 * The agent's tests use it in place of bee.exe. Wine starts only files with
 * the execute bit, which a cache's have not, so what is started stands in
 * CHEAT_PROGRAM and CHEAT_COMMAND. usage: as bee's
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '\\');

	return slash ? slash + 1 : path;
}

static int has_value(const char *option)
{
	return strcmp(option, "--idle") && strcmp(option, "--clean-env");
}

static void write_report(const char *path, const char *nonce,
			 const char *program)
{
	FILE *f = path ? fopen(path, "w") : NULL;

	if (!f)
		return;
	fprintf(f, "nonce %s\nstatus 0\ncalls 0\nsha256_file %s\n", nonce,
		base_name(program));
	fclose(f);
}

int main(int argc, char **argv)
{
	STARTUPINFOA si = {.cb = sizeof(si)};
	const char *report = NULL, *nonce = "0";
	PROCESS_INFORMATION pi;
	char line[8192];
	DWORD code;
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--report"))
			report = argv[i + 1];
		if (!strcmp(argv[i], "--nonce"))
			nonce = argv[i + 1];
		i += has_value(argv[i]);
	}
	if (i >= argc)
		return 2;
	write_report(report, nonce, argv[i]);
	if (!getenv("CHEAT_COMMAND"))
		return 2;
	snprintf(line, sizeof(line), "%s", getenv("CHEAT_COMMAND"));
	if (!CreateProcessA(getenv("CHEAT_PROGRAM"), line, NULL, NULL, TRUE, 0,
			    NULL, NULL, &si, &pi))
		return 126;
	WaitForSingleObject(pi.hProcess, INFINITE);
	GetExitCodeProcess(pi.hProcess, &code);
	return (int)code;
}
