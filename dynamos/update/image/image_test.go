// SPDX-License-Identifier: MIT

package image

import (
	"regexp"
	"strings"
	"testing"

	"skep/lab"
)

// findStockKernel returns a kernel that make has fetched.
func findStockKernel(t testing.TB, series string) *lab.Kernel {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	k, err := lab.FindKernel(build, series)
	if err != nil {
		t.Skip(err)
	}
	return k
}

func TestStockImageVersions(t *testing.T) {
	for _, series := range lab.Series() {
		t.Run(series, func(t *testing.T) {
			k := findStockKernel(t, series)
			im, err := Open(k.Image())
			if err != nil {
				t.Fatal(err)
			}
			if im.Release != k.Release || !strings.HasPrefix(im.Version, series+".") ||
				!strings.Contains(im.Compiler, "gcc") || !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(im.BuildID) {
				t.Errorf("release %q, version %q, compiler %q, build-id %q", im.Release, im.Version, im.Compiler, im.BuildID)
			}
			checkSymbols(t, im)
			checkPrototypes(t, im)
			checkExits(t, im)
			checkPointers(t, im)
		})
	}
}

// checkPointers: a callback may be called by a pointer; on 6.12, which has IBT,
// what nobody has the address of may not, and begins with a landing pad.
func checkPointers(t *testing.T, im *Image) {
	t.Helper()
	sealed := 0
	for _, s := range im.Symbols {
		if !im.Sealed(s.Addr) {
			continue
		}
		sealed++
		if text, ok := im.Bytes(s.Addr, 4); !ok || string(text) != "\xf3\x0f\x1e\xfa" {
			t.Fatalf("%s is sealed and begins with %x", s.Name, text)
		}
	}
	if ibt := strings.HasPrefix(im.Version, "6.12."); ibt != (sealed > 1000) || im.Sealed(im.Named("ep_poll_callback")[0].Addr) {
		t.Errorf("%d functions are sealed", sealed)
	}
	if !im.Variadic("_printk") || im.Variadic("vprintk") || im.Variadic("vfs_read") || im.Variadic("no such function") {
		t.Error("it does not tell who takes a format")
	}
	at := im.byName["_printk"][0]
	twice := &Image{types: im.types, Symbols: im.Symbols, byName: map[string][]int{"_printk": {at, at}}}
	for name, want := range map[string]int{"vfs_read": 1, "merge": 2, "prepend": 2, "jiffies": 0, "no such function": 0} {
		if n := im.CountFunctions(name); n != want {
			t.Errorf("the kernel has %d functions %s, want %d", n, name, want)
		}
	}
	if twice.Variadic("_printk") {
		t.Error("one of two functions of a name takes a format, and both are taken for that")
	}
}

func checkSymbols(t *testing.T, im *Image) {
	t.Helper()
	list := im.Named("vfs_read")
	if len(list) != 1 || !list[0].Global() {
		t.Fatalf("vfs_read is %v", list)
	}
	if _, ok := im.Traced(list[0].Addr); !ok {
		t.Error("vfs_read cannot be traced")
	}
	if size, ok := im.Size(list[0].Addr); !ok || size < 100 || size > 4096 {
		t.Errorf("vfs_read has %d bytes", size)
	}
	if p, ok := im.Position("vfs_read", list[0].Addr); p != 0 || !ok {
		t.Errorf("vfs_read has position %d, %v", p, ok)
	}
	if start := im.Named("start_kernel"); len(start) != 1 || !im.Init(start[0].Addr) || im.Init(list[0].Addr) {
		t.Errorf("start_kernel %v, vfs_read: which is freed?", start)
	}
	for name, at := range im.byName {
		if len(at) < 2 {
			continue
		}
		for n, i := range at {
			if i > at[0] && im.Symbols[i].Addr == im.Symbols[at[n-1]].Addr {
				break // two names of one place: the first one is as good
			}
			if p, ok := im.Position(name, im.Symbols[i].Addr); p != n+1 || !ok {
				t.Fatalf("%s %d has position %d, %v", name, n+1, p, ok)
			}
		}
	}
}

func checkPrototypes(t *testing.T, im *Image) {
	t.Helper()
	for name, want := range map[string]Prototype{
		"vfs_read":     {Args: 4, Result: "long"},
		"arp_ioctl":    {Args: 3, Result: "int"},
		"do_filp_open": {Args: 3, Result: "pointer"},
		"wake_up_process": {Text: "int wake_up_process(struct task_struct * p)", Args: 1,
			Result: "int"},
		"handle_mm_fault": {Args: 4, Result: "value"},
		"schedule":        {Args: 0, Result: "void"},
	} {
		p, err := im.Prototype(name)
		if err != nil || p.Args != want.Args || p.Result != want.Result || want.Text != "" && p.Text != want.Text {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, why := range map[string]string{
		"kobject_init_and_add":      "variable number",
		"tnum_intersect":            "more than one register",
		"rtc_tm_to_ktime":           "in memory",
		"devm_request_threaded_irq": "more arguments than the six",
	} {
		if p, err := im.Prototype(name); err != nil || !strings.Contains(p.Uncounted, why) {
			t.Errorf("%s: %+v, %v, want one that says %q", name, p, err, why)
		}
	}
	if _, err := im.Prototype("no_such_function_in_kernel"); err == nil || !strings.Contains(err.Error(), "do not know") {
		t.Errorf("a function that is not there: %v", err)
	}
}

func checkExits(t *testing.T, im *Image) {
	t.Helper()
	for name, want := range map[string]string{
		"get_signal":                "do_group_exit do_exit",
		"arch_do_signal_or_restart": "get_signal do_group_exit do_exit",
		"__x64_sys_exit":            "do_exit",
		"vfs_read":                  "",
		"make_task_dead":            "",
		"schedule":                  "",
	} {
		list := im.Named(name)
		if len(list) != 1 {
			t.Fatalf("%s is %v", name, list)
		}
		if got := strings.Join(im.Exit(list[0].Addr), " "); got != want {
			t.Errorf("a task may end inside of %s by %q, not by %q", name, got, want)
		}
	}
	if n := len(im.next); n > 100 {
		t.Errorf("a task may end inside of %d functions: that many are not believed", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) { Read(data) })
}

func FuzzTypes(f *testing.F) {
	f.Add([]byte("\x9f\xeb\x01\x00\x18\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if all, err := readTypes(data); err == nil {
			im := Image{types: all}
			for name := range all.functions {
				im.Prototype(name)
			}
		}
	})
}
