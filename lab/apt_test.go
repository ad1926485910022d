// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseSite(t *testing.T) {
	targets := "\t\tmain\thttp://third.example/apt\n" +
		"Docker\tDocker\tmain\thttp://docker.example\n" +
		"Debian\tDebian\tcontrib\thttp://contrib.example\n" +
		"Debian\tDebian\tmain\thttp://a.example/[trusted=yes] x\n" +
		"Debian\tDebian\tmain\thttp://a.example/debian\n" +
		"Debian\tDebian\tmain\thttp://b.example/debian\n" +
		"Debian\tDebian-Security\tmain\thttp://a.example/debian-security\n"
	want := site{"http://a.example/debian", "http://a.example/debian-security"}
	if got := parseSite(targets); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := parseSite("Ubuntu\tUbuntu\tmain\thttp://u.example\n"); got != (site{}) {
		t.Errorf("another distribution gives %v", got)
	}
}

func TestSourceLinesTrustDebiansKeysAlone(t *testing.T) {
	text := sourceLines(site{"http://a", "http://s"}, packageSources("6.1"))
	want := "deb [signed-by=" + debianKeys + "] http://a bookworm main\n" +
		"deb [signed-by=" + debianKeys + "] http://s bookworm-security main\n"
	if text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	text = sourceLines(site{main: "http://a"}, packageSources("6.1"))
	if strings.Contains(text, "security") || !strings.Contains(text, " bookworm main") {
		t.Errorf("without a security source: %q", text)
	}
	if text := sourceLines(site{"http://a", "http://s"}, packageSources("6.12")); !strings.Contains(text, "http://a bookworm-backports") {
		t.Errorf("6.12: %q", text)
	}
	for version, want := range map[string]string{
		"6.12.95-1~bpo12+1": "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://a bookworm-backports main\n",
		"6.12.118-1": "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://a trixie main\n" +
			"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://s trixie-security main\n",
	} {
		if text := sourceLines(site{"http://a", "http://s"}, packageSources(version)); text != want {
			t.Errorf("%s: %q", version, text)
		}
	}
}

func TestAptConfigKeepsProxiesAndNoPermission(t *testing.T) {
	reach := "Acquire::http::Proxy \"http://proxy.example:3128\";\nAcquire::AllowInsecureRepositories \"1\";\nAcquire::httpx \"1\";\n"
	text := aptConfig("/d", reach)
	if !strings.Contains(text, `Acquire::http::Proxy "http://proxy.example:3128";`) {
		t.Errorf("the proxy is lost: %s", text)
	}
	if strings.Contains(text, `"1"`) {
		t.Errorf("a permission of the machine is kept: %s", text)
	}
	for _, want := range []string{`AllowUnauthenticated "false"`, `AllowInsecureRepositories "false"`, `Dir::State "/d/state"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// fakeApt puts programs in PATH that print apt's output.
func fakeApt(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func fakeArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{t.TempDir()}
	plantFile(t, filepath.Join(a.dir, "debs/.x"), "")
	return a
}

const showScript = `case $3 in
linux-image-amd64)
	echo "Package: linux-image-amd64"; echo "Version: 6.1.9-1"
	echo "Depends: ${IMAGE:-linux-image-6.1.0-9-amd64} (= 6.1.9-1)" ;;
linux-headers-6.1.0-9-amd64)
	echo "Package: $3"; echo "Version: 6.1.9-1"
	echo "Depends: linux-headers-6.1.0-9-common (= 6.1.9-1), linux-kbuild-6.1 (>= 6.1.9-1), gcc-12 | x" ;;
*) echo "E: No packages found" >&2; exit 100 ;;
esac
`

func TestResolveFollowsTheMetaPackage(t *testing.T) {
	fakeApt(t, map[string]string{"apt-cache": showScript})
	got, err := fakeArchive(t).resolveSet(context.Background(), "6.1")
	want := kernelSet{"6.1.0-9-amd64", "linux-image-6.1.0-9-amd64", "linux-headers-6.1.0-9-amd64",
		"linux-headers-6.1.0-9-common", "linux-kbuild-6.1", "", ""}
	if err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestResolveRefusesAnotherSeries(t *testing.T) {
	fakeApt(t, map[string]string{"apt-cache": showScript})
	for _, image := range []string{"linux-image-6.12.1-amd64", "linux-image-6.1-amd64", "linux-image-6.1.0/../x-amd64", "gcc"} {
		t.Setenv("IMAGE", image)
		_, err := fakeArchive(t).resolveSet(context.Background(), "6.1")
		wantError(t, err, "series 6.1")
	}
	t.Setenv("IMAGE", "linux-image-6.1.7-amd64")
	_, err := fakeArchive(t).resolveSet(context.Background(), "6.1")
	wantError(t, err, "No packages found")
}

func TestDownloadNeedsEachPackageOnce(t *testing.T) {
	a := fakeArchive(t)
	fakeApt(t, map[string]string{"apt-get": `: >"${2}_1_amd64.deb"` + "\n"})
	got, err := a.downloadAll(context.Background(), []string{"linux-kbuild-6.1"}, nil)
	if err != nil || got["linux-kbuild-6.1"] != filepath.Join(a.dir, "debs/linux-kbuild-6.1_1_amd64.deb") {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = a.downloadAll(context.Background(), []string{"other", "missing"}, nil)
	wantError(t, err, "0 files for missing")
	fakeApt(t, map[string]string{"apt-get": "echo 'E: not authenticated' >&2; exit 100\n"})
	_, err = a.downloadAll(context.Background(), []string{"other"}, nil)
	wantError(t, err, "not authenticated")
}

// The real apt reads an unsigned repository.
func TestArchiveWithoutSignatureIsRefused(t *testing.T) {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		t.Skip("no apt-get here")
	}
	repo := t.TempDir()
	text := "Package: linux-image-amd64\nVersion: 6.12.1-1\nArchitecture: amd64\nFilename: x.deb\nSize: 1\n"
	sum := sha256.Sum256([]byte(text))
	plantFile(t, filepath.Join(repo, "dists/bookworm-backports/main/binary-amd64/Packages"), text)
	plantFile(t, filepath.Join(repo, "dists/bookworm-backports/Release"), fmt.Sprintf(
		"Origin: Debian\nSuite: bookworm-backports\nCodename: bookworm-backports\nArchitectures: amd64\nComponents: main\n"+
			"Date: %s\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		time.Now().UTC().Format(time.RFC1123), sum, len(text)))
	path := os.Getenv("PATH")
	fakeApt(t, map[string]string{"apt-get": "PATH=" + path + "\n" +
		"[ \"$1\" = indextargets ] || exec " + apt + " \"$@\"\n" +
		"printf 'Debian\\tDebian\\tmain\\tfile:" + repo + "\\n'\n"})
	t.Setenv("PATH", os.Getenv("PATH")+":"+path)
	_, err = openArchive(context.Background(), t.TempDir(), "6.12")
	wantError(t, err, "is not signed")
}

func TestResolveFindsTheImageOfAVersion(t *testing.T) {
	fakeApt(t, map[string]string{"apt-cache": `case $1 in
search)
	[ "$3" = '^linux-image-6\.1\.[0-9.+~a-z]*(-[0-9]+)?-amd64$' ] || exit 1
	echo "linux-image-6.1.0-8-amd64 - Linux"; echo "linux-image-6.1.0-9-amd64 - Linux" ;;
*)
	shift; case $1 in --*) shift ;; esac
	for p; do
		echo "Package: $p"
		case $p in *-8-*) echo "Version: 6.1.8-2" ;; *kbuild*) echo "Version: $KBUILD" ;; *) echo "Version: 6.1.9-1" ;; esac
		echo "Depends: linux-headers-6.1.0-8-common, linux-kbuild-6.1"
		echo
	done ;;
esac
`})
	// The archive has the kernel's own kbuild, or only a newer one.
	for kbuild, chosen := range map[string]string{"6.1.8-2": "6.1.8-2", "6.1.9-1": ""} {
		t.Setenv("KBUILD", kbuild)
		got, err := fakeArchive(t).resolveSet(context.Background(), "6.1.8-2")
		want := kernelSet{"6.1.0-8-amd64", "linux-image-6.1.0-8-amd64", "linux-headers-6.1.0-8-amd64",
			"linux-headers-6.1.0-8-common", "linux-kbuild-6.1", "6.1.8-2", chosen}
		if err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		if v := got.versions(); v[got.image] != "6.1.8-2" || v[got.common] != "6.1.8-2" || v[got.kbuild] != chosen {
			t.Errorf("kbuild %s: downloaded are %v", kbuild, v)
		}
	}
	_, err := fakeArchive(t).resolveSet(context.Background(), "6.1.8-3")
	wantError(t, err, "no kernel of version 6.1.8-3, but 6.1.8-2, 6.1.9-1")
}

func TestKernelCanBeGivenAsVersion(t *testing.T) {
	if got := seriesOf("6.12.95-1~bpo12+1"); got != "6.12" {
		t.Errorf("6.12.95-1~bpo12+1 is of %s", got)
	}
	dir, err := kernelDir("b", "6.1.176-1")
	if want := filepath.Join("b", "kernel", "6.1.176-1"); err != nil || dir != want {
		t.Errorf("got %s, %v", dir, err)
	}
	for _, series := range []string{"5.10.1-1", "6.1.176-1-debug", "6.1.176", "6.1.176-../x", "6.1.1-1/../x"} {
		if dir, err := kernelDir("b", series); err == nil {
			t.Errorf("%s lies in %s", series, dir)
		}
	}
}
