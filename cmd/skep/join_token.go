// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"skep/internal/cli"
)

// tokenVariable is an alternative to --token, because every user can read the command line
// of a process.
const (
	tokenVariable = "SKEP_TOKEN"
	tokenMax      = 4096 // bytes of a file; a token has about 90
)

// readToken returns the token from the option, from a file or standard input, or from the
// environment. It is empty if none is given.
func readToken(f *cli.Flags, option, file string, input io.Reader) (string, error) {
	variable := os.Getenv(tokenVariable)
	os.Unsetenv(tokenVariable) // programs that the agent starts must not see it
	switch {
	case f.Given("token") && f.Given("token-file"):
		return "", f.Usagef("--token and --token-file both give a token: take one")
	case f.Given("token"):
		return option, nil
	case f.Given("token-file"):
		return readTokenFile(file, input)
	}
	return strings.TrimSpace(variable), nil // cmd.exe keeps a blank before &&
}

// readTokenFile reads the token in a file, or in input for "-": its only word, or that of a
// join command.
func readTokenFile(name string, input io.Reader) (string, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", cli.WithCode(cli.Usage, fmt.Errorf("the token's file: %w", err))
		}
		defer file.Close()
		input = file
	}
	text, err := io.ReadAll(io.LimitReader(input, tokenMax))
	if err != nil {
		return "", cli.WithCode(cli.Usage, fmt.Errorf("the token's file: %w", err))
	}
	// The whole join command is accepted too, also as an older hub prints it.
	words := strings.Fields(string(text))
	for i, word := range words {
		if token, ok := strings.CutPrefix(word, tokenVariable+"="); ok {
			return token, nil
		}
		if word == "--token" && i+1 < len(words) {
			return words[i+1], nil
		}
	}
	if len(words) != 1 {
		return "", cli.WithCode(cli.Usage, fmt.Errorf("%s holds no token: one word, or the line that 'skep token' prints", name))
	}
	return words[0], nil
}
