// SPDX-License-Identifier: MIT

// Command compute uses the parts of the library that choose code by CPU.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/big"
	"sort"
	"strings"
)

func main() {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	fmt.Printf("%x\n", sha256.Sum256(data))
	fmt.Printf("%x\n", sha512.Sum512(data))
	fmt.Printf("%x\n", md5.Sum(data))
	fmt.Println(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))

	block, err := aes.NewCipher([]byte("0123456789abcdef"))
	fmt.Println(err)
	out := make([]byte, len(data))
	cipher.NewCTR(block, make([]byte, 16)).XORKeyStream(out, data)
	fmt.Printf("%x\n", sha256.Sum256(out))

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(data)
	z.Close()
	r, err := gzip.NewReader(&packed)
	back, err2 := io.ReadAll(r)
	fmt.Println(err, err2, bytes.Equal(data, back))

	for _, x := range []float64{0.1, 0.7, 3.3} {
		fmt.Printf("%.12g %.12g %.12g %.12g %v\n", math.Sin(x), math.Exp(x), math.Log(x), math.Pow(x, 1.5), math.Sqrt(x))
	}
	fmt.Println(math.FMA(0.1, 10, -1), math.Float64bits(math.Inf(-1)), math.NaN())
	fmt.Println(new(big.Int).Exp(big.NewInt(3), big.NewInt(500), nil))
	fmt.Println(big.NewInt(1_000_000_007).ProbablyPrime(10))

	words := strings.Fields(strings.Repeat("delta alpha charlie bravo ", 1000))
	sort.Strings(words)
	text, err := json.Marshal(map[string]any{"n": len(words), "w": words[:2], "f": 0.1})
	fmt.Println(string(text), err)
	random := make([]byte, 32)
	n, err := rand.Read(random)
	fmt.Println(n, err, !bytes.Equal(random, make([]byte, 32)))
}
