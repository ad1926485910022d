// SPDX-License-Identifier: MIT

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"skep/internal/lazy"
)

// launchers lists the file names of launchers in MPI installations.
var launchers = []string{"mpiexec", "mpirun", "mpiexec.hydra", "mpiexec.mpich", "mpirun.openmpi", "orterun", "prterun"}

var (
	hydraVersion = lazy.Regexp(`(?m)^\s*Version:\s*(\S+)`)
	hydraDevice  = lazy.Regexp(`--with-device=(\S+)`)
	intelVersion = lazy.Regexp(`Intel\(R\) MPI Library.*, Version (\S+)`)
	ompiVersion  = lazy.Regexp(`\((?:Open MPI|OpenRTE)\) (\S+)`)
)

// FindInstall chooses the MPI that runs the program: the one in prefix if that is
// given, else the first suitable one among those in the program's folder, in an
// active Python environment and in PATH. With tcp the MPI need not support O2G.
// The error lists the installations found and says what to install.
func FindInstall(ctx context.Context, prefix, program string, tcp bool) (*Install, error) {
	need := NeedOf(program)
	var unfit []string
	for _, path := range launcherPaths(prefix, program) {
		i, err := ProbeLauncher(ctx, path)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text := ""
		if err != nil {
			text = err.Error() // a broken MPI is not a missing one
		} else if why := i.unfitReason(need, tcp); why != "" {
			text = fmt.Sprintf("%s %s", i, why)
		} else {
			return i, nil
		}
		if !slices.Contains(unfit, text) {
			unfit = append(unfit, text)
		}
	}
	return nil, notFound(prefix, program, need, unfit)
}

// launcherPaths returns the paths of launchers to probe, in order.
func launcherPaths(prefix, program string) []string {
	var folders []string
	if prefix != "" {
		folders = []string{filepath.Join(prefix, "bin"), prefix}
	} else {
		folders = append(folders, filepath.Dir(program))
		if env := os.Getenv("VIRTUAL_ENV"); env != "" {
			folders = append(folders, filepath.Join(env, "bin"))
		}
		folders = append(folders, filepath.SplitList(os.Getenv("PATH"))...)
	}
	var list []string
	for _, dir := range folders {
		for _, name := range launchers {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
	}
	return list
}

// probeTime is the time limit for a launcher that is run for its version.
var probeTime = 20 * time.Second

// ProbeLauncher runs a launcher with --version to learn which MPI it belongs to.
func ProbeLauncher(ctx context.Context, launcher string) (*Install, error) {
	if isPALS(launcher) {
		return nil, fmt.Errorf("%s is HPE Cray's PALS, which starts ranks of Cray MPICH only: name an MPICH with --mpi PREFIX, it also runs programs that were built for Cray MPICH", launcher)
	}
	text, err := runLauncher(ctx, launcher, "--version")
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(launcher))
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real // /bin is /usr/bin
	}
	launcher = filepath.Join(folder, filepath.Base(launcher))
	i := &Install{Launcher: launcher, Prefix: filepath.Dir(filepath.Dir(launcher))}
	switch {
	case strings.Contains(text, "HYDRA build details"):
		i.Kind, i.Version = MPICH, firstMatch(hydraVersion(), text)
		i.Fabric = hydraFabric(firstMatch(hydraDevice(), text))
	case intelVersion().MatchString(text):
		// mpirun is a script that takes the first Hydra in PATH, maybe another
		// MPI's.
		i.Kind, i.Version, i.Fabric = IntelMPI, firstMatch(intelVersion(), text), true
		if own := filepath.Join(folder, "mpiexec.hydra"); exists(own) {
			i.Launcher = own
		}
	case ompiVersion().MatchString(text):
		i.Kind, i.Version = OpenMPI, firstMatch(ompiVersion(), text)
		i.Fabric = ompiFabric(ctx, launcher)
	default:
		return nil, fmt.Errorf("%s is not the launcher of a supported MPI", launcher)
	}
	return i, nil
}

// isPALS reports whether a launcher belongs to HPE Cray's PALS, by its folder:
// what it prints varies.
func isPALS(launcher string) bool {
	path, err := filepath.EvalSymlinks(launcher)
	return err == nil && strings.Contains(path, "/pals/")
}

func runLauncher(ctx context.Context, program string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", fmt.Errorf("%s did not answer %s within %s", program, strings.Join(args, " "), probeTime)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

func firstMatch(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return strings.Trim(m[1], `'"`)
	}
	return ""
}

// hydraFabric reports whether an MPICH that was configured with this
// --with-device can use libfabric. The default device is ch4:ofi. A ch3 device,
// or a ch4 device without the netmod ofi, can't use libfabric.
func hydraFabric(device string) bool {
	name, netmods, given := strings.Cut(device, ":")
	switch {
	case device == "":
		return true
	case name != "ch4":
		return false
	case !given:
		return true
	}
	return slices.Contains(strings.Split(netmods, ","), "ofi")
}

// ompiFabric reports whether Open MPI's ompi_info lists the component mtl/ofi.
func ompiFabric(ctx context.Context, launcher string) bool {
	text, err := runLauncher(ctx, filepath.Join(filepath.Dir(launcher), "ompi_info"), "--parsable")
	return err == nil && strings.Contains(text, "mca:mtl:ofi:")
}

// unfitReason reports why an MPI can't run the program; it is empty if it can.
func (i *Install) unfitReason(need Need, tcp bool) string {
	switch {
	case need.Kind() != "" && need.Kind() != i.Kind.family():
		return "is not the family of " + need.Soname
	case !tcp && !i.Fabric:
		return "was built without libfabric"
	case i.Kind == OpenMPI && need.Kind() == "" && !i.ownsLibrary("libmpi.so.40"):
		return "has no libmpi.so.40"
	}
	return ""
}

// ownsLibrary reports whether the installation has that library, in its own lib
// folder or, for an installation below /usr, in the distribution's.
func (i *Install) ownsLibrary(soname string) bool {
	return locateLibrary(soname, []string{filepath.Join(i.Prefix, "lib")}) != ""
}

func notFound(prefix, program string, need Need, unfit []string) error {
	var text strings.Builder
	switch {
	case prefix != "" && len(unfit) == 0:
		fmt.Fprintf(&text, "no MPI in %s: --mpi takes the folder that contains bin/mpiexec", prefix)
	case len(unfit) == 0:
		fmt.Fprint(&text, "no MPI was found next to the program or in PATH")
	case need.Soname != "":
		fmt.Fprintf(&text, "no MPI here runs %s, which was built for %s, over O2G", filepath.Base(program), need.Soname)
	default:
		fmt.Fprint(&text, "no MPI here can use O2G")
	}
	for _, u := range unfit {
		fmt.Fprintf(&text, "; %s", u)
	}
	if need.Kind() != OpenMPI {
		fmt.Fprint(&text, "; an MPICH that can: python3 -m venv mpich && mpich/bin/pip install mpich, then --mpi mpich")
	} else {
		fmt.Fprint(&text, "; install Open MPI with its component mtl/ofi, or name one with --mpi PREFIX")
	}
	return errors.New(text.String())
}
