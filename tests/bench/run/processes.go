// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path/filepath"
)

// benchProcesses measures fork and execve under bee on Linux and natively.
func (b *bench) benchProcesses() error {
	program := filepath.Join(b.build, "bench", "linux", "processes")
	result, order, err := b.runMedians(b.listSides()[:2], func(side) []string { return []string{program} })
	if err != nil {
		return err
	}
	fmt.Printf("%-18s %12s %12s %8s %10s\n", "us each", "native", "bee", "ratio", "bee, per s")
	for _, key := range order {
		native, linux := result["native"][key], result["linux"][key]
		fmt.Printf("%-18s %12.1f %12.1f %8.2f %10.0f\n", key, native/1000, linux/1000, linux/native, 1e9/linux)
		b.writeRecord("result bench=bee_processes op=%s native_us=%.1f linux_us=%.1f ratio=%.3f", key, native/1000, linux/1000, linux/native)
	}
	return nil
}
