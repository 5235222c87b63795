/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites share: a page table of user space to write to, and an agent
 * that updates its entries as hardware does.
 */
#ifndef PTEOPT_KUNIT_HELPERS_H
#define PTEOPT_KUNIT_HELPERS_H

#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/module.h>

#include "memory.h"

/* The only case of a suite in a kernel that it has nothing to say about */
static __maybe_unused void pteopt_unavailable(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_ARM64))
		kunit_skip(test, "this suite is about arm64");
	if (!IS_ENABLED(CONFIG_ARCH_HAS_SETTLED_PTES))
		KUNIT_FAIL(test, "no pte_settled(): the series is not applied");
	else
		KUNIT_FAIL(test, "CONFIG_SETTLED_PTES_TEST is off");
}

/* The same for a suite about contiguous PTEs */
static __maybe_unused void contpte_unavailable(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_ARM64) && !IS_ENABLED(CONFIG_ARM64_CONTPTE))
		kunit_skip(test, "CONFIG_ARM64_CONTPTE is off");
	pteopt_unavailable(test);
}

#if defined(CONFIG_ARM64) && defined(CONFIG_SETTLED_PTES_TEST)

#include <linux/settled_ptes.h>

#ifdef CONFIG_ARM64_CONTPTE
#define BLOCK		CONT_PTES
#else
#define BLOCK		16
#endif

/*
 * A table of page table entries, and one PMD, that map nothing. No CPU uses the
 * addresses, so an entry changes only by what the test does. The test has to
 * leave them empty.
 */
struct table {
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	unsigned long addr;		/* of ptep[0] */
	pte_t *ptep;
	spinlock_t *ptl;
	unsigned long pmd_addr;
	pmd_t *pmdp;
	spinlock_t *pmd_ptl;
	unsigned long pfn;		/* of BLOCK pages of one folio */
};

static void table_free_folio(void *folio)
{
	folio_put(folio);
}

/* Expectations are for when no lock is held: a failed one allocates memory */
static inline struct table table_create(struct kunit *test)
{
	struct table t = {};
	struct folio *folio;

	t.addr = ALIGN(memory_map(test, 4 * PMD_SIZE), 2 * PMD_SIZE);
	t.pmd_addr = t.addr + PMD_SIZE;
	t.mm = current->mm;

	/* The last page of the first PMD brings the table */
	KUNIT_ASSERT_EQ(test, 0,
			put_user(0, (char __user *)(t.pmd_addr - PAGE_SIZE)));

	t.vma = memory_vma(test, t.addr, 0);
	t.pmdp = memory_pmd(t.addr);
	if (pmd_leaf(*t.pmdp))
		kunit_skip(test, "the page is mapped by a huge page");
	t.ptep = pte_offset_kernel(t.pmdp, t.addr);
	t.ptl = pte_lockptr(t.mm, t.pmdp);
	t.pmdp++;
	t.pmd_ptl = pmd_lockptr(t.mm, t.pmdp);
	KUNIT_ASSERT_TRUE(test, pte_none(t.ptep[0]));
	KUNIT_ASSERT_TRUE(test, pmd_none(*t.pmdp));

	folio = folio_alloc(GFP_KERNEL | __GFP_ZERO, ilog2(BLOCK));
	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test,
							   table_free_folio,
							   folio));
	t.pfn = folio_pfn(folio);

	return t;
}

/* Of no use to EL0, so that only PTE_VALID and what @bits says matters */
static inline pte_t make_pte(const struct table *t, unsigned int i,
			     pteval_t bits)
{
	return pfn_pte(t->pfn + i, __pgprot(bits | (PTE_TYPE_PAGE & ~PTE_VALID) |
					    PTE_NG | PTE_PXN | PTE_UXN |
					    PTE_ATTRINDX(MT_NORMAL)));
}

/* What an access makes hardware do to an entry. */
static inline pte_t hw_update(pte_t pte, bool write)
{
	if (!(pte_val(pte) & PTE_VALID))
		return pte;

	pte_val(pte) |= PTE_AF;
	if (write && (pte_val(pte) & PTE_DBM))
		pte_val(pte) &= ~PTE_RDONLY;

	return pte;
}

/* An access, with the atomic update. Returns the bits that it changed. */
static inline pteval_t hw_access(pte_t *ptep, bool write)
{
	pteval_t old = READ_ONCE(pte_val(*ptep)), new;

	do {
		new = pte_val(hw_update(__pte(old), write));
		if (new == old)
			return 0;
	} while (!try_cmpxchg_relaxed(&pte_val(*ptep), &old, new));

	return old ^ new;
}

static inline bool hw_is_done(pte_t pte)
{
	return pte_val(hw_update(pte, true)) == pte_val(pte);
}

/* Dirty, as hardware or as software has it: not by the code under test. */
static inline bool is_dirty(pte_t pte)
{
	return (pte_val(pte) & PTE_DIRTY) ||
	       ((pte_val(pte) & PTE_WRITE) && !(pte_val(pte) & PTE_RDONLY));
}

static inline bool is_young(pte_t pte)
{
	return pte_val(pte) & PTE_AF;
}

/* What ptep_set_wrprotect() does, in terms of the manual's bits */
static inline pteval_t wrprotected(pteval_t v)
{
	/* As all entries of user space, it is writable or read-only */
	if (!(v & PTE_WRITE))
		return v;
	if (!(v & PTE_RDONLY))
		v |= PTE_DIRTY;

	return (v & ~PTE_WRITE) | PTE_RDONLY;
}

/* The agent makes one access in each window of the entries that it watches. */
enum access { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE, NR_ACCESSES };

static struct agent {
	pte_t *first;
	unsigned int nr;
	enum access access;
	unsigned int windows[NR_SETTLED_PTE_OPS];
	unsigned int plain[NR_SETTLED_PTE_OPS];
	unsigned int changed;		/* entries, by the agent */
	unsigned int wrong;		/* plain, but hardware is not done */
	/* Entries as they were after the last access to them */
	pte_t mid[PTRS_PER_PTE];
} agent;

static void agent_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
		       enum settled_pte_op op, bool plain)
{
	if (ptep < agent.first || ptep >= agent.first + agent.nr)
		return;

	agent.windows[op]++;
	if (plain) {
		agent.plain[op]++;
		if (op != SETTLED_PTE_TEARDOWN && !hw_is_done(old))
			agent.wrong++;
	}

	if (agent.access != ACCESS_NONE &&
	    hw_access(ptep, agent.access == ACCESS_WRITE))
		agent.changed++;
	agent.mid[ptep - agent.first] = READ_ONCE(*ptep);
}

/* Watch entries, which have their initial values. Lock of the entries held. */
static inline void agent_watch(pte_t *ptep, unsigned int nr, enum access access)
{
	unsigned int i;

	memset(agent.windows, 0, sizeof(agent.windows));
	memset(agent.plain, 0, sizeof(agent.plain));
	agent.changed = 0;
	agent.wrong = 0;
	for (i = 0; i < nr; i++)
		agent.mid[i] = READ_ONCE(ptep[i]);
	agent.access = access;
	agent.nr = nr;
	agent.first = ptep;
}

static inline unsigned int agent_windows(void)
{
	unsigned int op, sum = 0;

	for (op = 0; op < NR_SETTLED_PTE_OPS; op++)
		sum += agent.windows[op];

	return sum;
}

static __maybe_unused int agent_init(struct kunit_suite *suite)
{
	settled_pte_set_hook(agent_hook);
	return 0;
}

static __maybe_unused void agent_exit(struct kunit_suite *suite)
{
	settled_pte_set_hook(NULL);
}

#else

/* A suite that has nothing to say needs no agent. */
#define agent_init	NULL
#define agent_exit	NULL

#endif /* CONFIG_ARM64 && CONFIG_SETTLED_PTES_TEST */

#endif /* PTEOPT_KUNIT_HELPERS_H */
