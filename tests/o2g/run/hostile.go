// SPDX-License-Identifier: MIT

package main

func (b *bench) hostile()    {}
func (b *bench) kills(n int) {}
