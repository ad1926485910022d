// SPDX-License-Identifier: MIT

package hub

import (
	"testing"

	"skep/internal/uapi"
)

const (
	in  = uint32(uapi.ModeIn)
	out = uint32(uapi.ModeOut)
)

func callKept(length, result uint64, list ...uapi.Datum) []byte {
	b := uapi.Append(nil, uapi.Call{Length: length, Result: result})
	for _, d := range list {
		b = uapi.Append(b, d)
	}
	return b
}

// Places of stored data that overlap, descend or lie outside of the call are refused.
func TestCallKept(t *testing.T) {
	most := make([]uapi.Datum, 2*uapi.ParamsMax+1)
	for i := range most {
		most[i].Mode = in
	}
	for _, b := range [][]byte{
		nil,
		callKept(8, 0)[:20],
		append(callKept(8, 0), 1),
		callKept(8, 0, uapi.Datum{Length: 8}),
		callKept(8, 0, uapi.Datum{Length: 8, Mode: in | out}),
		callKept(8, 0, uapi.Datum{Offset: 9, Length: 8, Mode: in}),
		callKept(8, 0, uapi.Datum{Length: 1 << 63, Mode: in}),
		callKept(8, 0, uapi.Datum{Offset: 1<<64 - 1, Length: 2, Mode: in}),
		callKept(8, 0, uapi.Datum{Offset: 4, Length: 8, Mode: in}, uapi.Datum{Offset: 8, Length: 8, Mode: in}),
		callKept(8, 16, uapi.Datum{Offset: 8, Length: 9, Mode: out}),
		callKept(8, 16, uapi.Datum{Offset: 8, Length: 8, Mode: out}, uapi.Datum{Length: 8, Mode: out}),
		callKept(8, 0, most...),
	} {
		if _, _, err := parseCallKept(b); err == nil {
			t.Errorf("%x was taken", b)
		}
	}
	v, d, err := parseCallKept(callKept(8, 40, uapi.Datum{Offset: 8, Length: 16, Mode: in}, uapi.Datum{Offset: 24, Mode: in | uapi.OneNode},
		uapi.Datum{Offset: 8, Length: 32, Mode: out}))
	if err != nil || v.Result != 40 || len(d.in) != 2 || len(d.out) != 1 || d.bytes() != 16 {
		t.Errorf("%+v %+v %v", v, d, err)
	}
}
