/* SPDX-License-Identifier: MIT */
/* A program with more sections of code than bee keeps edges of. */
#include <stdio.h>
#include <unistd.h>

#define PIECES "140"

__asm__(".altmacro\n"
	".macro piece n\n"
	".section piece_\\n, \"ax\", @progbits\n"
	"nop\n"
	".endm\n"
	"pieces = 0\n"
	".rept " PIECES "\n"
	"pieces = pieces + 1\n"
	"piece %pieces\n"
	".endr\n"
	".noaltmacro\n"
	".section piece_last, \"ax\", @progbits\n"
	".globl last_piece\n"
	"last_piece:\n"
	"mov $39, %eax\n" /* getpid */
	"syscall\n"
	"ret\n"
	".text\n");

int last_piece(void);

int main(void)
{
	puts(last_piece() == getpid() ? "the last piece is code" : "wrong");
	return 0;
}
