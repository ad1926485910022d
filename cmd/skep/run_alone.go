// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"skep/grid/agent"
	"skep/grid/hub"
)

// An alone is a hub with its agents for one run. Its state is removed afterwards.
type alone struct {
	dir    string
	hub    *hub.Hub
	ctx    context.Context // of the agent here
	cancel context.CancelFunc
	agents sync.WaitGroup
}

func openAlone(listen string) (*alone, error) {
	dir, err := os.MkdirTemp("", "skep-run-")
	if err != nil {
		return nil, err
	}
	a := &alone{dir: dir}
	a.hub, err = hub.Open(hub.Config{State: hubState(dir), Listen: listen, Version: version, Log: newLogger(false)})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a, nil
}

func (a *alone) close() {
	a.cancel()
	a.agents.Wait()
	a.hub.Close()
	os.RemoveAll(a.dir)
}

func (a *alone) client() *hub.Client { return hub.NewClient(a.hub.ControlSocket()) }

// startAgent makes this computer a node.
func (a *alone) startAgent(slots int, allow *allowances) error {
	c := agent.Config{State: agentState(a.dir), Version: version, Slots: slots, Log: func(string, ...any) {}}
	allow.apply(&c, a.dir)
	if err := joinHere(a.ctx, a.hub, &c); err != nil {
		return err
	}
	a.agents.Add(1)
	go func() {
		defer a.agents.Done()
		if err := agent.Run(a.ctx, c); err != nil {
			fmt.Fprintln(os.Stderr, "skep: the agent of this run has ended:", err)
		}
	}()
	return nil
}

// startAlone starts a hub and an agent for this run only.
func (r *run) startAlone() (*hub.Client, func(), error) {
	a, err := openAlone("127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	r.hubDir = a.dir
	if err := a.startAgent(r.slots, &r.allow); err != nil {
		a.close()
		return nil, nil, err
	}
	return a.client(), a.close, nil
}
