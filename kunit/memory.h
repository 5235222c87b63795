/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of the test's own process, and where its page table entries are. */
#ifndef PTEOPT_KUNIT_MEMORY_H
#define PTEOPT_KUNIT_MEMORY_H

#include <kunit/test.h>
#include <linux/align.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/page_table_check.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>

/*
 * Anonymous memory, of which nothing is there yet; it goes with the test, which
 * has no mm before.
 */
static inline unsigned long memory_map(struct kunit *test, unsigned long size)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	return addr;
}

/* The mapping at @addr, with @vm_flags set, if any: see VM_HUGEPAGE */
static inline struct vm_area_struct *memory_vma(struct kunit *test,
						unsigned long addr,
						unsigned long vm_flags)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	mmap_write_lock(mm);
	vma = find_vma(mm, addr);
	if (vma) {
		vma_start_write(vma);
		vm_flags_set(vma, vm_flags);
	}
	mmap_write_unlock(mm);
	KUNIT_ASSERT_NOT_NULL(test, vma);
	return vma;
}

/* What a page is filled with: its number tells */
static inline unsigned char pattern(unsigned long page)
{
	return 0x5a ^ (page * 7);
}

static inline void memory_fill(struct kunit *test, unsigned long addr,
			       unsigned long pages)
{
	unsigned long i;

	for (i = 0; i < pages; i++)
		KUNIT_ASSERT_EQ(test, 0,
				put_user(pattern(i), (unsigned char __user *)
					 (addr + i * PAGE_SIZE)));
}

/* Of memory of which something is there */
static inline pmd_t *memory_pmd(unsigned long addr)
{
	p4d_t *p4dp = p4d_offset(pgd_offset(current->mm, addr), addr);

	return pmd_offset(pud_offset(p4dp, addr), addr);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/*
 * Anonymous memory with access rights @prot that a huge page is mapped to. The
 * page fault tells khugepaged of it, which must not put the page together again
 * when a test has split it: it asks for VM_NOHUGEPAGE under the mmap lock.
 */
static inline unsigned long memory_map_huge(struct kunit *test,
					    unsigned long prot)
{
	struct vm_area_struct *vma;
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, 2 * HPAGE_PMD_SIZE, prot,
			     MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	addr = ALIGN(addr, HPAGE_PMD_SIZE);

	vma = memory_vma(test, addr, VM_HUGEPAGE);
	memory_fill(test, addr, 1);
	mmap_write_lock(current->mm);
	vma_start_write(vma);
	vm_flags_mod(vma, VM_NOHUGEPAGE, VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	if (!pmd_leaf(*memory_pmd(addr)))
		kunit_skip(test, "there is no huge page");
	return addr;
}
#endif

/* A case is going to set entries that user space may access by hand. */
static __maybe_unused void skip_if_counted(struct kunit *test)
{
#ifdef CONFIG_PAGE_TABLE_CHECK
	if (!static_key_enabled(&page_table_check_disabled))
		kunit_skip(test, "entries set by hand are not counted");
#endif
}

#endif /* PTEOPT_KUNIT_MEMORY_H */
