// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the class of each instruction of a flat binary on standard input,
 * where each instruction has a slot of eight bytes: so a prefixed one does not
 * cross a 64-byte boundary, and a wrong length cannot shift those after it.
 * Usage: decode-test arm64|powerpc
 */
#include "decode.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const struct arch *arch = NULL;
	uint8_t data[8];
	size_t i;

	for (i = 0; argc == 2 && i < n_archs; i++)
		if (!strcmp(archs[i].name, argv[1]))
			arch = &archs[i];
	if (!arch) {
		fputs("usage: decode-test arm64|powerpc\n", stderr);
		return 2;
	}
	while (fread(data, sizeof(data), 1, stdin) == 1)
		puts(op_class_name(insn_class(arch, data,
					      insn_size(arch, data))));
	return ferror(stdin) || fflush(stdout);
}
