// SPDX-License-Identifier: MIT

//go:build linux

package rely

import "strings"

// A patched is code of which a patch adds the lines with +, and removes those with -.
type patched struct{ name, text, want string }

func (p patched) sides() (before, after string) {
	for line := range strings.Lines(p.text) {
		switch {
		case strings.HasPrefix(line, "+"):
			after += line[1:]
		case strings.HasPrefix(line, "-"):
			before += line[1:]
		default:
			before += line
			after += line
		}
	}
	return before, after
}

var harmless = []patched{
	{"a check", `
int f(struct dev *d)
{
+	if (!d->next || d->flags > 3)
+		return -1;
	return d->next->flags;
}
`, ""},
	{"a lock that is initialized by a function which stays", `
void probe(struct dev *d)
{
	lock_init(&d->l);
}
void work(struct dev *d)
{
+	take(&d->l);
	seen(2);
+	drop(&d->l);
}
`, ""},
	{"what one call sets up and uses", `
int f(struct dev *d)
{
+	d->flags = 3;
+	lock_init(&d->p.l);
+	take(&d->p.l);
+	return d->flags;
-	return 1;
}
`, ""},
	{"what each caller sets up", `
+static int g(struct dev *d) { return d->flags; }
static __attribute__((noinline)) int h(struct dev *d)
{
+	return g(d);
-	return 0;
}
int f(struct dev *d)
{
+	d->flags = 4;
	return h(d);
}
`, ""},
	{"objects of the stack", `
int f(int n)
{
+	struct dev d;
+	d.flags = n;
+	done_init((struct done *)&d.p);
	return n;
}
int g(int n)
{
+	struct dev d;
+	seen(d.flags);
	return n;
}
`, ""},
	{"statements that only move", `
void probe(struct dev *d)
{
-	d->flags = 1;
	seen(1);
+	d->flags = 1;
}
int work(struct dev *d)
{
-	int n = d->flags;
	seen(2);
+	int n = d->flags;
	return n;
}
`, ""},
	{"code that moves into a function of its own", `
+static void end_one(struct dev *d) { kfree(d->buf); dev_put(d); }
void leave(struct dev *d)
{
	seen(1);
-	kfree(d->buf);
-	dev_put(d);
+	end_one(d);
}
void probe(struct dev *d)
{
+	if (!d)
+		return;
	dev_get(d);
}
`, ""},
	{"a function with another name and result", `
-static void *create(struct dev *d)
+static int get_or_create(struct dev *d, void **out)
{
	if (!d->buf)
		d->buf = kmalloc(3);
	seen(2);
-	return d->buf;
+	*out = d->buf;
+	return 0;
}
char f(struct dev *d)
{
-	void *p = create(d);
+	void *p;
+	get_or_create(d, &p);
	return *(char *)p;
}
`, ""},
	{"a new condition before a call", `
static void end_one(struct dev *d) { take(&d->l); lock_init(&d->l); }
void f(struct dev *d)
{
	seen(1);
+	if (d->flags)
		end_one(d);
}
`, ""},
	{"a callback that is handed out with what it relies on", `
+static void end(struct dev *d)
+{
+	take(&d->l);
+}
void open(struct dev *d)
{
+	lock_init(&d->l);
+	d->end = end;
	seen(1);
}
`, ""},
	{"what two functions take and clear", `
static inline void drop_data(struct dev *d)
{
	if (d->data) {
		kfree(d->data);
		d->data = (void *)0;
	}
}
void f(struct dev *d)
{
	seen(1);
+	drop_data(d);
}
void g(struct dev *d)
{
	seen(2);
+	drop_data(d);
}
void h(struct dev *d)
{
	drop_data(d);
}
`, ""},
	{"a count of what is there", `
void f(struct dev *d)
{
	seen(1);
+	if (d->flags < 5)
+		d->flags++;
}
`, ""},
	{"memory that is freed where it was lost", `
int f(struct dev *d)
{
	d->buf = kmalloc(3);
	if (d->flags) {
+		kfree(d->buf);
		return -1;
	}
	return 0;
}
`, ""},
	{"a reference that the same call takes", `
void f(struct dev *d)
{
+	dev_get(d);
	seen(1);
+	dev_put(d);
}
`, ""},
}
