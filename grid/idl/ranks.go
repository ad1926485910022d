// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"

	"skep/internal/uapi"
)

// A worker program of functions that MPI jobs run is two programs. That of the ranks has
// the functions, and is linked with the node's MPI. The other one is static like all
// worker programs: it has the manifest and, as data, the first one.

// rankCount is the parameter that masters do not see: the client library sets it.
const rankCount = "skep_ranks"

// addRanks adds the parameter for the number of ranks to functions that need it.
func (p *parser) addRanks(m *Module) {
	for _, d := range m.Defines {
		if d.ranks = (d.ranks || m.allRanks) && d.name != Initialize; !d.ranks {
			continue
		}
		m.HasRanks = true
		if len(d.params) == uapi.ParamsMax {
			p.problemf(d.at, "a function that an MPI job runs has at most %d parameters", uapi.ParamsMax-1)
			continue
		}
		count := &param{at: d.at, name: rankCount, mode: uapi.ModeIn, kind: uapi.Int, hidden: true}
		d.params = append([]*param{count}, d.params...)
		if d.call == nil {
			continue
		}
		for i := range d.call.args {
			if d.call.args[i].param >= 0 {
				d.call.args[i].param++
			}
		}
	}
}

// writeRankMain writes the program of a rank.
func (s *stub) writeRankMain() {
	for _, line := range []string{"",
		"int main(int argc, char **argv)", "{",
		"\tint skep_rank, skep_size, skep_level, skep_failed, skep_begun;", "",
		// What a compiler of XcalableMP makes of main begins MPI before, and ends it.
		"\tMPI_Initialized(&skep_begun);",
		"\tif (!skep_begun)",
		"\t\tMPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &skep_level);",
		"\tMPI_Comm_rank(MPI_COMM_WORLD, &skep_rank);",
		"\tMPI_Comm_size(MPI_COMM_WORLD, &skep_size);",
		"\tskep_failed = skep_rank_main(&skep_worker, skep_rank, skep_size);",
		"\tif (skep_failed)",
		"\t\tMPI_Abort(MPI_COMM_WORLD, skep_failed);",
		"\tif (!skep_begun)",
		"\t\tMPI_Finalize();",
		"\treturn 0;", "}"} {
		s.linef("%s", line)
	}
}

// FrontStub returns the C file of the static program, which contains the ranks' program at
// a path. manifest and limits are those of the module.
func FrontStub(manifest []byte, limits uapi.Limits, program string) []byte {
	s := &stub{m: &Module{limits: limits}}
	s.linef("/* Made by skep gen. */")
	s.linef("#include <skep/worker.h>")
	s.linef("")
	s.linef("__asm__(\".section .rodata\\n.balign 16\\nskep_ranks_begin:\\n.incbin \" %s \"\\nskep_ranks_end:\\n.byte 0\\n.previous\\n\");", cString(cString(program)))
	s.linef("extern const unsigned char skep_ranks_begin[], skep_ranks_end[];")
	s.writeManifest(manifest)
	s.linef("const struct skep_worker skep_worker = {skep_manifest, sizeof(skep_manifest), 0};")
	s.linef("")
	s.linef("int main(void)")
	s.linef("{")
	s.linef("\treturn skep_ranks_main(&skep_worker, skep_ranks_begin, (unsigned long)(skep_ranks_end - skep_ranks_begin));")
	s.linef("}")
	return s.Bytes()
}

// dumpBackend is the option of a function in a dump.
func dumpBackend(f *uapi.Function) string {
	if f.Ranks {
		return fmt.Sprintf(" Backend %q", "MPI")
	}
	return ""
}
