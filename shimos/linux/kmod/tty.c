// SPDX-License-Identifier: GPL-2.0-only
/*
 * The terminal and console ttyL0. Nothing interrupts this kernel from outside,
 * so a delayed work looks for input and for room. It owns the driver and its
 * port; the tty core guards them.
 *
 * Process context; but print_console runs anywhere.
 */
#include <linux/console.h>
#include <linux/module.h>
#include <linux/tty.h>
#include <linux/tty_driver.h>
#include <linux/tty_flip.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "guest.h"

#define LOOK_MS 20
#define AT_ONCE 256

static struct tty_driver *driver;
static struct tty_port port;
static u32 told_size; /* the work's own */
static void look_at_rings(struct work_struct *work);
static DECLARE_DELAYED_WORK(looking, look_at_rings);

static void read_size(u32 size, struct winsize *to)
{
	to->ws_row = size >> 16;
	to->ws_col = size & 0xffff;
}

/* Programs here may set another size, which stays until the terminal's own
 * changes. */
static void look_at_size(struct tty_struct *tty)
{
	u32 size = READ_ONCE(shimos_guest_mail->size);
	struct winsize window = {};

	if (size == told_size)
		return;
	read_size(size, &window);
	tty_do_resize(tty, &window);
	told_size = size;
}

/* Takes what the tty's buffer has room for. */
static void look_at_input(void)
{
	u8 in[AT_ONCE];
	u32 n;

	for (;;) {
		n = min_t(u32, sizeof(in), tty_buffer_space_avail(&port));
		n = shimos_ring_take(in, n);
		if (!n)
			return;
		tty_insert_flip_string(&port, in, n);
		tty_flip_buffer_push(&port);
	}
}

/* A tty that nobody has opened would keep its input until more comes. */
static void look_at_rings(struct work_struct *work)
{
	struct tty_struct *tty = tty_port_tty_get(&port);

	if (tty) {
		look_at_size(tty);
		look_at_input();
		tty_kref_put(tty);
	}
	if (shimos_ring_room())
		tty_port_tty_wakeup(&port);
	schedule_delayed_work(&looking, msecs_to_jiffies(LOOK_MS));
}

static int open_tty(struct tty_struct *tty, struct file *file)
{
	if (tty->count == 1)
		read_size(READ_ONCE(shimos_guest_mail->size), &tty->winsize);
	return tty_port_open(&port, tty, file);
}

static void close_tty(struct tty_struct *tty, struct file *file)
{
	tty_port_close(&port, tty, file);
}

static void hangup_tty(struct tty_struct *tty)
{
	tty_port_hangup(&port);
}

static shimos_tty_result write_tty(struct tty_struct *tty, const u8 *from,
				   shimos_tty_size bytes)
{
	return shimos_ring_put(from, bytes);
}

static unsigned int room_tty(struct tty_struct *tty)
{
	return shimos_ring_room();
}

static const struct tty_operations operations = {
	.open = open_tty,
	.close = close_tty,
	.hangup = hangup_tty,
	.write = write_tty,
	.write_room = room_tty,
};

static const struct tty_port_operations port_operations;

static void print_console(struct console *c, const char *text,
			  unsigned int bytes)
{
	shimos_ring_print(text, bytes);
}

static struct tty_driver *console_driver(struct console *c, int *index)
{
	*index = c->index;
	return driver;
}

static struct console console = {
	.name = "ttyL",
	.write = print_console,
	.device = console_driver,
	.flags = CON_PRINTBUFFER,
	.index = 0,
};

/* The command's own terminal turns a line's end into two characters. */
static void set_up_driver(void)
{
	driver->driver_name = "shimos_guest";
	driver->name = "ttyL";
	driver->type = TTY_DRIVER_TYPE_CONSOLE;
	driver->init_termios = tty_std_termios;
	driver->init_termios.c_oflag = OPOST;
	tty_set_operations(driver, &operations);
	tty_port_init(&port);
	port.ops = &port_operations;
	tty_port_link_device(&port, driver, 0);
}

int shimos_tty_init(void)
{
	int err;

	driver = tty_alloc_driver(1, TTY_DRIVER_RESET_TERMIOS |
					     TTY_DRIVER_REAL_RAW);
	if (IS_ERR(driver))
		return PTR_ERR(driver);
	set_up_driver();
	err = tty_register_driver(driver);
	if (err) {
		tty_driver_kref_put(driver);
		tty_port_destroy(&port);
		return err;
	}
	register_console(&console);
	schedule_delayed_work(&looking, 0);
	return 0;
}

void shimos_tty_exit(void)
{
	cancel_delayed_work_sync(&looking);
	unregister_console(&console);
	tty_unregister_driver(driver);
	tty_driver_kref_put(driver);
	tty_port_destroy(&port);
}
