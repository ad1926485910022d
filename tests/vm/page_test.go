// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
