/* SPDX-License-Identifier: MIT */
/* A program's file as bee reads it: what happens to it later is not seen. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define LEN 0x5000

struct bee bee;
static char path[] = "/tmp/bee-own-XXXXXX";

static int all_are(const u8 *bytes, u64 len, u8 value)
{
	u64 n = 0;

	while (n < len && bytes[n] == value)
		n++;
	return n == len;
}

int main(void)
{
	int fd = mkstemp(path);
	const u8 *bytes;
	u8 page[LEN];
	u32 type = 0, flags = 0;
	int pair[2];
	u64 len;

	memset(page, 'p', sizeof(page));
	tap_ok(!bee_os_file_read(path, &bytes, &len) && !len,
	       "an empty file has no bytes");
	bee_os_file_free(bytes, len);
	if (write(fd, page, sizeof(page)) != sizeof(page))
		return 1;
	tap_ok(!bee_os_file_read(path, &bytes, &len) && len == LEN &&
		       all_are(bytes, LEN, 'p'),
	       "a file is read whole");
	tap_ok(!ftruncate(fd, 0) && all_are(bytes, LEN, 'p'),
	       "a file that is cut later stays as it was read");
	bee_os_file_free(bytes, len);
	tap_ok(bee_os_file_read("/tmp", &bytes, &len) == -EISDIR &&
		       bee_os_file_read("/dev/null", &bytes, &len) == -EINVAL &&
		       bee_os_file_read("/nowhere", &bytes, &len) == -ENOENT,
	       "only regular files are read");
	tap_ok(bee_os_std(1, &type, &flags) == 1 &&
		       (flags & O_ACCMODE) != O_RDONLY && type,
	       "a stream has a type and flags");
	tap_ok(!pipe(pair) && !dup2(pair[0], 0) &&
		       bee_os_std(0, &type, &flags) == 0 && !flags,
	       "so has a pipe to read from, whose flags are 0");
	close(0);
	tap_ok(bee_os_std(0, &type, &flags) == -EBADF,
	       "a stream that is closed is none");
	unlink(path);
	return tap_done();
}
