// SPDX-License-Identifier: MIT

package main

func gangWords() []command { return nil }
