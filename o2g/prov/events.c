/* SPDX-License-Identifier: MIT */
/*
 * Event queues: they exist because programs open one and bind it. Addresses are
 * inserted synchronously and endpoints connect by themselves, so no event is
 * ever reported.
 */
#include <poll.h>
#include <stdlib.h>

#include "prov.h"

static int events_close(struct fid *fid)
{
	struct events *events = (struct events *)fid;

	if (atomic_load(&events->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&events->fabric->users, 1);
	free(events);
	return 0;
}

static ssize_t read_nothing(struct fid_eq *eq, uint32_t *event, void *buffer,
			    size_t length, uint64_t flags)
{
	(void)eq, (void)event, (void)buffer, (void)length, (void)flags;
	return -FI_EAGAIN;
}

static ssize_t wait_for_nothing(struct fid_eq *eq, uint32_t *event,
				void *buffer, size_t length, int timeout,
				uint64_t flags)
{
	if (poll(NULL, 0, timeout) < 0)
		return -errno;
	return read_nothing(eq, event, buffer, length, flags);
}

static ssize_t read_no_error(struct fid_eq *eq, struct fi_eq_err_entry *entry,
			     uint64_t flags)
{
	(void)eq, (void)entry, (void)flags;
	return -FI_EAGAIN;
}

static const char *eq_strerror(struct fid_eq *eq, int error, const void *data,
			       char *buffer, size_t length)
{
	(void)eq, (void)error, (void)data;
	if (buffer && length)
		buffer[0] = '\0';
	return "";
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = events_close,
	.bind = prov_bind_refused,
	.control = prov_control_refused,
	.ops_open = PROV_REFUSED,
};

static struct fi_ops_eq ops = {
	.size = sizeof(ops),
	.read = read_nothing,
	.readerr = read_no_error,
	.write = PROV_REFUSED,
	.sread = wait_for_nothing,
	.strerror = eq_strerror,
};

int prov_events_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		     struct fid_eq **out, void *context)
{
	struct events *events;

	(void)attr;
	events = calloc(1, sizeof(*events));
	if (!events)
		return -FI_ENOMEM;
	events->fabric = (struct fabric *)fabric;
	atomic_fetch_add(&events->fabric->users, 1);
	events->fid.fid.fclass = FI_CLASS_EQ;
	events->fid.fid.context = context;
	events->fid.fid.ops = &fid_ops;
	events->fid.ops = &ops;
	*out = &events->fid;
	return 0;
}
