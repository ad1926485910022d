// SPDX-License-Identifier: MIT

package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skep/grid/sched"
	"skep/internal/uapi"
)

// What a BIND frame names:
//
//	NAME       the module whose worker program is NAME.rex
//	/PATH      a worker program
//	?FUNCTION  the module among all of the run that has this function
//	HOST@...   one of these, whose calls only the node of that name runs
//
// joinTime is how long binding waits for the named node to connect. `skep run` without a
// hub starts an agent, whose program may bind before that agent has connected.
const joinTime = 10 * time.Second

// hostPoll is how often findHost looks for the node.
const hostPoll = 50 * time.Millisecond

// findHost returns the node with a host name, and waits for it. localhost is this computer.
func (m *master) findHost(host string) (sched.NodeID, *uapi.Error) {
	if host == "" {
		return "", nil
	}
	timeout := time.After(m.hub.cfg.hostIn)
	for {
		id, known := m.hub.nodeNamed(host)
		if id != "" {
			return sched.NodeID(id), nil
		}
		select {
		case <-timeout:
			return "", uapi.Errorf(uapi.ENoNode, "no node that is up has the name %.80q; those that are up: %s", host, known)
		case <-m.run.ctx.Done():
			return "", uapi.Errorf(uapi.ENoNode, "the run ended")
		case <-time.After(hostPoll):
		}
	}
}

// nodeNamed returns the id of the node, and the names of all that are up.
func (h *Hub) nodeNamed(host string) (id, known string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	here, _ := os.Hostname()
	if host == "localhost" || host == "127.0.0.1" {
		host = here
	}
	var names []string
	for _, n := range h.nodes {
		if !n.ready {
			continue
		}
		names = append(names, n.info.Name)
		short, _, _ := strings.Cut(n.info.Name, ".")
		if n.info.Name == host || n.info.ID == host || id == "" && short == host {
			id = n.info.ID
		}
	}
	slices.Sort(names)
	return id, strings.Join(names, ", ")
}

// openProgram opens a worker program by its path.
func openProgram(path string) (string, *os.File, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("there is no worker program %s", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("the worker program cannot be read: %v", err)
	}
	return path, f, nil
}

// findFunction searches all worker programs of the run. A program with the function's
// name comes first. Of programs with the same name only that in the first directory
// counts, as for modules.
func findFunction(dirs []string, function string) (string, *os.File, error) {
	if !moduleName().MatchString(function) {
		return "", nil, fmt.Errorf("%.80q is not the name of a function", function)
	}
	var found []string
	seen := map[string]bool{}
	for _, dir := range dirs {
		paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+workerSuffix))
		for _, path := range paths {
			name := filepath.Base(path)
			if seen[name] || !offersFunction(path, function) {
				seen[name] = true
				continue
			}
			seen[name] = true
			if name == function+workerSuffix {
				return openProgram(path)
			}
			found = append(found, path)
		}
	}
	switch len(found) {
	case 0:
		return "", nil, fmt.Errorf("no worker program in %s has a function %s: build it there, or name its directory with --modules", strings.Join(dirs, ", "), function)
	case 1:
		return openProgram(found[0])
	}
	return "", nil, fmt.Errorf("%s and %s both have a function %s: write MODULE.%s", found[0], found[1], function, function)
}

func escapeGlob(dir string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(dir)
}

func offersFunction(path, function string) bool {
	_, f, err := openProgram(path)
	if err != nil {
		return false
	}
	defer f.Close()
	manifest, _, err := uapi.ReadManifest(f)
	if err != nil {
		return false
	}
	i := manifest.Lookup(function)
	return i >= 0 && !manifest.Functions[i].Init
}
