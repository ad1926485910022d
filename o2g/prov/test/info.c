/* SPDX-License-Identifier: MIT */
/* fi_getinfo(): what is offered, what is echoed, what is refused. */
#include <string.h>

#include "pair.h"

static int get_info(struct fi_info *hints, struct fi_info **info)
{
	int result = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);

	fi_freeinfo(hints);
	return result;
}

static void test_offer(void)
{
	struct fi_info *info = NULL;

	CHECK(!get_info(hints_alloc(), &info));
	if (!info)
		return;
	CHECK(!info->next);
	CHECK(!strcmp(info->fabric_attr->prov_name, "o2g"));
	CHECK(!strcmp(info->fabric_attr->name, "o2g"));
	CHECK(!strcmp(info->domain_attr->name, "o2g"));
	CHECK(info->ep_attr->type == FI_EP_RDM);
	CHECK(info->caps & FI_MSG && info->caps & FI_TAGGED);
	CHECK(info->caps & FI_DIRECTED_RECV && info->caps & FI_MULTI_RECV);
	CHECK(info->caps & FI_SOURCE);
	CHECK(info->caps & FI_RMA && info->caps & FI_ATOMIC);
	CHECK(info->tx_attr->iov_limit == 1);
	CHECK(info->tx_attr->rma_iov_limit == 1);
	CHECK(!info->mode && !info->domain_attr->mr_mode);
	CHECK(info->tx_attr->inject_size == 16384);
	CHECK(info->tx_attr->msg_order & FI_ORDER_SAS);
	CHECK(info->domain_attr->resource_mgmt == FI_RM_ENABLED);
	CHECK(info->domain_attr->av_type == FI_AV_UNSPEC);
	CHECK(info->domain_attr->cq_data_size == 8);
	CHECK(info->ep_attr->mem_tag_format == 0xaaaaaaaaaaaaaaaaull);
	fi_freeinfo(info);
}

static void test_echo(void)
{
	for (int threading = FI_THREAD_SAFE; threading <= FI_THREAD_ENDPOINT;
	     threading++) {
		struct fi_info *hints = hints_alloc(), *info = NULL;

		hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
		hints->domain_attr->threading = threading;
		hints->domain_attr->av_type =
			threading & 1 ? FI_AV_MAP : FI_AV_TABLE;
		hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
		CHECK(!get_info(hints, &info));
		if (!info)
			return;
		CHECK((int)info->domain_attr->threading == threading);
		CHECK(info->domain_attr->av_type ==
		      (threading & 1 ? FI_AV_MAP : FI_AV_TABLE));
		CHECK(info->domain_attr->data_progress == FI_PROGRESS_MANUAL);
		CHECK(info->caps & FI_TAGGED && !(info->caps & FI_MSG));
		CHECK(info->caps & FI_SEND && info->caps & FI_RECV);
		fi_freeinfo(info);
	}
}

static void expect_refused(struct fi_info *hints, const char *what)
{
	struct fi_info *info = NULL;

	check_condition(get_info(hints, &info) == -FI_ENODATA && !info,
			"refused", 0, what);
}

static struct fi_info *with_caps(uint64_t caps)
{
	struct fi_info *hints = hints_alloc();

	hints->caps = caps;
	return hints;
}

static void test_refusals(void)
{
	struct fi_info *hints;

	expect_refused(with_caps(FI_MSG | FI_MULTICAST), "multicast");
	hints = hints_alloc();
	hints->ep_attr->type = FI_EP_MSG;
	expect_refused(hints, "connected endpoints");
	hints = hints_alloc();
	hints->ep_attr->type = FI_EP_DGRAM;
	expect_refused(hints, "datagrams");
	hints = hints_alloc();
	hints->addr_format = FI_ADDR_STR;
	expect_refused(hints, "addresses as text");
	hints = hints_alloc();
	hints->tx_attr->iov_limit = 2;
	expect_refused(hints, "two pieces");
	hints = hints_alloc();
	hints->tx_attr->inject_size = 1 << 20;
	expect_refused(hints, "a long inject");
	hints = hints_alloc();
	hints->rx_attr->msg_order = FI_ORDER_STRICT;
	expect_refused(hints, "strict order");
	hints = hints_alloc();
	hints->tx_attr->size = (1 << 19) + 1;
	expect_refused(hints, "more sends than there can be");
	hints = hints_alloc();
	hints->rx_attr->size = SIZE_MAX;
	expect_refused(hints, "more receives than there can be");
	hints = hints_alloc();
	hints->ep_attr->tx_ctx_cnt = 2;
	expect_refused(hints, "two transmit contexts");
	hints = hints_alloc();
	hints->tx_attr->op_flags = FI_COMMIT_COMPLETE;
	expect_refused(hints, "completion when it is durable");
	hints = hints_alloc();
	hints->domain_attr->name = strdup("eth0");
	expect_refused(hints, "another domain");
}

/* MPICH asks for it on behalf of remote memory access; it is not promised. */
static void test_delivery(void)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;

	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	CHECK(!get_info(hints, &info));
	CHECK(info && info->tx_attr->op_flags == FI_COMPLETION);
	fi_freeinfo(info);
}

/* Peers may be on this host and on others. */
static void test_places(void)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;

	hints->domain_attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
	CHECK(!get_info(hints, &info) && info);
	fi_freeinfo(info);
	hints = hints_alloc();
	hints->domain_attr->caps = FI_SHARED_AV;
	expect_refused(hints, "a vector that processes share");
}

/* How many operations a program means to have in flight. */
static void test_sizes(void)
{
	struct fi_info *hints = hints_alloc(), *info = NULL;

	hints->tx_attr->size = 100000;
	hints->rx_attr->size = 10;
	CHECK(!get_info(hints, &info));
	CHECK(info && info->tx_attr->size == 100000);
	CHECK(info && info->rx_attr->size == 1024);
	fi_freeinfo(info);
}

void test_info(void)
{
	test_offer();
	test_echo();
	test_refusals();
	test_delivery();
	test_places();
	test_sizes();
}
