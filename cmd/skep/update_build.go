// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/internal/cli"
	"skep/internal/lazy"
)

type updateBuild struct {
	name, class, because, state, out string
	kernels                          []string
	states                           map[string]update.Statement
	layouts                          map[string]string
}

func (u *updateBuild) options(f *cli.Flags) {
	f.Func("kernel", "for this `KERNEL`: 6.1, 6.12, or the version of a package as 6.1.176-1; may be repeated (the running one)", func(text string) error {
		u.kernels = append(u.kernels, text)
		return nil
	})
	f.StringVar(&u.name, "name", "", "the update's `NAME` (that of the patch)")
	f.StringVar(&u.class, "class", "", "how far versions may mix, `CLASS`: any, task, object or together (what the change asks for)")
	f.StringVar(&u.because, "because", "", "the `REASON` for another class, shown to those who apply the update")
	u.states = map[string]update.Statement{}
	f.Func("object", "class object: `FUNCTION=N`, its N-th argument from 0 is the object; may be repeated", func(text string) error {
		return u.parseStatement(text, false)
	})
	f.Func("ends", "like --object, for a function that ends the object's life: `FUNCTION=N`; the patch need not change it", func(text string) error {
		return u.parseStatement(text, true)
	})
	f.Func("group", "class task: a task selects its version when it calls `FUNCTION`, which the patch need not change; may be repeated", func(name string) error {
		if name == "" {
			return errors.New("want the name of a function")
		}
		s := u.states[name]
		s.Group = true
		u.states[name] = s
		return nil
	})
	f.Func("no-locks", "no lock is held during calls of `FUNCTION`, so a task that dies inside needs no reboot; may be repeated", func(name string) error {
		s := u.states[name]
		s.Bare = true
		u.states[name] = s
		return nil
	})
	u.layouts = map[string]string{}
	f.Func("layout", "`STRUCT=REASON`: why existing objects of a changed structure are safe, such as 'struct file=all new ones are made and freed by the update'; may be repeated", func(text string) error {
		name, reason, _ := strings.Cut(text, "=")
		if name == "" || strings.TrimSpace(reason) == "" {
			return errors.New("want STRUCT=REASON, such as 'struct file=its older ones are never freed'")
		}
		u.layouts[name] = reason
		return nil
	})
	f.Func("state", "the `REASON` why objects that lack what the new code relies on do no harm, such as 'apply it before the module is loaded'", func(text string) error {
		if u.state = strings.TrimSpace(text); u.state == "" {
			return errors.New("want a reason, such as 'apply it before the module is loaded'")
		}
		return nil
	})
	f.StringVar(&u.out, "o", "", "write to this `FILE` (NAME"+pack.Suffix+")")
}

// parseStatement reads FUNCTION=N.
func (u *updateBuild) parseStatement(text string, ends bool) error {
	name, number, _ := strings.Cut(text, "=")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 5 || name == "" {
		return errors.New("want FUNCTION=N, where N is an argument from 0 to 5")
	}
	s := u.states[name]
	s.Object, s.Ends = &n, ends
	u.states[name] = s
	return nil
}

func (u *updateBuild) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a patch is expected")
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return err
	}
	if (u.class == "") != (u.because == "") {
		return f.Usagef("--class and --because go together: a class that the change does not ask for needs a reason")
	}
	if strings.HasSuffix(words[0], pack.Suffix) {
		return u.rebuild(ctx, f, words[0])
	}
	patch, err := readPatch(words[0])
	if err != nil {
		return err
	}
	if len(u.kernels) == 0 {
		version, err := update.RunningVersion()
		if err != nil {
			return updateError(err)
		}
		u.kernels = []string{version}
	}
	if u.name == "" {
		u.name = nameOfPatch(words[0])
	}
	if !pack.ValidName(u.name) {
		return f.Usagef("%.80q is not the name of an update: give --name, of lower case letters, digits and _", u.name)
	}
	if u.out == "" {
		u.out = u.name + pack.Suffix
	}
	p, err := update.Build(ctx, update.Plan{Name: u.name, Patch: patch, Kernels: u.kernels, Class: u.class, Because: u.because, States: u.states, Layouts: u.layouts, State: u.state, Says: os.Stderr})
	if err != nil {
		return updateError(err)
	}
	if err := pack.WriteFile(u.out, p); err != nil {
		return fmt.Errorf("update build: %w", err)
	}
	return u.printResult(p)
}

// rebuild builds a package once more for one other kernel, from what is in it.
func (u *updateBuild) rebuild(ctx context.Context, f *cli.Flags, path string) error {
	if u.name != "" || u.class != "" || u.state != "" || len(u.states)+len(u.layouts) > 0 || len(u.kernels) > 1 {
		return f.Usagef("a package says itself what it is: give one --kernel and -o alone")
	}
	p, err := openPackage(path)
	if err != nil {
		return err
	}
	kernel := ""
	if len(u.kernels) == 1 {
		kernel = u.kernels[0]
	} else if kernel, err = update.RunningVersion(); err != nil {
		return updateError(err)
	}
	if u.out == "" {
		u.out = p.Name + "-" + kernel + pack.Suffix
	}
	out, err := buildPackage(ctx, p, kernel)
	if err != nil {
		return updateError(err)
	}
	if err := pack.WriteFile(u.out, out); err != nil {
		return fmt.Errorf("update build: %w", err)
	}
	return u.printResult(out)
}

func readPatch(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("update build: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, pack.MaxPatch+1))
	if err == nil && len(text) > pack.MaxPatch {
		err = cli.Errorf(cli.Refused, "%s has more than %d bytes: is it a patch?", path, pack.MaxPatch)
	}
	return text, err
}

var notOfNames = lazy.Regexp(`[^a-z0-9]+`)

// nameOfPatch derives the name of an update from its patch: fix_the_leak from
// 0001-Fix-the-leak.patch.
func nameOfPatch(path string) string {
	base := strings.ToLower(filepath.Base(path))
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".diff"), ".patch")
	base = strings.TrimLeft(base, "0123456789-_. ")
	return strings.Trim(notOfNames().ReplaceAllString(base, "_"), "_")
}

func (u *updateBuild) printResult(p *pack.Package) error {
	n := 0
	for _, k := range p.Kernels {
		n = max(n, len(k.Functions))
	}
	_, err := fmt.Printf("%s: class %s, %s, %s: 'skep update inspect %s' tells more\n",
		u.out, p.Class, countText(n, "function"), countText(len(p.Kernels), "kernel"), u.out)
	return err
}

func countText(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
