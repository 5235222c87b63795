// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses of functions that the kernel does not export. Only for what has no
 * exported way to it: the mprotect() system call.
 */
#include <linux/kprobes.h>

#include "pteopt.h"

/*
 * On powerpc any offset but 0 makes kprobes look at the symbol itself, which is
 * the entry point for pointers, and not at the one for calls within the kernel.
 * Elsewhere there is one entry point, and what follows may belong to ftrace.
 */
#define PROBE_OFFSET	(IS_ENABLED(CONFIG_PPC64) ? 4 : 0)

/**
 * pteopt_resolve - find a function of the kernel by its name
 * @symbol: the name
 *
 * A kernel probe that is never armed has the kernel look the name up.
 *
 * Context: Process context.
 * Return: A pointer through which the function can be called, or an error.
 */
void *pteopt_resolve(const char *symbol)
{
	struct kprobe probe = {
		.symbol_name	= symbol,
		.offset		= PROBE_OFFSET,
		.flags		= KPROBE_FLAG_DISABLED,
	};
	void *addr;
	int ret;

	ret = register_kprobe(&probe);
	if (ret)
		return ERR_PTR(ret);
	addr = (void *)probe.addr - PROBE_OFFSET;
	unregister_kprobe(&probe);

	return addr;
}
