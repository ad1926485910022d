// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"skep/internal/cli"
	"skep/internal/uapi"
)

// The registry is a folder of links, MODULE.rex, to worker programs. `skep run` searches
// it last.

const registryFolder = ".omrpc_registry" // in the home directory

// registryPath returns the registry's folder, which may not exist.
func registryPath() (string, error) {
	if dir := os.Getenv("OMRPC_REG_PATH"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, registryFolder), nil
}

const registerUsage = "omrpc-register: write omrpc-register [-path DIR] -show | -clear | -register FILES | -remove FILES"

// runRegister is omrpc-register.
func runRegister(args []string) error {
	dir, err := registryPath()
	if len(args) > 1 && args[0] == "-path" {
		dir, err, args = args[1], nil, args[2:]
	}
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return cli.Errorf(cli.Usage, registerUsage)
	}
	var change func(dir, file string) error
	for _, a := range args {
		switch {
		case a == "-show":
			err = showRegistry(dir)
		case a == "-clear":
			err = clearRegistry(dir)
		case a == "-register":
			change = registerProgram
		case a == "-remove":
			change = removeProgram
		case change == nil || strings.HasPrefix(a, "-"):
			return cli.Errorf(cli.Usage, registerUsage)
		default:
			err = change(dir, a)
		}
		if err != nil {
			return fmt.Errorf("omrpc-register: %w", err)
		}
	}
	return nil
}

func readProgram(path string) (*uapi.Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m, _, err := uapi.ReadManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func registerProgram(dir, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	m, err := readProgram(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	link := filepath.Join(dir, m.Name+".rex")
	word := "registered"
	if err := os.Remove(link); err == nil {
		word = "updated"
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(path, link); err != nil {
		return err
	}
	for i := range m.Functions {
		fmt.Printf("%s:%s was %s. (stub='%s')\n", m.Functions[i].Name, m.Name, word, path)
	}
	return nil
}

// links returns the names and the targets of a registry.
func links(dir string) (names, targets []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range list {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && strings.HasSuffix(e.Name(), ".rex") {
			names, targets = append(names, e.Name()), append(targets, target)
		}
	}
	return names, targets, nil
}

func removeProgram(dir, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	names, targets, err := links(dir)
	if err != nil {
		return err
	}
	for i, t := range targets {
		if t != path {
			continue
		}
		if err := os.Remove(filepath.Join(dir, names[i])); err != nil {
			return err
		}
		fmt.Printf("%s was removed. (stub='%s')\n", strings.TrimSuffix(names[i], ".rex"), path)
		return nil
	}
	return cli.Errorf(cli.Refused, "%s is not registered in %s", path, dir)
}

func clearRegistry(dir string) error {
	names, _, err := links(dir)
	for _, n := range names {
		if err == nil {
			err = os.Remove(filepath.Join(dir, n))
		}
	}
	return err
}

func showRegistry(dir string) error {
	names, targets, err := links(dir)
	if err != nil {
		return err
	}
	for i, n := range names {
		m, err := readProgram(filepath.Join(dir, n))
		if err != nil {
			fmt.Printf("%s\t%s: %v\n", strings.TrimSuffix(n, ".rex"), targets[i], err)
			continue
		}
		for k := range m.Functions {
			fmt.Printf("%s\t%s\t%s\n", m.Functions[k].Name, m.Name, targets[i])
		}
	}
	return nil
}
