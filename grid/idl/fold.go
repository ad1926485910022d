// SPDX-License-Identifier: MIT

package idl

import (
	"math"
	"math/big"

	"skep/internal/uapi"
)

const tooLarge = "this value does not fit 64 bits"

// foldConstant computes one operation as the size code does. The second result is the
// error, or "".
func foldConstant(op uapi.Op, v []int64) (int64, string) {
	truth := func(b bool) (int64, string) {
		if b {
			return 1, ""
		}
		return 0, ""
	}
	switch op {
	case uapi.OpSelect:
		if v[0] != 0 {
			return v[1], ""
		}
		return v[2], ""
	case uapi.OpLT:
		return truth(v[0] < v[1])
	case uapi.OpLE:
		return truth(v[0] <= v[1])
	case uapi.OpGT:
		return truth(v[0] > v[1])
	case uapi.OpGE:
		return truth(v[0] >= v[1])
	case uapi.OpEQ:
		return truth(v[0] == v[1])
	case uapi.OpUnequal:
		return truth(v[0] != v[1])
	case uapi.OpNeg:
		v = []int64{0, v[0]}
		op = uapi.OpSub
	}
	return foldArithmetic(op, v[0], v[1])
}

func foldArithmetic(op uapi.Op, a, b int64) (int64, string) {
	x, y := big.NewInt(a), big.NewInt(b)
	switch op {
	case uapi.OpAdd:
		x.Add(x, y)
	case uapi.OpSub:
		x.Sub(x, y)
	case uapi.OpMul:
		x.Mul(x, y)
	case uapi.OpDiv, uapi.OpMod:
		if b == 0 {
			return 0, "this divides by zero"
		}
		if a == math.MinInt64 && b == -1 {
			return 0, tooLarge
		}
		if op == uapi.OpDiv {
			return a / b, ""
		}
		return a % b, ""
	case uapi.OpPow:
		if b < 0 || b > 62 {
			return 0, "an exponent is 0 to 62"
		}
		x.Exp(x, y, nil)
	}
	if !x.IsInt64() {
		return 0, tooLarge
	}
	return x.Int64(), ""
}
