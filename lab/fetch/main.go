// SPDX-License-Identifier: MIT

// Fetch gets kernels into a build folder, for make.
//
// usage: fetch BUILD SERIES...
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
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: fetch BUILD SERIES...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, series := range os.Args[2:] {
		if _, err := lab.Fetch(ctx, os.Args[1], series, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "fetch: %v\n", err)
			os.Exit(1)
		}
	}
}
