// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"skep/dynamos/update/pack"
	"skep/internal/cli"
	"skep/o2g/launch"
)

type mpirun struct {
	job    launch.Job
	hosts  string
	prefix string
	update string
	quiet  bool
	table  bool
}

func (m *mpirun) options(f *cli.Flags) {
	f.Func("n", "start `N` ranks (default: one per core, or what the hosts say)", func(s string) (err error) {
		m.job.Ranks, err = parseRanks(s)
		return err
	})
	f.Func("np", "start `N` ranks, as -n does", func(s string) (err error) {
		m.job.Ranks, err = parseRanks(s)
		return err
	})
	f.StringVar(&m.hosts, "hosts", "", "run on these hosts: `A,B` or A:SLOTS,B:SLOTS")
	f.StringVar(&m.job.Hostfile, "hostfile", "", "run on the hosts in `FILE`, as the MPI's own launcher reads it")
	f.StringVar(&m.job.Iface, "iface", "", "network `INTERFACE` or address for messages")
	f.StringVar(&m.job.Ports, "ports", "", "listen only on ports from `FIRST-LAST`, for firewalls; the launcher too")
	f.BoolVar(&m.job.NoShm, "no-shm", false, "send messages between ranks of one host over the network too")
	f.BoolVar(&m.job.TCP, "tcp", false, "use the MPI's own TCP instead of O2G, for comparison")
	f.StringVar(&m.prefix, "mpi", "", "use the MPI in `PREFIX` (the folder above its bin)")
	f.StringVar(&m.job.Launcher, "launcher", "", "reach hosts with `PROGRAM` instead of ssh; it is called like ssh")
	f.StringVar(&m.job.Engine, "engine", "", "the `ENGINE` that matches messages: kernel, user or auto (kernel if its module is loaded)")
	f.BoolVar(&m.job.Encrypt, "encrypt", false, "encrypt all messages of O2G")
	f.StringVar(&m.update, "update", "", "put the committed kernel update `NAME` in force for the ranks on each host")
	f.BoolVar(&m.quiet, "quiet", false, "omit the closing line")
	f.BoolVar(&m.table, "summary", false, "at the end, print a line for each process that reported")
}

var engines = []string{"auto", "kernel", "user"}

// splitArgs separates the options of the MPI's launcher from those of skep.
func (m *mpirun) splitArgs(f *cli.Flags, args []string) ([]string, error) {
	rest, passed, err := launch.SplitOptions(args, launch.Own{Values: f.Values, Meant: f.Meant})
	if err != nil {
		return nil, f.Usagef("%v", err)
	}
	m.job.Options = passed
	return rest, nil
}

// ranksMax is far above the number of ranks that one launcher can start.
const ranksMax = 1 << 20

func parseRanks(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > ranksMax {
		return 0, errors.New("want a number of ranks, 1 or more")
	}
	return n, nil
}

func (m *mpirun) run(ctx context.Context, f *cli.Flags, words []string) error {
	if runtime.GOOS != "linux" {
		return cli.Errorf(cli.Refused, "skep mpirun runs on Linux only: use it on a Linux machine")
	}
	words, err := m.splitParts(f, words)
	if err != nil {
		return err
	}
	if err := m.check(f); err != nil {
		return err
	}
	m.job.Step = launch.StepName() != "" && !m.placed()
	if m.job.Step && len(m.job.Options)+len(m.job.Parts) > 0 {
		return f.Usagef("the batch system starts the ranks of this step, not the MPI's launcher: give such options and \":\" to it")
	}
	if m.job.Step && m.table {
		return f.Usagef("the tasks of a job step report to nobody, so there is nothing for --summary to count")
	}
	runner, err := m.newRunner(ctx, words)
	if err != nil {
		return err
	}
	if m.job.Step {
		return m.execRank(runner, launch.StepName())
	}
	if !m.placed() {
		m.job.Ranks = runtime.NumCPU()
	}
	res, err := runner.Run(ctx, &m.job)
	if err != nil {
		return err
	}
	if m.table {
		if err := summaryOf(res.Records).Write(os.Stderr); err != nil {
			return err
		}
	}
	if !m.quiet {
		fmt.Fprintln(os.Stderr, "skep: "+m.closingLine(runner.Install, res))
	}
	if res.Status != 0 && runner.Install.Kind != launch.OpenMPI {
		if err := launch.CheckShared("/dev/shm"); err != nil {
			fmt.Fprintln(os.Stderr, "skep: "+sharedAdvice(runner.Install, err))
		}
	}
	if ctx.Err() != nil {
		return cli.Exit(exitStopped)
	}
	if res.Status != 0 {
		return cli.Exit(res.Status & 0xff)
	}
	return nil
}

// sharedAdvice explains a likely cause of a failed job, for example in a container.
func sharedAdvice(i *launch.Install, err error) string {
	return fmt.Sprintf("%v, and %s needs that to start, over its own TCP too: give the container a /dev/shm, or mount a tmpfs there", err, i.Kind)
}

// splitParts separates the parts after ":" from the first program.
func (m *mpirun) splitParts(f *cli.Flags, words []string) ([]string, error) {
	first, rest := words, []string(nil)
	if at := slices.Index(words, ":"); at >= 0 {
		first, rest = words[:at], words[at+1:]
	}
	if len(first) == 0 {
		return nil, f.Expectf("a program is expected")
	}
	if len(first) == len(words) {
		return first, nil
	}
	if m.job.Ranks == 0 {
		return nil, f.Usagef("a job of several programs needs -n N for each of them")
	}
	parts, err := launch.ParseParts(rest, f.Meant)
	if err != nil {
		return nil, f.Usagef("%v", err)
	}
	m.job.Parts = parts
	return first, nil
}

// placed reports whether an option determines how many ranks start, or where.
func (m *mpirun) placed() bool {
	return m.job.Ranks != 0 || m.hosts != "" || m.job.Hostfile != ""
}

func (m *mpirun) check(f *cli.Flags) error {
	if f.Given("hosts") && m.job.Hostfile != "" {
		return f.Usagef("--hosts and --hostfile exclude each other")
	}
	if f.Given("hosts") {
		m.job.Hosts = strings.Split(m.hosts, ",")
		for _, h := range m.job.Hosts {
			if h == "" || strings.HasPrefix(h, "-") {
				return f.Usagef("--hosts %q: a name is missing", m.hosts)
			}
		}
	}
	if m.job.Hostfile != "" {
		if info, err := os.Stat(m.job.Hostfile); err != nil {
			return f.Usagef("--hostfile %s can't be read: %v", m.job.Hostfile, reasonOf(err))
		} else if info.IsDir() {
			return f.Usagef("--hostfile %s can't be read: it is a directory", m.job.Hostfile)
		}
	}
	if f.Given("update") && !pack.ValidName(m.update) {
		return f.Usagef("--update %q: this is not the name of an update", m.update)
	}
	if err := m.resolveLauncher(f); err != nil {
		return err
	}
	if e := m.job.Engine; e != "" && !slices.Contains(engines, e) {
		return f.Usagef("there is no engine %q; there is: %s", e, strings.Join(engines, ", "))
	}
	if f.Given("ports") && !portRange(m.job.Ports) {
		return f.Usagef("--ports %q: want FIRST-LAST, as 7700-7763", m.job.Ports)
	}
	if m.job.TCP && m.table {
		return f.Usagef("--tcp does not use O2G, so there is nothing for --summary to count")
	}
	if m.job.TCP && m.job.Encrypt {
		return f.Usagef("--tcp does not use O2G, and only O2G encrypts: omit --tcp or --encrypt")
	}
	if m.job.TCP && (m.job.Engine != "" || m.job.Ports != "") {
		return f.Usagef("--tcp does not use O2G, so --engine and --ports have no effect with it")
	}
	return nil
}

// portRange reports whether a text is FIRST-LAST or one port, as libo2g accepts it.
func portRange(text string) bool {
	first, last, more := strings.Cut(text, "-")
	if !more {
		last = first
	}
	a, bad := strconv.ParseUint(first, 10, 16)
	b, worse := strconv.ParseUint(last, 10, 16)
	return bad == nil && worse == nil && a > 0 && a <= b
}

// resolveLauncher makes --launcher an absolute path, because the MPI's launcher may start
// it in another folder.
func (m *mpirun) resolveLauncher(f *cli.Flags) error {
	name := m.job.Launcher
	if name == "" {
		return nil
	}
	if m.hosts == "" && m.job.Hostfile == "" {
		return f.Usagef("--launcher needs hosts: give --hosts or --hostfile")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return f.Usagef("--launcher %s can't be run: %v", name, reasonOf(err))
	}
	m.job.Launcher, err = filepath.Abs(path)
	return err
}

// newRunner finds what the program needs.
func (m *mpirun) newRunner(ctx context.Context, words []string) (*launch.Runner, error) {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, notRun(words[0], err)
	}
	m.job.Program = append([]string{path}, words[1:]...)
	r := &launch.Runner{Need: launch.NeedOf(path)}
	for i, p := range m.job.Parts {
		if path, err = exec.LookPath(p.Program[0]); err != nil {
			return nil, notRun(p.Program[0], err)
		}
		if need := launch.NeedOf(path); need != r.Need {
			return nil, cli.Errorf(cli.Refused, "%s and %s were not built for the same MPI: a job has one", m.job.Program[0], path)
		}
		m.job.Parts[i].Program = append([]string{path}, p.Program[1:]...)
	}
	if r.Install, err = launch.FindInstall(ctx, m.prefix, path, m.job.TCP); err != nil {
		return nil, err
	}
	if err := r.Install.CheckJob(&m.job); err != nil {
		return nil, cli.Errorf(cli.Usage, "mpirun: %v", err)
	}
	if !m.job.TCP {
		if r.Provider, err = launch.FindProvider(); err != nil {
			return nil, err
		}
	}
	if err := m.holdUpdate(); err != nil {
		return nil, err
	}
	r.Cache, err = cli.StateDir()
	return r, err
}

// holdUpdate lets each rank begin as 'skep update hold', which is at the same path on each
// host and becomes the program.
func (m *mpirun) holdUpdate() error {
	if m.update == "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hold := []string{self, "update", "hold", m.update, "--"}
	m.job.Program = slices.Concat(hold, m.job.Program)
	for i := range m.job.Parts {
		m.job.Parts[i].Program = slices.Concat(hold, m.job.Parts[i].Program)
	}
	return nil
}

// execRank replaces this process, a task of a batch step, by the program.
func (m *mpirun) execRank(r *launch.Runner, step string) error {
	secret, err := launch.StepSecret(r.Cache, step)
	if err != nil {
		return err
	}
	return r.Exec(&m.job, secret)
}

// uncounted is the text for ranks that sent no report.
const uncounted = "they never began, were killed, or can't reach this computer"

// brokenPipe is the advice after a race that Hydra, the launcher of MPICH and others, has: when
// its standard input ends, it writes to a rank's host that may have ended before.
const brokenPipe = "SIGPIPE killed the launcher, which may happen after all ranks went well if its standard input ends late: </dev/null avoids it"

// closingLine returns the last line: how many messages went over O2G. It covers only the
// ranks that reported.
func (m *mpirun) closingLine(i *launch.Install, res launch.Result) string {
	name := fmt.Sprintf("%s %s", i.Kind, i.Version)
	if m.job.TCP {
		return name + " on its own TCP; no message went over O2G, as --tcp asks"
	}
	t := launch.Sum(res.Records)
	if t.Endpoints == 0 && res.Status == 0 {
		return name + ": no rank reported an O2G endpoint, so no message went over O2G"
	}
	text := name + ": " + m.reportedText(t.Processes)
	if t.Endpoints > 0 {
		text += "; " + m.carriedText(i, &t)
	}
	switch {
	case t.Endpoints == 0:
		text += "; what they sent is not counted: " + uncounted
	case t.Processes < m.job.TotalRanks():
		text += "; what the others sent is not counted: " + uncounted
	}
	if res.Signal == syscall.SIGPIPE {
		text += "; " + brokenPipe
	}
	return text
}

// reportedText says how many of the ranks reported. If there are more processes than
// ranks, the program has spawned some; their number is not known here.
func (m *mpirun) reportedText(processes int) string {
	switch {
	case m.job.TotalRanks() == 0:
		return fmt.Sprintf("%d ranks reported", processes)
	case processes > m.job.TotalRanks():
		return fmt.Sprintf("%d processes reported, of %d ranks and what they spawned", processes, m.job.TotalRanks())
	}
	return fmt.Sprintf("%d of %d ranks reported", processes, m.job.TotalRanks())
}

// silenceCause says why no message went over O2G although every rank reported, and what to
// change.
func (m *mpirun) silenceCause(i *launch.Install) string {
	const nothing = "no message went over O2G"
	switch {
	case m.job.TotalRanks() == 1:
		return nothing + ": there is one rank"
	case m.job.NoShm || i.Kind == launch.OpenMPI: // no shared memory besides O2G
		return nothing
	}
	return nothing + " (ranks of one host use the MPI's shared memory; --no-shm changes that)"
}

// carriedText summarizes the ranks' reports.
func (m *mpirun) carriedText(i *launch.Install, t *launch.Total) string {
	switch {
	case t.Sent == 0 && t.Processes >= m.job.TotalRanks():
		return m.silenceCause(i)
	case t.Sent == 0:
		return "they sent nothing over O2G"
	}
	engine := "user engine"
	if t.Kernel == t.Endpoints {
		engine = "kernel engine"
	} else if t.Kernel > 0 {
		engine = fmt.Sprintf("kernel engine on %d, user engine on %d", t.Kernel, t.Endpoints-t.Kernel)
	}
	text := fmt.Sprintf("%s over O2G (%s), %s", countMessages(t.Sent-t.Self), engine, cli.FormatBytes(t.SentBytes))
	if t.Self > 0 {
		text += fmt.Sprintf("; %d more from ranks to themselves", t.Self)
	}
	if t.Expected > 0 {
		text += fmt.Sprintf("; %d%% met a posted receive", min(100, 100*t.Expected/t.Sent))
	}
	if t.Requested > 0 {
		text += fmt.Sprintf("; %d beyond credit", t.Requested)
	}
	if t.Waited > 0 {
		text += fmt.Sprintf("; %d waited for credit", t.Waited)
	}
	if t.Resent > 0 {
		text += fmt.Sprintf("; TCP segments sent again: %d", t.Resent)
	}
	return text
}

func countMessages(n uint64) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
