/* SPDX-License-Identifier: MIT */
/*
 * The libfabric provider "o2g": reliable datagram endpoints with tagged and
 * untagged messages, each endpoint one of libo2g. A fi_addr_t is an index into
 * its address vector.
 *
 * Locks, outer before inner: domain.watch_lock, vector.lock, source.lock,
 * endpoint.polling, domain.lock or endpoint.lock, queue.lock. Which counters
 * get which endpoints of a domain, the names of one vector, the endpoints of
 * one source, the order of one endpoint's events, the regions and endpoints of
 * a domain, the operations and names of an endpoint, and the completions of
 * one queue are guarded by them.
 *
 * One binary serves libfabric 1.17 and later, whose structs are longer: structs
 * that libfabric or a program sees are allocated with spare space.
 */
#ifndef O2G_PROV_PROV_H
#define O2G_PROV_PROV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <o2g/lib/o2g.h>

#include "lock.h"

#define PROV_NAME "o2g"
#define PROV_BUCKETS 256
#define PROV_SLACK 512 /* bytes by which a struct may have grown */
#define PROV_INJECT 16384
/* FI_MR_BASIC and FI_MR_SCALABLE, whose names libfabric 2 warns of. */
#define PROV_MR_BASIC (1 << 0)
#define PROV_MR_SCALABLE (1 << 1)
#define PROV_TAG_FORMAT 0xaaaaaaaaaaaaaaaaull /* all 64 bits match */
#define PROV_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A fid at the start of an object, with room for members of later versions. */
#define PROV_FID(type)                                                         \
	union {                                                                \
		struct fid_##type fid;                                         \
		char fid_room[sizeof(struct fid_##type) + PROV_SLACK];         \
	}

/* Functions for unsupported calls, for any table of functions. */
long prov_refused(void);
#define PROV_REFUSED ((void *)prov_refused)
int prov_bind_refused(struct fid *fid, struct fid *other, uint64_t flags);
int prov_control_refused(struct fid *fid, int command, void *arg);
extern struct fi_ops_atomic prov_atomic_refused;
extern struct fi_ops_collective prov_collective_refused;

/* provider.c: the entry point, and the functions of the libfabric that loaded
 * it. */
void prov_log(enum fi_log_level level, enum fi_log_subsys subsys,
	      const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *prov_strerror(int error);
struct prov_tunables {
	char *interface, *ports, *engine;
	uint64_t credit, unexpected, operations, nap_us; /* 0: not set */
	uint64_t linger_ms;
	char *rma; /* "yes", "no" or not set */
};
/* Returns 0, or -FI_EINVAL if a parameter is invalid, after naming it on
 * standard error. */
int prov_tunables_read(struct prov_tunables *tunables);

/* Whether endpoints offer remote memory access: it must be the same in all
 * processes of a job. */
bool prov_accesses(void);

/* Differs in each child of fork(). */
extern unsigned prov_forks;

/* info.c */
int prov_info_get(uint32_t version, const char *node, const char *service,
		  uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);

/* address.c: converts between libfabric's address formats and libo2g's names.
 */
#define PROV_ADDRESS_TEXT 128
size_t prov_address_size(uint32_t format);
int prov_address_to_name(uint32_t format, const void *address,
			 uint8_t name[O2G_NAME_SIZE]);
/* `length` is the size of `out`, and becomes the size of the address. */
int prov_address_of_name(uint32_t format, const uint8_t name[O2G_NAME_SIZE],
			 void *out, size_t *length);
void prov_address_text(uint32_t format, const void *address,
		       char out[PROV_ADDRESS_TEXT]);
/* Returns 0, or -FI_ENODATA if the name is unknown. */
int prov_address_resolve(const char *node, const char *service, uint64_t flags,
			 uint32_t format, struct sockaddr_storage *out);
uint32_t prov_address_format(const struct sockaddr_storage *address);
/* Finds the local address from which `there` is reached. */
int prov_address_towards(const struct sockaddr_storage *there,
			 struct sockaddr_storage *out);
struct prov_listen { /* for libo2g's options */
	bool any;    /* every address */
	char host[64];
	char ports[8]; /* empty: any */
};
int prov_address_listen(uint32_t format, const void *address,
			struct prov_listen *out);

struct fabric {
	PROV_FID(fabric);
	uint32_t version; /* of the interface that the program was built for */
	atomic_int users;
};
int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out,
		     void *context);

struct domain {
	PROV_FID(domain);
	struct fabric *fabric;
	atomic_int users;
	bool serial;	 /* the program serializes its threads */
	unsigned forks;	 /* prov_forks when it was opened */
	uint32_t format; /* of addresses */
	bool by_address; /* peers use virtual addresses */
	bool own_keys;	 /* the provider chooses keys */
	pthread_mutex_t watch_lock;
	struct counter *watchers;   /* bound to regions, now or before */
	pthread_mutex_t lock;	    /* of what follows */
	struct endpoint *endpoints; /* changed with both locks */
	struct region *regions[PROV_BUCKETS]; /* by key */
	uint64_t next_key;
	bool tells; /* an endpoint counts the accesses of peers */
};
/* Registers the domain's present and future regions with the endpoint. */
int prov_domain_join(struct domain *domain, struct endpoint *ep);
void prov_domain_leave(struct domain *domain, struct endpoint *ep);
/* Makes the domain's present and future endpoints sources of a region's
 * counter: each of them serves the region, so waiting for the counter must make
 * progress on all. */
int prov_domain_watch(struct domain *domain, struct counter *counter);
void prov_domain_unwatch(struct domain *domain, struct counter *counter);
/* In a child of fork() the parent's objects do not work, and threads that the
 * child does not have may hold their locks. So no call locks or waits there. */
static inline bool prov_inherited(const struct domain *domain)
{
	return domain->forks != prov_forks;
}
int prov_domain_open(struct fid_fabric *fabric, struct fi_info *info,
		     struct fid_domain **out, void *context);
extern struct fi_ops_mr prov_mr_ops;

struct region {
	PROV_FID(mr);
	struct domain *domain;
	struct region *next; /* of its bucket */
	void *start;
	size_t length;
	unsigned rights;	 /* of struct o2g_memory */
	struct counter *counter; /* of the accesses of peers */
	uint64_t counted;	 /* FI_REMOTE_READ, FI_REMOTE_WRITE */
};
/* Registers all regions of the domain with an endpoint: 0, or an error, and
 * then none is registered. */
int prov_regions_show(struct domain *domain, struct endpoint *ep);
/* Counts an access of a peer that has succeeded. */
void prov_region_count(struct domain *domain, uint64_t key, uint64_t what);

struct events { /* an event queue; only the program writes to it */
	PROV_FID(eq);
	struct fabric *fabric;
	atomic_int users;
};
int prov_events_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		     struct fid_eq **out, void *context);

/* The endpoints whose events a queue or a counter receives, and what a thread
 * that waits for these events sleeps on. */
struct source {
	const struct domain *domain;
	struct lock lock;
	struct endpoint **endpoint;
	int count;
	bool waits;	      /* epoll and event are open */
	struct fid_wait *set; /* NULL, or a wait set that sleeps for it too */
	struct fid *member;   /* the queue or counter, in that set */
	int epoll;	      /* readable: check the endpoints again */
	int event;	      /* readable: another thread processed events */
	atomic_bool armed;    /* the next event must be written to `event` */
	atomic_bool called;   /* fi_cq_signal() */
};
int prov_source_init(struct source *source, const struct domain *domain,
		     enum fi_wait_obj wait);
/* Adds `member`, whose source this is, to a wait set. */
int prov_source_enlist(struct source *source, struct fid_wait *set,
		       struct fid *member);
void prov_source_free(struct source *source);
int prov_source_add(struct source *source, struct endpoint *ep);
void prov_source_remove(struct source *source, struct endpoint *ep);
/* Makes progress and reads events. Returns a negative errno if an endpoint is
 * dead. With `nap` the caller has nothing else to do and may sleep briefly. */
int prov_source_progress(struct source *source, bool nap);
/* Wakes sleepers after an event. */
void prov_source_fire(struct source *source);
/* Records events from now on. The caller checks once more before it sleeps. */
void prov_source_arm(struct source *source);
/* Sleeps until there may be an event. Returns 0; -FI_EAGAIN after the deadline
 * or prov_source_call(); or -FI_EINTR. */
int prov_source_sleep(struct source *source, int64_t deadline);
void prov_source_call(struct source *source);
/* The same for any descriptor. */
int prov_sleep_on(int fd, int64_t deadline);
int prov_source_control(struct source *source, int command, void *arg);
/* Milliseconds of a monotonic clock; -1 for a timeout below 0. */
int64_t prov_deadline(int timeout_ms);

struct completion {
	struct fi_cq_tagged_entry entry;
	fi_addr_t from;
	size_t cut; /* bytes that did not fit */
	int error;  /* 0 or FI_E* */
};

/* Endpoints whose queue is half full read no more events; the other half is for
 * threads that have already read some. */
struct queue {
	PROV_FID(cq);
	struct domain *domain;
	struct source source;
	atomic_int users;
	enum fi_cq_format format;
	struct lock lock;
	struct completion *ring;
	size_t room; /* of the ring, a power of two */
	size_t head;
	atomic_size_t count; /* read without the lock to see if empty */
};
int prov_queue_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		    struct fid_cq **out, void *context);
/* Returns false if the queue is full. */
bool prov_queue_put(struct queue *queue, const struct completion *completion);
size_t prov_queue_count(struct queue *queue);
bool prov_queue_half_full(struct queue *queue);
bool prov_queue_try_sleep(struct queue *queue);

struct counter {
	PROV_FID(cntr);
	struct domain *domain;
	struct source source;
	atomic_int users;
	atomic_uint_least64_t value, errors;
	/* value + errors + offset is the total, which grows with each change */
	atomic_uint_least64_t offset;
	atomic_uint_least64_t seen; /* the total that was last read */
	bool watches;		    /* is in domain.watchers */
	struct counter *next_watcher;
};
int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		      struct fid_cntr **out, void *context);
void prov_counter_count(struct counter *counter, bool error);
/* A number that grows with each change of the counter. */
int prov_counter_total(struct counter *counter, uint64_t *total);
/* Returns false also if the counter has changed since the program read it. */
bool prov_counter_try_sleep(struct counter *counter);

/* fabric.c: whether the program may sleep on the descriptor of this object. */
bool prov_try_sleep(struct fid *fid);

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
		   struct fid_poll **out);
int prov_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
		   struct fid_wait **out);
int prov_wait_join(struct fid_wait *set, struct fid *object, int epoll);
void prov_wait_leave(struct fid_wait *set, struct fid *object, int epoll);
bool prov_wait_try_sleep(struct fid_wait *set);

struct vector { /* of addresses */
	PROV_FID(av);
	struct domain *domain;
	atomic_int users;
	pthread_mutex_t lock;
	uint8_t (*name)[O2G_NAME_SIZE];
	bool *used;
	size_t count, room;
	struct endpoint *endpoints;
};
int prov_vector_open(struct fid_domain *domain, struct fi_av_attr *attr,
		     struct fid_av **out, void *context);
int prov_vector_join(struct vector *vector, struct endpoint *ep);
void prov_vector_leave(struct vector *vector, struct endpoint *ep);

/* An operation in flight; its address is the cookie of its event. */
struct operation {
	void *context;
	uint64_t flags; /* of its completion */
	bool busy;
	bool receive; /* may be cancelled */
	bool claim;   /* a peek that reserves the message that it finds */
	bool report;  /* even on success */
	bool counted;
	void *copy; /* of the sent data, if libo2g does not copy it */
	struct operation *next;
};
struct operations { /* of one endpoint */
	struct operation **chunk;
	size_t chunks;
	struct operation *spare;
	atomic_size_t busy;
};
struct operation *prov_operation_take(struct operations *operations);
void prov_operation_give(struct operations *operations, struct operation *op);
/* Finds the oldest receive with this context; NULL if there is none. */
struct operation *prov_operation_find(struct operations *operations,
				      void *context);
void prov_operations_free(struct operations *operations);

/* The kinds of operations that a counter may count. Each is a flag of
 * fi_ep_bind(). */
enum {
	PROV_SENDS,
	PROV_RECVS,
	PROV_READS,
	PROV_WRITES,
	PROV_READ_OF,
	PROV_WRITTEN_TO,
	PROV_COUNTS
};

/* What is bound for one direction, sending or receiving. */
struct side {
	struct queue *queue;
	bool selective;	   /* only operations with FI_COMPLETION report */
	uint64_t op_flags; /* of calls without flags */
};

struct endpoint {
	PROV_FID(ep);
	struct domain *domain;
	struct o2g *o2g;
	struct vector *vector;
	struct endpoint *next;	  /* of the vector */
	struct endpoint *sibling; /* of the domain */
	struct counter *counter[PROV_COUNTS];
	struct events *events;
	struct side tx, rx;
	uint64_t caps;
	size_t min_left; /* FI_OPT_MIN_MULTI_RECV */
	size_t copy_max;
	int linger_ms;
	bool naps; /* the environment allows an empty poll to nap */
	atomic_bool enabled;
	struct lock polling;
	struct lock lock;
	struct operations operations;
	atomic_size_t standing; /* number of multi-receives in flight */
	/* Shared by all injected operations of a kind, which report errors
	 * only. */
	struct operation injected, injected_tagged, injected_write,
		injected_atomic;
	uint32_t *peer; /* libo2g's number, by fi_addr_t */
	size_t peers;
	fi_addr_t *address; /* fi_addr_t, by libo2g's number */
	size_t addresses;
};
int prov_endpoint_open(struct fid_domain *domain, struct fi_info *info,
		       struct fid_ep **out, void *context);
/* Tells libo2g the name of the address `index`, or removes it. */
int prov_endpoint_name(struct endpoint *ep, size_t index,
		       const uint8_t name[O2G_NAME_SIZE]);
void prov_endpoint_forget(struct endpoint *ep, size_t index);
/* Whether an empty poll of this endpoint's queue may nap: operations are in
 * flight. */
bool prov_endpoint_awaited(struct endpoint *ep);
extern struct fi_ops_ep prov_endpoint_ops;
extern struct fi_ops_cm prov_name_ops;

/* transfer.c: what msg.c and tagged.c have in common. */
struct transfer {
	const void *buffer;
	size_t length;
	fi_addr_t address;
	uint64_t tag, ignore, data;
	uint64_t key, place; /* of the peer's memory */
	void *context;
	uint64_t flags; /* FI_MSG or FI_TAGGED, and those of the call */
};
ssize_t prov_send(struct fid_ep *fid, const struct transfer *transfer);
ssize_t prov_inject(struct fid_ep *fid, const struct transfer *transfer);
ssize_t prov_receive(struct fid_ep *fid, const struct transfer *transfer);
/* Parts of these functions, which access.c and atomic.c also use. */
bool prov_reports(const struct side *side, uint64_t flags);
/* Sets the destination for a call that allocates no operation. */
int prov_aim(struct endpoint *ep, const struct transfer *transfer,
	     struct o2g_match *to);
/* Allocates an operation and finds its peer. */
int prov_begin(struct endpoint *ep, const struct transfer *transfer, bool any,
	       struct o2g_match *to, struct operation **out);
/* Frees an operation that never started, and returns `error`. */
int prov_fail(struct endpoint *ep, struct operation *op, int error);
int prov_again(struct endpoint *ep, int error);
/* Copies the data, so that the program may reuse its buffer at once. */
int prov_copy(struct endpoint *ep, const struct transfer *transfer,
	      struct operation *op, const void **buffer, unsigned *options);
/* Accepts at most one piece. Returns 0 or -FI_EINVAL. */
int prov_transfer_iov(struct transfer *transfer, const struct iovec *iov,
		      size_t count);
uint64_t prov_send_flags(struct fid_ep *fid);
uint64_t prov_receive_flags(struct fid_ep *fid);
extern struct fi_ops_msg prov_msg_ops;
extern struct fi_ops_tagged prov_tagged_ops;
extern struct fi_ops_rma prov_rma_ops;
extern struct fi_ops_atomic prov_atomic_ops;
int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type,
		      enum fi_op op, struct fi_atomic_attr *attr,
		      uint64_t flags);

/* event.c: reads a batch of the endpoint's events. Returns their number, 0 also
 * if another thread is reading them, or a negative errno. */
int prov_endpoint_progress(struct endpoint *ep);

static inline struct endpoint *prov_endpoint(struct fid_ep *fid)
{
	return (struct endpoint *)fid;
}

#endif
