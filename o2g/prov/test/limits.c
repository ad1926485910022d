/* SPDX-License-Identifier: MIT */
/* fi_getinfo(): the last value that fits and the first that does not, and what
 * a program that asks for nothing is told. */
#include <string.h>

#include "pair.h"

#define ACCESS (FI_RMA | FI_ATOMIC)
#define ORDER                                                                  \
	(FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |            \
	 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define TX_CAPS                                                                \
	(FI_MSG | FI_TAGGED | FI_SEND | ACCESS | FI_READ | FI_WRITE |          \
	 FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define RX_CAPS                                                                \
	(FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV |     \
	 ACCESS | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT |            \
	 FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define WHERE (FI_LOCAL_COMM | FI_REMOTE_COMM)

static struct fi_info *get_info(struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int result = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);

	fi_freeinfo(hints);
	return result ? NULL : info;
}

enum field {
	TX_CAP,
	TX_FLAG,
	TX_ORDER,
	TX_COMP_ORDER,
	TX_INJECT,
	TX_SIZE,
	TX_IOV,
	TX_RMA_IOV,
	RX_CAP,
	RX_FLAG,
	RX_ORDER,
	RX_COMP_ORDER,
	RX_SIZE,
	RX_IOV,
	EP_TYPE,
	EP_PROTOCOL,
	EP_MESSAGE,
	EP_TX_CTX,
	EP_RX_CTX,
	EP_PREFIX,
	EP_KEY,
	DOMAIN_DATA,
	DOMAIN_AV,
	DOMAIN_KEY,
	DOMAIN_CAP,
};

static void set_tx(struct fi_tx_attr *tx, enum field field, uint64_t value)
{
	switch (field) {
	case TX_CAP:
		tx->caps = value;
		break;
	case TX_FLAG:
		tx->op_flags = value;
		break;
	case TX_ORDER:
		tx->msg_order = value;
		break;
	case TX_COMP_ORDER:
		tx->comp_order = value;
		break;
	case TX_INJECT:
		tx->inject_size = value;
		break;
	case TX_SIZE:
		tx->size = value;
		break;
	case TX_IOV:
		tx->iov_limit = value;
		break;
	default:
		tx->rma_iov_limit = value;
	}
}

static void set_rx(struct fi_rx_attr *rx, enum field field, uint64_t value)
{
	switch (field) {
	case RX_CAP:
		rx->caps = value;
		break;
	case RX_FLAG:
		rx->op_flags = value;
		break;
	case RX_ORDER:
		rx->msg_order = value;
		break;
	case RX_COMP_ORDER:
		rx->comp_order = value;
		break;
	case RX_SIZE:
		rx->size = value;
		break;
	default:
		rx->iov_limit = value;
	}
}

static void set_ep(struct fi_ep_attr *ep, enum field field, uint64_t value)
{
	switch (field) {
	case EP_TYPE:
		ep->type = (enum fi_ep_type)value;
		break;
	case EP_PROTOCOL:
		ep->protocol = (uint32_t)value;
		break;
	case EP_MESSAGE:
		ep->max_msg_size = value;
		break;
	case EP_TX_CTX:
		ep->tx_ctx_cnt = value;
		break;
	case EP_RX_CTX:
		ep->rx_ctx_cnt = value;
		break;
	case EP_PREFIX:
		ep->msg_prefix_size = value;
		break;
	default:
		ep->auth_key_size = value;
	}
}

static void set_domain(struct fi_domain_attr *domain, enum field field,
		       uint64_t value)
{
	switch (field) {
	case DOMAIN_DATA:
		domain->cq_data_size = value;
		break;
	case DOMAIN_AV:
		domain->av_type = (enum fi_av_type)value;
		break;
	case DOMAIN_KEY:
		domain->auth_key_size = value;
		break;
	default:
		domain->caps = value;
	}
}

static bool is_offered(enum field field, uint64_t value)
{
	struct fi_info *hints = hints_alloc(), *info;

	if (field < RX_CAP)
		set_tx(hints->tx_attr, field, value);
	else if (field < EP_TYPE)
		set_rx(hints->rx_attr, field, value);
	else if (field < DOMAIN_DATA)
		set_ep(hints->ep_attr, field, value);
	else
		set_domain(hints->domain_attr, field, value);
	info = get_info(hints);
	fi_freeinfo(info);
	return info;
}

/* Each limit by itself. */
static void test_each_limit(void)
{
	static const struct {
		const char *what;
		enum field field;
		uint64_t good, bad;
	} limit[] = {
		{"sending is no receiving", TX_CAP, TX_CAPS, FI_RECV},
		{"flags of sends", TX_FLAG,
		 FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
			 FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE,
		 FI_MULTI_RECV},
		{"order of sends", TX_ORDER, FI_ORDER_SAS, FI_ORDER_RAR},
		{"order of their ends", TX_COMP_ORDER, 0, FI_ORDER_STRICT},
		{"what is injected", TX_INJECT, 16384, 16385},
		{"sends in flight", TX_SIZE, 1 << 19, (1 << 19) + 1},
		{"pieces of a send", TX_IOV, 1, 2},
		{"pieces at a peer", TX_RMA_IOV, 1, 2},
		{"receiving is no sending", RX_CAP, RX_CAPS, FI_SEND},
		{"flags of receives", RX_FLAG, FI_COMPLETION | FI_MULTI_RECV,
		 FI_INJECT},
		{"order of receives", RX_ORDER, FI_ORDER_SAS, FI_ORDER_RAR},
		{"order of their ends", RX_COMP_ORDER, 0, FI_ORDER_STRICT},
		{"receives in flight", RX_SIZE, 1 << 19, (1 << 19) + 1},
		{"pieces of a receive", RX_IOV, 1, 2},
		{"kind", EP_TYPE, FI_EP_RDM, FI_EP_DGRAM},
		{"protocol", EP_PROTOCOL, FI_PROV_SPECIFIC | 0x4f3247,
		 FI_PROTO_RXM},
		{"a message", EP_MESSAGE, 1ull << 40, (1ull << 40) + 1},
		{"transmit contexts", EP_TX_CTX, 1, 2},
		{"receive contexts", EP_RX_CTX, 1, 2},
		{"a prefix", EP_PREFIX, 0, 1},
		{"a key of the endpoint", EP_KEY, 0, 1},
		{"data beside messages", DOMAIN_DATA, 8, 9},
		{"vectors", DOMAIN_AV, FI_AV_TABLE, FI_AV_TABLE + 1},
		{"a key of the domain", DOMAIN_KEY, 0, 1},
		{"where peers are", DOMAIN_CAP, WHERE, FI_SHARED_AV},
	};

	for (size_t i = 0; i < sizeof(limit) / sizeof(*limit); i++) {
		check_condition(is_offered(limit[i].field, limit[i].good),
				"fits", 0, limit[i].what);
		check_condition(!is_offered(limit[i].field, limit[i].bad),
				"is refused", 0, limit[i].what);
	}
}

static void test_names(void)
{
	struct fi_info *hints = hints_alloc(), *info;
	struct fid nothing = {0};

	hints->fabric_attr->name = strdup("o2g");
	hints->domain_attr->name = strdup("o2g");
	info = get_info(hints);
	CHECK(info);
	fi_freeinfo(info);
	hints = hints_alloc();
	hints->fabric_attr->name = strdup("10.0.0.0/8");
	CHECK(!get_info(hints));
	hints = hints_alloc();
	hints->handle = &nothing; /* of a connection request */
	CHECK(!get_info(hints));
}

/* Accesses of one endpoint to another stay in their order up to this size. */
static bool has_ordered(const struct fi_ep_attr *ep, size_t size)
{
	return ep->max_order_raw_size == size &&
	       ep->max_order_war_size == size && ep->max_order_waw_size == size;
}

/* What a program asks for, made whole. */
static void test_capabilities(void)
{
	static const struct {
		uint64_t asked, granted;
	} caps[] = {
		{0, TX_CAPS | RX_CAPS},
		{FI_TAGGED, FI_TAGGED | FI_SEND | FI_RECV},
		{FI_TAGGED | FI_SEND, FI_TAGGED | FI_SEND},
		{FI_MSG | FI_RECV | FI_SOURCE, FI_MSG | FI_RECV | FI_SOURCE},
		{FI_SEND, FI_MSG | FI_TAGGED | FI_SEND},
		{FI_MSG | FI_RMA, FI_MSG | FI_SEND | FI_RECV | FI_RMA |
					  FI_READ | FI_WRITE | FI_REMOTE_READ |
					  FI_REMOTE_WRITE},
		{FI_MSG | FI_RMA | FI_READ,
		 FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ},
		{FI_MSG | FI_RMA | FI_RMA_EVENT,
		 FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_WRITE |
			 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT},
	};

	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++) {
		struct fi_info *hints = hints_alloc(), *info;
		uint64_t granted = caps[i].granted | WHERE;
		bool atomic = granted & FI_ATOMIC;

		hints->caps = caps[i].asked;
		info = get_info(hints);
		CHECK(info && info->tx_attr->msg_order ==
				      (atomic ? ORDER : FI_ORDER_SAS));
		CHECK(info && info->rx_attr->msg_order ==
				      (atomic ? ORDER : FI_ORDER_SAS));
		CHECK(info && has_ordered(info->ep_attr, atomic ? 4096 : 0));
		CHECK(info && info->caps == granted);
		CHECK(info && info->tx_attr->caps ==
				      (granted & (TX_CAPS & ~FI_SOURCE)));
		CHECK(info && info->rx_attr->caps == (granted & RX_CAPS));
		CHECK(info && info->tx_attr->rma_iov_limit ==
				      (granted & FI_RMA ? 1 : 0));
		fi_freeinfo(info);
	}
}

static void check_transfers(const struct fi_info *info)
{
	const struct fi_tx_attr *tx = info->tx_attr;
	const struct fi_rx_attr *rx = info->rx_attr;
	const struct fi_ep_attr *ep = info->ep_attr;

	CHECK(tx->msg_order == ORDER && !tx->comp_order);
	CHECK(tx->inject_size == 16384 && tx->size == 1024);
	CHECK(tx->iov_limit == 1 && tx->rma_iov_limit == 1 && !tx->op_flags);
	CHECK(rx->msg_order == ORDER && !rx->comp_order);
	CHECK(rx->size == 1024 && rx->iov_limit == 1 && !rx->op_flags);
	CHECK(ep->type == FI_EP_RDM && ep->protocol_version == 1);
	CHECK(ep->protocol == (FI_PROV_SPECIFIC | 0x4f3247));
	CHECK(ep->max_msg_size == 1ull << 40 && !ep->msg_prefix_size);
	CHECK(ep->tx_ctx_cnt == 1 && ep->rx_ctx_cnt == 1);
}

static void check_domain(const struct fi_domain_attr *domain)
{
	CHECK(domain->threading == FI_THREAD_SAFE);
	CHECK(domain->control_progress == FI_PROGRESS_AUTO);
	CHECK(domain->data_progress == FI_PROGRESS_AUTO);
	CHECK(domain->resource_mgmt == FI_RM_ENABLED);
	CHECK(domain->av_type == FI_AV_UNSPEC && !domain->mr_mode);
	CHECK(domain->mr_key_size == 8 && domain->cq_data_size == 8);
	CHECK(domain->cq_cnt == 1024 && domain->ep_cnt == 1024);
	CHECK(domain->tx_ctx_cnt == 1024 && domain->rx_ctx_cnt == 1024);
	CHECK(domain->max_ep_tx_ctx == 1 && domain->max_ep_rx_ctx == 1);
	CHECK(domain->cntr_cnt == 1024 && domain->mr_iov_limit == 1);
	CHECK(domain->mr_cnt == 65536 && domain->caps == WHERE);
}

/* A program that asks for nothing. */
static void test_defaults(void)
{
	struct fi_info *info = get_info(hints_alloc());

	CHECK(info);
	if (!info)
		return;
	check_transfers(info);
	check_domain(info->domain_attr);
	CHECK(info->fabric_attr->prov_version == FI_VERSION(1, 0));
	CHECK(info->fabric_attr->api_version == FI_VERSION(1, 17));
	fi_freeinfo(info);
}

/* What a program chooses among equals is what it is told. */
static void test_choices(void)
{
	struct fi_info *hints = hints_alloc(), *info;

	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->tx_attr->size = 1025;
	hints->rx_attr->size = 1 << 19;
	hints->rx_attr->op_flags = FI_COMPLETION;
	hints->tx_attr->op_flags = FI_INJECT_COMPLETE;
	info = get_info(hints);
	CHECK(info &&
	      info->domain_attr->control_progress == FI_PROGRESS_MANUAL);
	CHECK(info && info->domain_attr->data_progress == FI_PROGRESS_AUTO);
	CHECK(info && info->tx_attr->size == 1025);
	CHECK(info && info->rx_attr->size == 1 << 19);
	CHECK(info && info->rx_attr->op_flags == FI_COMPLETION);
	CHECK(info && info->tx_attr->op_flags == FI_INJECT_COMPLETE);
	fi_freeinfo(info);
}

/* The variables that fi_info -e lists, each with a word of help. */
static void test_parameters(void)
{
	static const char *const want[] = {
		"IFACE",      "PORTS",	"ENGINE", "CREDIT",    "UNEXPECTED",
		"OPERATIONS", "NAP_US", "RMA",	  "LINGER_MS",
	};
	struct fi_param *list = NULL;
	int count = 0, found = 0;

	CHECK(!fi_getparams(&list, &count));
	for (int i = 0; i < count; i++)
		for (size_t j = 0; j < sizeof(want) / sizeof(*want); j++)
			found += !strncmp(list[i].name, "FI_O2G_", 7) &&
				 !strcmp(list[i].name + 7, want[j]) &&
				 strlen(list[i].help_string) > 10;
	CHECK(found == (int)(sizeof(want) / sizeof(*want)));
	fi_freeparams(list);
}

void test_limits(void)
{
	test_each_limit();
	test_names();
	test_capabilities();
	test_defaults();
	test_choices();
	test_parameters();
}
