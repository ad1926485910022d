// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const pythonWidth = "88"

// pythonFormat checks Python files with black, which decides their layout.
func pythonFormat(t *tree) ([]string, error) {
	files := t.filesWith(".py")
	if len(files) == 0 {
		return nil, nil
	}
	if _, err := exec.LookPath("black"); err != nil {
		return nil, fmt.Errorf("black: %w; run make setup", err)
	}
	// It would write to the home directory.
	cache, err := os.MkdirTemp("", "black-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	out, err := t.runTool([]string{"BLACK_CACHE_DIR=" + cache}, "black", append([]string{"--check", "--line-length", pythonWidth}, files...)...)
	var bad []string
	for _, line := range out {
		if name, found := strings.CutPrefix(line, "would reformat "); found {
			bad = append(bad, name+": not as black lays it out: make format")
		} else if strings.HasPrefix(line, "error:") {
			bad = append(bad, line)
		}
	}
	return bad, err
}

// pythonLint checks Python files with flake8. It must leave to black what black does.
func pythonLint(t *tree) ([]string, error) {
	files := t.filesWith(".py")
	if len(files) == 0 {
		return nil, nil
	}
	return t.runTool(nil, "flake8", append([]string{"--isolated", "--max-line-length", pythonWidth, "--extend-ignore", "E203,W503"}, files...)...)
}
