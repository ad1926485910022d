// SPDX-License-Identifier: MIT

// Fetch downloads kernels into a build folder, for make.
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

func main() { os.Exit(fetchKernels(os.Args[1:])) }

func fetchKernels(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: fetch BUILD SERIES...")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, series := range args[1:] {
		if _, err := lab.FetchKernel(ctx, args[0], series, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "fetch: %v\n", err)
			return 1
		}
	}
	return 0
}
