/* SPDX-License-Identifier: MIT */
/*
 * fi_getinfo(): one domain, one kind of endpoint. Hints that fit are echoed,
 * because MPICH relies on the echoed threading model and address vector type;
 * the provider supports all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "prov.h"

#define COMMUNICATION (FI_MSG | FI_TAGGED)
#define DIRECTIONS (FI_SEND | FI_RECV)
#define SECONDARY (FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define RMA_TX (FI_RMA | FI_READ | FI_WRITE)
#define RMA_RX (FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT)
#define RMA (RMA_TX | RMA_RX)
#define ACCESS (RMA | FI_ATOMIC)
#define TX_CAPS (COMMUNICATION | FI_SEND | RMA_TX | FI_ATOMIC)
#define RX_CAPS                                                                \
	(COMMUNICATION | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV |          \
	 FI_SOURCE | RMA_RX | FI_ATOMIC)
#define CAPS (TX_CAPS | RX_CAPS | SECONDARY)
#define TX_FLAGS                                                               \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE)
/* MPICH requires this flag for remote memory access, which it then does by
 * messages. It is accepted but not echoed, because messages do not provide
 * it. */
#define IGNORED_FLAGS FI_DELIVERY_COMPLETE
#define RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
/* Of one endpoint to one peer: each ends before the next begins. */
#define ATOMIC_ORDER                                                           \
	(FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |     \
	 FI_ORDER_ATOMIC_WAW)
#define ORDER (FI_ORDER_SAS | ATOMIC_ORDER)
/* "O2G", with FI_PROV_SPECIFIC, which libfabric 2 does not define. */
#define PROTOCOL ((1U << 31) | 0x4f3247)
#define MESSAGE_MAX ((size_t)1 << 40)
#define CQ_DATA_SIZE 8
#define MANY 1024 /* endpoints, queues and counters: no limit of ours */
/* Sends, and receives: each half of what libo2g has in flight by itself. */
#define DEPTH_MAX ((size_t)1 << 19)

static bool bits_within(uint64_t asked, uint64_t have)
{
	return !(asked & ~have);
}

static bool name_matches(const char *asked, const char *have)
{
	return !asked || !strcmp(asked, have);
}

static bool tx_fits(const struct fi_tx_attr *tx)
{
	return !tx || (bits_within(tx->caps, TX_CAPS | SECONDARY) &&
		       bits_within(tx->op_flags, TX_FLAGS | IGNORED_FLAGS) &&
		       bits_within(tx->msg_order, ORDER) && !tx->comp_order &&
		       tx->inject_size <= PROV_INJECT && tx->iov_limit <= 1 &&
		       tx->rma_iov_limit <= 1 && tx->size <= DEPTH_MAX);
}

static bool rx_fits(const struct fi_rx_attr *rx)
{
	return !rx || (bits_within(rx->caps, RX_CAPS | SECONDARY) &&
		       bits_within(rx->op_flags, RX_FLAGS) &&
		       bits_within(rx->msg_order, ORDER) && !rx->comp_order &&
		       rx->iov_limit <= 1 && rx->size <= DEPTH_MAX);
}

static bool endpoint_fits(const struct fi_ep_attr *ep)
{
	return !ep ||
	       ((ep->type == FI_EP_UNSPEC || ep->type == FI_EP_RDM) &&
		(ep->protocol == FI_PROTO_UNSPEC || ep->protocol == PROTOCOL) &&
		ep->max_msg_size <= MESSAGE_MAX &&
		ep->max_order_raw_size <= O2G_CHANGE_MAX &&
		ep->max_order_war_size <= O2G_CHANGE_MAX &&
		ep->max_order_waw_size <= O2G_CHANGE_MAX &&
		ep->tx_ctx_cnt <= 1 && ep->rx_ctx_cnt <= 1 &&
		!ep->msg_prefix_size && !ep->auth_key_size);
}

static bool domain_fits(const struct fi_domain_attr *domain)
{
	return !domain ||
	       (name_matches(domain->name, PROV_NAME) &&
		domain->cq_data_size <= CQ_DATA_SIZE &&
		domain->av_type <= FI_AV_TABLE && !domain->auth_key_size &&
		bits_within(domain->caps, FI_LOCAL_COMM | FI_REMOTE_COMM));
}

/* The first hint that cannot be met, or 0. */
static const char *find_misfit(const struct fi_info *hints)
{
	if (!bits_within(hints->caps, CAPS))
		return "caps";
	if ((hints->caps & ACCESS) && !prov_accesses())
		return "FI_RMA and FI_ATOMIC, by FI_O2G_RMA=no";
	if (hints->handle)
		return "handle";
	if (!tx_fits(hints->tx_attr))
		return "tx_attr";
	if (!rx_fits(hints->rx_attr))
		return "rx_attr";
	if (!endpoint_fits(hints->ep_attr))
		return "ep_attr";
	if (!domain_fits(hints->domain_attr))
		return "domain_attr";
	if (hints->fabric_attr &&
	    !name_matches(hints->fabric_attr->name, PROV_NAME))
		return "fabric_attr";
	return NULL;
}

/* The requested capabilities, completed: kinds imply directions, and directions
 * imply kinds. */
static uint64_t complete_caps(uint64_t asked)
{
	if (!asked)
		return prov_accesses() ? CAPS : CAPS & ~ACCESS;
	if ((asked & (FI_RMA | FI_ATOMIC)) &&
	    !(asked & (RMA & ~FI_RMA & ~FI_RMA_EVENT)))
		asked |= RMA & ~FI_RMA & ~FI_RMA_EVENT;
	if (!(asked & DIRECTIONS))
		asked |= DIRECTIONS;
	if (!(asked & COMMUNICATION))
		asked |= COMMUNICATION;
	return asked | FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static uint64_t order_of(const struct fi_info *info)
{
	return info->caps & FI_ATOMIC ? ORDER : FI_ORDER_SAS;
}

static void fill_transfers(struct fi_info *info, const struct fi_info *hints)
{
	struct fi_tx_attr *tx = info->tx_attr;
	struct fi_rx_attr *rx = info->rx_attr;

	tx->caps = info->caps & (TX_CAPS | SECONDARY) & ~FI_SOURCE;
	tx->msg_order = order_of(info);
	tx->inject_size = PROV_INJECT;
	tx->size = MANY;
	tx->iov_limit = 1;
	tx->rma_iov_limit = info->caps & (FI_RMA | FI_ATOMIC) ? 1 : 0;
	rx->caps = info->caps & (RX_CAPS | SECONDARY);
	rx->msg_order = order_of(info);
	rx->size = MANY;
	rx->iov_limit = 1;
	if (hints && hints->tx_attr) {
		tx->op_flags = hints->tx_attr->op_flags & ~IGNORED_FLAGS;
		if (hints->tx_attr->size > tx->size)
			tx->size = hints->tx_attr->size;
	}
	if (hints && hints->rx_attr) {
		rx->op_flags = hints->rx_attr->op_flags;
		if (hints->rx_attr->size > rx->size)
			rx->size = hints->rx_attr->size;
	}
}

static void fill_endpoint(struct fi_ep_attr *ep, uint64_t caps)
{
	const size_t ordered = caps & FI_ATOMIC ? O2G_CHANGE_MAX : 0;

	ep->type = FI_EP_RDM;
	ep->protocol = PROTOCOL;
	ep->protocol_version = 1;
	ep->max_msg_size = MESSAGE_MAX;
	ep->mem_tag_format = PROV_TAG_FORMAT;
	ep->max_order_raw_size = ordered;
	ep->max_order_war_size = ordered;
	ep->max_order_waw_size = ordered;
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = 1;
}

static void fill_domain(struct fi_domain_attr *domain,
			const struct fi_domain_attr *asked)
{
	domain->threading = FI_THREAD_SAFE;
	domain->control_progress = FI_PROGRESS_AUTO;
	domain->data_progress = FI_PROGRESS_AUTO;
	domain->resource_mgmt = FI_RM_ENABLED;
	/* Both types are implemented alike. FI_AV_TABLE is reported only if it
	 * was requested, because it promises indexes. */
	domain->av_type = FI_AV_UNSPEC;
	domain->mr_key_size = sizeof(uint64_t);
	domain->cq_data_size = CQ_DATA_SIZE;
	domain->cq_cnt = MANY;
	domain->ep_cnt = MANY;
	domain->tx_ctx_cnt = MANY;
	domain->rx_ctx_cnt = MANY;
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->cntr_cnt = MANY;
	domain->mr_iov_limit = 1;
	domain->mr_cnt = 65536;
	domain->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
	if (!asked)
		return;
	/* Checks modes that are values; modes that are bits are not
	 * required. */
	if (asked->mr_mode == PROV_MR_BASIC ||
	    asked->mr_mode == PROV_MR_SCALABLE)
		domain->mr_mode = asked->mr_mode;
	if (asked->threading)
		domain->threading = asked->threading;
	if (asked->control_progress)
		domain->control_progress = asked->control_progress;
	if (asked->data_progress)
		domain->data_progress = asked->data_progress;
	if (asked->av_type)
		domain->av_type = asked->av_type;
}

/* libfabric frees each member with free(). */
static void *alloc_attribute(size_t size)
{
	return calloc(1, size + PROV_SLACK);
}

static void info_free(struct fi_info *info)
{
	if (!info)
		return;
	if (info->domain_attr)
		free(info->domain_attr->name);
	if (info->fabric_attr)
		free(info->fabric_attr->name);
	free(info->src_addr);
	free(info->dest_addr);
	free(info->tx_attr);
	free(info->rx_attr);
	free(info->ep_attr);
	free(info->domain_attr);
	free(info->fabric_attr);
	free(info);
}

static struct fi_info *info_alloc(void)
{
	struct fi_info *info = alloc_attribute(sizeof(*info));

	if (!info)
		return NULL;
	info->tx_attr = alloc_attribute(sizeof(*info->tx_attr));
	info->rx_attr = alloc_attribute(sizeof(*info->rx_attr));
	info->ep_attr = alloc_attribute(sizeof(*info->ep_attr));
	info->domain_attr = alloc_attribute(sizeof(*info->domain_attr));
	info->fabric_attr = alloc_attribute(sizeof(*info->fabric_attr));
	if (info->domain_attr)
		info->domain_attr->name = strdup(PROV_NAME);
	if (info->fabric_attr)
		info->fabric_attr->name = strdup(PROV_NAME);
	if (info->tx_attr && info->rx_attr && info->ep_attr &&
	    info->domain_attr && info->domain_attr->name && info->fabric_attr &&
	    info->fabric_attr->name)
		return info;
	info_free(info);
	return NULL;
}

/* ---- addresses ---- */

/* The requested address format; without one, libo2g's names. */
struct places {
	struct sockaddr_storage source, destination;
	bool from, to;	  /* which of them there is */
	const void *name; /* or the destination is a name of libo2g's */
	uint32_t format;
};

static int take_hint(const void *address, size_t length, uint32_t format,
		     struct sockaddr_storage *out, bool *there)
{
	if (!address || *there)
		return 0;
	if (length < sizeof(out->ss_family))
		return -FI_ENODATA;
	memset(out, 0, sizeof(*out));
	memcpy(out, address, length < sizeof(*out) ? length : sizeof(*out));
	if ((out->ss_family != AF_INET && out->ss_family != AF_INET6) ||
	    length < prov_address_size(prov_address_format(out)) ||
	    (format != FI_FORMAT_UNSPEC && format != FI_SOCKADDR &&
	     format != prov_address_format(out)))
		return -FI_ENODATA;
	*there = true;
	return 0;
}

/* A name that fi_getname() gave to another process. */
static bool hints_name(const struct fi_info *hints)
{
	struct sockaddr_storage address;
	size_t length;

	return hints && hints->dest_addr &&
	       hints->addr_format == FI_FORMAT_UNSPEC &&
	       hints->dest_addrlen == O2G_NAME_SIZE &&
	       !o2g_name_address(hints->dest_addr, &address, &length);
}

static bool format_known(uint32_t format)
{
	return format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR ||
	       format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

/* Both are of one family. A source that is not given is the local address from
 * which the destination is reached. */
static int complete_places(struct places *places)
{
	if (places->to && !places->from)
		places->from = !prov_address_towards(&places->destination,
						     &places->source);
	if (places->from && places->to &&
	    places->source.ss_family != places->destination.ss_family)
		return -FI_ENODATA;
	if (places->from || places->to)
		places->format = prov_address_format(
			places->from ? &places->source : &places->destination);
	else if (places->format == FI_SOCKADDR)
		places->format = FI_SOCKADDR_IN;
	return 0;
}

static int find_places(const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct places *places)
{
	const uint32_t format = hints ? hints->addr_format : FI_FORMAT_UNSPEC;
	const bool source = flags & FI_SOURCE;
	int error = format_known(format) ? 0 : -FI_ENODATA;

	*places = (struct places){.format = format};
	if (!error && (node || service)) {
		error = prov_address_resolve(node, service, flags, format,
					     source ? &places->source
						    : &places->destination);
		places->from = source;
		places->to = !source;
	}
	if (!error && hints)
		error = take_hint(hints->src_addr, hints->src_addrlen, format,
				  &places->source, &places->from);
	if (!error && !node && !service && !places->from && hints_name(hints))
		places->name = hints->dest_addr;
	else if (!error && hints)
		error = take_hint(hints->dest_addr, hints->dest_addrlen, format,
				  &places->destination, &places->to);
	return error ? error : complete_places(places);
}

static int copy_address(const void *address, uint32_t format, void **out,
			size_t *length)
{
	*length = prov_address_size(format);
	*out = malloc(*length);
	if (!*out)
		return -FI_ENOMEM;
	memcpy(*out, address, *length);
	return 0;
}

static int fill_places(struct fi_info *info, const struct places *places)
{
	int error = 0;

	info->addr_format = places->format;
	if (places->from)
		error = copy_address(&places->source, places->format,
				     &info->src_addr, &info->src_addrlen);
	if (!error && (places->to || places->name))
		error = copy_address(
			places->name ? places->name : &places->destination,
			places->format, &info->dest_addr, &info->dest_addrlen);
	return error;
}

int prov_info_get(uint32_t version, const char *node, const char *service,
		  uint64_t flags, const struct fi_info *hints,
		  struct fi_info **out)
{
	const char *why = hints ? find_misfit(hints) : NULL;
	struct places places;
	struct fi_info *info;

	if (!why && find_places(node, service, flags, hints, &places))
		why = "node, service or address";
	if (why) {
		prov_log(FI_LOG_INFO, FI_LOG_CORE, "hints do not fit: %s", why);
		return -FI_ENODATA;
	}
	info = info_alloc();
	if (!info)
		return -FI_ENOMEM;
	info->caps = complete_caps(hints ? hints->caps : 0);
	fill_transfers(info, hints);
	fill_endpoint(info->ep_attr, info->caps);
	fill_domain(info->domain_attr, hints ? hints->domain_attr : NULL);
	info->fabric_attr->prov_version = FI_VERSION(1, 0);
	info->fabric_attr->api_version = version;
	if (fill_places(info, &places)) {
		info_free(info);
		return -FI_ENOMEM;
	}
	*out = info;
	return 0;
}
