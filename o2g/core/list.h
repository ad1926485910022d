/* SPDX-License-Identifier: MIT */
/* Doubly linked lists; the node is embedded in the member. An unlinked node has
 * null pointers. */
#ifndef O2G_CORE_LIST_H
#define O2G_CORE_LIST_H

#include <skep/types.h>

struct list {
	struct list *next, *prev;
};

#define list_entry(node, type, member)                                         \
	((type *)((u8 *)(node) - __builtin_offsetof(type, member)))

/* The body of the loop may unlink `pos`, but no other node. */
#define list_each(pos, after, head)                                            \
	for (pos = (head)->next, after = pos->next; pos != (head);             \
	     pos = after, after = pos->next)

static inline void list_init(struct list *head)
{
	head->next = head;
	head->prev = head;
}

static inline int list_empty(const struct list *head)
{
	return head->next == head;
}

static inline int list_linked(const struct list *node)
{
	return node->next != 0;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->next = head;
	node->prev = head->prev;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_unlink(struct list *node)
{
	if (!node->next)
		return;
	node->next->prev = node->prev;
	node->prev->next = node->next;
	node->next = 0;
	node->prev = 0;
}

static inline struct list *list_first(const struct list *head)
{
	return list_empty(head) ? 0 : head->next;
}

static inline struct list *list_last(const struct list *head)
{
	return list_empty(head) ? 0 : head->prev;
}

#endif
