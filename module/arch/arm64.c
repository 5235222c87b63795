// SPDX-License-Identifier: GPL-2.0
/* What arm64 says about its entries, and how a test writes them */

#include <linux/cacheflush.h>
#include <linux/page_table_check.h>
#include <linux/ptrace.h>

#include "../pteopt.h"

/* Syscalls take the registers of the caller */
const char * const pteopt_arch_mprotect_symbol = "__arm64_sys_mprotect";

/**
 * pteopt_arch_can_update - may an entry be written without telling others?
 *
 * Return: true; the hardware walks the table itself.
 */
bool pteopt_arch_can_update(void)
{
	return true;
}

/**
 * pteopt_arch_bits - decode what the generic helpers do not
 * @raw: a present leaf entry, as it is in the table, of any level
 *
 * Return: what it says.
 */
struct pteopt_bits pteopt_arch_bits(pte_t raw)
{
	bool valid = pte_valid(raw);
	bool clean_writable = (pte_val(raw) & PTE_WRITE) &&
			      (pte_val(raw) & PTE_RDONLY);

	return (struct pteopt_bits) {
		.accessible	= valid,
		.exec		= valid && !(pte_val(raw) & PTE_UXN),
		.cont		= valid && pte_cont(raw),
		/* Neither AF is left to set, nor PTE_RDONLY to clear by DBM */
		.settled	= !valid || (pte_young(raw) && !clean_writable),
	};
}

/**
 * pteopt_arch_block - how many entries make a contiguous block
 *
 * Return: the number, or 0 if the kernel makes none.
 */
unsigned int pteopt_arch_block(void)
{
	return IS_ENABLED(CONFIG_ARM64_CONTPTE) ? CONT_PTES : 0;
}

/**
 * pteopt_arch_install - fill empty entries, in contiguous blocks if they fit
 * @mm: the address space
 * @addr: address of the first entry
 * @ptep: the first entry
 * @pte: its value; the others map what follows
 * @nr: number of entries
 *
 * Context: lock of the page table held.
 */
void pteopt_arch_install(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
			 pte_t pte, unsigned int nr)
{
#ifdef CONFIG_ARM64_CONTPTE
	contpte_set_ptes(mm, addr, ptep, pte, nr);
#else
	page_table_check_ptes_set(mm, ptep, pte, nr);
	for (; nr; nr--, ptep++, pte = pte_next_pfn(pte))
		__set_pte(ptep, pte);
#endif
}

/**
 * pteopt_arch_plain - make sure that an entry is part of no block
 * @mm: the address space
 * @addr: address of the entry
 * @ptep: the entry; present
 *
 * Context: lock of the page table held.
 */
void pteopt_arch_plain(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
#ifdef CONFIG_ARM64_CONTPTE
	contpte_try_unfold(mm, addr, ptep, __ptep_get(ptep));
#endif
}

/**
 * pteopt_arch_store - write an entry as it is
 * @ptep: the entry
 * @pte: the value
 *
 * Context: lock of the page table held.
 */
void pteopt_arch_store(pte_t *ptep, pte_t pte)
{
	__set_pte(ptep, pte);
}

/**
 * pteopt_arch_fold - try to make a block of entries contiguous
 * @mm: the address space
 * @addr: address of any entry of the block
 * @ptep: the entry
 *
 * Context: lock of the page table held.
 * Return: 0, or -EOPNOTSUPP if this kernel makes no blocks. Whether the block
 * is folded has to be looked at.
 */
int pteopt_arch_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
#ifdef CONFIG_ARM64_CONTPTE
	__contpte_try_fold(mm, addr, ptep, __ptep_get(ptep));
	return 0;
#else
	return -EOPNOTSUPP;
#endif
}

/**
 * pteopt_arch_icache_sync - what is done before a folio is executed
 * @folio: mapped by @pte
 * @pte: an entry that maps any page of it
 *
 * Context: any.
 */
void pteopt_arch_icache_sync(struct folio *folio, pte_t pte)
{
	__sync_icache_dcache(pte);
}

/**
 * pteopt_arch_mprotect - call the system call
 * @entry: what pteopt_arch_mprotect_symbol stands for
 * @addr: as for mprotect()
 * @len: as for mprotect()
 * @prot: as for mprotect()
 *
 * Context: process context, mmap lock not held.
 * Return: what mprotect() returns.
 */
long pteopt_arch_mprotect(void *entry, unsigned long addr, size_t len,
			  unsigned long prot)
{
	struct pt_regs regs = { .regs = { addr, len, prot } };

	return ((long (*)(const struct pt_regs *))entry)(&regs);
}
