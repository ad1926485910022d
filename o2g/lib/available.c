// SPDX-License-Identifier: MIT
/* The memory that is available to programs. */
#include "available.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

u64 o2g_memory_available(void)
{
	static const char name[] = "MemAvailable:";
	struct sysinfo info;
	char text[512] = "", *line;
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(fd);
	}
	line = strstr(text, name);
	if (line)
		return strtoull(line + sizeof(name) - 1, NULL, 10) << 10;
	return sysinfo(&info) ? 0 : (u64)info.freeram * info.mem_unit;
}
