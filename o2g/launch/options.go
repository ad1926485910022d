// SPDX-License-Identifier: MIT

package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// launcherOptions are the options that a job may pass on to each MPI's launcher,
// with the number of arguments of each. Sources: Hydra's mpiexec --help, and
// mpirun(1) of Open MPI 4.1 and 5. skep's own options are not listed here.
var launcherOptions = map[Kind]map[string]int{
	MPICH: {
		"ppn": 1, "env": 2, "envlist": 1, "envall": 0, "envnone": 0,
		"genv": 2, "genvlist": 1, "genvall": 0, "genvnone": 0,
		"bind-to": 1, "map-by": 1, "membind": 1, "topolib": 1, "wdir": 1,
		"l": 0, "prepend-rank": 0, "prepend-pattern": 1, "outfile-pattern": 1, "errfile-pattern": 1,
		"rmk": 1, "order-nodes": 1, "skip-launch-node": 0, "usize": 1, "s": 1,
		"disable-auto-cleanup": 0, "disable-hostname-propagation": 0, "enable-x": 0, "disable-x": 0,
		"print-rank-map": 0, "print-all-exitcodes": 0, "v": 0, "verbose": 0,
	},
	OpenMPI: {
		"x": 1, "mca": 2, "gmca": 2, "prtemca": 2, "pmixmca": 2, "am": 1, "tune": 1,
		"bind-to": 1, "map-by": 1, "rank-by": 1, "N": 1, "npernode": 1, "npersocket": 1,
		"cpus-per-proc": 1, "cpus-per-rank": 1, "cpu-set": 1, "cpu-list": 1, "rankfile": 1, "rf": 1,
		"bynode": 0, "byslot": 0, "bind-to-core": 0, "bind-to-none": 0, "bind-to-socket": 0,
		"oversubscribe": 0, "nooversubscribe": 0, "nolocal": 0, "use-hwthread-cpus": 0,
		"report-bindings": 0, "display": 1, "display-map": 0, "display-allocation": 0,
		"wd": 1, "wdir": 1, "path": 1, "set-cwd-to-session-dir": 0, "preload-binary": 0, "preload-files": 1,
		"stdin": 1, "output": 1, "output-filename": 1, "tag-output": 0, "timestamp-output": 0, "merge-stderr-to-stdout": 0,
		"timeout": 1, "report-state-on-timeout": 0, "get-stack-traces": 0, "max-restarts": 1, "enable-recovery": 0, "disable-recovery": 0,
		"allow-run-as-root": 0, "v": 0, "verbose": 0,
	},
}

// ownNames maps a launcher's option to skep's name for the same option.
var ownNames = map[string]string{
	"host": "--hosts", "H": "--hosts", "f": "--hostfile", "machinefile": "--hostfile", "machine": "--hostfile",
	"default-hostfile": "--hostfile", "launcher-exec": "--launcher", "c": "-n",
}

// An Option is one of the launcher's options as typed: the name with its dashes,
// then the values.
type Option []string

// optionName returns the name of an option without dashes and "=VALUE", or an
// empty string if the word is no option.
func optionName(word string) string {
	name := strings.TrimLeft(word, "-")
	if name == word || word == "-" || word == "--" {
		return ""
	}
	name, _, _ = strings.Cut(name, "=")
	return name
}

// Own describes skep's options to SplitOptions.
type Own struct {
	Values func(name string) int  // the number of arguments, or -1 if skep has no such option
	Meant  func(name string) bool // whether a name is that of one of skep's options, or a typo of it
}

// SplitOptions separates the launchers' options from the other words before the
// program. skep's options stay in rest. An option that nobody here knows is the
// launcher's if "--" tells its values from the program, else it stays in rest.
func SplitOptions(args []string, own Own) (rest []string, passed []Option, err error) {
	for len(args) > 0 {
		name := optionName(args[0])
		if name == "" {
			break
		}
		ours := own.Values(name)
		values, known := valuesOf(name)
		if ours < 0 && !known && !own.Meant(name) {
			values, known = countValues(args[1:])
		}
		if ours < 0 && ownNames[name] != "" {
			return nil, nil, fmt.Errorf("%s of the MPI's launcher is %s here", args[0], ownNames[name])
		}
		if ours >= 0 || !known {
			values = max(ours, 0)
		}
		if strings.Contains(args[0], "=") {
			values = 0
		}
		if len(args) <= values {
			return append(rest, args...), passed, nil // the option parser reports the missing value
		}
		if ours < 0 && known {
			passed = append(passed, args[:1+values])
		} else {
			rest = append(rest, args[:1+values]...)
		}
		args = args[1+values:]
	}
	return append(rest, args...), passed, nil
}

// countValues returns the number of words up to the next option or "--". It is not
// known if no "--" of this part follows.
func countValues(words []string) (values int, known bool) {
	values = -1
	for i, w := range words {
		if values < 0 && (w == "--" || optionName(w) != "") {
			values = i
		}
		if w == "--" || w == ":" {
			return values, w == "--"
		}
	}
	return 0, false
}

// valuesOf returns the number of arguments of a launcher's option. It is the same
// in all launchers that have the option.
func valuesOf(name string) (values int, known bool) {
	for _, list := range launcherOptions {
		if values, known = list[name]; known {
			return values, true
		}
	}
	return 0, false
}

// CheckJob refuses an option that belongs to another MPI's launcher.
func (i *Install) CheckJob(j *Job) error {
	list := slices.Clone(j.Options)
	for _, p := range j.Parts {
		list = append(list, p.Options...)
	}
	for _, o := range list {
		name := optionName(o[0])
		if _, known := launcherOptions[i.Kind.family()][name]; known {
			continue
		}
		for kind, options := range launcherOptions {
			if _, theirs := options[name]; theirs {
				return fmt.Errorf("%s is an option of %s, and this job runs on %s %s: see %s --help", o[0], kind, i.Kind, i.Version, i.Launcher)
			}
		}
	}
	return nil
}

// A Part is a further program of an MPMD job. It follows a ":" on the command line.
type Part struct {
	Ranks   int
	Options []Option
	Program []string
}

// ParseParts parses the words after the first ":" of a command line. Each part is
// -n and options of the launcher, then a program. ours reports whether a name is that
// of one of skep's options, or a typo of it.
func ParseParts(words []string, ours func(name string) bool) ([]Part, error) {
	var parts []Part
	for {
		end := slices.Index(words, ":")
		if end < 0 {
			end = len(words)
		}
		part, err := parsePart(words[:end], ours)
		if err != nil {
			return nil, fmt.Errorf("part %d, %q: %w", len(parts)+2, strings.Join(words[:end], " "), err)
		}
		parts = append(parts, part)
		if end == len(words) {
			return parts, nil
		}
		words = words[end+1:]
	}
}

func parsePart(words []string, ours func(name string) bool) (Part, error) {
	rest, options, err := SplitOptions(words, Own{Meant: ours, Values: func(name string) int {
		if name == "n" || name == "np" {
			return 1
		}
		return -1
	}})
	p := Part{Options: options}
	if err != nil {
		return p, err
	}
	if len(rest) > 1 && (optionName(rest[0]) == "n" || optionName(rest[0]) == "np") {
		n, err := strconv.Atoi(rest[1])
		if err != nil || n < 1 {
			return p, fmt.Errorf("%s %s: want a number of ranks, 1 or more", rest[0], rest[1])
		}
		p.Ranks, rest = n, rest[2:]
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	} else if len(rest) > 0 && optionName(rest[0]) != "" {
		return p, fmt.Errorf("%s can't follow a \":\": give -n N and options of the MPI's launcher", rest[0])
	}
	switch {
	case len(rest) == 0:
		return p, fmt.Errorf("a program is expected")
	case p.Ranks == 0:
		return p, fmt.Errorf("-n N is expected")
	}
	p.Program = rest
	return p, nil
}

// TotalRanks counts the ranks of all parts; 0 if the launcher decides.
func (j *Job) TotalRanks() int {
	n := j.Ranks
	for _, p := range j.Parts {
		n += p.Ranks
	}
	return n
}

// hasOption reports whether the first part has one of these options.
func (j *Job) hasOption(names ...string) bool {
	return slices.ContainsFunc(j.Options, func(o Option) bool { return slices.Contains(names, optionName(o[0])) })
}

// args returns this part's words of the launcher's command line: its options,
// exports (which name the settings to Open MPI) and its program.
func (p *Part) args(exports []string) []string {
	args := append([]string{":", "-n", strconv.Itoa(p.Ranks)}, exports...)
	for _, o := range p.Options {
		args = append(args, o...)
	}
	return append(args, p.Program...)
}
