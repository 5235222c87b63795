// SPDX-License-Identifier: GPL-2.0
/*
 * Trace events on a kernel that has none of its own:
 *	contpte_convert	a block of PTEs is made contiguous, or ceases to be
 *	icache_sync	a folio's instruction cache lines are made coherent
 *	protect		mprotect() and its like begin to change a run of PTEs
 *
 * A kernel probe fires each, and is registered only while somebody listens: with
 * no listener the kernel is as it was. An event whose function this kernel does
 * not have cannot be enabled; that is -ENOENT, and "not supported" in perf.
 */
#include <linux/cacheflush.h>
#include <linux/kprobes.h>
#include <linux/mm.h>

#include "pteopt.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* The first of the functions that the kernel has, NULL at the end */
static int probe_register(struct kprobe *probe, kprobe_pre_handler_t handler,
			  const char * const *symbol)
{
	int ret = -ENOENT;

	for (; *symbol && ret == -ENOENT; symbol++) {
		*probe = (struct kprobe) {
			.symbol_name	= *symbol,
			.pre_handler	= handler,
		};
		ret = register_kprobe(probe);
	}
	return ret;
}

/* --- contpte_convert ----------------------------------------------------- */

static struct kprobe convert_probe;

/* contpte_convert(mm, addr, ptep, pte) */
static int convert_handler(struct kprobe *probe, struct pt_regs *regs)
{
#ifdef CONFIG_ARM64_CONTPTE
	pte_t pte = __pte(regs_get_kernel_argument(regs, 3));

	trace_contpte_convert(regs_get_kernel_argument(regs, 1),
			      pte_cont(pte));
#endif
	return 0;
}
NOKPROBE_SYMBOL(convert_handler);

/**
 * pteopt_convert_reg - somebody listens to contpte_convert
 *
 * Context: Process context.
 * Return: 0, or -ENOENT if the compiler left no such function.
 */
int pteopt_convert_reg(void)
{
	static const char * const symbols[] = { "contpte_convert", NULL };

	return probe_register(&convert_probe, convert_handler, symbols);
}

/**
 * pteopt_convert_unreg - nobody listens to contpte_convert any more
 *
 * Context: Process context.
 */
void pteopt_convert_unreg(void)
{
	unregister_kprobe(&convert_probe);
}

/* --- icache_sync --------------------------------------------------------- */

static struct kprobe icache_probe;

static int icache_handler(struct kprobe *probe, struct pt_regs *regs)
{
#ifdef CONFIG_ARM64
	/* __sync_icache_dcache(pte), for all that is to be executed */
	pte_t pte = __pte(regs_get_kernel_argument(regs, 0));
	struct folio *folio = page_folio(pte_page(pte));

	if (test_bit(PG_dcache_clean, &folio->flags))
		return 0;
#else
	/* flush_dcache_icache_folio(folio), if it is not clean */
	struct folio *folio = (void *)regs_get_kernel_argument(regs, 0);
#endif
	trace_icache_sync(folio_pfn(folio), folio_order(folio));
	return 0;
}
NOKPROBE_SYMBOL(icache_handler);

/**
 * pteopt_icache_reg - somebody listens to icache_sync
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
int pteopt_icache_reg(void)
{
	static const char * const symbols[] = {
		"__sync_icache_dcache", "flush_dcache_icache_folio", NULL
	};

	return probe_register(&icache_probe, icache_handler, symbols);
}

/**
 * pteopt_icache_unreg - nobody listens to icache_sync any more
 *
 * Context: Process context.
 */
void pteopt_icache_unreg(void)
{
	unregister_kprobe(&icache_probe);
}

/* --- protect ------------------------------------------------------------- */

static struct kprobe protect_probe;

/*
 * change_prot_ptes(tlb, vma, addr, ptep, nr, ...) with the series,
 * ptep_modify_prot_start(vma, addr, ptep) without
 */
static int protect_handler(struct kprobe *probe, struct pt_regs *regs)
{
	if (!strcmp(probe->symbol_name, "change_prot_ptes"))
		trace_protect(regs_get_kernel_argument(regs, 2),
			      regs_get_kernel_argument(regs, 4));
	else
		trace_protect(regs_get_kernel_argument(regs, 1), 1);
	return 0;
}
NOKPROBE_SYMBOL(protect_handler);

/**
 * pteopt_protect_reg - somebody listens to protect
 *
 * Context: Process context.
 * Return: 0 or an error.
 */
int pteopt_protect_reg(void)
{
	static const char * const symbols[] = {
		"change_prot_ptes", "ptep_modify_prot_start", NULL
	};

	return probe_register(&protect_probe, protect_handler, symbols);
}

/**
 * pteopt_protect_unreg - nobody listens to protect any more
 *
 * Context: Process context.
 */
void pteopt_protect_unreg(void)
{
	unregister_kprobe(&protect_probe);
}
