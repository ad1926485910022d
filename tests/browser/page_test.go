// SPDX-License-Identifier: MIT

// Package browser opens the hub's page in a headless Chromium.
package browser

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"skep/tests/built"
	"skep/tests/watch"
)

const interfaces = `Module field;
Globals {
#include <stdlib.h>
#include <unistd.h>
}
Define relax(IN int ms, OUT int cells) { usleep(1000 * ms); *cells = ms; }
Define diverge(IN int ms) { usleep(1000 * ms); abort(); }
`

const masterSource = `#include <OmniRpc.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	static OmniRpcRequest r[400];
	static int cells[400];
	int i;
	if (OmniRpcInit(&argc, &argv) != OMRPC_OK)
		return 1;
	for (i = 0; i < 400; i++)
		r[i] = i % 100 == 50 ? OmniRpcCallAsync("field.diverge", 10)
				     : OmniRpcCallAsync("field.relax", 100, &cells[i]);
	for (i = 0; i < 400; i++)
		OmniRpcWait(r[i]);
	fputs("all waited for\n", stderr);
	getchar();
	return OmniRpcFinalize() != OMRPC_OK;
}
`

// A scene is a hub with two nodes, and a program whose calls run there.
type scene struct {
	t          *testing.T
	build, dir string
	said       watch.Text
}

func (s *scene) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.build, "bin", "skep"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "SKEP_STATE="+filepath.Join(s.dir, "hub"), "SKEP_ERRORS=return")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (s *scene) must(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("skep %v: %v: %s", args, err, &errs)
	}
	return out.String()
}

// start runs a command beside the test, until a pattern matches what it prints.
func (s *scene) start(input io.Reader, pattern string, args ...string) []string {
	s.t.Helper()
	var out watch.Text
	cmd := s.command(args...)
	cmd.Stdin = input
	cmd.Stdout = io.MultiWriter(&out, &s.said)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	var found []string
	s.await(pattern, func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(out.String())
		return found != nil
	})
	return found
}

func (s *scene) await(what string, test func() bool) {
	s.t.Helper()
	err := watch.Poll(4*limit, func() error {
		if test() {
			return nil
		}
		return fmt.Errorf("in vain waited for %s; said was:\n%s", what, s.said.String())
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// newScene returns once the program has waited for its calls, and the page's link. The
// program's name is markup.
func newScene(t *testing.T) (s *scene, link string) {
	t.Helper()
	s = &scene{t: t, build: built.Folder(t, "make test-full T=page-browser")}
	dir, err := os.MkdirTemp("", "b") // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir = dir
	for name, text := range map[string]string{"field.idl": interfaces, "field.c": "int field_is_here;\n", "<b>field.c": masterSource} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.must("gen", "--build", "field.idl", "field.c")
	s.must("gen", "--master", "<b>field.c")
	found := s.start(nil, `SKEP_TOKEN=(\S+) skep join (\S+)`, "up", "--listen", "127.0.0.1:0", "--no-agent")
	token := regexp.MustCompile(`SKEP_TOKEN=(\S+)`).FindStringSubmatch(s.must("token", "--uses", "2"))[1]
	for _, name := range []string{"lab-1", "lab-2"} {
		s.start(nil, "", "join", "--state", filepath.Join(dir, name), "--name", name, "--slots", "2", "--label", "room=north", found[2], "--token", token)
	}
	s.await("the nodes", func() bool { return strings.Count(s.must("nodes"), " up ") == 2 })
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hold.Close() })
	s.start(in, "all waited for", "run", "--", "./<b>field")
	in.Close()
	return s, s.start(nil, `(http://\S+/)\n`, "page")[1]
}

// contrast returns the texts of the page whose colour is too much like that below them: WCAG 2.1,
// criterion 1.4.3, wants a ratio of 4.5.
const contrast = `(() => {
	const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
	const shine = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const base = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
	const below = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > 0) return c.slice(0, 3); } return base; };
	const bad = [];
	for (const e of document.querySelectorAll('body *')) {
		if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
		const a = shine(parse(getComputedStyle(e).color).slice(0, 3)), b = shine(below(e));
		if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) bad.push(e.tagName + ': ' + e.textContent.slice(0, 40));
	}
	return bad.join('; ');
})()`

// The page of a hub can be read in a browser: at the width of a screen and of a telephone, light
// and dark. It asks for nothing but itself, reads itself again, and shows names as text.
func TestPageInABrowser(t *testing.T) {
	program := os.Getenv("SKEP_TEST_BROWSER")
	if program == "" {
		t.Skip("SKEP_TEST_BROWSER names no Chromium: make test-full T=page-browser does")
	}
	s, link := newScene(t)
	b := newTab(t, program, filepath.Join(s.dir, "browser"))
	for _, width := range []int{1280, 360} {
		for _, dark := range []bool{false, true} {
			b.show(width, 900, dark)
			b.open(link + "?still=1")
			if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("at %d pixels the page is %d too wide", width, over)
			}
			if texts := eval[string](b, contrast); texts != "" {
				t.Errorf("dark is %v: colours too much like those below them: %s", dark, texts)
			}
		}
	}
	b.show(1280, 1000, false)
	if n := eval[int](b, "document.querySelectorAll('main b, script, img, iframe, link').length"); n != 0 {
		t.Errorf("%d elements that the page does not have: names became markup", n)
	}
	text := eval[string](b, "document.body.innerText")
	for _, want := range []string{"<b>field", "lab-1", "lab-2", "Labels: room=north", "2 of 2", "diverge", "SIGABRT"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q:\n%s", want, text)
		}
	}
	if file := os.Getenv("SKEP_PICTURE"); file != "" {
		// A picture for the docs does not tell which build of a kernel made it.
		eval[bool](b, `document.querySelectorAll('td').forEach(e => e.innerHTML = e.innerHTML.replace(/^(Linux \d+\.\d+)\S*$/, '$1')), true`)
		b.photograph(file)
	}
	eval[bool](b, "document.querySelector('th a').click(), true")
	b.awaitLoad()
	if text := eval[string](b, "document.body.innerText"); !strings.HasPrefix(text, "Call ") || !strings.Contains(text, "SIGABRT") {
		t.Errorf("the link of a failed call shows:\n%s", text)
	}
	b.open(link)
	first := eval[float64](b, "performance.timeOrigin")
	b.awaitLoad() // by itself
	if again := eval[float64](b, "performance.timeOrigin"); again <= first {
		t.Error("the page did not read itself again")
	}
	requests, complaints := b.drain()
	for _, address := range requests {
		if !strings.HasPrefix(address, link) {
			t.Errorf("the browser asked for %s", address)
		}
	}
	if len(requests) < 7 || len(complaints) > 0 {
		t.Errorf("%d requests; complaints: %s", len(requests), complaints)
	}
}
