// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"sync"
	"time"

	"skep/grid/hosts"
	"skep/grid/hub"
	"skep/internal/cli"
)

// Hosts of an OmniRPC host file get an agent by ssh, which ends when the connection does. With a
// batch system, a job that the host submits runs an agent for each worker, and ends likewise.

const (
	hostsTimeout = time.Minute // until all hosts have joined, unless the file says
	hostTick     = 50 * time.Millisecond
	hostGrace    = 10 * time.Second
	hostPatience = 5 * time.Second // until a line says what the run waits for
	hostTextMax  = 4096            // last bytes of what ssh prints

	// A job may wait for days in the queue of a batch system. The hub ends with the run anyway.
	hostTokenLife = 366 * 24 * time.Hour
)

// startHosts starts a hub for this run, and an agent on each host.
func (r *run) startHosts(ctx context.Context) (*hub.Client, func(), error) {
	text, err := os.ReadFile(r.hostfile)
	if err != nil {
		return nil, nil, cli.WithCode(cli.Usage, fmt.Errorf("the host file: %w", err))
	}
	file, err := hosts.Read(r.hostfile, text)
	if err != nil {
		return nil, nil, cli.WithCode(cli.Usage, err)
	}
	for _, w := range file.Warnings {
		fmt.Fprintln(os.Stderr, "skep:", cli.CleanText(w))
	}
	listen := "127.0.0.1:0"
	for i := range file.Hosts {
		if h := &file.Hosts[i]; !isHere(h) || h.Batch != "" {
			listen = ":0"
		}
	}
	a, err := openAlone(listen)
	if err != nil {
		return nil, nil, err
	}
	r.hubDir = a.dir
	shells, err := r.startAgents(ctx, a, file)
	stop := func() {
		endShells(shells)
		a.close()
	}
	if err == nil {
		err = waitForHosts(ctx, a.client(), shells, file.Timeout)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return a.client(), stop, nil
}

func (r *run) startAgents(ctx context.Context, a *alone, file *hosts.File) (shells []*hostShell, err error) {
	for i := range file.Hosts {
		h := &file.Hosts[i]
		if _, err := os.Stat(h.Registry); h.Registry != "" && err == nil {
			r.modules = append(r.modules, h.Registry)
		}
		if !isHere(h) || h.Batch != "" {
			s, err := startShell(ctx, a, h)
			if err != nil {
				return shells, err
			}
			shells = append(shells, s)
			continue
		}
		if err := checkKind(h); err != nil {
			return shells, err
		}
		if err := a.startAgent(h.Slots, &r.allow); err != nil {
			return shells, err
		}
	}
	return shells, nil
}

// isHere reports whether a host is this computer and user.
func isHere(h *hosts.Host) bool {
	if u, err := user.Current(); h.User != "" && (err != nil || h.User != u.Username) {
		return false
	}
	name, err := os.Hostname()
	return h.Name == "localhost" || err == nil && strings.EqualFold(h.Name, name)
}

// checkKind refuses this computer if the file says another kind. All builds of skep are
// for x86_64.
func checkKind(h *hosts.Host) error {
	if h.Arch != "" && h.Arch != "x86_64" || h.OS != "" && !strings.EqualFold(h.OS, "linux") {
		return cli.Errorf(cli.Refused, "%s: this computer is x86_64 with Linux, not %s", h.Place, strings.TrimSpace(h.Arch+" "+h.OS))
	}
	return nil
}

// A hostShell is the ssh, or the shell of this computer, that keeps the agents of a host. The
// agents end when the shell's standard input does.
type hostShell struct {
	host  *hosts.Host
	stdin io.Closer
	done  chan struct{}
	lock  sync.Mutex
	text  []byte // the end of what it printed
	cmd   *exec.Cmd
}

func (s *hostShell) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.text = append(s.text, b...)
	s.text = s.text[max(0, len(s.text)-hostTextMax):]
	return len(b), nil
}

// lastLines returns what the shell printed at its end.
func (s *hostShell) lastLines() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	text := strings.TrimSpace(cli.CleanText(strings.ReplaceAll(string(s.text), "\n", " ")))
	if text == "" {
		return "it printed nothing"
	}
	return text
}

func quoteShell(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hostScript returns what a host runs, with the hub's address for agents, or "" and its port if
// ssh says the address. The token comes on standard input, because each user there can read
// command lines.
func hostScript(h *hosts.Host, hub string, port int) string {
	skep := "skep"
	if h.Agent != "" {
		skep = h.Agent + "/bin/skep"
	}
	if hub != "" {
		hub = "hub=" + quoteShell(hub)
	} else {
		hub = fmt.Sprintf(`hub=${SSH_CONNECTION%%%% *}
case $hub in *:*) hub="[$hub]" ;; esac
hub=$hub:%d`, port)
	}
	return fmt.Sprintf(`arch=%s os=%s
if [ "$arch" ] && [ "$arch" != "$(uname -m)" ] || [ "$os" ] && [ "$os" != "$(uname -s | tr A-Z a-z)" ]; then
	echo "the host is $(uname -m) with $(uname -s), not $arch $os" >&2
	exit 1
fi
read -r SKEP_TOKEN && export SKEP_TOKEN
%s
%s`, quoteShell(h.Arch), quoteShell(strings.ToLower(h.OS)), hub, hostCommand(h, quoteShell(skep)))
}

// shellCommand returns the command that runs a script on a host.
func shellCommand(h *hosts.Host, script string) []string {
	if isHere(h) {
		return []string{"sh", "-c", script}
	}
	words := strings.Fields(os.Getenv("OMRPC_RSH"))
	if len(words) == 0 {
		words = []string{"ssh", "-o", "BatchMode=yes"}
	}
	if h.User != "" {
		words = append(words, "-l", h.User)
	}
	return append(words, h.Name, script)
}

func startShell(ctx context.Context, a *alone, h *hosts.Host) (*hostShell, error) {
	address, ok := a.hub.Address().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("the hub listens on %v, which is not a TCP address", a.hub.Address())
	}
	uses, hub := 1, ""
	if h.Batch != "" {
		uses = h.Slots
	}
	if isHere(h) {
		hub = a.hub.Status().Address
	}
	token, err := a.hub.Tokens().New(uses, hostTokenLife)
	if err != nil {
		return nil, err
	}
	words := shellCommand(h, hostScript(h, hub, address.Port))
	s := &hostShell{host: h, done: make(chan struct{})}
	// Not the run's context: the agent ends in order, by its standard input.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), words[0], words[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	s.cmd.WaitDelay = hostGrace
	stdin, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the agent of %s: %w", h.Place, h.Name, err)
	}
	s.stdin = stdin
	go func() {
		_ = s.cmd.Wait() // what it printed says more
		close(s.done)
	}()
	// If it has ended already, waitForHosts says so.
	_, _ = io.WriteString(stdin, token.String()+"\n")
	return s, nil
}

// endShells ends all agents, and waits for them.
func endShells(shells []*hostShell) {
	for _, s := range shells {
		s.stdin.Close()
	}
	grace := time.After(hostGrace)
	for _, s := range shells {
		select {
		case <-s.done:
		case <-grace:
			_ = s.cmd.Process.Kill()
			fmt.Fprintf(os.Stderr, "skep: the agent of %s did not end: %s\n", s.host.Name, s.lastLines())
			grace = time.After(0)
		}
	}
}

// waitForHosts waits until all hosts are nodes. It waits for jobs of a batch system without a
// limit if the file has none, and says so; the first of such a host's nodes is enough.
func waitForHosts(ctx context.Context, c *hub.Client, shells []*hostShell, limit time.Duration) error {
	endless := limit == 0
	if endless {
		limit = hostsTimeout
	}
	start, said := time.Now(), false
	for _, s := range shells {
		job := s.host.Batch != ""
		for !isUp(ctx, c, s.host) {
			var err error
			select {
			case <-s.done:
				err = errors.New("ssh has ended")
				if job {
					err = errors.New("the job has ended")
				}
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(hostTick):
				waited := time.Since(start)
				if job && waited > hostPatience && !said {
					said = true
					fmt.Fprintf(os.Stderr, "skep: waiting for the job of %s: %s\n", s.host.Name, s.lastLines())
				}
				if waited < limit || job && endless {
					continue
				}
				err = errors.New("it has not joined in time")
			}
			return cli.Errorf(cli.Unreachable, "%s: the host %s: %v: %s", s.host.Place, s.host.Name, err, s.lastLines())
		}
	}
	return nil
}

// isUp reports whether a host is a node, or, with a batch system, whether a job of it is.
func isUp(ctx context.Context, c *hub.Client, h *hosts.Host) bool {
	list, err := c.Nodes(ctx, "")
	if err != nil {
		return false
	}
	for _, n := range list {
		name := n.Name
		if i := strings.LastIndexByte(name, '-'); h.Batch != "" && i > 0 {
			name = name[:i]
		}
		if name == h.Name && n.State == hub.NodeUp {
			return true
		}
	}
	return false
}
