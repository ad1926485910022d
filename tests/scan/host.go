// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"skep/tests/watch"
	"skep/tests/wine/wineserver"
)

// startHost starts Wine's server and services, which then serve all programs.
func startHost(o options) (stop func(), err error) {
	if o.prefix == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(o.prefix, 0o755); err != nil {
		return nil, err
	}
	if err := wineserver.Start(bareEnvironment(o)); err != nil {
		return nil, err
	}
	return func() { wineserver.Stop(bareEnvironment(o)) }, nil
}

func bareEnvironment(o options) []string {
	env := append(os.Environ(), "LC_ALL=C.UTF-8")
	if o.prefix != "" {
		env = append(env, wineserver.Env(o.prefix)...)
	}
	return env
}

// finalImage lets bee load a program and reads the rewritten text that bee stored.
func finalImage(o options, bee, dir, program string, env []string) (*image, error) {
	file, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	stored, err := storeImage(o, bee, dir, program, file, env)
	if err != nil {
		return nil, err
	}
	return readImage(file, stored)
}

// hasTwin reports whether the image is byte for byte that of the other host's bee, whose
// images another run of this program searches.
func hasTwin(o options, dir, program string, file, stored []byte) (bool, error) {
	if o.twin == "" {
		return false, nil
	}
	other, err := storeImage(o, o.twin, dir, program, file, nil)
	return bytes.Equal(stored, other), err
}

// storeImage lets bee load a program and returns the image that bee stored of file, the
// program's content.
func storeImage(o options, bee, dir, program string, file []byte, env []string) ([]byte, error) {
	cache := filepath.Join(dir, "cache")
	if err := os.RemoveAll(cache); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	words := append(strings.Fields(bee), "--cache", cache, "--load-only", program)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(bareEnvironment(o), env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	late, err := watch.Run(cmd, 30*time.Second)
	if code := watch.ExitCode(cmd.ProcessState); err != nil || late || code != 0 {
		return nil, fmt.Errorf("bee: exit %d, late %v, %v: %s", code, late, err, said.String())
	}
	// A dynamic program's loader is there too.
	stored, err := os.ReadFile(storedImage(cache, file))
	if err != nil {
		return nil, fmt.Errorf("bee stored no image: %s", said.String())
	}
	return stored, nil
}
