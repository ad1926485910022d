// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skep/lab"
	"skep/tests/vmtest"
	pages "skep/tests/walk"
)

// typePage types the commands of a page that are for a machine of the lab, except those that begin
// with a text of skip, in a folder that the machine sees too. It returns an error if the output
// differs from the page.
func typePage(vm *vmtest.VM, page, folder string, skip ...string) error {
	build, err := lab.BuildDir()
	if err != nil {
		return err
	}
	list, err := pages.Read(filepath.Join("../..", page), page)
	n := 0
	for _, c := range list {
		if c.Prompt != "lab#" || slices.ContainsFunc(skip, func(s string) bool { return strings.HasPrefix(c.Text, s) }) {
			continue
		}
		n++
		out := vm.Output(shellProgram(fmt.Sprintf("exec 2>&1; cd %s; export HOME=/run PATH=%s/bin:$PATH; %s", folder, build, c.Text)))
		if wrong := pages.Match(c.Output, strings.Split(strings.TrimSpace(out), "\n")); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%v: %w", c, wrong))
		}
	}
	if n < 4 {
		err = errors.Join(err, fmt.Errorf("%s has %d commands", page, n))
	}
	return err
}

// loading is a command that loads one of Skep's modules: by its name, or from its file.
var loading = regexp.MustCompile(`^(sudo )?(modprobe |insmod build/kmod/[0-9.]+/\w+/)(\w+)`)

// testPageModules types each command of the pages that loads a module, as root in a user's machine,
// where nothing has loaded it. Files are those of the machine's kernel, 6.12. The module is
// unloaded before the next command.
func (u *user) testPageModules(t *testing.T) {
	typed := map[string]int{}
	for _, page := range []string{"README.md", "docs/running.md", "docs/updates.md", "docs/walks/cores.md", "docs/walks/updates.md"} {
		list, err := pages.Read(filepath.Join("../..", page), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			parts := loading.FindStringSubmatch(c.Text)
			if parts == nil {
				continue
			}
			text := strings.Replace(strings.TrimPrefix(c.Text, "sudo "), "/kmod/6.1/", "/kmod/6.12/", 1)
			script := fmt.Sprintf("cd ../.. && ! grep '^%[1]s ' /proc/modules && { %[2]s; } && grep -o '^%[1]s ' /proc/modules && rmmod %[1]s", parts[3], text)
			if r := u.runInMachine(t, "", "--", "sh", "-c", script); r.code != 0 || r.out != parts[3]+" \n" {
				t.Errorf("%v: %v", c, r)
			}
			typed[parts[3]]++
		}
	}
	if len(typed) != 3 || typed["dynamos"] < 3 || typed["shimos"] < 3 || typed["o2g"] < 1 {
		t.Errorf("the pages load %v", typed)
	}
}

// testCures types what skep doctor says about each module that is not loaded. Then doctor finds
// the module.
func (u *user) testCures(t *testing.T) {
	ask := func() map[string]string {
		r := u.runInMachine(t, "", "--", "skep", "doctor", "--json")
		var checks []struct{ Name, Cure string }
		if err := json.Unmarshal([]byte(r.out), &checks); err != nil {
			t.Fatal(err, r)
		}
		cures := map[string]string{}
		for _, c := range checks {
			cures[c.Name] = c.Cure
		}
		return cures
	}
	before, modules := ask(), map[string]string{"o2g": "o2g", "partitions": "shimos", "updates": "dynamos"}
	for name, module := range modules {
		command, _, _ := strings.Cut(before[name], ", if ")
		if r := u.runInMachine(t, "", "--", "sh", "-c", command+" && grep -o '^"+module+" ' /proc/modules"); r.code != 0 || r.out != module+" \n" {
			t.Errorf("%s: the cure %q: %v", name, before[name], r)
		}
	}
	for name, cure := range ask() {
		if module := modules[name]; module != "" && cure != "" {
			t.Errorf("%s is loaded, and doctor still says: %s", module, cure)
		}
	}
	if r := u.runInMachine(t, "", "--", "sh", "-c", "rmmod o2g shimos dynamos"); r.code != 0 {
		t.Error(r)
	}
}
