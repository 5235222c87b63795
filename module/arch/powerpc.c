// SPDX-License-Identifier: GPL-2.0
/*
 * What Book3S-64 says about its entries, and how a test writes them
 *
 * Tables are walked with either MMU. They are written with radix only: an entry
 * of the hash MMU has a second copy in the hash table.
 */

#include <linux/bug.h>
#include <linux/cacheflush.h>
#include <linux/page_table_check.h>
#include <linux/ptrace.h>

#include "../pteopt.h"

/*
 * The inline helpers of the kernel refer to these two, which it does not export
 * to modules. The first is for the hash MMU, where nothing of this module gets
 * to the helpers. The second is a check of CONFIG_DEBUG_VM, that the page table
 * lock is held; the callers in ops.c take it in sight of the call.
 */
#ifdef CONFIG_PPC_64S_HASH_MMU
void hpte_need_flush(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		     unsigned long pte, int huge)
{
	WARN_ONCE(1, "pteopt: an entry of the hash MMU was changed\n");
}
#endif

#ifdef CONFIG_DEBUG_VM
void assert_pte_locked(struct mm_struct *mm, unsigned long addr)
{
}
#endif

#ifdef CONFIG_ARCH_HAS_SYSCALL_WRAPPER
const char * const pteopt_arch_mprotect_symbol = "__powerpc_sys_mprotect";
#else
const char * const pteopt_arch_mprotect_symbol = "sys_mprotect";
#endif

/**
 * pteopt_arch_can_update - may an entry be written without telling others?
 *
 * Return: true with the radix MMU.
 */
bool pteopt_arch_can_update(void)
{
	return radix_enabled();
}

/**
 * pteopt_arch_bits - decode what the generic helpers do not
 * @raw: a present leaf entry, as it is in the table, of any level
 *
 * Return: what it says. With the hash MMU nothing is settled, for hash_page()
 * changes entries without the page table lock.
 */
struct pteopt_bits pteopt_arch_bits(pte_t raw)
{
	unsigned long val = pte_val(raw);
	bool valid = (val & _PAGE_PRESENT) && (val & _PAGE_RWX) &&
		     !(val & _PAGE_PRIVILEGED);

	return (struct pteopt_bits) {
		.accessible	= valid,
		.exec		= valid && (val & _PAGE_EXEC),
		.settled	= radix_enabled() &&
				  (!(val & _PAGE_PRESENT) ||
				   ((val & _PAGE_ACCESSED) &&
				    ((val & _PAGE_DIRTY) ||
				     !(val & _PAGE_WRITE)))),
	};
}

/**
 * pteopt_arch_block - how many entries make a contiguous block
 *
 * Return: 0, there are no such blocks.
 */
unsigned int pteopt_arch_block(void)
{
	return 0;
}

/**
 * pteopt_arch_install - fill empty entries
 * @mm: the address space
 * @addr: address of the first entry
 * @ptep: the first entry
 * @pte: its value; the others map what follows
 * @nr: number of entries
 *
 * set_ptes() is not exported; for radix it is this.
 *
 * Context: lock of the page table held, radix.
 */
void pteopt_arch_install(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
			 pte_t pte, unsigned int nr)
{
	page_table_check_ptes_set(mm, ptep, pte, nr);
	for (; nr; nr--, ptep++, pte = pte_next_pfn(pte))
		pteopt_arch_store(ptep, pte);
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
}

/**
 * pteopt_arch_store - write an entry as it is
 * @ptep: the entry
 * @pte: the value
 *
 * Context: lock of the page table held, radix.
 */
void pteopt_arch_store(pte_t *ptep, pte_t pte)
{
	WRITE_ONCE(*ptep, pte);
}

/**
 * pteopt_arch_fold - try to make a block of entries contiguous
 * @mm: the address space
 * @addr: address of any entry of the block
 * @ptep: the entry
 *
 * Return: -EOPNOTSUPP
 */
int pteopt_arch_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	return -EOPNOTSUPP;
}

/**
 * pteopt_arch_icache_sync - what is done before a folio is executed
 * @folio: the folio
 * @pte: an entry that maps any page of it
 *
 * Context: any.
 */
void pteopt_arch_icache_sync(struct folio *folio, pte_t pte)
{
	flush_dcache_icache_folio(folio);
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
#ifdef CONFIG_ARCH_HAS_SYSCALL_WRAPPER
	struct pt_regs regs = {};

	regs.gpr[3] = addr;
	regs.gpr[4] = len;
	regs.gpr[5] = prot;
	return ((long (*)(const struct pt_regs *))entry)(&regs);
#else
	return ((long (*)(unsigned long, size_t, unsigned long))entry)
		(addr, len, prot);
#endif
}
