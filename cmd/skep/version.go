// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"skep/grid/proto"
	"skep/internal/cli"
	"skep/internal/place"
	"skep/internal/uapi"
)

// version is the product's version. cmd/skep/skep.rc, include/skep/version.h, lab/guest/main.go
// and python/skep/__init__.py have the same.
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said := versions{
		Version: version, Platform: runtime.GOOS + "/" + runtime.GOARCH, Commit: commit,
		Protocol: proto.Revision, Session: uapi.SessionRevision, Substrates: findSubstrates(self),
	}
	if v.json {
		return cli.PrintJSON(os.Stdout, said)
	}
	substrates := strings.Join(said.Substrates, ", ")
	if substrates == "" {
		substrates = "none: bee is missing"
	}
	_, err = fmt.Printf("skep %s for %s, commit %s\nprotocol    hub and nodes %d (and %d), workers %d\nsubstrates  %s\n",
		version, said.Platform, commit, said.Protocol, said.Protocol-1, said.Session, substrates)
	return err
}

type versions struct {
	Version    string   `json:"version"`
	Platform   string   `json:"platform"`
	Commit     string   `json:"commit"`
	Protocol   int      `json:"protocol"`       // hub and nodes; the one before it works too
	Session    int      `json:"worker_session"` // agents and workers
	Substrates []string `json:"substrates"`     // those whose programs are installed here
}

// findSubstrates returns the substrates whose programs are installed with program, a path of
// skep. Whether the machine can run them, skep doctor says.
func findSubstrates(program string) []string {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, err := place.FindFor(program, name); err != nil {
				return false
			}
		}
		return true
	}
	found := []string{}
	for _, s := range []struct {
		uapi.Substrate
		there bool
	}{
		{uapi.SubstrateLinux, runtime.GOOS == "linux"},
		{uapi.SubstrateBeeWindows, runtime.GOOS == "windows" && has("bee.exe")},
		{uapi.SubstrateBeeLinux, runtime.GOOS == "linux" && has("bee")},
		{uapi.SubstrateBare, runtime.GOOS == "linux" && has("sms-proxy", "sms.image")},
	} {
		if s.there {
			found = append(found, s.String())
		}
	}
	return found
}
