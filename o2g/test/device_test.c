// SPDX-License-Identifier: MIT
/*
 * The library with the kernel engine, on a computer without the module: what
 * stands in for /dev/o2g answers calls by this test's numbers.
 */
#define _GNU_SOURCE /* memfd_create */
#include "bed.h"

#include <o2g/lib/endpoint.h>
#include <skep/o2g_status.h>
#include <tests/tap.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define AREA 65536

static struct o2g_device_open asked; /* by the last OPEN */
static u64 frames;		     /* atomic: what COUNTS says */
static int open_error;
static u32 calms; /* atomic: how often CALM was asked for */

/* The device, when there is no module: a file that can be mapped. */
int open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;
	int fd;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	if (strcmp(path, "/dev/" O2G_DEVICE_NAME))
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	fd = memfd_create("o2g", MFD_CLOEXEC);
	return fd >= 0 && ftruncate(fd, AREA) == 0 ? fd : -1;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	switch (request) {
	case O2G_IOC_OPEN:
		asked = *(struct o2g_device_open *)argument;
		((struct o2g_device_open *)argument)->area_size = AREA;
		errno = open_error;
		return open_error ? -1 : 0;
	case O2G_IOC_CALM:
		__atomic_add_fetch(&calms, 1, __ATOMIC_RELAXED);
		return 0;
	case O2G_IOC_COUNTS:
		((struct o2g_device_counts *)argument)->frames_in =
			__atomic_load_n(&frames, __ATOMIC_RELAXED);
		return 0;
	case O2G_IOC_ATTACH:
		errno = EIO;
		return -1;
	}
	return _IOC_TYPE(request) == '2'
		       ? 0
		       : (int)syscall(SYS_ioctl, fd, request, argument);
}

static struct o2g *open_device(u64 unexpected)
{
	struct o2g_options o = bed_options();
	struct o2g *o2g;

	o.engine = "kernel";
	o.unexpected = unexpected;
	if (o2g_open(&o2g, &o))
		bed_die("o2g_open");
	return o2g;
}

static void test_limits(void)
{
	const u64 unexpected = 100 << 20;
	struct o2g *o2g = open_device(unexpected);

	tap_ok(asked.unexpected == unexpected &&
		       asked.write_off == unexpected / 2 &&
		       asked.invited == unexpected / 4,
	       "half of the memory for messages is for messages without "
	       "credit, a quarter for those beyond it");
	tap_ok(!strcmp(o2g_engine_name(o2g), "kernel") &&
		       o2g->area->size == 0 && asked.slab_message == 8192,
	       "the area comes from the device");
	TAP(o2g_close(o2g, 100) == 0);
}

/* What a program is told that can't have the device. */
static int open_advises(u64 unexpected, int error, const char *advice)
{
	struct o2g_options o = bed_options();
	struct o2g *o2g;
	int r;

	o.engine = "kernel";
	o.unexpected = unexpected;
	open_error = error;
	r = o2g_open(&o2g, &o);
	open_error = 0;
	printf("# %s\n", o2g_error());
	return r == -error && strstr(o2g_error(), advice) &&
	       !strstr(o2g_error(), "4G") == (error != E2BIG);
}

static void test_advice(void)
{
	tap_ok(open_advises(5ull << 30, E2BIG, "SKEP_O2G_UNEXPECTED"),
	       "more memory than the device allows is refused with advice");
	tap_ok(open_advises(0, EPROTO, "different versions"),
	       "a module of another version is refused with advice");
	tap_ok(open_advises(0, EPERM, "access to /dev/o2g"),
	       "missing permission is refused with advice");
	tap_ok(open_advises(0, ENFILE, "ulimit -n"),
	       "a lack of descriptors is refused with advice");
	tap_ok(open_advises(0, EIO, "engine 'kernel'"),
	       "any other error is refused with the engine's name");
}

/* The page of this process. */
static const struct o2g_status *find_page(const char *folder)
{
	void *memory = MAP_FAILED;
	struct dirent *entry;
	char path[300];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	dir = opendir(path);
	while (dir && memory == MAP_FAILED && (entry = readdir(dir))) {
		int fd;

		if (atoi(entry->d_name) != getpid())
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		memory = mmap(0, sizeof(struct o2g_status), PROT_READ,
			      MAP_SHARED, fd, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
	if (memory == MAP_FAILED)
		bed_die("no page");
	return memory;
}

static int page_shows(const struct o2g_status *page, u64 value)
{
	__atomic_store_n(&frames, value, __ATOMIC_RELAXED);
	for (int i = 0; i < BED_WAIT; i++) {
		if (__atomic_load_n(&page->frames_in, __ATOMIC_RELAXED) ==
		    value)
			return 1;
		usleep(1000);
	}
	return 0;
}

/* The module has no thread that calls us: the library looks by itself. */
static void test_page(void)
{
	char folder[] = "/tmp/o2g-device-XXXXXX", path[100];
	const struct o2g_status *status;
	struct o2g *o2g;

	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	o2g = open_device(0);
	status = find_page(folder);
	tap_ok(page_shows(status, 5) && page_shows(status, 6) &&
		       page_shows(status, 9),
	       "the page follows the module's counters without a call");
	munmap((void *)(size_t)status, sizeof(*status));
	TAP(o2g_close(o2g, 100) == 0);
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	TAP(rmdir(path) == 0 && rmdir(folder) == 0);
}

static int errors_name(FILE *errors, const char *words)
{
	char line[600];
	int n = 0;

	rewind(errors);
	while (fgets(line, sizeof(line), errors)) {
		printf("# %s", line);
		n += !!strstr(line, words);
	}
	return n;
}

/* The device does not take a connection that is open. */
static void test_unattached(void)
{
	struct o2g *one, *two;
	int was = dup(STDERR_FILENO);
	FILE *errors = tmpfile();
	struct o2g_event event;

	setenv("SKEP_O2G_LOG", "1", 1);
	one = bed_open();
	two = open_device(0);
	dup2(fileno(errors), STDERR_FILENO);
	bed_send(one, bed_peer(one, two), 1, "x", 1);
	event = bed_event(one);
	TAP(o2g_close(two, 0) == 0 && o2g_close(one, 0) == 0);
	dup2(was, STDERR_FILENO);
	close(was);
	setenv("SKEP_O2G_LOG", "0", 1);
	tap_ok(errors_name(errors, "can't use the connection") == 1,
	       "a connection that the engine refuses is logged (%d)",
	       event.status);
	fclose(errors);
}

/* How often the device is asked to reset its descriptor, by one call. */
static u32 calm_once(struct o2g *o2g)
{
	u32 before = __atomic_load_n(&calms, __ATOMIC_RELAXED);

	o2g->ops->calm(o2g->engine);
	return __atomic_load_n(&calms, __ATOMIC_RELAXED) - before;
}

static void test_calm(void)
{
	struct o2g *o2g = open_device(0);

	tap_ok(calm_once(o2g) == 0, "nothing is reset that was not set");
	o2g->ops->wake(o2g->engine);
	tap_ok(calm_once(o2g) == 1 && calm_once(o2g) == 0,
	       "a wake-up is reset once");
	TAP(o2g_descriptor(o2g) >= 0);
	tap_ok(calm_once(o2g) == 1 && calm_once(o2g) == 1,
	       "a descriptor that the program has is always reset");
	TAP(o2g_close(o2g, 0) == 0);
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	setenv("SKEP_O2G_ENGINE", "user", 1);
	test_limits();
	test_advice();
	test_page();
	test_unattached();
	test_calm();
	return tap_done();
}
