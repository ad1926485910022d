/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module is built for. */
#ifndef SHIMOS_VIRTIO_COMPAT_H
#define SHIMOS_VIRTIO_COMPAT_H

#include <linux/version.h>
#include <linux/virtio_config.h>

/* What find_vqs gets about each queue, and what of it is about the first. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define SHIMOS_QUEUE_PARAMETERS                                                \
	vq_callback_t *calls[], const char *const names[], const bool *contexts
#define SHIMOS_QUEUE_CALL (calls[0])
#define SHIMOS_QUEUE_NAME (names[0])
#else
#define SHIMOS_QUEUE_PARAMETERS struct virtqueue_info infos[]
#define SHIMOS_QUEUE_CALL (infos[0].callback)
#define SHIMOS_QUEUE_NAME (infos[0].name)
#endif

#endif
