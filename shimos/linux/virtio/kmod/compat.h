/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module is built for. */
#ifndef SHIMOS_VIRTIO_COMPAT_H
#define SHIMOS_VIRTIO_COMPAT_H

#include <linux/version.h>
#include <linux/virtio_config.h>

/* What find_vqs gets about each queue, and what of it is about queue i. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define SHIMOS_QUEUE_PARAMETERS                                                \
	vq_callback_t *calls[], const char *const names[], const bool *contexts
#define SHIMOS_QUEUE_CALL(i) (calls[i])
#define SHIMOS_QUEUE_NAME(i) (names[i])
#define SHIMOS_QUEUE_CONTEXT(i) (contexts && contexts[i])
#else
#define SHIMOS_QUEUE_PARAMETERS struct virtqueue_info infos[]
#define SHIMOS_QUEUE_CALL(i) (infos[i].callback)
#define SHIMOS_QUEUE_NAME(i) (infos[i].name)
#define SHIMOS_QUEUE_CONTEXT(i) (infos[i].ctx)
#endif

#endif
