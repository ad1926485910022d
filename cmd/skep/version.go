// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"skep/internal/cli"
)

// version is the product's version; cmd/skep/skep.rc has the same for Windows.
const version = "0.1.0"

// released is the date of this version, which the manual pages show.
const released = "2026-11-23"

// commit is the commit that this program was built from. The linker sets it.
var commit = "unknown"

type versionOf struct {
	json bool
}

func (v *versionOf) options(f *cli.Flags) {
	f.BoolVar(&v.json, "json", false, "print JSON, for programs")
}

func (v *versionOf) run(_ context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if v.json {
		return cli.PrintJSON(os.Stdout, map[string]any{"version": version, "platform": platform, "commit": commit})
	}
	_, err := fmt.Printf("skep %s for %s, commit %s\n", version, platform, commit)
	return err
}
