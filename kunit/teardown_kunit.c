// SPDX-License-Identifier: GPL-2.0
/*
 * Clearing entries of an address space that nobody uses any more ("full"): it is
 * plain, whatever the state of the entry, loses nothing but the young hint that
 * is set in the last moment, and touches nothing else. Without "full", nothing
 * at all is lost.
 */

#include "helpers.h"

#if defined(CONFIG_ARM64) && defined(CONFIG_SETTLED_PTES_TEST)

#define MAX_NR		(2 * BLOCK)
#define GUARD		PTE_DIRTY	/* not valid, not none */

/* An entry for each state of AF, dirty and write permission */
static pte_t entry(const struct table *t, unsigned int i, unsigned int state)
{
	pteval_t bits = PTE_VALID;

	bits |= state & 1 ? PTE_AF : 0;
	bits |= state & 2 ? PTE_WRITE : PTE_RDONLY;
	bits |= state & 4 ? PTE_RDONLY : 0;
	bits |= state & 8 ? PTE_DIRTY : 0;

	return make_pte(t, i % BLOCK, bits);
}

struct result {
	pte_t ret;
	bool cleared;
	bool guards;
	unsigned int windows;
	unsigned int plain;
	unsigned int op_windows;
	bool dirty, young;		/* of the entries before the call */
	bool mid_dirty, mid_young;	/* of what the agent made of them */
};

enum how { GET_AND_CLEAR, CLEAR, SPECIAL };

static struct result clear(struct table *t, unsigned int nr, unsigned int seed,
			   bool full, enum how how, enum access access)
{
	enum settled_pte_op op = full ? SETTLED_PTE_TEARDOWN : SETTLED_PTE_CLEAR;
	pte_t *ptep = t->ptep + 1;
	unsigned long addr = t->addr + PAGE_SIZE;
	struct result r = { .cleared = true };
	unsigned int i;

	spin_lock(t->ptl);
	WRITE_ONCE(ptep[-1], __pte(GUARD));
	WRITE_ONCE(ptep[nr], __pte(GUARD));
	for (i = 0; i < nr; i++) {
		pte_t pte = entry(t, i, seed >> (i % 8));

		r.dirty |= is_dirty(pte);
		r.young |= is_young(pte);
		WRITE_ONCE(ptep[i], pte);
	}

	agent_watch(ptep, nr, access);
	switch (how) {
	case GET_AND_CLEAR:
		r.ret = get_and_clear_full_ptes(t->mm, addr, ptep, nr, full);
		break;
	case CLEAR:
		clear_full_ptes(t->mm, addr, ptep, nr, full);
		break;
	case SPECIAL:
		r.ret = ptep_get_and_clear_full(t->mm, addr, ptep, full);
		break;
	}

	for (i = 0; i < nr; i++) {
		r.mid_dirty |= is_dirty(agent.mid[i]);
		r.mid_young |= is_young(agent.mid[i]);
		if (!pte_none(READ_ONCE(ptep[i])))
			r.cleared = false;
		WRITE_ONCE(ptep[i], __pte(0));
	}
	r.guards = pte_val(READ_ONCE(ptep[-1])) == GUARD &&
		   pte_val(READ_ONCE(ptep[nr])) == GUARD;
	WRITE_ONCE(ptep[-1], __pte(0));
	WRITE_ONCE(ptep[nr], __pte(0));
	r.windows = agent_windows();
	r.op_windows = agent.windows[op];
	r.plain = agent.plain[op];
	spin_unlock(t->ptl);

	return r;
}

/* Each entry is cleared by one plain store; what it said before is returned. */
static void full_is_plain(struct kunit *test)
{
	struct table t = table_create(test);
	unsigned int nr, seed;
	enum how how;

	if (!plain_pte_updates())
		kunit_skip(test, "arm64.noplainpte");

	for (how = GET_AND_CLEAR; how <= SPECIAL; how++) {
		for (nr = 1; nr <= (how == SPECIAL ? 1 : MAX_NR); nr++) {
			for (seed = 0; seed < 256; seed += 5) {
				struct result r = clear(&t, nr, seed, true, how,
							ACCESS_READ);

				KUNIT_ASSERT_TRUE(test, r.cleared);
				KUNIT_ASSERT_TRUE(test, r.guards);
				KUNIT_ASSERT_EQ(test, r.windows, nr);
				KUNIT_ASSERT_EQ(test, r.op_windows, nr);
				KUNIT_ASSERT_EQ(test, r.plain, nr);
				if (how == CLEAR)
					continue;
				KUNIT_ASSERT_EQ(test, is_dirty(r.ret), r.dirty);
				KUNIT_ASSERT_EQ(test, is_young(r.ret), r.young);
				KUNIT_ASSERT_EQ(test, pte_pfn(r.ret), t.pfn);
			}
		}
	}
}

/* munmap() and the OOM reaper: the mm may be in use, so nothing may be lost. */
static void not_full_loses_nothing(struct kunit *test)
{
	struct table t = table_create(test);
	unsigned int nr, seed;
	enum how how;

	for (how = GET_AND_CLEAR; how <= SPECIAL; how++) {
		for (nr = 1; nr <= (how == SPECIAL ? 1 : MAX_NR); nr++) {
			for (seed = 0; seed < 256; seed += 5) {
				struct result r = clear(&t, nr, seed, false,
							how, ACCESS_WRITE);

				KUNIT_ASSERT_TRUE(test, r.cleared);
				KUNIT_ASSERT_TRUE(test, r.guards);
				KUNIT_ASSERT_EQ(test, agent.wrong, 0);
				KUNIT_ASSERT_EQ(test, r.windows, r.op_windows);
				if (how == CLEAR)
					continue;
				KUNIT_ASSERT_EQ(test, is_dirty(r.ret),
						r.mid_dirty);
				KUNIT_ASSERT_EQ(test, is_young(r.ret),
						r.mid_young);
			}
		}
	}
}

/* A block that is cleared whole is not unfolded: no entry is written twice. */
static void full_contpte_block(struct kunit *test)
{
#ifdef CONFIG_ARM64_CONTPTE
	struct table t = table_create(test);
	bool left = false;
	unsigned int i;
	pte_t ret;

	if (!plain_pte_updates())
		kunit_skip(test, "arm64.noplainpte");

	spin_lock(t.ptl);
	for (i = 0; i < CONT_PTES; i++)
		WRITE_ONCE(t.ptep[i], make_pte(&t, i, PTE_VALID | PTE_CONT |
					       PTE_WRITE | PTE_RDONLY));
	/* Hardware writes the flags to one entry only */
	hw_access(t.ptep + 9, true);

	agent_watch(t.ptep, CONT_PTES, ACCESS_NONE);
	ret = get_and_clear_full_ptes(t.mm, t.addr, t.ptep, CONT_PTES, 1);
	for (i = 0; i < CONT_PTES; i++) {
		left |= !pte_none(READ_ONCE(t.ptep[i]));
		WRITE_ONCE(t.ptep[i], __pte(0));
	}
	spin_unlock(t.ptl);

	KUNIT_EXPECT_FALSE(test, left);
	KUNIT_EXPECT_TRUE(test, is_dirty(ret));
	KUNIT_EXPECT_TRUE(test, is_young(ret));
	KUNIT_EXPECT_EQ(test, agent_windows(), CONT_PTES);
	KUNIT_EXPECT_EQ(test, agent.plain[SETTLED_PTE_TEARDOWN], CONT_PTES);
#else
	kunit_skip(test, "CONFIG_ARM64_CONTPTE is off");
#endif
}

static void full_pmd(struct kunit *test)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	struct table t = table_create(test);
	unsigned int state;
	int full;

	for (full = 0; full < 2; full++) {
		for (state = 0; state < 16; state++) {
			pte_t old = entry(&t, 0, state);
			pmd_t ret, left;

			pte_val(old) &= ~PTE_TABLE_BIT;
			spin_lock(t.pmd_ptl);
			WRITE_ONCE(*t.pmdp, pte_pmd(old));
			agent_watch((pte_t *)t.pmdp, 1,
				    full ? ACCESS_READ : ACCESS_WRITE);
			ret = pmdp_huge_get_and_clear_full(t.vma, t.pmd_addr,
							   t.pmdp, full);
			left = READ_ONCE(*t.pmdp);
			WRITE_ONCE(*t.pmdp, __pmd(0));
			spin_unlock(t.pmd_ptl);

			KUNIT_EXPECT_TRUE(test, pmd_none(left));
			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			if (!plain_pte_updates())
				continue;
			KUNIT_EXPECT_EQ(test, agent_windows(), 1);
			if (full) {
				KUNIT_EXPECT_EQ(test, pmd_val(ret),
						pte_val(old));
				KUNIT_EXPECT_EQ(test,
						agent.plain[SETTLED_PTE_TEARDOWN],
						1);
			} else {
				KUNIT_EXPECT_EQ(test, pmd_val(ret),
						pte_val(agent.mid[0]));
			}
		}
	}
#else
	kunit_skip(test, "CONFIG_TRANSPARENT_HUGEPAGE is off");
#endif
}

static struct kunit_case cases[] = {
	KUNIT_CASE(full_is_plain),
	KUNIT_CASE(not_full_loses_nothing),
	KUNIT_CASE(full_contpte_block),
	KUNIT_CASE(full_pmd),
	{}
};

#else

static struct kunit_case cases[] = {
	KUNIT_CASE(pteopt_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_teardown",
	.suite_init = agent_init,
	.suite_exit = agent_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of whole-mm teardown");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
