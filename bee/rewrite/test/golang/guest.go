// SPDX-License-Identifier: MIT

// Command guest is a Go program to be rewritten.
package main

import "fmt"

func main() {
	fmt.Println("guest")
}
