// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path/filepath"

	"skep/tests/wine/wineserver"
)

// benchCompute reports the speed as native time divided by time under bee, so 1 is native
// speed.
func (b *bench) benchCompute() error {
	defer wineserver.Stop(wineserver.Env(b.prefix))
	program := filepath.Join(b.build, "bench", "linux", "compute")
	result, order, err := b.runMedians(b.listSides(), func(side) []string { return []string{program} })
	if err != nil {
		return err
	}
	fmt.Printf("%-18s %12s %12s %12s %8s %8s\n", "ns per operation", "native", "bee", "bee.exe", "speed", "speed")
	for _, key := range order {
		native, linux, wine := result["native"][key], result["linux"][key], result["wine"][key]
		fmt.Printf("%-18s %12.2f %12.2f %12.2f %8.3f %8.3f\n", key, native, linux, wine, native/linux, native/wine)
		b.writeRecord("result bench=bee_compute kernel=%s native_ns=%.2f linux_ns=%.2f wine_ns=%.2f linux_speed=%.3f wine_speed=%.3f",
			key, native, linux, wine, native/linux, native/wine)
	}
	return nil
}
