/* SPDX-License-Identifier: MIT */
/*
 * Atomic access. Operands are copied in each call, so all of them may be
 * injected. libo2g numbers operations and types in libfabric's order, from 1.
 */
#include <rdma/fi_atomic.h>

#include "prov.h"

#define FLAGS                                                                  \
	(FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                 \
	 FI_DELIVERY_COMPLETE | FI_COMPLETION | FI_INJECT | FI_ATOMIC |        \
	 FI_READ | FI_WRITE)

_Static_assert((int)FI_MIN + 1 == O2G_MIN && (int)FI_BXOR + 1 == O2G_XOR &&
		       (int)FI_ATOMIC_READ + 1 == O2G_FETCH &&
		       (int)FI_ATOMIC_WRITE + 1 == O2G_STORE &&
		       (int)FI_CSWAP + 1 == O2G_SWAP_EQ &&
		       (int)FI_CSWAP_LE + 1 == O2G_SWAP_LE &&
		       (int)FI_CSWAP_GT + 1 == O2G_SWAP_GT &&
		       (int)FI_MSWAP + 1 == O2G_SWAP_BITS,
	       "operations are numbered alike");
_Static_assert((int)FI_INT8 + 1 == O2G_INT8 &&
		       (int)FI_UINT64 + 1 == O2G_UINT64 &&
		       (int)FI_FLOAT + 1 == O2G_FLOAT &&
		       (int)FI_DOUBLE + 1 == O2G_DOUBLE,
	       "types are numbered alike");

enum kind { CHANGE, FETCH, COMPARE };

/* ---- what there is ---- */

static bool kind_has(enum kind kind, enum fi_op op)
{
	switch (kind) {
	case CHANGE:
		return op <= FI_ATOMIC_WRITE && op != FI_ATOMIC_READ;
	case FETCH:
		return op <= FI_ATOMIC_WRITE;
	case COMPARE:
		break;
	}
	return op >= FI_CSWAP && op <= FI_MSWAP;
}

/* Bytes of an element, or 0. */
static size_t element_size(enum kind kind, enum fi_datatype type, enum fi_op op)
{
	if ((unsigned)op > FI_MSWAP || !kind_has(kind, op))
		return 0;
	return o2g_element_size((unsigned)op + 1, (unsigned)type + 1);
}

static int check_valid(enum kind kind, enum fi_datatype type, enum fi_op op,
		       size_t *count)
{
	const size_t size = element_size(kind, type, op);

	if (!count)
		return -FI_EINVAL;
	*count = size ? O2G_CHANGE_MAX / size : 0;
	return size ? 0 : -FI_EOPNOTSUPP;
}

static int change_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
			size_t *count)
{
	(void)ep;
	return check_valid(CHANGE, type, op, count);
}

static int fetch_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
		       size_t *count)
{
	(void)ep;
	return check_valid(FETCH, type, op, count);
}

static int compare_valid(struct fid_ep *ep, enum fi_datatype type,
			 enum fi_op op, size_t *count)
{
	(void)ep;
	return check_valid(COMPARE, type, op, count);
}

int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type,
		      enum fi_op op, struct fi_atomic_attr *attr,
		      uint64_t flags)
{
	const enum kind kind = flags & FI_COMPARE_ATOMIC ? COMPARE
			       : flags & FI_FETCH_ATOMIC ? FETCH
							 : CHANGE;
	size_t count;
	int error;

	(void)domain;
	if (!attr || (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) ||
	    flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return flags & FI_TAGGED ? -FI_EOPNOTSUPP : -FI_EINVAL;
	error = check_valid(kind, type, op, &count);
	if (error)
		return error;
	attr->count = count;
	attr->size = element_size(kind, type, op);
	return 0;
}

/* ---- one access ---- */

struct access {
	enum kind kind;
	struct transfer t;
	enum fi_datatype type;
	enum fi_op op;
	size_t count;
	const void *operand, *compare;
	void *result;
	bool quiet; /* nothing reports it unless it fails */
};

/* Allocates no operation, because nothing waits for its end. */
static int start_quiet(struct endpoint *ep, const struct access *a,
		       const struct o2g_change *change)
{
	struct o2g_remote there = {.key = a->t.key, .place = a->t.place};
	struct o2g_match to;
	int error = prov_aim(ep, &a->t, &to);

	if (error)
		return error;
	there.peer = to.peer;
	error = o2g_atomic(ep->o2g, &there, change, O2G_QUIET,
			   &ep->injected_atomic);
	return error < 0 ? prov_again(ep, error) : 0;
}

static int start_reported(struct endpoint *ep, const struct access *a,
			  const struct o2g_change *change)
{
	struct o2g_remote there = {.key = a->t.key, .place = a->t.place};
	struct operation *op;
	struct o2g_match to;
	int error = prov_begin(ep, &a->t, false, &to, &op);

	if (error)
		return error;
	op->counted = true;
	op->report = !a->quiet && prov_reports(&ep->tx, a->t.flags);
	there.peer = to.peer;
	error = o2g_atomic(ep->o2g, &there, change, 0, op);
	return error < 0 ? prov_fail(ep, op, error) : 0;
}

static ssize_t start_access(struct fid_ep *fid, struct access *a)
{
	struct endpoint *ep = prov_endpoint(fid);
	const struct o2g_change change = {.operation = (unsigned)a->op + 1,
					  .type = (unsigned)a->type + 1,
					  .count = a->count,
					  .operand = a->operand,
					  .compare = a->compare,
					  .result = a->result};

	if (!element_size(a->kind, a->type, a->op))
		return -FI_EOPNOTSUPP;
	if ((a->t.flags & ~FLAGS) || (a->kind != CHANGE && !a->result))
		return -FI_EINVAL;
	a->t.flags |= FI_ATOMIC | (a->kind == CHANGE ? FI_WRITE : FI_READ);
	if (a->quiet && !ep->counter[PROV_WRITES])
		return start_quiet(ep, a, &change);
	return start_reported(ep, a, &change);
}

/* ---- the calls ---- */

static struct access make_access(enum kind kind, fi_addr_t address,
				 uint64_t place, uint64_t key,
				 enum fi_datatype type, enum fi_op op,
				 void *context)
{
	return (struct access){.kind = kind,
			       .type = type,
			       .op = op,
			       .t = {.address = address,
				     .place = place,
				     .key = key,
				     .context = context}};
}

/* Flags of an endpoint's operations. */
static uint64_t own_flags(struct fid_ep *ep)
{
	return prov_send_flags(ep) & FLAGS;
}

/* One piece each, of one length. */
static int set_vectors(struct access *a, const struct fi_ioc *iov, size_t count,
		       const struct fi_ioc *compare, size_t compares,
		       const struct fi_ioc *result, size_t results)
{
	if (count > 1 || (count && !iov) || compares > 1 ||
	    (compares && !compare) || results > 1 || (results && !result))
		return -FI_EINVAL;
	if (count) {
		a->operand = iov->addr;
		a->count = iov->count;
	} else if (results) { /* FI_ATOMIC_READ may do without operands */
		a->count = result->count;
	}
	if ((compares && compare->count != a->count) ||
	    (results && result->count != a->count))
		return -FI_EINVAL;
	a->compare = compares ? compare->addr : NULL;
	a->result = results ? result->addr : NULL;
	return 0;
}

static int set_message(struct access *a, const struct fi_msg_atomic *msg)
{
	if (!msg || msg->rma_iov_count != 1 || !msg->rma_iov ||
	    (msg->iov_count && msg->msg_iov &&
	     msg->rma_iov->count != msg->msg_iov->count))
		return -FI_EINVAL;
	*a = make_access(a->kind, msg->addr, msg->rma_iov->addr,
			 msg->rma_iov->key, msg->datatype, msg->op,
			 msg->context);
	return 0;
}

static ssize_t access_message(struct fid_ep *ep, enum kind kind,
			      const struct fi_msg_atomic *msg,
			      const struct fi_ioc *compare, size_t compares,
			      const struct fi_ioc *result, size_t results,
			      uint64_t flags)
{
	struct access a = {.kind = kind};

	if (set_message(&a, msg) ||
	    set_vectors(&a, msg->msg_iov, msg->iov_count, compare, compares,
			result, results) ||
	    a.count != msg->rma_iov->count)
		return -FI_EINVAL;
	a.t.flags = flags;
	return start_access(ep, &a);
}

static ssize_t change_vector(struct fid_ep *ep, const struct fi_ioc *iov,
			     void **desc, size_t count, fi_addr_t to,
			     uint64_t place, uint64_t key,
			     enum fi_datatype type, enum fi_op op,
			     void *context)
{
	struct access a =
		make_access(CHANGE, to, place, key, type, op, context);

	(void)desc;
	if (set_vectors(&a, iov, count, NULL, 0, NULL, 0))
		return -FI_EINVAL;
	a.t.flags = own_flags(ep);
	return start_access(ep, &a);
}

static ssize_t change_buffer(struct fid_ep *ep, const void *buffer,
			     size_t count, void *desc, fi_addr_t to,
			     uint64_t place, uint64_t key,
			     enum fi_datatype type, enum fi_op op,
			     void *context)
{
	const struct fi_ioc iov = {.addr = (void *)buffer, .count = count};

	return change_vector(ep, &iov, &desc, 1, to, place, key, type, op,
			     context);
}

static ssize_t change_message(struct fid_ep *ep,
			      const struct fi_msg_atomic *msg, uint64_t flags)
{
	return access_message(ep, CHANGE, msg, NULL, 0, NULL, 0, flags);
}

static ssize_t change_inject(struct fid_ep *ep, const void *buffer,
			     size_t count, fi_addr_t to, uint64_t place,
			     uint64_t key, enum fi_datatype type, enum fi_op op)
{
	struct access a = make_access(CHANGE, to, place, key, type, op, NULL);

	a.operand = buffer;
	a.count = count;
	a.quiet = true;
	return start_access(ep, &a);
}

static ssize_t fetch_vector(struct fid_ep *ep, const struct fi_ioc *iov,
			    void **desc, size_t count, struct fi_ioc *result,
			    void **result_desc, size_t results, fi_addr_t to,
			    uint64_t place, uint64_t key, enum fi_datatype type,
			    enum fi_op op, void *context)
{
	struct access a = make_access(FETCH, to, place, key, type, op, context);

	(void)desc, (void)result_desc;
	if (set_vectors(&a, iov, count, NULL, 0, result, results))
		return -FI_EINVAL;
	a.t.flags = own_flags(ep);
	return start_access(ep, &a);
}

static ssize_t fetch_buffer(struct fid_ep *ep, const void *buffer, size_t count,
			    void *desc, void *result, void *result_desc,
			    fi_addr_t to, uint64_t place, uint64_t key,
			    enum fi_datatype type, enum fi_op op, void *context)
{
	const struct fi_ioc iov = {.addr = (void *)buffer, .count = count};
	struct fi_ioc back = {.addr = result, .count = count};

	return fetch_vector(ep, &iov, &desc, 1, &back, &result_desc, 1, to,
			    place, key, type, op, context);
}

static ssize_t fetch_message(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			     struct fi_ioc *result, void **result_desc,
			     size_t results, uint64_t flags)
{
	(void)result_desc;
	return access_message(ep, FETCH, msg, NULL, 0, result, results, flags);
}

static ssize_t
compare_vector(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
	       size_t count, const struct fi_ioc *compare, void **compare_desc,
	       size_t compares, struct fi_ioc *result, void **result_desc,
	       size_t results, fi_addr_t to, uint64_t place, uint64_t key,
	       enum fi_datatype type, enum fi_op op, void *context)
{
	struct access a =
		make_access(COMPARE, to, place, key, type, op, context);

	(void)desc, (void)compare_desc, (void)result_desc;
	if (set_vectors(&a, iov, count, compare, compares, result, results))
		return -FI_EINVAL;
	a.t.flags = own_flags(ep);
	return start_access(ep, &a);
}

static ssize_t compare_buffer(struct fid_ep *ep, const void *buffer,
			      size_t count, void *desc, const void *compare,
			      void *compare_desc, void *result,
			      void *result_desc, fi_addr_t to, uint64_t place,
			      uint64_t key, enum fi_datatype type,
			      enum fi_op op, void *context)
{
	const struct fi_ioc iov = {.addr = (void *)buffer, .count = count};
	const struct fi_ioc with = {.addr = (void *)compare, .count = count};
	struct fi_ioc back = {.addr = result, .count = count};

	return compare_vector(ep, &iov, &desc, 1, &with, &compare_desc, 1,
			      &back, &result_desc, 1, to, place, key, type, op,
			      context);
}

static ssize_t compare_message(struct fid_ep *ep,
			       const struct fi_msg_atomic *msg,
			       const struct fi_ioc *compare,
			       void **compare_desc, size_t compares,
			       struct fi_ioc *result, void **result_desc,
			       size_t results, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	return access_message(ep, COMPARE, msg, compare, compares, result,
			      results, flags);
}

struct fi_ops_atomic prov_atomic_ops = {
	.size = sizeof(prov_atomic_ops),
	.write = change_buffer,
	.writev = change_vector,
	.writemsg = change_message,
	.inject = change_inject,
	.readwrite = fetch_buffer,
	.readwritev = fetch_vector,
	.readwritemsg = fetch_message,
	.compwrite = compare_buffer,
	.compwritev = compare_vector,
	.compwritemsg = compare_message,
	.writevalid = change_valid,
	.readwritevalid = fetch_valid,
	.compwritevalid = compare_valid,
};
