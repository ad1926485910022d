// SPDX-License-Identifier: MIT

package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/internal/place"
)

// A Runner starts jobs with one installation of MPI.
type Runner struct {
	Install  *Install
	Need     Need
	Provider string // folder of libo2g-fi.so
	Cache    string // folder for files that all hosts of a job must see
}

// A Result is how a job ended.
type Result struct {
	Status  int            // of the launcher
	Signal  syscall.Signal // that ended the launcher, or 0
	Records []Report
}

// stopTime is how long a launcher may take to end its ranks after SIGTERM.
const stopTime = 5 * time.Second

// Run starts the job with this process's standard streams and waits for its end.
// If the context is cancelled, Run sends the launcher SIGTERM, and SIGKILL after
// stopTime.
func (r *Runner) Run(ctx context.Context, j *Job) (Result, error) {
	var res Result
	if j.isRemote() {
		if err := r.Install.findHome(j, sourceAddress); err != nil {
			return res, err
		}
	}
	remove, err := r.Install.listAddresses(j)
	if err != nil {
		return res, err
	}
	defer remove()
	settings, err := r.collectSettings(j)
	if err != nil {
		return res, err
	}
	var collector *Collector
	if !j.TCP {
		secret := NewSecret()
		if collector, err = startCollector(j, secret); err != nil {
			return res, err
		}
		settings = append(settings, Setting{"SKEP_O2G_SECRET", secret},
			Setting{"SKEP_O2G_REPORT", collector.reportTo(j)})
	}
	res.Status, res.Signal, err = start(ctx, r.Install.Command(j, settings), settings)
	if collector != nil {
		res.Records = collector.Close()
	}
	// This removes the status pages that killed ranks left on this computer. A
	// folder that can't be read does not concern the job.
	_, _ = ReadEndpoints(StatusFolders())
	return res, err
}

// collectSettings returns the settings of the MPI, the user's variables for O2G,
// and the folders that the dynamic linker searches first.
func (r *Runner) collectSettings(j *Job) ([]Setting, error) {
	settings := r.Install.Settings(j, r.Provider)
	// Open MPI passes only named variables to other hosts.
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		known := func(s Setting) bool { return s.Name == name }
		ours := name == "SKEP_O2G_SECRET" || name == "SKEP_O2G_REPORT" || slices.ContainsFunc(settings, known)
		if !j.TCP && (strings.HasPrefix(name, "SKEP_O2G_") || strings.HasPrefix(name, "FI_O2G_")) && !ours {
			settings = append(settings, Setting{name, value})
		}
	}
	folders, err := r.Install.Libraries(r.Need, r.Cache)
	if err != nil || len(folders) == 0 {
		return settings, err
	}
	path := strings.Join(folders, ":")
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return append(settings, Setting{"LD_LIBRARY_PATH", path}), nil
}

// startCollector listens for reports on an address that all ranks can reach.
func startCollector(j *Job, secret string) (*Collector, error) {
	if !j.isRemote() {
		return NewCollector("127.0.0.1:0", secret)
	}
	first, last := j.portRange()
	if first == 0 {
		return NewCollector(":0", secret)
	}
	// Ranks and launchers begin at the first port.
	for port := last; ; port-- {
		c, err := NewCollector(":"+strconv.Itoa(port), secret)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return c, err
		}
		if port == first {
			return nil, fmt.Errorf("all ports of --ports %s are in use here: ranks, the launcher and skep itself listen there, so give more", j.Ports)
		}
	}
}

// reportTo returns the collector's address as the ranks see it.
func (c *Collector) reportTo(j *Job) string {
	host := j.home
	if !j.isRemote() {
		host = "127.0.0.1"
	}
	if host == "" {
		host, _ = os.Hostname()
	}
	return net.JoinHostPort(host, strconv.Itoa(c.Port()))
}

// start runs a command with the settings added to the environment.
func start(ctx context.Context, args []string, settings []Setting) (int, syscall.Signal, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = withSettings(os.Environ(), settings)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	cmd.SysProcAttr = dieWithUs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if cmd.Process != nil {
		removeSession(cmd.Process.Pid)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), ws.Signal(), nil
		}
		return exit.ExitCode(), 0, nil
	case err != nil:
		return 0, 0, fmt.Errorf("the launcher %s did not start: %w", args[0], err)
	}
	return 0, 0, nil
}

// withSettings adds the settings to env and removes older values of the same
// variables.
func withSettings(env []string, settings []Setting) []string {
	list := make([]string, 0, len(env)+len(settings))
	set := map[string]bool{}
	for _, s := range settings {
		set[s.Name] = true
	}
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !set[name] {
			list = append(list, e)
		}
	}
	for _, s := range settings {
		list = append(list, s.Name+"="+s.Value)
	}
	return list
}

// Exec replaces this process, a rank that a batch system started, by the program
// (execve). It returns only on failure.
func (r *Runner) Exec(j *Job, secret string) error {
	settings, err := r.collectSettings(j)
	if err != nil {
		return err
	}
	settings = append(settings, Setting{"SKEP_O2G_SECRET", secret})
	path, err := exec.LookPath(j.Program[0])
	if err != nil {
		return err
	}
	return execProgram(path, j.Program, withSettings(os.Environ(), settings))
}

// StepName returns the name of the job step whose rank this process is, from the
// environment of Slurm's srun, or an empty string.
func StepName() string {
	job, step, rank := os.Getenv("SLURM_JOB_ID"), os.Getenv("SLURM_STEP_ID"), os.Getenv("SLURM_PROCID")
	if job == "" || step == "" || rank == "" || os.Getenv("SLURM_STEP_NUM_TASKS") == "" {
		return ""
	}
	if step == "4294967290" || step == "4294967294" { // the batch script, an interactive step
		return ""
	}
	return job + "." + step
}

// ProviderName is the file that libfabric loads.
const ProviderName = "libo2g-fi.so"

// FindProvider returns the folder of the provider that belongs to this program.
func FindProvider() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return providerOf(self)
}

// providerOf is FindProvider for the program at that path, which may be a link.
func providerOf(self string) (string, error) {
	path, err := place.FindFor(self, ProviderName)
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}
