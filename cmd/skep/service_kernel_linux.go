// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skep/dynamos/update"
	"skep/internal/atomicfile"
	"skep/internal/cli"
	"skep/internal/lazy"
	"skep/internal/service"
	"skep/internal/uapi"
	lent "skep/shimos/part"
)

// kernelState holds what is restored at boot. It is separate from the state of hub and
// agent and belongs to root, because the kernel loads files from it.
const (
	kernelState   = "/var/lib/skep-kernel"
	kernelRun     = "/run/skep-kernel"
	modulesFile   = "etc/modules-load.d/skep-kernel.conf"
	settingsFile  = "etc/modprobe.d/skep-kernel.conf"
	allowanceFile = ".allowance.json" // the dot tells it from an update of that name
)

// newKeep returns the store of updates. Tests use other folders.
var newKeep = func() *update.Keep { return &update.Keep{Dir: kernelState, Run: kernelRun, Panics: update.PanicDirs()} }

// kernelSettings are the parameters that an administrator sets, by module.
var kernelSettings = map[string][]string{"o2g": {"user_megabytes"}, "shimos": {"image"}, "dynamos": {"share"}}

// plainValue matches values that modprobe reads as one word.
var plainValue = lazy.Regexp(`^[A-Za-z0-9_./:+,-]+$`)

// loadedModules returns those of our modules that are loaded according to sys, and their
// settings.
func loadedModules(sys string) (names, settings []string, err error) {
	for _, name := range []string{"dynamos", "o2g", "shimos"} {
		dir := filepath.Join(sys, "module", name)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		names = append(names, name)
		line := ""
		for _, parameter := range kernelSettings[name] {
			text, err := os.ReadFile(filepath.Join(dir, "parameters", parameter))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			value := strings.TrimSpace(string(text))
			if value == "" || value == "(null)" {
				continue
			}
			if !plainValue().MatchString(value) {
				return nil, nil, cli.Errorf(cli.Refused, "the parameter %s of %s is %q, which a file of modprobe cannot hold: use a path of letters, digits and ._-", parameter, name, value)
			}
			line += " " + parameter + "=" + value
		}
		if line != "" {
			settings = append(settings, "options "+name+line)
		}
	}
	return names, settings, nil
}

// installKernel installs a service that restores at boot the modules that are loaded now,
// the allowance, and committed updates.
func (p *setup) installKernel() error {
	names, settings, err := loadedModules("/sys")
	if err != nil {
		return err
	}
	if p.systemd.Root == "" {
		if err := p.checkModules(names); err != nil {
			return err
		}
	}
	changed, err := p.writeModules(names, settings)
	if err != nil {
		return err
	}
	more, err := p.writeUnit()
	if err == nil && !changed && !more {
		p.sayUnchanged()
	}
	if err != nil || p.systemd.Root != "" {
		return err
	}
	if err := os.Mkdir(kernelState, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := keepAll(); err != nil {
		return err
	}
	if changed || more {
		if _, err := p.systemd.Control("daemon-reload"); err != nil {
			return err
		}
	}
	if _, err := p.systemd.Control("enable", "--quiet", unitName(p.name)); err != nil {
		return err
	}
	// It carries out rolls from now on; what it restores is there already.
	if _, err := p.systemd.Control("restart", unitName(p.name)); err != nil {
		return fmt.Errorf("%s is installed, but does not start; '%s' says why (%w)", unitName(p.name), p.journalCommand(), err)
	}
	fmt.Printf("restored at boot: the modules %s with their settings, 'skep part allow', and committed updates\n", strings.Join(names, ", "))
	return nil
}

// checkModules returns an error for modules that modprobe would not find at boot.
func (p *setup) checkModules(names []string) error {
	if len(names) == 0 {
		return cli.Errorf(cli.Refused, "none of the modules dynamos, o2g and shimos is loaded: load what should be restored at boot, and type this again")
	}
	for _, name := range names {
		if err := exec.Command("modinfo", "-n", name).Run(); err != nil {
			return cli.Errorf(cli.Refused, "the module %s is loaded, but not in /lib/modules, so it cannot be restored: install skep-dkms, or copy it there and type 'depmod'", name)
		}
	}
	return nil
}

func (p *setup) writeModules(names, settings []string) (changed bool, err error) {
	for _, f := range []struct {
		file  string
		lines []string
	}{{modulesFile, names}, {settingsFile, settings}} {
		path := filepath.Join("/", p.systemd.Root, f.file)
		var more bool
		if len(f.lines) == 0 {
			more, err = p.systemd.RemoveFile(path)
		} else {
			more, err = p.systemd.WriteFile(path, strings.Join(f.lines, "\n")+"\n")
		}
		if err != nil {
			return changed, err
		}
		changed = changed || more
	}
	return changed, nil
}

// removeModules removes the files that writeModules wrote.
func (p *setup) removeModules() (changed bool, err error) { return p.writeModules(nil, nil) }

// keepAll stores the kernel's current allowance and updates.
func keepAll() error {
	if a, err := lent.GetAllowance(); err == nil && a.Group != uapi.ShimosNobody {
		if err := keepAllowance(a); err != nil {
			return err
		}
	}
	d, err := update.Open()
	if err != nil {
		return nil // the module is not loaded: there are no updates
	}
	defer d.Close()
	list, err := update.AllInfos(d)
	for _, i := range list {
		if i.State == uapi.DynamosCommitted {
			err = errors.Join(err, keepUpdate(d, uapi.Text(i.Name[:])))
		}
	}
	return err
}

// keepUpdate stores a committed update and prints whether it will be restored at boot.
func keepUpdate(d update.Source, name string) error {
	keep := newKeep()
	on, err := keep.IsOn()
	if err != nil || !on {
		return err
	}
	running, err := update.RunningBuildID("/sys")
	if err != nil {
		return err
	}
	refused, err := keep.Save(d, name, running)
	switch {
	case err != nil:
		return fmt.Errorf("%s is committed, but will not be restored at boot: %w", name, err)
	case refused != "":
		fmt.Printf("%s: it is not restored at boot: %s\n", name, refused)
		return keep.Forget(name)
	}
	fmt.Printf("%s: it is restored at boot\n", name)
	return keep.ForgetEnded(d)
}

// forgetUpdate removes a stored update that was reverted.
func forgetUpdate(name string) error {
	keep := newKeep()
	if on, err := keep.IsOn(); err != nil || !on {
		return err
	}
	return keep.Forget(name)
}

// keepAllowance stores an allowance, or removes the stored one if there is none.
func keepAllowance(a lent.Allowance) error {
	if on, err := newKeep().IsOn(); err != nil || !on {
		return err
	}
	path := filepath.Join(newKeep().Dir, allowanceFile)
	if a.Group == uapi.ShimosNobody {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

func restoreAllowance() error {
	text, err := os.ReadFile(filepath.Join(newKeep().Dir, allowanceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var a lent.Allowance
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil {
		err = lent.SetAllowance(a)
	}
	if err != nil {
		return fmt.Errorf("the allowance of cores is not restored: %w", partError(err))
	}
	return nil
}

// serviceRestore is the command that the unit runs at boot.
type serviceRestore struct {
	settle time.Duration
	retry  bool
	rolls  bool
	builds string
}

func (s *serviceRestore) options(f *cli.Flags) {
	f.DurationVar(&s.settle, "settle", 2*time.Minute, "commit updates again after this `TIME` without a failure")
	f.BoolVar(&s.retry, "retry", false, "restore also updates that were turned off because boots with them failed")
	f.StringVar(&s.builds, "builds", "", "ask the build service at `URL` for updates of another kernel, and take what operators signed")
	f.BoolVar(&s.rolls, "rolls", false, "carry out rolls of updates that the agent relays")
}

func (s *serviceRestore) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if s.settle <= 0 || s.settle > 24*time.Hour {
		return f.Usagef("--settle takes a time up to 24h, as 2m")
	}
	keep := newKeep()
	on, err := keep.IsOn()
	if err != nil {
		return updateError(err)
	}
	if !on {
		return cli.Errorf(cli.Refused, "nothing is stored for the next boot: 'skep service install kernel' starts to do so")
	}
	notifier := openNotifier(ctx)
	if s.builds != "" {
		takeAtBoot(ctx, s.builds)
	}
	allowance := restoreAllowance()
	r, finish, err := s.beginRestore(ctx, keep, notifier)
	if err != nil {
		return errors.Join(allowance, err)
	}
	if !s.rolls {
		return errors.Join(allowance, finish(ctx), updateError(r.End()))
	}
	tell := func(err error) {
		fmt.Fprintf(os.Stderr, "%sskep: %s\n", service.Priority(os.Stderr, slog.LevelError), cli.CleanText(err.Error()))
		notifier.Status("rolls are carried out; " + cli.CleanText(err.Error()))
	}
	if allowance != nil {
		tell(allowance)
	}
	settle := func(ctx context.Context) error {
		err := finish(ctx)
		if err == nil {
			notifier.Status("rolls are carried out")
		}
		return err
	}
	stay := func(ctx context.Context) error {
		return r.Stay(ctx, func() time.Duration { return time.Duration(update.Boottime()) })
	}
	return serveWhileSettling(ctx, settle, stay, tell, serveRolls)
}

// takeAtBoot takes packages for a kernel that was booted for the first time. What fails is
// told: the updates of this kernel are restored all the same.
func takeAtBoot(ctx context.Context, url string) {
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%s%s\n", service.Priority(os.Stderr, slog.LevelInfo), cli.CleanText(fmt.Sprintf(format, args...)))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := takeBuilds(ctx, &update.BuildClient{URL: url}, say); err != nil {
		say("updates of another kernel: %v", err)
	}
}

// serveWhileSettling serves rolls while restored updates are on trial, which finish waits
// for, and while stay keeps the mark of the boot. What did not come back is told: the node
// may need a roll to get it again.
func serveWhileSettling(ctx context.Context, finish, stay func(context.Context) error, tell func(error),
	serve func(ctx context.Context, settles func() bool) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var settled atomic.Bool
	var ends sync.WaitGroup
	ends.Go(func() {
		if err := finish(ctx); err != nil {
			tell(err)
		}
		settled.Store(true)
		if err := stay(ctx); err != nil {
			tell(err)
		}
	})
	err := serve(ctx, func() bool { return !settled.Load() })
	cancel()
	ends.Wait()
	return err
}

// beginRestore puts kept updates on trial. finish commits them when they have settled.
func (s *serviceRestore) beginRestore(ctx context.Context, keep *update.Keep, notifier *service.Notifier) (r *update.Restore, finish func(context.Context) error, err error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, nil, err
	}
	r = &update.Restore{Keep: keep, BootID: strings.TrimSpace(string(boot)), Settle: s.settle, Retry: s.retry,
		Says: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%s%s\n", service.Priority(os.Stderr, slog.LevelInfo), cli.CleanText(fmt.Sprintf(format, args...)))
		}}
	closeDevice, ready := func() error { return nil }, "no update is kept"
	if list, _ := keep.List(); len(list) > 0 {
		d, err := update.Open() // finish closes it
		if err != nil {
			return nil, nil, updateError(err)
		}
		r.Kernel, closeDevice, ready = update.ThisKernel{Device: d}, d.Close, "updates are on trial"
	} else {
		r.Kernel = update.ThisKernel{} // it has a build-id; nothing is applied
	}
	r.Ready = func() { notifier.Ready(ready) }
	if err := r.Begin(ctx); err != nil {
		return nil, nil, errors.Join(updateError(err), closeDevice())
	}
	return r, func(ctx context.Context) error { return updateError(errors.Join(r.Finish(ctx), closeDevice())) }, nil
}

// isKept reports whether an update is stored.
func isKept(name string) bool {
	keep := newKeep()
	if on, err := keep.IsOn(); err != nil || !on {
		return false
	}
	list, _ := keep.List()
	return slices.ContainsFunc(list, func(k update.Kept) bool { return k.Name == name })
}

// rememberPackage stores a package, so that it is available when its update is committed.
func rememberPackage(name string, text []byte) {
	if err := newKeep().Remember(name, text); err != nil {
		fmt.Fprintf(os.Stderr, "skep: %s will not be restored at boot: %v\n", name, err)
	}
}
