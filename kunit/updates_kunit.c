// SPDX-License-Identifier: GPL-2.0
/*
 * Every helper that updates a PTE or a PMD, for every state of the entry, with
 * hardware acting between the load and the store: the outcome is that of the
 * update after what hardware did, and no store is plain that must not be. Then
 * the same with hardware on another CPU, at any time, by its own atomics.
 */

#include "helpers.h"

#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>

#if defined(CONFIG_ARM64) && defined(CONFIG_SETTLED_PTES_TEST)

/*
 * What the helpers do, in terms of the manual's bits, not of their own code; see
 * wrprotected(), too.
 */
static pteval_t old(pteval_t v)
{
	return v & ~PTE_AF;
}

static pteval_t clean(pteval_t v)
{
	return (v & ~PTE_DIRTY) | PTE_RDONLY;
}

static pteval_t none(pteval_t v)
{
	return 0;
}

static pteval_t young(pteval_t v)
{
	return v | PTE_AF;
}

static pteval_t young_dirty_writable(pteval_t v)
{
	return (v | PTE_AF | PTE_DIRTY | PTE_WRITE) & ~PTE_RDONLY;
}

static u64 nothing(pteval_t v)
{
	return 0;
}

static u64 all_of_it(pteval_t v)
{
	return v;
}

static u64 was_young(pteval_t v)
{
	return !!(v & PTE_AF);
}

static u64 do_wrprotect(struct table *t, pte_t *ptep)
{
	ptep_set_wrprotect(t->mm, t->addr, ptep);
	return 0;
}

static u64 do_young(struct table *t, pte_t *ptep)
{
	return ptep_test_and_clear_young(t->vma, t->addr, ptep);
}

static u64 do_clear_young(struct table *t, pte_t *ptep)
{
	clear_young_dirty_ptes(t->vma, t->addr, ptep, 1, CYDP_CLEAR_YOUNG);
	return 0;
}

static u64 do_clear_dirty(struct table *t, pte_t *ptep)
{
	clear_young_dirty_ptes(t->vma, t->addr, ptep, 1, CYDP_CLEAR_DIRTY);
	return 0;
}

static u64 do_get_and_clear(struct table *t, pte_t *ptep)
{
	return pte_val(ptep_get_and_clear(t->mm, t->addr, ptep));
}

static u64 do_get_and_clear_batch(struct table *t, pte_t *ptep)
{
	return pte_val(get_and_clear_full_ptes(t->mm, t->addr, ptep, 1, 0));
}

static u64 do_clear_batch(struct table *t, pte_t *ptep)
{
	clear_full_ptes(t->mm, t->addr, ptep, 1, 0);
	return 0;
}

static u64 do_set_young(struct table *t, pte_t *ptep)
{
	pte_t entry = __pte(young(pte_val(READ_ONCE(*ptep))));

	ptep_set_access_flags(t->vma, t->addr, ptep, entry, 0);
	return 0;
}

static u64 do_set_writable(struct table *t, pte_t *ptep)
{
	pte_t entry = __pte(young_dirty_writable(pte_val(READ_ONCE(*ptep))));

	ptep_set_access_flags(t->vma, t->addr, ptep, entry, 0);
	return 0;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static u64 do_pmd_wrprotect(struct table *t, pte_t *ptep)
{
	pmdp_set_wrprotect(t->mm, t->pmd_addr, (pmd_t *)ptep);
	return 0;
}

static u64 do_pmd_young(struct table *t, pte_t *ptep)
{
	return pmdp_test_and_clear_young(t->vma, t->pmd_addr, (pmd_t *)ptep);
}

static u64 do_pmd_get_and_clear(struct table *t, pte_t *ptep)
{
	return pmd_val(pmdp_huge_get_and_clear(t->mm, t->pmd_addr,
					       (pmd_t *)ptep));
}

static u64 do_pmd_get_and_clear_full(struct table *t, pte_t *ptep)
{
	return pmd_val(pmdp_huge_get_and_clear_full(t->vma, t->pmd_addr,
						    (pmd_t *)ptep, 0));
}

static u64 do_pmd_set_writable(struct table *t, pte_t *ptep)
{
	pte_t entry = __pte(young_dirty_writable(pte_val(READ_ONCE(*ptep))));

	pmdp_set_access_flags(t->vma, t->pmd_addr, (pmd_t *)ptep,
			      pte_pmd(entry), 0);
	return 0;
}
#endif

static const struct update {
	const char *name;
	u64 (*run)(struct table *t, pte_t *ptep);
	pteval_t (*model)(pteval_t v);		/* of the entry */
	u64 (*ret)(pteval_t v);			/* of what is returned */
	enum settled_pte_op op;
	bool pmd;
} updates[] = {
	{ "ptep_set_wrprotect", do_wrprotect, wrprotected, nothing,
	  SETTLED_PTE_WRPROTECT },
	{ "ptep_test_and_clear_young", do_young, old, was_young,
	  SETTLED_PTE_YOUNG },
	{ "clear_young_dirty_ptes young", do_clear_young, old, nothing,
	  SETTLED_PTE_CLEAN },
	{ "clear_young_dirty_ptes dirty", do_clear_dirty, clean, nothing,
	  SETTLED_PTE_CLEAN },
	{ "ptep_get_and_clear", do_get_and_clear, none, all_of_it,
	  SETTLED_PTE_CLEAR },
	{ "get_and_clear_full_ptes", do_get_and_clear_batch, none, all_of_it,
	  SETTLED_PTE_CLEAR },
	{ "clear_full_ptes", do_clear_batch, none, nothing,
	  SETTLED_PTE_CLEAR },
	{ "ptep_set_access_flags young", do_set_young, young, nothing,
	  SETTLED_PTE_ACCESS_FLAGS },
	{ "ptep_set_access_flags writable", do_set_writable,
	  young_dirty_writable, nothing, SETTLED_PTE_ACCESS_FLAGS },
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	{ "pmdp_set_wrprotect", do_pmd_wrprotect, wrprotected, nothing,
	  SETTLED_PTE_WRPROTECT, true },
	{ "pmdp_test_and_clear_young", do_pmd_young, old, was_young,
	  SETTLED_PTE_YOUNG, true },
	{ "pmdp_huge_get_and_clear", do_pmd_get_and_clear, none, all_of_it,
	  SETTLED_PTE_CLEAR, true },
	{ "pmdp_huge_get_and_clear_full", do_pmd_get_and_clear_full, none,
	  all_of_it, SETTLED_PTE_CLEAR, true },
	{ "pmdp_set_access_flags writable", do_pmd_set_writable,
	  young_dirty_writable, nothing, SETTLED_PTE_ACCESS_FLAGS, true },
#endif
};

static void update_to_desc(const struct update *u, char *desc)
{
	strscpy(desc, u->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(updates, updates, update_to_desc);

static const pteval_t bits[] = {
	PTE_VALID, PTE_AF, PTE_WRITE, PTE_RDONLY, PTE_DIRTY, PTE_SPECIAL,
};

/* One update of one entry, in one state, with one access in its window. */
static void one_state(struct kunit *test, struct table *t,
		      const struct update *u, pteval_t state,
		      enum access access)
{
	spinlock_t *ptl = u->pmd ? t->pmd_ptl : t->ptl;
	pte_t *ptep = u->pmd ? (pte_t *)t->pmdp : t->ptep;
	pteval_t before, mid, after;
	unsigned int windows;
	bool done;
	u64 ret;

	before = pte_val(make_pte(t, 0, state));
	if (u->pmd)
		before &= ~PTE_TABLE_BIT;
	done = hw_is_done(__pte(before));

	spin_lock(ptl);
	WRITE_ONCE(*ptep, __pte(before));
	agent_watch(ptep, 1, access);
	ret = u->run(t, ptep);
	mid = pte_val(agent.mid[0]);
	after = pte_val(READ_ONCE(*ptep));
	WRITE_ONCE(*ptep, __pte(0));
	windows = agent_windows();
	spin_unlock(ptl);

	KUNIT_EXPECT_EQ_MSG(test, after, u->model(mid), "0x%016llx, access %d",
			    before, access);
	KUNIT_EXPECT_EQ_MSG(test, ret, u->ret(mid), "0x%016llx, access %d",
			    before, access);
	/* One window, with the right name, or there was nothing to do */
	KUNIT_EXPECT_EQ_MSG(test, windows, agent.windows[u->op], "0x%016llx",
			    before);
	KUNIT_EXPECT_LE_MSG(test, windows, 1, "0x%016llx", before);
	if (!windows && plain_pte_updates())
		KUNIT_EXPECT_EQ_MSG(test, before, u->model(before), "0x%016llx",
				    before);
	/* Plain if and only if hardware is done with it */
	KUNIT_EXPECT_EQ_MSG(test, agent.plain[u->op],
			    windows && done && plain_pte_updates(),
			    "0x%016llx", before);
}

static void update_loses_nothing(struct kunit *test)
{
	const struct update *u = test->param_value;
	struct table t = table_create(test);
	unsigned int n, i, changed = 0;
	enum access access;

	for (n = 0; n < BIT(ARRAY_SIZE(bits)); n++) {
		pteval_t state = 0;

		for (i = 0; i < ARRAY_SIZE(bits); i++)
			if (n & BIT(i))
				state |= bits[i];
		/* No entry of user space is neither writable nor read-only */
		if (!(state & (PTE_WRITE | PTE_RDONLY)))
			continue;

		for (access = 0; access < NR_ACCESSES; access++) {
			one_state(test, &t, u, state, access);
			changed += agent.changed;
		}
	}

	/* Did the agent ever get to act? Clears swap if plain updates are off */
	if (plain_pte_updates() || u->op != SETTLED_PTE_CLEAR)
		KUNIT_EXPECT_GT(test, changed, 0);
}

static const pteval_t states[] = {
	PTE_AF | PTE_WRITE | PTE_DIRTY,
	PTE_AF | PTE_WRITE | PTE_RDONLY,
	PTE_WRITE | PTE_DIRTY,
	PTE_AF | PTE_RDONLY,
	PTE_WRITE | PTE_RDONLY,
	PTE_AF | PTE_WRITE,
	PTE_RDONLY | PTE_DIRTY,
};

static pte_t state_pte(const struct table *t, unsigned int first,
		       unsigned int i)
{
	return make_pte(t, i % BLOCK, PTE_VALID |
			states[(first + i) % ARRAY_SIZE(states)]);
}

/* A batch is as many single updates: each entry by its own value. */
static void batch_by_entry(struct kunit *test)
{
	struct table t = table_create(test);
	enum { WRPROTECT, GET_AND_CLEAR, CLEAR, YOUNG, NR } how;
	const unsigned int nr = 3 * BLOCK / 2 + 1;
	unsigned int i, first, bad, changed = 0;

	for (how = 0; how < NR; how++) {
		for (first = 0; first < ARRAY_SIZE(states); first++) {
			bool dirty = false, is_yng = false;
			pte_t ret = __pte(0);

			bad = 0;
			spin_lock(t.ptl);
			for (i = 0; i < nr; i++)
				WRITE_ONCE(t.ptep[i], state_pte(&t, first, i));
			agent_watch(t.ptep, nr, ACCESS_WRITE);
			switch (how) {
			case WRPROTECT:
				wrprotect_ptes(t.mm, t.addr, t.ptep, nr);
				break;
			case GET_AND_CLEAR:
				ret = get_and_clear_full_ptes(t.mm, t.addr,
							      t.ptep, nr, 0);
				break;
			case CLEAR:
				clear_full_ptes(t.mm, t.addr, t.ptep, nr, 0);
				break;
			default:
				clear_young_dirty_ptes(t.vma, t.addr, t.ptep,
						       nr, CYDP_CLEAR_YOUNG);
			}
			for (i = 0; i < nr; i++) {
				pteval_t mid = pte_val(agent.mid[i]);
				pteval_t want = how == WRPROTECT ?
					wrprotected(mid) :
					how == YOUNG ? old(mid) : 0;

				dirty |= is_dirty(agent.mid[i]);
				is_yng |= is_young(agent.mid[i]);
				if (pte_val(READ_ONCE(t.ptep[i])) != want)
					bad++;
				WRITE_ONCE(t.ptep[i], __pte(0));
			}
			spin_unlock(t.ptl);

			KUNIT_EXPECT_EQ_MSG(test, bad, 0, "how %d", how);
			KUNIT_EXPECT_EQ_MSG(test, agent.wrong, 0, "how %d", how);
			if (how == GET_AND_CLEAR) {
				KUNIT_EXPECT_EQ(test, is_dirty(ret), dirty);
				KUNIT_EXPECT_EQ(test, is_young(ret), is_yng);
			}
			changed += agent.changed;
		}
	}
	KUNIT_EXPECT_GT(test, changed, 0);
}

/* The first entry is settled, and hardware makes another one dirty. */
static void batch_not_by_first(struct kunit *test)
{
	struct table t = table_create(test);
	unsigned int i;
	pte_t ret;

	spin_lock(t.ptl);
	for (i = 0; i < BLOCK; i++)
		WRITE_ONCE(t.ptep[i],
			   make_pte(&t, i, PTE_VALID | PTE_AF | PTE_RDONLY |
				    (i == 5 ? PTE_WRITE : 0)));
	agent_watch(t.ptep, BLOCK, ACCESS_WRITE);
	ret = get_and_clear_full_ptes(t.mm, t.addr, t.ptep, BLOCK, 0);
	for (i = 0; i < BLOCK; i++)
		WRITE_ONCE(t.ptep[i], __pte(0));
	spin_unlock(t.ptl);

	/* With plain updates off there is no window to act in */
	if (plain_pte_updates()) {
		KUNIT_EXPECT_EQ(test, agent.changed, 1);
		KUNIT_EXPECT_TRUE(test, is_dirty(ret));
	}
}

/*
 * Hardware on another CPU. Each entry is armed as clean or old, and what the
 * agent did to it has to show up before it is armed again: in the entry or in
 * what a helper returned.
 */
#define RACE_ENTRIES	8
#define RACE_ROUNDS	1000

static struct race {
	pte_t *ptep;
	unsigned long turns;		/* the agent has been around */
	unsigned long dirtied;		/* clean to dirty, by the agent */
	unsigned long aged;		/* old to young, by the agent */
	unsigned long overlaps;		/* it acted in a window */
	unsigned long stuck;		/* it did not come around in one */
} race;

static int race_agent(void *unused)
{
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < RACE_ENTRIES; i++) {
			pteval_t changed = hw_access(race.ptep + i,
						     race.turns % 4);

			race.dirtied += !!(changed & PTE_RDONLY);
			race.aged += !!(changed & PTE_AF);
		}
		/* The accesses of a turn are over when it is counted */
		smp_store_release(&race.turns, race.turns + 1);
		cpu_relax();
	}

	return 0;
}

/* Keep the window open until the agent has been around. */
static void race_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
		      enum settled_pte_op op, bool plain)
{
	unsigned long start, spins = 0;

	if (ptep < race.ptep || ptep >= race.ptep + RACE_ENTRIES)
		return;

	/* Pairs with the release in race_agent(): one turn is a whole one */
	start = smp_load_acquire(&race.turns);
	/* As above */
	while (smp_load_acquire(&race.turns) - start < 2) {
		if (++spins > 10000000) {
			race.stuck++;
			break;
		}
		cpu_relax();
	}
	if (pte_val(READ_ONCE(*ptep)) != pte_val(old))
		race.overlaps++;
}

static void race_on_another_cpu(struct kunit *test)
{
	const pteval_t armed = PTE_VALID | PTE_WRITE | PTE_RDONLY;
	unsigned long dirty = 0, aged = 0, round;
	struct task_struct *thread;
	struct table t;
	unsigned int i;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");

	t = table_create(test);
	memset(&race, 0, sizeof(race));
	race.ptep = t.ptep;
	for (i = 0; i < RACE_ENTRIES; i++)
		WRITE_ONCE(t.ptep[i], make_pte(&t, i, armed));

	thread = kthread_create(race_agent, NULL, "pteopt_agent");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	settled_pte_set_hook(race_hook);
	migrate_disable();
	kthread_bind(thread, cpumask_any_but(cpu_online_mask,
					     smp_processor_id()));
	wake_up_process(thread);

	for (round = 0; round < RACE_ROUNDS; round++) {
		pte_t pte = make_pte(&t, round % RACE_ENTRIES, armed);

		i = round % RACE_ENTRIES;
		spin_lock(t.ptl);

		/*
		 * Arm it in one atomic step, and account for what it was. Now
		 * and then do not, for the states that come of several updates.
		 */
		if (round % 5) {
			pte_t was = __pte(xchg(&pte_val(t.ptep[i]),
					       pte_val(pte)));

			dirty += is_dirty(was);
			aged += is_young(was);
		}

		switch (round / RACE_ENTRIES % 5) {
		case 0:
			ptep_set_wrprotect(t.mm, t.addr, t.ptep + i);
			break;
		case 1:
			aged += ptep_test_and_clear_young(t.vma, t.addr,
							  t.ptep + i);
			break;
		case 2:
			/* Sets nothing; what hardware sets has to survive */
			ptep_set_access_flags(t.vma, t.addr, t.ptep + i,
					      pte_mkspecial(READ_ONCE(t.ptep[i])),
					      0);
			break;
		case 3:
			wrprotect_ptes(t.mm, t.addr, t.ptep + i, 1);
			break;
		case 4: {
			pte_t ret = ptep_get_and_clear(t.mm, t.addr,
						       t.ptep + i);

			dirty += is_dirty(ret);
			aged += is_young(ret);
			/* Empty, so hardware does not touch it */
			WRITE_ONCE(t.ptep[i], pte);
			break;
		}
		}
		spin_unlock(t.ptl);
		if (round % 64 == 0)
			cond_resched();
	}

	kthread_stop(thread);
	migrate_enable();
	settled_pte_set_hook(agent_hook);

	for (i = 0; i < RACE_ENTRIES; i++) {
		dirty += is_dirty(t.ptep[i]);
		aged += is_young(t.ptep[i]);
		WRITE_ONCE(t.ptep[i], __pte(0));
	}

	kunit_info(test, "%lu made dirty, %lu made young, %lu in a window",
		   race.dirtied, race.aged, race.overlaps);
	KUNIT_EXPECT_EQ(test, dirty, race.dirtied);
	KUNIT_EXPECT_EQ(test, aged, race.aged);
	KUNIT_EXPECT_EQ(test, race.stuck, 0);
	KUNIT_EXPECT_GT(test, race.overlaps, RACE_ROUNDS / 20);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(update_loses_nothing, updates_gen_params),
	KUNIT_CASE(batch_by_entry),
	KUNIT_CASE(batch_not_by_first),
	KUNIT_CASE_SLOW(race_on_another_cpu),
	{}
};

#else

static struct kunit_case cases[] = {
	KUNIT_CASE(pteopt_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_updates",
	.suite_init = agent_init,
	.suite_exit = agent_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of PTE and PMD updates");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
