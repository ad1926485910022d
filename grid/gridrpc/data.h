/* SPDX-License-Identifier: MIT */
/*
 * Handles to data: data.c owns them, bytes.c moves what they describe,
 * container.c joins them, save.c writes and reads their descriptions.
 */
#ifndef GRID_GRIDRPC_DATA_H
#define GRID_GRIDRPC_DATA_H

#include "gridrpc.h"

#define GRIDRPC_MODES GRPC_END_LIST
#define GRIDRPC_PARTS 65536 /* of a container */
#define GRIDRPC_DEPTH 8	    /* of containers in containers */

struct gridrpc_part {
	u32 rank;
	struct gridrpc_data *data;
};

struct gridrpc_data {
	struct grid_datum datum;
	u64 number;  /* no other data of the program has it */
	u32 holders; /* handles, containers, and functions that make it */
	grpc_data_type_t type;
	grpc_data_mode_t mode;
	u64 bytes; /* by its dimensions; 0: not known */
	char **input, **output;
	void *loaded;  /* the bytes of a file, for the call that is started */
	u32 delivered; /* version of datum that went to the outputs */
	pthread_t writer; /* the thread that gave it to a call as a result */
	/* Of a container: by rank, from 0 to room - 1. */
	struct gridrpc_part *part;
	u32 parts, room;
	struct grid_datum **view; /* what a call that is started is given */
	struct gridrpc_data *next;
};

struct gridrpc_type {
	const char *name;
	u8 type, bytes; /* of an element; type 0: any */
};
extern const struct gridrpc_type gridrpc_types[GRPC_CONTAINER_OF_GRPC_DATA + 1];
extern const char *const gridrpc_mode_names[GRIDRPC_MODES];

/* NULL with the error set; the second sets none. */
struct gridrpc_data *gridrpc_data_find(const grpc_data_t *handle);
struct gridrpc_data *gridrpc_data_numbered(u64 number);
/* With one holder, the caller; NULL with the error set. */
struct gridrpc_data *gridrpc_data_new(void);
void gridrpc_data_hold(struct gridrpc_data *d);
/* The last holder frees it, and with `c` what the hub stores. */
void gridrpc_data_release(struct grid_client *c, struct gridrpc_data *d);
/* Makes *home a handle of the data, which then is a holder. */
grpc_error_t gridrpc_data_bind(grpc_data_t *home, struct gridrpc_data *d);
/* A copy of a list of URIs that can be used; NULL is an empty list. */
grpc_error_t gridrpc_data_copy_uris(char ***to, const char **from);

/* What is known of its size. */
u64 gridrpc_data_bytes(const struct gridrpc_data *d);
/* Holds the part; the one of this rank before is released. */
grpc_error_t gridrpc_container_put(struct gridrpc_data *d, u32 rank,
				   struct gridrpc_data *part);

int gridrpc_data_volatile(const struct gridrpc_data *d);
/* *d: the data whose handle is at this address, or NULL. -1, with the error
 * set: it is the handle of data that is gone. */
int gridrpc_data_at(const void *at, struct gridrpc_data **d);
/* GRPC_NOT_COMPLETED: a call writes to it, or to a part of it. */
grpc_error_t gridrpc_data_check_idle(const struct gridrpc_data *d);

/* The bytes of the first input that there is; *at stays valid until the next
 * time. */
grpc_error_t gridrpc_data_load(struct gridrpc_data *d, void **at, u64 *len);
/* Stores the data in the hub, unless it is there. */
grpc_error_t gridrpc_data_keep(struct grid_client *c, struct gridrpc_data *d);
grpc_error_t gridrpc_data_write(struct grid_client *c, struct gridrpc_data *d,
				char *const *uris);
/* Writes the result of a call to the outputs, unless it is there. */
grpc_error_t gridrpc_data_deliver_one(struct grid_client *c,
				      struct gridrpc_data *d);
/* OMRPC_E_ARGUMENTS: the data is of another type than the parameter. */
int gridrpc_data_check_type(const struct gridrpc_data *d,
			    const struct skep_param *p);
/* What gridrpc_data_resolve does for containers. */
int gridrpc_container_resolve(struct grid_client *c, struct gridrpc_data *d,
			      const struct skep_param *p, struct grid_value *v);
/* For grid_data_resolve. */
int gridrpc_data_resolve(struct grid_client *c, const struct skep_param *p,
			 struct grid_value *v);

#endif
