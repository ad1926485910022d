/* SPDX-License-Identifier: MIT */
/* What is closed, or could not be opened, keeps neither memory nor
 * descriptors. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

/* Of the sanitizer, whose headers gcc does not install everywhere. */
size_t __sanitizer_get_current_allocated_bytes(void);

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* What can't be opened. */
static void fail_opens(struct pair *p)
{
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fid_mr *mr = NULL, *other;
	struct fid_cntr *cntr;
	struct fid_cq *cq;

	fi_cq_open(p->domain, &cq_attr, &cq, NULL);
	fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL);
	cq_attr.wait_obj = FI_WAIT_SET;
	cntr_attr.wait_obj = FI_WAIT_SET;
	fi_cq_open(p->domain, &cq_attr, &cq, NULL);
	fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL);
	fi_mr_reg(p->domain, p, 1, FI_REMOTE_READ, 0, 1, 0, &mr, NULL);
	fi_mr_reg(p->domain, p, 1, FI_REMOTE_READ, 0, 1, 0, &other, NULL);
	fi_close(&mr->fid);
}

static void use_sets(struct pair *p)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET};
	struct fid_cntr *cntr = NULL;
	struct fid_wait *wait = NULL;
	struct fid_poll *set = NULL;
	struct fid_eq *eq = NULL;

	fi_eq_open(p->fabric, NULL, &eq, NULL);
	fi_wait_open(p->fabric, &attr, &wait);
	cntr_attr.wait_set = wait;
	fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL);
	fi_poll_open(p->domain, NULL, &set);
	fi_poll_add(set, &cntr->fid, 0);
	fi_close(&set->fid);
	fi_close(&cntr->fid);
	fi_close(&wait->fid);
	fi_close(&eq->fid);
}

/* Every kind of object, with something in it. */
static void use_objects(void)
{
	static const struct setup setup = {.counters = true,
					   .wait = FI_WAIT_FD};
	struct fi_cq_tagged_entry e;
	struct pair p, half;
	char in = 0;

	pair_open(&p, &setup);
	fi_trecv(p.b.ep, &in, 1, NULL, p.b.other, 1, 0, &in);
	fi_tinject(p.a.ep, "k", 1, p.a.other, 1);
	CHECK(next_entry(&p, &p.b, &e) == 1 && in == 'k');
	fail_opens(&p);
	use_sets(&p);
	pair_close(&p);
	half_open(&half, "127.0.0.1", "0", FI_SOURCE);
	pair_close(&half);
}

/* An operation's memory serves the next one. */
static void reuse_operations(void)
{
	enum { ROUNDS = 500 };
	struct fi_cq_tagged_entry e;
	struct pair p;
	size_t bytes = 0;
	char in[2];
	int bad = 0;

	pair_open(&p, NULL);
	for (int i = 0; i < ROUNDS + 10; i++) {
		if (i == 10)
			bytes = __sanitizer_get_current_allocated_bytes();
		for (int j = 0; j < 2; j++)
			bad |= fi_trecv(p.b.ep, &in[j], 1, NULL, p.b.other, 1,
					0, NULL) ||
			       fi_tinject(p.a.ep, "o", 1, p.a.other, 1);
		for (int j = 0; j < 2; j++)
			bad |= next_entry(&p, &p.b, &e) != 1;
	}
	CHECK(!bad);
	bytes = __sanitizer_get_current_allocated_bytes() - bytes;
	CHECK((ssize_t)bytes < 1 << 20);
	pair_close(&p);
}

void test_kept(void)
{
	enum { ROUNDS = 6 };
	size_t bytes;
	int open;

	/* Libraries keep something of the first times. */
	for (int i = 0; i < 3; i++)
		use_objects();
	bytes = __sanitizer_get_current_allocated_bytes();
	open = count_descriptors();
	for (int i = 0; i < ROUNDS; i++)
		use_objects();
	bytes = __sanitizer_get_current_allocated_bytes() - bytes;
	printf("# %zd bytes more\n", (ssize_t)bytes);
	CHECK((ssize_t)bytes < ROUNDS);
	CHECK(count_descriptors() == open);
	reuse_operations();
}
