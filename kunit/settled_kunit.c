// SPDX-License-Identifier: GPL-2.0
/*
 * pte_settled(): true for exactly those entries that hardware has no update left
 * for, and real accesses leave them as they are.
 */

#include "helpers.h"

#if defined(CONFIG_ARM64) && defined(CONFIG_SETTLED_PTES_TEST)

static const pteval_t bits[] = {
	PTE_VALID, PTE_AF, PTE_WRITE, PTE_RDONLY, PTE_DIRTY, PTE_CONT,
	PTE_PRESENT_INVALID, PTE_SPECIAL, PTE_USER, PTE_UXN, PTE_PXN,
	PTE_DEVMAP, PTE_TABLE_BIT,
};

static pteval_t combination(unsigned int n)
{
	pteval_t val = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bits); i++)
		if (n & BIT(i))
			val |= bits[i];

	return val;
}

/* Whatever else is in the entry, and whatever page it maps. */
static void settled_iff_hw_is_done(struct kunit *test)
{
	static const phys_addr_t addrs[] = { 0, SZ_1M, BIT_ULL(40) - SZ_64K };
	unsigned int i, n, settled = 0;

	for (i = 0; i < ARRAY_SIZE(addrs); i++) {
		for (n = 0; n < BIT(ARRAY_SIZE(bits)); n++) {
			pte_t pte = __pte(combination(n) |
					  __phys_to_pte_val(addrs[i]));
			bool expected = hw_is_done(pte);

			if (pte_settled(pte) != expected)
				KUNIT_FAIL_AND_ABORT(test, "0x%016llx",
						     pte_val(pte));
			settled += expected;
		}
	}

	/* Half are not valid. Of the others, AF has half; 3 of 4 are not clean */
	KUNIT_EXPECT_EQ(test, settled,
			ARRAY_SIZE(addrs) * BIT(ARRAY_SIZE(bits)) * 11 / 16);
}

/* None, swap and migration entries, and tables. */
static void settled_not_a_leaf(struct kunit *test)
{
	swp_entry_t swap = __swp_entry(31, 0x123456789abcUL);
	pmd_t invalid = pmd_mkinvalid(__pmd(PMD_TYPE_SECT));

	KUNIT_EXPECT_TRUE(test, pte_settled(__pte(0)));
	KUNIT_EXPECT_TRUE(test, pte_settled(__swp_entry_to_pte(swap)));
	KUNIT_EXPECT_TRUE(test, pte_settled(pmd_pte(invalid)));
	/* Only FEAT_HAFT has AF in a table */
	KUNIT_EXPECT_FALSE(test, pte_settled(__pte(PMD_TYPE_TABLE)));
	KUNIT_EXPECT_TRUE(test, pte_settled(__pte(PMD_TYPE_TABLE | PTE_AF |
						  PMD_TABLE_PXN)));
}

/* What the kernel makes of its protections. */
static void settled_protections(struct kunit *test)
{
	unsigned long flags;

	for (flags = 0; flags < 16; flags++) {
		pte_t pte = pfn_pte(0x1234, vm_get_page_prot(flags));
		pte_t written = pte_mkwrite_novma(pte_mkdirty(pte));
		bool valid = pte_valid(pte);

		/* Shared and writable is clean at first; all are young */
		KUNIT_EXPECT_EQ_MSG(test, pte_settled(pte),
				    !(valid && pte_write(pte)), "%lx", flags);
		KUNIT_EXPECT_TRUE_MSG(test, pte_settled(written), "%lx", flags);
		KUNIT_EXPECT_TRUE_MSG(test, pte_settled(pte_wrprotect(pte)),
				      "%lx", flags);
		KUNIT_EXPECT_EQ_MSG(test, pte_settled(pte_mkold(written)),
				    !valid, "%lx", flags);
		KUNIT_EXPECT_EQ_MSG(test, pte_settled(pte_mkclean(written)),
				    !valid, "%lx", flags);
		KUNIT_EXPECT_TRUE_MSG(test, pte_settled(pte_mkinvalid(pte)),
				      "%lx", flags);
	}
}

/* Real accesses: by hardware if it manages flags, by the fault handler if not. */
static void settled_real_accesses(struct kunit *test)
{
	unsigned long addr, pages = 8, i;
	struct mm_struct *mm;
	unsigned int changed = 0;
	spinlock_t *ptl;
	pte_t *ptep;
	pmd_t *pmdp;
	char c;

	addr = memory_map(test, pages * PAGE_SIZE);
	mm = current->mm;

	for (i = 0; i < pages; i++, addr += PAGE_SIZE) {
		char __user *p = (char __user *)addr;
		pte_t before, after;
		bool write = i & 1;

		KUNIT_ASSERT_EQ(test, 0, put_user(i, p));
		pmdp = memory_pmd(addr);
		ptep = pte_offset_kernel(pmdp, addr);
		ptl = pte_lockptr(mm, pmdp);

		/* Old, clean, both or neither; nothing of it is cached */
		spin_lock(ptl);
		before = READ_ONCE(*ptep);
		if (i & 2)
			before = pte_mkold(before);
		if (i & 4)
			before = pte_mkclean(before);
		WRITE_ONCE(*ptep, before);
		spin_unlock(ptl);
		local_flush_tlb_all();

		if (write)
			KUNIT_ASSERT_EQ(test, 0, put_user(i, p));
		else
			KUNIT_ASSERT_EQ(test, 0, get_user(c, p));

		after = READ_ONCE(*ptep);
		if (pte_settled(before))
			KUNIT_EXPECT_EQ_MSG(test, pte_val(before),
					    pte_val(after), "page %lu", i);
		else if (pte_val(before) != pte_val(after))
			changed++;

		/* Never anything but what the rule knows of */
		KUNIT_EXPECT_EQ_MSG(test, pte_val(after) & ~PTE_DIRTY,
				    pte_val(hw_update(before, write)) & ~PTE_DIRTY,
				    "page %lu", i);

		spin_lock(ptl);
		WRITE_ONCE(*ptep, pte_mkdirty(pte_mkyoung(READ_ONCE(*ptep))));
		spin_unlock(ptl);
	}
	/* Of the eight, reads change two and writes three */
	KUNIT_EXPECT_EQ(test, changed, 5);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(settled_iff_hw_is_done),
	KUNIT_CASE(settled_not_a_leaf),
	KUNIT_CASE(settled_protections),
	KUNIT_CASE(settled_real_accesses),
	{}
};

#else

static struct kunit_case cases[] = {
	KUNIT_CASE(pteopt_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_settled",
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of pte_settled()");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
