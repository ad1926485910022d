// SPDX-License-Identifier: MIT

package main

import (
	"context"

	"skep/internal/cli"
)

const userOptionText = "a service of this user, without an administrator"

func systemServiceWords() []command { return nil }

func serviceNames() []string { return []string{hubService, agentService} }

type serviceInstall struct{}

func (s *serviceInstall) options(*cli.Flags) {}

func (s *serviceInstall) run(context.Context, *cli.Flags, []string) error { return noService() }

type serviceUninstall struct{}

func (s *serviceUninstall) options(*cli.Flags) {}

func (s *serviceUninstall) run(context.Context, *cli.Flags, []string) error { return noService() }

type serviceStatus struct{}

func (s *serviceStatus) options(*cli.Flags) {}

func (s *serviceStatus) run(context.Context, *cli.Flags, []string) error { return noService() }

func controlService(string, string, bool) error { return noService() }

func noService() error {
	return cli.Errorf(cli.Refused, "skep installs services on Linux only: on Windows, start 'skep join' at logon")
}
