// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/grid/hub"
	"skep/internal/report"
)

const (
	startRounds = 9
	tickOfWait  = 20 * time.Millisecond
	onLinux     = "Linux itself"
)

// findProgram returns the path of a program of the kit.
func (m *measuring) findProgram(name string) (string, error) {
	path := filepath.Join(m.folder, "programs", filepath.FromSlash(name))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", unshownError("there is no " + name + " of the kit beside skep: give --kit DIR")
	}
	return path, nil
}

// runProgram runs a program in the empty folder, by a loader or, if loader is empty,
// directly.
func (m *measuring) runProgram(ctx context.Context, loader string, argv ...string) (string, error) {
	if loader != "" {
		argv = append([]string{loader}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = m.work, time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		m.logf("%s: %v: %.500s", filepath.Base(argv[0]), err, errs.String())
		return "", fmt.Errorf("%s: %w", filepath.Base(argv[len(argv)-1]), err)
	}
	return out.String(), nil
}

// runBoth runs a program under bee and, on Linux, also natively.
func (m *measuring) runBoth(ctx context.Context, argv ...string) (bee, native string, err error) {
	if bee, err = m.runProgram(ctx, m.bee, argv...); err == nil && runtime.GOOS == "linux" {
		native, err = m.runProgram(ctx, "", argv...)
	}
	return bee, native, err
}

// addFigure adds a figure, with that of the peer unless peer is empty.
func (m *measuring) addFigure(bar, name, unit string, value float64, peer string, peerValue float64) {
	f := report.Figure{Bar: bar, Name: name, Unit: unit, Value: value}
	if peer != "" {
		f.Peer, f.PeerValue = peer, &peerValue
	}
	m.Figures = append(m.Figures, f)
}

func nativePeer() string {
	if runtime.GOOS == "linux" {
		return onLinux
	}
	return ""
}

func measurePrograms(ctx context.Context, m *measuring) error {
	table, err := os.ReadFile(filepath.Join(m.folder, "kit.tbl"))
	if errors.Is(err, fs.ErrNotExist) {
		return unshownError("there is no kit beside skep: give --kit DIR")
	}
	if err != nil {
		return err
	}
	k := &kit{bee: m.bee, folder: m.folder}
	passed, total := 0, 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		total++
		if why := k.runCase(ctx, fields[0], fields[1:]); why != nil {
			m.logf("%s: %v", fields[0], why)
			continue
		}
		passed++
	}
	m.addFigure("programs", "same output as on Linux", "programs", float64(passed), "in the kit", float64(total))
	return nil
}

func measureCalls(ctx context.Context, m *measuring) error {
	program, err := m.findProgram("bench/calls")
	if err != nil {
		return err
	}
	bee, native, err := m.runBoth(ctx, program)
	if err != nil {
		return err
	}
	peers := parseFigures(native)
	for _, f := range parseFigures(bee) {
		i := slices.IndexFunc(peers, func(p figureLine) bool { return p.name == f.name })
		if i < 0 {
			m.addFigure("calls", f.name, "ns", f.value, "", 0)
			continue
		}
		m.addFigure("calls", f.name, "ns", f.value, onLinux, peers[i].value)
	}
	return nil
}

// A figureLine is a line "NAME... VALUE".
type figureLine struct {
	name  string
	value float64
}

func parseFigures(text string) (list []figureLine) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if v, err := strconv.ParseFloat(words[len(words)-1], 64); err == nil {
			list = append(list, figureLine{strings.Join(words[:len(words)-1], " "), v})
		}
	}
	return list
}

// measureStart measures the median run time of a program that prints its arguments.
func measureStart(ctx context.Context, m *measuring) error {
	program, err := m.findProgram("musl/hello")
	if err != nil {
		return err
	}
	median := func(loader string) float64 {
		var times []float64
		for range startRounds {
			begin := time.Now()
			argv := []string{program}
			if loader != "" {
				argv = []string{loader, program}
			}
			exec.CommandContext(ctx, argv[0], argv[1:]...).Run() // the exit code does not matter here
			times = append(times, float64(time.Since(begin).Microseconds())/1000)
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	own, peer := median(m.bee), 0.0
	if nativePeer() != "" {
		peer = median("")
	}
	m.addFigure("start", "hello from start to end", "ms", own, nativePeer(), peer)
	return ctx.Err()
}

// measureEigen solves one point of the demo's problem.
func measureEigen(ctx context.Context, m *measuring) error {
	program, err := m.findProgram("bench/point")
	if err != nil {
		return err
	}
	bee, native, err := m.runBoth(ctx, program, "--time", "12", "3")
	if err != nil {
		return err
	}
	last := func(text string) float64 {
		lines := strings.Fields(text)
		if len(lines) == 0 {
			return 0
		}
		v, _ := strconv.ParseFloat(lines[len(lines)-1], 64)
		return v * 1000
	}
	if last(bee) == 0 {
		return fmt.Errorf("the solver printed %.200q", bee)
	}
	m.addFigure("eigen", "one solve", "ms", last(bee), nativePeer(), last(native))
	return nil
}

// measureJoin starts a hub and a node here, in a folder of their own.
func measureJoin(ctx context.Context, m *measuring) error {
	begin := time.Now()
	client, stop, err := (&run{}).startAlone()
	if err != nil {
		return err
	}
	defer stop()
	for clock := time.Tick(tickOfWait); ; {
		list, err := client.Nodes(ctx, "")
		if err == nil && slices.ContainsFunc(list, func(n hub.NodeInfo) bool { return n.State == hub.NodeUp }) {
			m.addFigure("join", "hub and node, from nothing to ready", "ms", float64(time.Since(begin).Milliseconds()), "", 0)
			return nil
		}
		select {
		case <-clock:
		case <-ctx.Done():
			return fmt.Errorf("no node came up: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// runSelf runs another command of skep.
func (m *measuring) runSelf(ctx context.Context, words ...string) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return m.runProgram(ctx, path, words...)
}

// checkModuleLoaded says why a bar needs Linux and a module.
func checkModuleLoaded(device, module string) error {
	if runtime.GOOS != "linux" {
		return unshownError("only Linux can load the module " + module)
	}
	if _, err := os.Stat(device); err != nil {
		return unshownError("the module " + module + " is not loaded")
	}
	return nil
}

// measureNoise compares a lent core with one of Linux, if cores are lent here.
func measureNoise(ctx context.Context, m *measuring) error {
	program, err := m.findProgram("bench/noise")
	if err != nil {
		return err
	}
	if err := checkModuleLoaded("/dev/shimos", "shimos"); err != nil {
		return err
	}
	lent, err := m.runSelf(ctx, "part", "run", "--", program)
	if err != nil {
		return fmt.Errorf("%w: is there a partition? 'skep part create' makes one", err)
	}
	native, err := m.runProgram(ctx, "", program)
	if err != nil {
		return err
	}
	return m.addPairs("noise", lent, "a core of Linux", native)
}

// addPairs adds the figures of two outputs with lines "NAME VALUE UNIT".
func (m *measuring) addPairs(bar, own, peer, others string) error {
	n := 0
	for line := range strings.Lines(own) {
		w := strings.Fields(strings.TrimPrefix(line, "result "))
		if len(w) != 3 {
			continue
		}
		v, err := strconv.ParseFloat(w[1], 64)
		if err != nil {
			continue
		}
		n++
		other, found := 0.0, ""
		for line := range strings.Lines(others) {
			if o := strings.Fields(strings.TrimPrefix(line, "result ")); len(o) == 3 && o[0] == w[0] {
				other, err = strconv.ParseFloat(o[1], 64)
				if err == nil {
					found = peer
				}
			}
		}
		m.addFigure(bar, w[0], w[2], v, found, other)
	}
	if n == 0 {
		return fmt.Errorf("no figures in %.200q", own)
	}
	return nil
}

// measureUpdate reads the module's measurements of applied updates.
func measureUpdate(ctx context.Context, m *measuring) error {
	if err := checkModuleLoaded("/dev/dynamos", "dynamos"); err != nil {
		return err
	}
	text, err := m.runSelf(ctx, "update", "status", "--json")
	if err != nil {
		return err
	}
	return m.addUpdates(text)
}

func (m *measuring) addUpdates(text string) error {
	type side struct {
		Calls uint64 `json:"calls"`
		P50   int64  `json:"p50_ns"`
	}
	var list []struct {
		Functions []struct {
			Name string `json:"symbol"`
			Old  side   `json:"old"`
			New  side   `json:"new"`
		} `json:"functions"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return err
	}
	n := 0
	for _, u := range list {
		for _, f := range u.Functions {
			if f.Old.P50 > 0 && f.New.P50 > 0 {
				m.addFigure("update", f.Name+", median call", "ns", float64(f.New.P50), "the old version", float64(f.Old.P50))
				n++
			}
		}
	}
	if n == 0 {
		return unshownError("no update is applied whose both versions were called: apply one for some processes, and measure again")
	}
	return nil
}

// measureO2G runs one rank on each of two hosts.
func measureO2G(ctx context.Context, m *measuring) error {
	if runtime.GOOS != "linux" {
		return unshownError("MPI programs over O2G run on Linux")
	}
	if m.hosts == "" {
		return unshownError("no second host is named: give --hosts A,B and --measure PROGRAM")
	}
	words := []string{"mpirun", "--quiet", "--hosts", m.hosts, "-n", "2"}
	if m.mpi != "" {
		words = append(words, "--mpi", m.mpi)
	}
	own, err := m.runSelf(ctx, append(words, "--", m.bench.program)...)
	if err != nil {
		return err
	}
	tcp, err := m.runSelf(ctx, append(append(words, "--tcp"), "--", m.bench.program)...)
	if err != nil {
		return err
	}
	return m.addPairs("o2g", own, "the MPI's own TCP", tcp)
}
