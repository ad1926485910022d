/* SPDX-License-Identifier: MIT */
/* Handles to data: data.c owns them, bytes.c moves what they describe. */
#ifndef GRID_GRIDRPC_DATA_H
#define GRID_GRIDRPC_DATA_H

#include "gridrpc.h"

#define GRIDRPC_MODES GRPC_END_LIST

struct gridrpc_data {
	struct grid_datum datum;
	grpc_data_type_t type;
	grpc_data_mode_t mode;
	u64 bytes; /* by its dimensions; 0: not known */
	char **input, **output;
	void *loaded;  /* the bytes of a file, for the call that is started */
	u32 delivered; /* version of datum that went to the outputs */
	pthread_t writer; /* the thread that gave it to a call as a result */
	const grpc_data_t *home;
	struct gridrpc_data *next;
};

struct gridrpc_type {
	const char *name;
	u8 type, bytes; /* of an element; type 0: any */
};
extern const struct gridrpc_type gridrpc_types[GRPC_CONTAINER_OF_GRPC_DATA];

int gridrpc_data_volatile(const struct gridrpc_data *d);
/* The data whose handle is at this address, or NULL. */
struct gridrpc_data *gridrpc_data_at(const void *at);
/* GRPC_NOT_COMPLETED: a call writes to it. */
grpc_error_t gridrpc_data_check_idle(const struct gridrpc_data *d);

/* Stores the data in the hub, unless it is there. */
grpc_error_t gridrpc_data_keep(struct grid_client *c, struct gridrpc_data *d);
grpc_error_t gridrpc_data_write(struct grid_client *c, struct gridrpc_data *d,
				char *const *uris);
/* Writes the result of a call to the outputs, unless it is there. */
grpc_error_t gridrpc_data_deliver_one(struct grid_client *c,
				      struct gridrpc_data *d);
/* For grid_data_resolve. */
int gridrpc_data_resolve(struct grid_client *c, const struct skep_param *p,
			 struct grid_value *v);

#endif
