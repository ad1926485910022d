// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"path/filepath"

	"skep/grid/hub"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/cli"
)

// hubState and agentState return the folders of hub and agent in a state directory.
func hubState(state string) string   { return filepath.Join(state, "hub") }
func agentState(state string) string { return filepath.Join(state, "agent") }

// openControl returns the client of this user's hub on this machine, or of the hub of which the
// state directory has an account.
func openControl(state string) (*hub.Client, error) {
	dir, err := stateDir(state)
	if err != nil {
		return nil, err
	}
	if c, err := openAccount(dir); c != nil || err != nil {
		return c, err
	}
	return hub.NewClient(hub.ControlSocket(hubState(dir))), nil
}

// withExitCode maps errors of a hub or an agent to exit codes.
func withExitCode(err error) error {
	var p *proto.Problem
	switch {
	case errors.Is(err, ident.ErrWrongHub), errors.Is(err, ident.ErrOtherHub), errors.Is(err, ident.ErrClock):
		return cli.WithCode(cli.Refused, err)
	case errors.Is(err, hub.ErrNoHub), errors.Is(err, hub.ErrHubEnded):
		return cli.WithCode(cli.Unreachable, err)
	case errors.As(err, &p):
		return cli.WithCode(problemCode(p.Code), err)
	}
	return err
}

func problemCode(code string) int {
	switch code {
	case proto.ProblemRevision, proto.ProblemToken, proto.ProblemIdentity:
		return cli.Refused
	case proto.ProblemGone:
		return cli.Unreachable
	}
	return cli.Failed
}
