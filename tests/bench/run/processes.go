// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path/filepath"
)

// benchProcesses measures fork and execve under bee on Linux and natively.
func (b *bench) benchProcesses() error {
	program := filepath.Join(b.build, "bench", "linux", "processes")
	result, order, err := b.runMedians(b.listSides(), func(side) []string { return []string{program} })
	if err != nil {
		return err
	}
	fmt.Printf("%-18s %12s %12s %12s %8s %10s %10s\n", "us each", "native", "bee", "Wine", "ratio", "bee, per s", "Wine, per s")
	for _, key := range order {
		native, linux, wine := result["native"][key], result["linux"][key], result["wine"][key]
		fmt.Printf("%-18s %12.1f %12.1f %12.1f %8.2f %10.0f %10.1f\n", key, native/1000, linux/1000, wine/1000, linux/native, 1e9/linux, 1e9/wine)
		b.writeRecord("result bench=bee_processes op=%s native_us=%.1f linux_us=%.1f wine_us=%.1f ratio=%.3f", key, native/1000, linux/1000, wine/1000, linux/native)
	}
	return nil
}
