// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
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

// An archive is apt with its own lists, cache and sources in one folder. It needs no
// root, does not change the machine's apt, and accepts only signatures of Debian's
// archive keys.
type archive struct{ dir string }

const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

// A source is one suite of Debian. Security suites are on another host.
type source struct {
	suite    string
	security bool
}

// packageSources returns the suites that hold the packages of a series. apt chooses the
// newest version in all of them, unless series is an exact version. 6.12 is the kernel of
// Debian 13, and a backport to Debian 12, whose versions say so.
func packageSources(series string) []source {
	switch {
	case seriesOf(series) == "6.1":
		return []source{{suite: "bookworm"}, {suite: "bookworm-security", security: true}}
	case exactVersion(series) && !strings.Contains(series, "~bpo"):
		return []source{{suite: "trixie"}, {suite: "trixie-security", security: true}}
	}
	return []source{{suite: "bookworm-backports"}}
}

// A site holds the URLs of this machine's Debian mirrors.
type site struct{ main, security string }

// findSite finds the mirrors in the configuration of the machine's apt. Container images
// often have no package lists, and without lists apt does not know the origin of a source.
// Then findSite first downloads the lists into dir.
func findSite(ctx context.Context, dir string) (site, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return site{}, errors.New("kernels come as Debian packages, and there is no apt-get here: copy build/kernel from a Debian computer")
	}
	format := "$(ORIGIN)\t$(LABEL)\t$(COMPONENT)\t$(SITE)"
	out, err := runOutput(ctx, nil, "apt-get", "indextargets", "--format", format)
	if err != nil {
		return site{}, err
	}
	if s := parseSite(out); s.main != "" {
		return s, nil
	}
	private := []string{"-o", "Dir::State=" + dir, "-o", "Dir::State::lists=" + dir + "/lists",
		"-o", "Dir::Cache=" + dir, "-o", "APT::Sandbox::User=root"}
	// A failure of a source that is not Debian's is ignored.
	_, updateErr := runOutput(ctx, nil, "apt-get", append(private, "update")...)
	out, err = runOutput(ctx, nil, "apt-get", append(private, "indextargets", "--format", format)...)
	if err != nil {
		return site{}, err
	}
	s := parseSite(out)
	if s.main == "" && updateErr != nil {
		return site{}, fmt.Errorf("cannot find where this computer gets Debian packages from: %w", updateErr)
	}
	if s.main == "" {
		return site{}, errors.New("no package source of this computer is Debian's: add one to /etc/apt/sources.list")
	}
	return s, nil
}

func parseSite(targets string) site {
	var s site
	for _, line := range strings.Split(targets, "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[0] != "Debian" || f[2] != "main" || strings.ContainsAny(f[3], " \t[]") {
			continue
		}
		switch {
		case f[1] == "Debian" && s.main == "":
			s.main = f[3]
		case f[1] == "Debian-Security" && s.security == "":
			s.security = f[3]
		}
	}
	return s
}

// sourceLines returns the text of sources.list. On a computer without a security source
// it omits security suites.
func sourceLines(s site, list []source) string {
	var b strings.Builder
	for _, src := range list {
		at := s.main
		if src.security {
			at = s.security
		}
		if at != "" {
			fmt.Fprintf(&b, "deb [signed-by=%s] %s %s main\n", debianKeys, at, src.suite)
		}
	}
	return b.String()
}

// openArchive sets up apt in dir and downloads the lists of a series.
func openArchive(ctx context.Context, dir, series string) (*archive, error) {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "machine/lists/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	s, err := findSite(ctx, filepath.Join(dir, "machine"))
	if err != nil {
		return nil, err
	}
	if !exists(debianKeys) {
		return nil, fmt.Errorf("%s is missing: install the package debian-archive-keyring", debianKeys)
	}
	reach, err := runOutput(ctx, nil, "apt-config", "dump", "--format", `%F "%v";%n`, "Acquire")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"apt.conf":     aptConfig(dir, reach),
		"sources.list": sourceLines(s, packageSources(series)),
		"state/status": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	a := &archive{dir}
	// Without --error-on=any, lists that fail to download are only a warning.
	if _, err := a.run(ctx, "apt-get", "update", "--error-on=any"); err != nil {
		return nil, fmt.Errorf("cannot read Debian's package lists: check the network and try again: %w", err)
	}
	return a, nil
}

// reachOptions matches the options that a machine may need to reach its mirrors.
var reachOptions = lazy.Regexp(`(?m)^Acquire::(http|https|Retries|ForceIPv4|ForceIPv6)\b.*$`)

// aptConfig returns a configuration that replaces the machine's and keeps only reach, its
// proxies and the like. apt reads this file first, and it makes apt read no other.
func aptConfig(dir, reach string) string {
	var b strings.Builder
	for _, line := range reachOptions().FindAllString(reach, -1) {
		b.WriteString(line + "\n")
	}
	for _, o := range [][2]string{
		{"Dir::Etc::main", "/dev/null"},
		{"Dir::Etc::parts", "/dev/null"},
		{"Dir::Etc::sourcelist", dir + "/sources.list"},
		{"Dir::Etc::sourceparts", "/dev/null"},
		{"Dir::Etc::preferences", "/dev/null"},
		{"Dir::Etc::preferencesparts", "/dev/null"},
		{"Dir::State", dir + "/state"},
		{"Dir::State::status", dir + "/state/status"},
		{"Dir::Cache", dir + "/cache"},
		{"APT::Architecture", "amd64"},
		{"APT::Architectures", "amd64"},
		{"APT::Sandbox::User", "root"}, // apt's own user could not write here
		{"APT::Get::AllowUnauthenticated", "false"},
		{"Acquire::AllowInsecureRepositories", "false"},
		{"Acquire::AllowWeakRepositories", "false"},
		{"Acquire::AllowDowngradeToInsecureRepositories", "false"},
		{"Acquire::Languages", "none"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", o[0], o[1])
	}
	return b.String()
}

func (a *archive) run(ctx context.Context, args ...string) (string, error) {
	return runOutput(ctx, a, args[0], args[1:]...)
}

// runOutput runs a command and returns its standard output. An error contains the end of
// its standard error. If a is not nil, apt uses that archive.
func runOutput(ctx context.Context, a *archive, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if a != nil {
		cmd.Dir = filepath.Join(a.dir, "debs")
		cmd.Env = append(cmd.Env, "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"))
	}
	cmd.WaitDelay = time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := run(cmd); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		text := strings.TrimSpace(complaint.String())
		return "", fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-800):])
	}
	return out.String(), nil
}

// A deb is one package of the archive.
type deb struct {
	name, version string
	depends       []string // names without versions
	size          string   // bytes, as written
}

// showPackage reads the newest version of a package.
func (a *archive) showPackage(ctx context.Context, name string) (deb, error) {
	text, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return deb{}, err
	}
	return parseDeb(text)
}

func parseDeb(text string) (deb, error) {
	var d deb
	for _, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "Package":
			d.name = value
		case "Version":
			d.version = value
		case "Size":
			d.size = value
		case "Depends":
			for _, dep := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '|' }) {
				if f := strings.Fields(dep); len(f) > 0 {
					d.depends = append(d.depends, f[0])
				}
			}
		}
	}
	if d.name == "" || d.version == "" {
		return deb{}, errors.New("apt-cache shows a package without name or version")
	}
	return d, nil
}

// A kernelSet holds the names of the packages of one kernel.
type kernelSet struct {
	release, image, headers, common, kbuild string
	version                                 string // of all packages but kbuild; empty: the newest
	kbuildVersion                           string // empty: the newest
}

func (s kernelSet) names() []string { return []string{s.image, s.headers, s.common, s.kbuild} }

// versions returns the version to download of each package with another than the newest.
func (s kernelSet) versions() map[string]string {
	return map[string]string{s.image: s.version, s.headers: s.version, s.common: s.version, s.kbuild: s.kbuildVersion}
}

// resolveSet finds a kernel's packages: those of an exact version, or the newest ones of a
// series, on which the series' metapackages depend.
func (a *archive) resolveSet(ctx context.Context, series string) (kernelSet, error) {
	var s kernelSet
	var err error
	if exactVersion(series) {
		s.version = series
		s.image, err = a.imageOf(ctx, series)
	} else {
		s.image, err = a.newestImage(ctx)
	}
	if err != nil {
		return s, err
	}
	s.release = strings.TrimPrefix(s.image, "linux-image-")
	if !strings.HasPrefix(s.release, seriesOf(series)+".") || !validRelease(s.release) {
		return s, fmt.Errorf("Debian's newest kernel of these suites is %q, not one of series %s", s.image, series)
	}
	s.headers = "linux-headers-" + s.release
	headers, err := a.showPackage(ctx, s.headers)
	if err != nil {
		return s, err
	}
	s.common = pickName(headers.depends, "linux-headers-", "-common")
	s.kbuild = pickName(headers.depends, "linux-kbuild-", "")
	if s.common == "" || s.kbuild == "" {
		return s, fmt.Errorf("package %s depends on no common headers or no kbuild: %s", s.headers, strings.Join(headers.depends, ", "))
	}
	if s.version != "" {
		s.kbuildVersion, err = a.chooseKbuild(ctx, s.kbuild, s.version)
	}
	return s, err
}

// chooseKbuild returns a kernel's own version of kbuild, or nothing, which stands for the newest,
// if the archive holds it no more: the headers of all kernels of a series share the package, and
// take any newer one.
func (a *archive) chooseKbuild(ctx context.Context, name, version string) (string, error) {
	found, err := a.showVersions(ctx, name)
	if err != nil || !slices.ContainsFunc(found, func(d deb) bool { return d.version == version }) {
		return "", err
	}
	return version, nil
}

// showVersions returns every version that the archive holds of packages.
func (a *archive) showVersions(ctx context.Context, names ...string) (list []deb, err error) {
	text, err := a.run(ctx, append([]string{"apt-cache", "show"}, names...)...)
	if err != nil {
		return nil, err
	}
	for _, stanza := range strings.Split(strings.TrimSpace(text), "\n\n") {
		d, err := parseDeb(stanza)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func (a *archive) newestImage(ctx context.Context) (string, error) {
	meta, err := a.showPackage(ctx, "linux-image-amd64")
	return pickName(meta.depends, "linux-image-", "-amd64"), err
}

// imageOf finds the image package that has a version. Its name contains the ABI's version
// instead.
func (a *archive) imageOf(ctx context.Context, version string) (string, error) {
	pattern := `^linux-image-` + regexp.QuoteMeta(seriesOf(version)) + `\.[0-9.+~a-z]*(-[0-9]+)?-amd64$`
	found, err := a.run(ctx, "apt-cache", "search", "--names-only", pattern)
	if err != nil {
		return "", err
	}
	var names []string
	for _, line := range strings.Split(found, "\n") {
		if name, _, ok := strings.Cut(line, " - "); ok {
			names = append(names, name)
		}
	}
	versions := []string{}
	if len(names) > 0 {
		list, err := a.showVersions(ctx, names...)
		if err != nil {
			return "", err
		}
		for _, d := range list {
			if d.version == version {
				return d.name, nil
			}
			versions = append(versions, d.version)
		}
	}
	return "", fmt.Errorf("these suites hold no kernel of version %s, but %s", version, strings.Join(versions, ", "))
}

func pickName(names []string, prefix, suffix string) string {
	for _, n := range names {
		if strings.HasPrefix(n, prefix) && strings.HasSuffix(n, suffix) {
			return n
		}
	}
	return ""
}

// downloadAll downloads packages, whose digests apt checks, and returns their paths by
// name. Of a package without a version it downloads the newest.
func (a *archive) downloadAll(ctx context.Context, names []string, versions map[string]string) (map[string]string, error) {
	args := []string{"apt-get", "download"}
	for _, n := range names {
		if v := versions[n]; v != "" {
			n += "=" + v
		}
		args = append(args, n)
	}
	if _, err := a.run(ctx, args...); err != nil {
		return nil, fmt.Errorf("cannot fetch the kernel's packages: check the network and try again: %w", err)
	}
	paths := map[string]string{}
	for _, n := range names {
		found, err := filepath.Glob(filepath.Join(a.dir, "debs", n+"_*.deb"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("apt-get download left %d files for %s", len(found), n)
		}
		paths[n] = found[0]
	}
	return paths, nil
}
