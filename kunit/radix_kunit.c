// SPDX-License-Identifier: GPL-2.0
/*
 * Updates of page table entries on powerpc's radix MMU: which of them are plain
 * stores, and that none loses what another agent records in the entry.
 *
 * The agents are played by a hook between the load and the store of an update:
 * a core, which sets R, and C if the entry grants write access, and the nest MMU,
 * which may set both late, whatever the entry has become meanwhile. What an
 * entry has to be afterwards is worked out here from the bits alone.
 *
 * Entries are those of a real address space, the test's thread being its only
 * user. They are set by hand, and put back before anything else looks at them.
 */

#include <kunit/test.h>
#include <linux/module.h>

#if defined(CONFIG_PPC_RADIX_MMU) && defined(CONFIG_SETTLED_PTES_TEST)

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/settled_ptes.h>
#include <linux/set_memory.h>
#include <linux/vmalloc.h>
#include <asm/pte-walk.h>
#include <asm/tlb.h>

#include "memory.h"

/* Fewer than a page table has with 64K pages */
#define NR_PTES		16

#define RC		(_PAGE_ACCESSED | _PAGE_DIRTY)

/* The bits that decide on an update, and some that must only be kept */
static const unsigned long combination_bits[] = {
	_PAGE_PRESENT, _PAGE_ACCESSED, _PAGE_DIRTY, _PAGE_WRITE,
	_PAGE_SOFT_DIRTY, _PAGE_EXEC,
};

#define NR_COMBINATIONS	BIT(ARRAY_SIZE(combination_bits))

struct region {
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	unsigned long addr;
	pmd_t *pmdp;
	/* The entry that a test updates: of the first page, or the huge one */
	pte_t *ptep;
	spinlock_t *ptl;
	pte_t saved[NR_PTES];
	unsigned int nr_saved;
};

/* What the hook saw and did since agent_start() */
static struct {
	pte_t *first;
	unsigned int nr;
	pte_t (*act)(pte_t pte);
	unsigned int calls;
	unsigned int plain_calls;
	/* Calls for each kind of update */
	unsigned int ops[NR_SETTLED_PTE_OPS];
	/* Bits that the agent recorded in the first entry */
	unsigned long recorded;
} agent;

static pte_t core_acts(pte_t pte)
{
	unsigned long val = pte_val(pte);

	if (!(val & _PAGE_PRESENT))
		return pte;
	val |= _PAGE_ACCESSED;
	if (val & _PAGE_WRITE)
		val |= _PAGE_DIRTY;
	return __pte(val);
}

static pte_t nest_mmu_acts(pte_t pte)
{
	return __pte(pte_val(pte) | RC);
}

static void agent_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
		       enum settled_pte_op op, bool plain)
{
	unsigned long bits;

	if (ptep < agent.first || ptep >= agent.first + agent.nr)
		return;

	agent.calls++;
	agent.plain_calls += plain;
	agent.ops[op]++;
	if (!agent.act)
		return;

	bits = pte_val(agent.act(*ptep)) & ~pte_val(*ptep);
	__radix_pte_update(ptep, 0, bits);
	if (ptep == agent.first)
		agent.recorded |= bits;
}

static void agent_start(pte_t *first, unsigned int nr, pte_t (*act)(pte_t pte))
{
	memset(&agent, 0, sizeof(agent));
	agent.act = act;
	agent.nr = nr;
	/* The hook is installed already: it looks at this one first */
	barrier();
	agent.first = first;
}

static void agent_stop(void)
{
	agent.first = NULL;
	agent.nr = 0;
}

static void remove_hook(void *unused)
{
	settled_pte_set_hook(NULL);
}

static int radix_init(struct kunit *test)
{
	agent_stop();
	settled_pte_set_hook(agent_hook);
	return kunit_add_action_or_reset(test, remove_hook, NULL);
}

static void needs_radix(struct kunit *test)
{
	if (!radix_enabled())
		kunit_skip(test, "the MMU is not in radix mode");
}

/* Map @size bytes of anonymous memory, aligned to their size. */
static struct region map_ptes(struct kunit *test)
{
	const unsigned long size = NR_PTES * PAGE_SIZE;
	struct region r = {};

	r.addr = ALIGN(memory_map(test, 2 * size), size);
	r.mm = current->mm;
	r.vma = memory_vma(test, r.addr, VM_NOHUGEPAGE);
	memory_fill(test, r.addr, NR_PTES);
	r.pmdp = memory_pmd(r.addr);
	KUNIT_ASSERT_FALSE(test, pmd_leaf(*r.pmdp));
	r.ptep = pte_offset_kernel(r.pmdp, r.addr);
	r.ptl = pte_lockptr(r.mm, r.pmdp);
	r.nr_saved = NR_PTES;
	return r;
}

static struct region map_radix_ptes(struct kunit *test)
{
	needs_radix(test);
	return map_ptes(test);
}

static struct region map_huge_pmd(struct kunit *test)
{
	struct region r = {};

	needs_radix(test);
	r.addr = memory_map_huge(test, PROT_READ | PROT_WRITE);
	r.mm = current->mm;
	r.vma = memory_vma(test, r.addr, 0);
	r.pmdp = memory_pmd(r.addr);
	r.ptep = pmdp_ptep(r.pmdp);
	r.ptl = pmd_lockptr(r.mm, r.pmdp);
	r.nr_saved = 1;
	return r;
}

/* Between these two the entries are the test's own. */
static void take_entries(struct region *r)
{
	unsigned int i;

	mmap_write_lock(r->mm);
	spin_lock(r->ptl);
	for (i = 0; i < r->nr_saved; i++)
		r->saved[i] = READ_ONCE(r->ptep[i]);
}

static void put_back_entries(struct region *r)
{
	unsigned int i;

	for (i = 0; i < r->nr_saved; i++)
		WRITE_ONCE(r->ptep[i], r->saved[i]);
	flush_tlb_mm(r->mm);
	spin_unlock(r->ptl);
	mmap_write_unlock(r->mm);
}

/* Attach a coprocessor, as far as updates of entries are concerned. */
static void set_coprocessor(struct region *r, bool attached)
{
	atomic_set(&r->mm->context.copros, attached);
}

static pte_t combination(pte_t pte, unsigned int c)
{
	unsigned long val = pte_val(pte);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(combination_bits); i++) {
		val &= ~combination_bits[i];
		if (c & BIT(i))
			val |= combination_bits[i];
	}
	/* As an entry is while it is not present for a moment */
	if (!(val & _PAGE_PRESENT))
		val |= _PAGE_INVALID;
	return __pte(val);
}

/* The rule once more, written as the list of what is settled. */
static bool is_settled(pte_t pte)
{
	switch (pte_val(pte) & (_PAGE_PRESENT | RC | _PAGE_WRITE)) {
	case _PAGE_PRESENT | _PAGE_ACCESSED:
	case _PAGE_PRESENT | _PAGE_ACCESSED | _PAGE_DIRTY:
	case _PAGE_PRESENT | _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_WRITE:
		return true;
	default:
		return !(pte_val(pte) & _PAGE_PRESENT);
	}
}

/* Settled means that a core has nothing to do; the nest MMU needs R and C. */
static void settled_all_combinations(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	unsigned int c;
	pte_t pte;

	for (c = 0; c < NR_COMBINATIONS; c++) {
		pte = combination(*r.ptep, c);

		KUNIT_EXPECT_EQ_MSG(test, radix__pte_settled(pte),
				    is_settled(pte), "pte %lx", pte_val(pte));
		KUNIT_EXPECT_EQ_MSG(test, radix__pte_settled(pte),
				    pte_same(core_acts(pte), pte),
				    "pte %lx", pte_val(pte));

		KUNIT_EXPECT_EQ_MSG(test, radix__pte_stable(r.mm, pte),
				    plain_pte_updates() && is_settled(pte),
				    "pte %lx", pte_val(pte));
		set_coprocessor(&r, true);
		KUNIT_EXPECT_EQ_MSG(test, radix__pte_stable(r.mm, pte),
				    plain_pte_updates() &&
				    pte_same(nest_mmu_acts(pte), pte),
				    "pte %lx, coprocessor", pte_val(pte));
		set_coprocessor(&r, false);
	}
}

/*
 * An update of one entry. What it replaced, if the caller of the helper gets to
 * know that, is returned, else the entry as it was before.
 */
struct update {
	const char *name;
	pte_t (*run)(struct region *r, const struct update *u);
	unsigned long clear, set;
	/* Tells R and C of the old entry to the caller, who accounts them */
	bool returns_old;
	/* Is not made for entries that are not present */
	bool present_only;
	/* Is a store that discards R and C, so it is plain always */
	bool discards;
	enum settled_pte_op op;
};

static pte_t run_wrprotect(struct region *r, const struct update *u)
{
	ptep_set_wrprotect(r->mm, r->addr, r->ptep);
	return __pte(0);
}

static pte_t run_wrprotect_ptes(struct region *r, const struct update *u)
{
	wrprotect_ptes(r->mm, r->addr, r->ptep, 1);
	return __pte(0);
}

static pte_t run_young(struct region *r, const struct update *u)
{
	int young = ptep_test_and_clear_young(r->vma, r->addr, r->ptep);

	return __pte(young ? _PAGE_ACCESSED : 0);
}

static pte_t run_clear_young(struct region *r, const struct update *u)
{
	clear_young_dirty_ptes(r->vma, r->addr, r->ptep, 1, CYDP_CLEAR_YOUNG);
	return __pte(0);
}

static pte_t run_clear_dirty(struct region *r, const struct update *u)
{
	clear_young_dirty_ptes(r->vma, r->addr, r->ptep, 1, CYDP_CLEAR_DIRTY);
	return __pte(0);
}

static pte_t run_clear_young_dirty(struct region *r, const struct update *u)
{
	clear_young_dirty_ptes(r->vma, r->addr, r->ptep, 1,
			       CYDP_CLEAR_YOUNG | CYDP_CLEAR_DIRTY);
	return __pte(0);
}

static pte_t run_get_and_clear(struct region *r, const struct update *u)
{
	return ptep_get_and_clear(r->mm, r->addr, r->ptep);
}

static pte_t run_get_and_clear_full(struct region *r, const struct update *u)
{
	return ptep_get_and_clear_full(r->mm, r->addr, r->ptep, 0);
}

static pte_t run_get_and_clear_ptes(struct region *r, const struct update *u)
{
	return get_and_clear_full_ptes(r->mm, r->addr, r->ptep, 1, 0);
}

static pte_t run_pte_clear(struct region *r, const struct update *u)
{
	pte_clear(r->mm, r->addr, r->ptep);
	return __pte(0);
}

static pte_t run_clear_full_ptes(struct region *r, const struct update *u)
{
	clear_full_ptes(r->mm, r->addr, r->ptep, 1, 0);
	return __pte(0);
}

static pte_t run_access_flags(struct region *r, const struct update *u)
{
	pte_t entry = __pte(pte_val(*r->ptep) | u->set);

	ptep_set_access_flags(r->vma, r->addr, r->ptep, entry, 1);
	return __pte(0);
}

static pte_t run_modify_prot(struct region *r, const struct update *u)
{
	pte_t old = ptep_modify_prot_start(r->vma, r->addr, r->ptep);
	pte_t new = __pte((pte_val(old) & ~u->clear) | u->set);

	ptep_modify_prot_commit(r->vma, r->addr, r->ptep, old, new);
	return old;
}

#ifdef change_prot_ptes
static pte_t run_change_prot(struct region *r, const struct update *u)
{
	pgprot_t prot = __pgprot(_PAGE_BASE | (u->set & ~_PAGE_ACCESSED) |
				 (u->clear & _PAGE_READ ? 0 : _PAGE_READ));
	struct mmu_gather tlb = { .mm = r->mm };

	__tlb_reset_range(&tlb);
	change_prot_ptes(&tlb, r->vma, r->addr, r->ptep, 1, prot, 0);
	return __pte(0);
}
#endif

static const struct update pte_updates[] = {
	{ "ptep_set_wrprotect", run_wrprotect, .clear = _PAGE_WRITE,
	  .op = SETTLED_PTE_WRPROTECT },
	{ "wrprotect_ptes", run_wrprotect_ptes, .clear = _PAGE_WRITE,
	  .op = SETTLED_PTE_WRPROTECT },
	{ "ptep_test_and_clear_young", run_young, .clear = _PAGE_ACCESSED,
	  .op = SETTLED_PTE_YOUNG },
	{ "clear_young_dirty_ptes young", run_clear_young,
	  .clear = _PAGE_ACCESSED, .op = SETTLED_PTE_CLEAN },
	{ "clear_young_dirty_ptes dirty", run_clear_dirty,
	  .clear = _PAGE_DIRTY, .op = SETTLED_PTE_CLEAN },
	{ "clear_young_dirty_ptes both", run_clear_young_dirty,
	  .clear = RC, .op = SETTLED_PTE_CLEAN },
	{ "ptep_get_and_clear", run_get_and_clear, .clear = ~0UL,
	  .returns_old = true, .op = SETTLED_PTE_CLEAR },
	{ "ptep_get_and_clear_full", run_get_and_clear_full, .clear = ~0UL,
	  .returns_old = true, .op = SETTLED_PTE_CLEAR },
	{ "get_and_clear_full_ptes", run_get_and_clear_ptes, .clear = ~0UL,
	  .returns_old = true, .op = SETTLED_PTE_CLEAR },
	{ "pte_clear", run_pte_clear, .clear = ~0UL, .discards = true },
	{ "clear_full_ptes", run_clear_full_ptes, .clear = ~0UL,
	  .discards = true },
	{ "ptep_set_access_flags young", run_access_flags,
	  .set = _PAGE_ACCESSED, .present_only = true,
	  .op = SETTLED_PTE_ACCESS_FLAGS },
	{ "ptep_set_access_flags dirty", run_access_flags,
	  .set = _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_SOFT_DIRTY | _PAGE_WRITE,
	  .present_only = true, .op = SETTLED_PTE_ACCESS_FLAGS },
	{ "modify_prot r--", run_modify_prot,
	  .clear = _PAGE_WRITE | _PAGE_EXEC, .present_only = true,
	  .returns_old = true, .op = SETTLED_PTE_CLEAR },
	{ "modify_prot rw-", run_modify_prot,
	  .clear = _PAGE_EXEC, .set = _PAGE_WRITE, .present_only = true,
	  .returns_old = true, .op = SETTLED_PTE_CLEAR },
#ifdef change_prot_ptes
	{ "change_prot_ptes ---", run_change_prot, .clear = _PAGE_RWX,
	  .set = _PAGE_ACCESSED, .present_only = true, .op = SETTLED_PTE_PROT },
	{ "change_prot_ptes r--", run_change_prot,
	  .clear = _PAGE_WRITE | _PAGE_EXEC, .set = _PAGE_ACCESSED,
	  .present_only = true, .op = SETTLED_PTE_PROT },
	{ "change_prot_ptes rwx", run_change_prot,
	  .set = _PAGE_ACCESSED | _PAGE_RWX, .present_only = true,
	  .op = SETTLED_PTE_PROT },
#endif
};

static pte_t run_pmd_wrprotect(struct region *r, const struct update *u)
{
	pmdp_set_wrprotect(r->mm, r->addr, r->pmdp);
	return __pte(0);
}

static pte_t run_pmd_young(struct region *r, const struct update *u)
{
	int young = pmdp_test_and_clear_young(r->vma, r->addr, r->pmdp);

	return __pte(young ? _PAGE_ACCESSED : 0);
}

static pte_t run_pmd_get_and_clear(struct region *r, const struct update *u)
{
	return pmd_pte(pmdp_huge_get_and_clear(r->mm, r->addr, r->pmdp));
}

static pte_t run_pmd_get_and_clear_full(struct region *r,
					const struct update *u)
{
	return pmd_pte(pmdp_huge_get_and_clear_full(r->vma, r->addr, r->pmdp,
						    0));
}

static pte_t run_pmd_invalidate(struct region *r, const struct update *u)
{
	return pmd_pte(pmdp_invalidate(r->vma, r->addr, r->pmdp));
}

static pte_t run_pmd_invalidate_ad(struct region *r, const struct update *u)
{
	return pmd_pte(pmdp_invalidate_ad(r->vma, r->addr, r->pmdp));
}

static pte_t run_pmd_access_flags(struct region *r, const struct update *u)
{
	pmd_t entry = __pmd(pmd_val(*r->pmdp) | u->set);

	pmdp_set_access_flags(r->vma, r->addr, r->pmdp, entry, 1);
	return __pte(0);
}

static const struct update pmd_updates[] = {
	{ "pmdp_set_wrprotect", run_pmd_wrprotect, .clear = _PAGE_WRITE,
	  .present_only = true, .op = SETTLED_PTE_WRPROTECT },
	{ "pmdp_test_and_clear_young", run_pmd_young, .clear = _PAGE_ACCESSED,
	  .present_only = true, .op = SETTLED_PTE_YOUNG },
	{ "pmdp_huge_get_and_clear", run_pmd_get_and_clear, .clear = ~0UL,
	  .returns_old = true, .present_only = true, .op = SETTLED_PTE_CLEAR },
	{ "pmdp_huge_get_and_clear_full", run_pmd_get_and_clear_full,
	  .clear = ~0UL, .returns_old = true, .present_only = true,
	  .op = SETTLED_PTE_CLEAR },
	{ "pmdp_invalidate", run_pmd_invalidate, .clear = _PAGE_PRESENT,
	  .set = _PAGE_INVALID, .returns_old = true, .present_only = true,
	  .op = SETTLED_PTE_CLEAR },
	{ "pmdp_invalidate_ad", run_pmd_invalidate_ad, .clear = _PAGE_PRESENT,
	  .set = _PAGE_INVALID, .returns_old = true, .present_only = true,
	  .op = SETTLED_PTE_CLEAR },
	{ "pmdp_set_access_flags", run_pmd_access_flags,
	  .set = _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_SOFT_DIRTY | _PAGE_WRITE,
	  .present_only = true, .op = SETTLED_PTE_ACCESS_FLAGS },
};

/*
 * One update of one combination of bits, while an agent acts: afterwards the
 * entry, and what the caller was told, are what they have to be.
 */
static void check_update(struct kunit *test, struct region *r,
			 const struct update *u, unsigned int c,
			 pte_t (*act)(pte_t pte))
{
	pte_t before = combination(r->saved[0], c), after, told;
	unsigned long all, want;

	if (u->present_only && !(pte_val(before) & _PAGE_PRESENT))
		return;

	WRITE_ONCE(*r->ptep, before);
	agent_start(r->ptep, 1, act);
	told = u->run(r, u);
	agent_stop();
	after = READ_ONCE(*r->ptep);

	/* The old entry, with all that the agent recorded in it */
	all = pte_val(before) | agent.recorded;
	want = (all & ~u->clear) | u->set;

	/* Clearing what is not set, or setting what is, may be left undone */
	if (u->discards)
		KUNIT_EXPECT_EQ_MSG(test, agent.calls, 0, "%s", u->name);
	KUNIT_EXPECT_EQ_MSG(test, pte_val(after), want,
			    "%s: pte %lx, agent recorded %lx", u->name,
			    pte_val(before), agent.recorded);
	if (u->returns_old)
		KUNIT_EXPECT_EQ_MSG(test, pte_val(told), all,
				    "%s: pte %lx, agent recorded %lx", u->name,
				    pte_val(before), agent.recorded);
	if (u->op == SETTLED_PTE_YOUNG)
		KUNIT_EXPECT_EQ_MSG(test, pte_val(told),
				    pte_val(before) & _PAGE_ACCESSED,
				    "%s: pte %lx", u->name, pte_val(before));
}

static void check_updates(struct kunit *test, struct region *r,
			  const struct update *updates, unsigned int nr,
			  pte_t (*act)(pte_t pte), bool coprocessor)
{
	unsigned int i, c;

	take_entries(r);
	set_coprocessor(r, coprocessor);
	for (i = 0; i < nr; i++)
		for (c = 0; c < NR_COMBINATIONS; c++)
			check_update(test, r, &updates[i], c, act);
	set_coprocessor(r, false);
	put_back_entries(r);
}

static void pte_update_loses_nothing_of_core(struct kunit *test)
{
	struct region r = map_radix_ptes(test);

	check_updates(test, &r, pte_updates, ARRAY_SIZE(pte_updates), core_acts,
		      false);
}

static void pte_update_loses_nothing_of_nest_mmu(struct kunit *test)
{
	struct region r = map_radix_ptes(test);

	check_updates(test, &r, pte_updates, ARRAY_SIZE(pte_updates),
		      nest_mmu_acts, true);
}

static void pmd_update_loses_nothing_of_core(struct kunit *test)
{
	struct region r = map_huge_pmd(test);

	check_updates(test, &r, pmd_updates, ARRAY_SIZE(pmd_updates), core_acts,
		      false);
}

static void pmd_update_loses_nothing_of_nest_mmu(struct kunit *test)
{
	struct region r = map_huge_pmd(test);

	check_updates(test, &r, pmd_updates, ARRAY_SIZE(pmd_updates),
		      nest_mmu_acts, true);
}

/*
 * An update is plain if, and only if, the entry is settled: the point of it all.
 * With "disable_plain_pte", none is.
 */
static void check_plain(struct kunit *test, struct region *r,
			const struct update *updates, unsigned int nr)
{
	unsigned int i, c, updates_seen = 0, plain_seen = 0;

	take_entries(r);
	for (i = 0; i < nr; i++) {
		const struct update *u = &updates[i];

		if (u->discards)
			continue;
		for (c = 0; c < NR_COMBINATIONS; c++) {
			pte_t before = combination(r->saved[0], c);
			bool plain = plain_pte_updates() && is_settled(before);
			unsigned int calls;

			if (u->present_only &&
			    !(pte_val(before) & _PAGE_PRESENT))
				continue;

			WRITE_ONCE(*r->ptep, before);
			agent_start(r->ptep, 1, NULL);
			u->run(r, u);
			agent_stop();

			calls = agent.calls;
			KUNIT_EXPECT_LE_MSG(test, calls, 1, "%s", u->name);
			if (!calls) {
				/* There was nothing to change */
				KUNIT_EXPECT_EQ_MSG(test, pte_val(*r->ptep),
						    pte_val(before), "%s",
						    u->name);
				continue;
			}
			KUNIT_EXPECT_EQ_MSG(test, agent.plain_calls, plain,
					    "%s: pte %lx", u->name,
					    pte_val(before));
			if (plain_pte_updates())
				KUNIT_EXPECT_EQ_MSG(test, agent.ops[u->op], 1,
						    "%s", u->name);
			updates_seen++;
			plain_seen += agent.plain_calls;
		}
	}
	put_back_entries(r);

	KUNIT_EXPECT_GT(test, updates_seen, nr * 4);
	if (plain_pte_updates())
		KUNIT_EXPECT_GT(test, plain_seen, 0);
	else
		KUNIT_EXPECT_EQ(test, plain_seen, 0);
}

static void pte_update_plain_if_settled(struct kunit *test)
{
	struct region r = map_radix_ptes(test);

	check_plain(test, &r, pte_updates, ARRAY_SIZE(pte_updates));
}

static void pmd_update_plain_if_settled(struct kunit *test)
{
	struct region r = map_huge_pmd(test);

	check_plain(test, &r, pmd_updates, ARRAY_SIZE(pmd_updates));
}

/*
 * Batches: each entry is decided on by itself, and those around are left alone.
 */
struct batch {
	const char *name;
	void (*run)(struct region *r, unsigned int first, unsigned int nr);
	unsigned long clear;
};

static void batch_wrprotect(struct region *r, unsigned int first,
			    unsigned int nr)
{
	wrprotect_ptes(r->mm, r->addr + first * PAGE_SIZE, r->ptep + first, nr);
}

static void batch_young(struct region *r, unsigned int first, unsigned int nr)
{
	clear_young_dirty_ptes(r->vma, r->addr + first * PAGE_SIZE,
			       r->ptep + first, nr, CYDP_CLEAR_YOUNG);
}

static void batch_young_dirty(struct region *r, unsigned int first,
			      unsigned int nr)
{
	clear_young_dirty_ptes(r->vma, r->addr + first * PAGE_SIZE,
			       r->ptep + first, nr,
			       CYDP_CLEAR_YOUNG | CYDP_CLEAR_DIRTY);
}

static void batch_clear(struct region *r, unsigned int first, unsigned int nr)
{
	clear_full_ptes(r->mm, r->addr + first * PAGE_SIZE, r->ptep + first, nr,
			0);
}

static void batch_clear_teardown(struct region *r, unsigned int first,
				 unsigned int nr)
{
	clear_full_ptes(r->mm, r->addr + first * PAGE_SIZE, r->ptep + first, nr,
			1);
}

static const struct batch batches[] = {
	{ "wrprotect_ptes", batch_wrprotect, _PAGE_WRITE },
	{ "clear_young_dirty_ptes young", batch_young, _PAGE_ACCESSED },
	{ "clear_young_dirty_ptes both", batch_young_dirty, RC },
	{ "clear_full_ptes", batch_clear, ~0UL },
	{ "clear_full_ptes teardown", batch_clear_teardown, ~0UL },
};

static void check_batch(struct kunit *test, struct region *r,
			const struct batch *b, unsigned int first,
			unsigned int nr, unsigned int shift)
{
	pte_t before[NR_PTES];
	unsigned int i;

	for (i = 0; i < NR_PTES; i++) {
		/* Present, and all combinations of R, C, W and soft-dirty */
		before[i] = combination(r->saved[i],
					((i + shift) % 16) * 2 + 1);
		WRITE_ONCE(r->ptep[i], before[i]);
	}

	b->run(r, first, nr);

	for (i = 0; i < NR_PTES; i++) {
		unsigned long want = pte_val(before[i]);

		if (i >= first && i < first + nr)
			want &= ~b->clear;
		KUNIT_EXPECT_EQ_MSG(test, pte_val(r->ptep[i]), want,
				    "%s: %u of %u to %u, was %lx", b->name, i,
				    first, first + nr - 1, pte_val(before[i]));
	}
}

static void batch_updates_each_entry(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	unsigned int b, first, nr;

	take_entries(&r);
	for (b = 0; b < ARRAY_SIZE(batches); b++)
		for (first = 0; first < NR_PTES; first += 3)
			for (nr = 1; first + nr <= NR_PTES; nr++)
				check_batch(test, &r, &batches[b], first, nr,
					    5 * nr);
	put_back_entries(&r);
}

/* Each entry maps the page behind that of the one before it. */
static void set_ptes_maps_each_page(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	unsigned int i, nr;

	take_entries(&r);
	for (nr = 1; nr <= NR_PTES; nr++) {
		for (i = 0; i < NR_PTES; i++)
			WRITE_ONCE(r.ptep[i], __pte(0));
		set_ptes(r.mm, r.addr, r.ptep, r.saved[0], nr);
		for (i = 0; i < NR_PTES; i++)
			KUNIT_EXPECT_EQ_MSG(test, pte_val(r.ptep[i]), i < nr ?
					    pte_val(r.saved[0]) +
					    ((unsigned long)i << PFN_PTE_SHIFT) :
					    0, "entry %u of %u", i, nr);
	}
	put_back_entries(&r);
}

/* R and C of every entry of a batch reach the caller. */
static void check_gather(struct kunit *test, struct region *r, unsigned int at,
			 unsigned long rc, int full)
{
	unsigned int i;
	pte_t told;

	for (i = 0; i < NR_PTES; i++)
		WRITE_ONCE(r->ptep[i], __pte((pte_val(r->saved[i]) & ~RC) |
					     (i == at ? rc : 0)));

	told = get_and_clear_full_ptes(r->mm, r->addr, r->ptep, NR_PTES, full);

	KUNIT_EXPECT_EQ_MSG(test, pte_val(told) & RC, rc, "entry %u, full %d",
			    at, full);
	KUNIT_EXPECT_EQ(test, pte_pfn(told), pte_pfn(r->saved[0]));
	for (i = 0; i < NR_PTES; i++)
		KUNIT_EXPECT_EQ(test, pte_val(r->ptep[i]), 0);
}

static void batch_clear_gathers(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	unsigned int at;
	int full;

	take_entries(&r);
	for (full = 0; full < 2; full++) {
		for (at = 0; at < NR_PTES; at++) {
			check_gather(test, &r, at, _PAGE_ACCESSED, full);
			check_gather(test, &r, at, _PAGE_DIRTY, full);
		}
	}
	put_back_entries(&r);
}

/*
 * Teardown clears any entry by a plain store, but for a coprocessor: its window
 * outlives the address space, so C that it records must not be lost.
 */
static void teardown_minds_coprocessor(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	pte_t before, told;
	unsigned int c;

	take_entries(&r);
	for (c = 0; c < NR_COMBINATIONS; c++) {
		before = combination(r.saved[0], c);

		WRITE_ONCE(*r.ptep, before);
		agent_start(r.ptep, 1, NULL);
		told = ptep_get_and_clear_full(r.mm, r.addr, r.ptep, 1);
		agent_stop();
		KUNIT_EXPECT_EQ(test, pte_val(told), pte_val(before));
		KUNIT_EXPECT_EQ(test, pte_val(*r.ptep), 0);
		KUNIT_EXPECT_EQ(test, agent.plain_calls, agent.calls);

		set_coprocessor(&r, true);
		WRITE_ONCE(*r.ptep, before);
		agent_start(r.ptep, 1, nest_mmu_acts);
		told = ptep_get_and_clear_full(r.mm, r.addr, r.ptep, 1);
		agent_stop();
		set_coprocessor(&r, false);
		KUNIT_EXPECT_EQ_MSG(test, pte_val(told),
				    pte_val(before) | agent.recorded,
				    "pte %lx", pte_val(before));
		KUNIT_EXPECT_EQ(test, pte_val(*r.ptep), 0);
	}
	put_back_entries(&r);
}

static void pmd_teardown_minds_coprocessor(struct kunit *test)
{
	struct region r = map_huge_pmd(test);
	pte_t before, told;
	unsigned int c;

	take_entries(&r);
	set_coprocessor(&r, true);
	for (c = 0; c < NR_COMBINATIONS; c++) {
		before = combination(r.saved[0], c);
		if (!(pte_val(before) & _PAGE_PRESENT))
			continue;

		WRITE_ONCE(*r.ptep, before);
		agent_start(r.ptep, 1, nest_mmu_acts);
		told = pmd_pte(pmdp_huge_get_and_clear_full(r.vma, r.addr,
							    r.pmdp, 1));
		agent_stop();
		KUNIT_EXPECT_EQ_MSG(test, pte_val(told),
				    pte_val(before) | agent.recorded,
				    "pmd %lx", pte_val(before));
		KUNIT_EXPECT_EQ(test, pte_val(*r.ptep), 0);
	}
	set_coprocessor(&r, false);
	put_back_entries(&r);
}

#ifdef change_prot_ptes

/*
 * POWER9's nest MMU does not look at an entry again: before it grants more, the
 * entry is invalidated and flushed. Others are changed in place.
 */
static void prot_upgrade_for_p9_nest_mmu(struct kunit *test)
{
	bool p9 = !cpu_has_feature(CPU_FTR_ARCH_31);
	struct region r = map_radix_ptes(test);
	struct mmu_gather tlb = { .mm = r.mm };
	bool coprocessor;

	if (!plain_pte_updates())
		kunit_skip(test, "disable_plain_pte");

	take_entries(&r);
	__tlb_reset_range(&tlb);
	for (coprocessor = false; ; coprocessor = true) {
		bool in_place = !(p9 && coprocessor);

		set_coprocessor(&r, coprocessor);
		WRITE_ONCE(*r.ptep, pte_wrprotect(r.saved[0]));
		agent_start(r.ptep, 1, NULL);
		change_prot_ptes(&tlb, r.vma, r.addr, r.ptep, 1,
				 __pgprot(_PAGE_BASE | _PAGE_RW), 0);
		agent_stop();
		set_coprocessor(&r, false);

		KUNIT_EXPECT_TRUE(test, pte_write(*r.ptep));
		KUNIT_EXPECT_EQ(test, agent.ops[SETTLED_PTE_PROT], in_place);
		KUNIT_EXPECT_EQ(test, agent.ops[SETTLED_PTE_CLEAR], !in_place);
		if (coprocessor)
			break;
	}
	put_back_entries(&r);
}

/*
 * What is revoked is to be flushed, exactly that; what is granted, or does not
 * change, is not, and what does not change is not even written.
 */
static void prot_change_flushes_what_is_revoked(struct kunit *test)
{
	static const struct {
		unsigned long from, to;
		bool flush;
	} changes[] = {
		{ _PAGE_RW, _PAGE_READ, true },
		{ _PAGE_RW, 0, true },
		{ _PAGE_READ | _PAGE_EXEC, _PAGE_READ, true },
		{ _PAGE_RW, _PAGE_READ | _PAGE_EXEC, true },
		{ _PAGE_READ, _PAGE_RW, false },
		{ 0, _PAGE_RW, false },
		{ _PAGE_READ, _PAGE_RWX, false },
		{ _PAGE_RW, _PAGE_RW, false },
		{ _PAGE_READ, _PAGE_READ, false },
	};
	struct region r = map_radix_ptes(test);
	unsigned int i, n, nr;

	if (!plain_pte_updates())
		kunit_skip(test, "disable_plain_pte");

	take_entries(&r);
	for (n = 0; n < ARRAY_SIZE(changes); n++) {
		bool change = changes[n].from != changes[n].to;
		struct mmu_gather tlb = { .mm = r.mm };

		__tlb_reset_range(&tlb);
		for (i = 0; i < NR_PTES; i++)
			WRITE_ONCE(r.ptep[i],
				   __pte((pte_val(r.saved[i]) & ~_PAGE_RWX) |
					 RC | changes[n].from));

		agent_start(r.ptep, NR_PTES, NULL);
		nr = change_prot_ptes(&tlb, r.vma, r.addr + 3 * PAGE_SIZE,
				      r.ptep + 3, 7,
				      __pgprot(_PAGE_BASE | changes[n].to), 0);
		agent_stop();

		KUNIT_EXPECT_EQ(test, nr, 7);
		KUNIT_EXPECT_EQ_MSG(test, agent.calls, change ? 7 : 0,
				    "change %u", n);
		for (i = 0; i < NR_PTES; i++)
			KUNIT_EXPECT_EQ_MSG(test,
					    pte_val(r.ptep[i]) & _PAGE_RWX,
					    i >= 3 && i < 10 ? changes[n].to :
							       changes[n].from,
					    "change %u, entry %u", n, i);
		KUNIT_EXPECT_EQ_MSG(test, !!tlb.cleared_ptes, changes[n].flush,
				    "change %u", n);
		if (changes[n].flush) {
			KUNIT_EXPECT_EQ(test, tlb.start,
					r.addr + 3 * PAGE_SIZE);
			KUNIT_EXPECT_EQ(test, tlb.end,
					r.addr + 10 * PAGE_SIZE);
		}
	}

	put_back_entries(&r);
}

static void prot_change_ends_at_hole(struct kunit *test)
{
	struct region r = map_radix_ptes(test);
	struct mmu_gather tlb = { .mm = r.mm };
	unsigned int nr;

	take_entries(&r);
	__tlb_reset_range(&tlb);
	WRITE_ONCE(r.ptep[5], __pte(0));
	nr = change_prot_ptes(&tlb, r.vma, r.addr, r.ptep, NR_PTES,
			      __pgprot(_PAGE_BASE | _PAGE_READ), 0);
	KUNIT_EXPECT_EQ(test, nr, 5);
	KUNIT_EXPECT_FALSE(test, pte_write(r.ptep[4]));
	KUNIT_EXPECT_EQ(test, pte_val(r.ptep[5]), 0);
	KUNIT_EXPECT_TRUE(test, pte_write(r.ptep[6]));
	put_back_entries(&r);
}

#endif /* change_prot_ptes */

/* When a huge PMD is zapped: at once, by the gather, but never both or none. */
static void pmd_zap_flushes_once(struct kunit *test)
{
	static const struct vm_operations_struct file_ops = {};
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma),
						   GFP_KERNEL);
	bool full, file, detached;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, vma);

	for (i = 0; i < 8; i++) {
		full = i & 1;
		file = i & 2;
		detached = i & 4;

		vma->vm_ops = file ? &file_ops : NULL;
#ifdef CONFIG_PER_VMA_LOCK
		vma->detached = detached;
#else
		detached = false;
#endif
		KUNIT_EXPECT_EQ_MSG(test, pmdp_clear_full_flushes(vma, full),
				    plain_pte_updates() && !full &&
				    !(detached && !file),
				    "full %d, file %d, detached %d", full, file,
				    detached);
	}
}

/* After munmap() of huge pages, no TLB holds what they were. */
static void munmap_huge_leaves_no_translation(struct kunit *test)
{
	struct region r = map_huge_pmd(test);
	unsigned char __user *p = (unsigned char __user *)r.addr;
	unsigned long off, addr;
	unsigned char c;

	for (off = 0; off < HPAGE_PMD_SIZE; off += PAGE_SIZE)
		KUNIT_ASSERT_EQ(test, 0, get_user(c, p + off));

	KUNIT_ASSERT_EQ(test, 0, vm_munmap(r.addr, HPAGE_PMD_SIZE));
	KUNIT_EXPECT_EQ(test, -EFAULT, get_user(c, p));

	addr = vm_mmap(NULL, r.addr, HPAGE_PMD_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
	KUNIT_ASSERT_EQ(test, addr, r.addr);
	for (off = 0; off < HPAGE_PMD_SIZE; off += PAGE_SIZE) {
		c = 0xff;
		KUNIT_EXPECT_EQ(test, 0, get_user(c, p + off));
		KUNIT_EXPECT_EQ_MSG(test, c, 0, "offset %lx", off);
	}
}

/* The PTE of the kernel for @addr */
static pte_t *kernel_ptep(struct kunit *test, unsigned long addr)
{
	unsigned int shift = 0;
	pte_t *ptep;

	ptep = __find_linux_pte(init_mm.pgd, addr, NULL, &shift);
	KUNIT_ASSERT_NOT_NULL(test, ptep);
	if (shift > PAGE_SHIFT)
		kunit_skip(test, "huge mapping of kernel memory");
	return ptep;
}

/*
 * Attributes of kernel memory change without a lock, so by atomic updates only:
 * one thread's write access and another's execute access must not disturb each
 * other, and the hook, which sees every update that may be plain, must see none
 * of these.
 */
struct attr_thread {
	unsigned long addr;
	pte_t *ptep;
	bool exec;
	unsigned int rounds, errors;
};

static int attr_thread_fn(void *data)
{
	struct attr_thread *t = data;

	while (!kthread_should_stop()) {
		if (t->exec) {
			set_memory_x(t->addr, 1);
			t->errors += !pte_exec(READ_ONCE(*t->ptep));
			set_memory_nx(t->addr, 1);
			t->errors += pte_exec(READ_ONCE(*t->ptep));
		} else {
			set_memory_ro(t->addr, 1);
			t->errors += pte_write(READ_ONCE(*t->ptep));
			set_memory_rw(t->addr, 1);
			t->errors += !pte_write(READ_ONCE(*t->ptep));
		}
		t->rounds++;
		cond_resched();
	}
	return 0;
}

static void kernel_attributes_are_atomic(struct kunit *test)
{
	struct attr_thread t[2] = { { .exec = false }, { .exec = true } };
	struct region r = map_radix_ptes(test);
	struct task_struct *task[2] = {};
	unsigned long addr;
	void *page;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, r.vma);
	page = vmalloc(PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = (unsigned long)page;

	for (i = 0; i < 2; i++) {
		t[i].addr = addr;
		t[i].ptep = kernel_ptep(test, addr);
	}
	agent_start(t[0].ptep, 1, NULL);
	for (i = 0; i < 2; i++)
		task[i] = kthread_run(attr_thread_fn, &t[i], "attr/%d", i);
	msleep(500);
	for (i = 0; i < 2; i++)
		if (!IS_ERR(task[i]))
			kthread_stop(task[i]);
	agent_stop();
	set_memory_nx(addr, 1);
	set_memory_rw(addr, 1);
	vfree(page);

	KUNIT_EXPECT_EQ(test, agent.calls, 0);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_FALSE(test, IS_ERR(task[i]));
		KUNIT_EXPECT_GT(test, t[i].rounds, 10);
		KUNIT_EXPECT_EQ(test, t[i].errors, 0);
	}
}

/* Text that runs, on another CPU if there is one, while its permissions change */
static noinline unsigned long running_text(unsigned long x)
{
	return x * 2862933555777941757UL + 3037000493UL;
}

struct text_thread {
	unsigned long rounds, errors;
};

static int text_thread_fn(void *data)
{
	unsigned long x = 1, want = 1;
	struct text_thread *t = data;
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < 1000; i++) {
			x = running_text(x);
			want = want * 2862933555777941757UL + 3037000493UL;
		}
		t->errors += x != want;
		t->rounds++;
		cond_resched();
	}
	return 0;
}

static void running_text_changes_permissions(struct kunit *test)
{
	unsigned long addr = (unsigned long)running_text & PAGE_MASK;
	struct region r = map_radix_ptes(test);
	struct text_thread t = {};
	struct task_struct *task;
	unsigned int i, wrong = 0;
	pte_t *ptep, before;

	KUNIT_ASSERT_NOT_NULL(test, r.vma);
	ptep = kernel_ptep(test, addr);
	before = READ_ONCE(*ptep);
	if (pte_write(before))
		kunit_skip(test, "the text of modules is not read-only");

	task = kthread_run(text_thread_fn, &t, "text");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	for (i = 0; i < 2000; i++) {
		set_memory_rw(addr, 1);
		wrong += !pte_write(READ_ONCE(*ptep));
		set_memory_rox(addr, 1);
		wrong += !pte_exec(READ_ONCE(*ptep));
		cond_resched();
	}
	kthread_stop(task);

	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_GT(test, t.rounds, 0);
	KUNIT_EXPECT_EQ(test, t.errors, 0);
	KUNIT_EXPECT_FALSE(test, pte_write(READ_ONCE(*ptep)));
	KUNIT_EXPECT_EQ(test, pte_pfn(READ_ONCE(*ptep)), pte_pfn(before));
}

/* Hash locks a PTE by a bit of it: no update ever comes near a plain store. */
static void hash_update_is_never_plain(struct kunit *test)
{
	struct region r;
	unsigned char c;
	unsigned int i;

	if (radix_enabled())
		kunit_skip(test, "the MMU is in radix mode");

	KUNIT_EXPECT_FALSE(test, plain_pte_updates());
	r = map_ptes(test);

	take_entries(&r);
	agent_start(r.ptep, NR_PTES, NULL);
	wrprotect_ptes(r.mm, r.addr, r.ptep, NR_PTES);
	for (i = 0; i < NR_PTES; i++) {
		KUNIT_EXPECT_FALSE(test, pte_write(r.ptep[i]));
		KUNIT_EXPECT_TRUE(test, pte_dirty(r.ptep[i]));
		KUNIT_EXPECT_TRUE(test, pte_young(r.ptep[i]));
	}
	KUNIT_EXPECT_TRUE(test, ptep_test_and_clear_young(r.vma, r.addr,
							  r.ptep));
	clear_young_dirty_ptes(r.vma, r.addr, r.ptep, NR_PTES,
			       CYDP_CLEAR_YOUNG);
	for (i = 0; i < NR_PTES; i++) {
		KUNIT_EXPECT_TRUE(test, pte_dirty(r.ptep[i]));
		KUNIT_EXPECT_FALSE(test, pte_young(r.ptep[i]));
	}
	agent_stop();
	spin_unlock(r.ptl);
	mmap_write_unlock(r.mm);
	KUNIT_EXPECT_EQ(test, agent.calls, 0);

	for (i = 0; i < NR_PTES; i++) {
		unsigned char __user *p = (unsigned char __user *)
					  (r.addr + i * PAGE_SIZE);

		KUNIT_EXPECT_EQ(test, 0, get_user(c, p));
		KUNIT_EXPECT_EQ(test, c, pattern(i));
		KUNIT_EXPECT_EQ(test, 0, put_user(c, p));
	}
}

static struct kunit_case radix_cases[] = {
	KUNIT_CASE(settled_all_combinations),
	KUNIT_CASE(pte_update_loses_nothing_of_core),
	KUNIT_CASE(pte_update_loses_nothing_of_nest_mmu),
	KUNIT_CASE(pte_update_plain_if_settled),
	KUNIT_CASE(batch_updates_each_entry),
	KUNIT_CASE(set_ptes_maps_each_page),
	KUNIT_CASE(batch_clear_gathers),
	KUNIT_CASE(teardown_minds_coprocessor),
#ifdef change_prot_ptes
	KUNIT_CASE(prot_upgrade_for_p9_nest_mmu),
	KUNIT_CASE(prot_change_flushes_what_is_revoked),
	KUNIT_CASE(prot_change_ends_at_hole),
#endif
	KUNIT_CASE(pmd_update_loses_nothing_of_core),
	KUNIT_CASE(pmd_update_loses_nothing_of_nest_mmu),
	KUNIT_CASE(pmd_update_plain_if_settled),
	KUNIT_CASE(pmd_teardown_minds_coprocessor),
	KUNIT_CASE(pmd_zap_flushes_once),
	KUNIT_CASE(munmap_huge_leaves_no_translation),
	KUNIT_CASE(kernel_attributes_are_atomic),
	KUNIT_CASE(running_text_changes_permissions),
	KUNIT_CASE(hash_update_is_never_plain),
	{}
};

#else

static int radix_init(struct kunit *test)
{
	return 0;
}

static void plain_updates_missing(struct kunit *test)
{
#ifdef CONFIG_PPC_RADIX_MMU
	KUNIT_FAIL(test, "this kernel has no test hook in PTE updates of radix");
#else
	kunit_skip(test, "not a kernel with powerpc's radix MMU");
#endif
}

static struct kunit_case radix_cases[] = {
	KUNIT_CASE(plain_updates_missing),
	{}
};

#endif

static struct kunit_suite radix_suite = {
	.name = "pteopt_radix",
	.init = radix_init,
	.test_cases = radix_cases,
};
kunit_test_suite(radix_suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of PTE updates on powerpc radix");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_LICENSE("GPL");
