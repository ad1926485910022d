// SPDX-License-Identifier: MIT

//go:build linux

// Debug builds debug kernels into the user's cache, for make.
//
// usage: debug BUILD RECIPE SERIES...
//
// RECIPE is the folder with build.sh and debug.config, SERIES has the suffix
// -debug.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"skep/lab"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: debug BUILD RECIPE SERIES...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, series := range os.Args[3:] {
		if _, err := lab.BuildDebug(ctx, os.Args[1], series, os.Args[2], os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "debug: %v\n", err)
			os.Exit(1)
		}
	}
}
