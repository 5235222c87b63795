// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks of PTEs with the contiguous bit, of which hardware sets the flags of any
 * one entry: each entry is updated by its own value, while hardware acts between
 * the load and the store; a block that is taken apart keeps all flags; and what
 * is done once for a block is not done for each of its pages.
 */

#include "helpers.h"

#if defined(CONFIG_ARM64) && defined(CONFIG_SETTLED_PTES_TEST) && \
	defined(CONFIG_ARM64_CONTPTE)

/* Pages 16 to 31, or their like, so that there is something on both sides */
#define FIRST		CONT_PTES

#define NR_SEEDS	64

struct block {
	struct table t;
	unsigned long addr;
	pte_t *ptep;
	pteval_t before[CONT_PTES];
	pteval_t mid[CONT_PTES];
	pteval_t after[CONT_PTES];
	u32 random;
};

static struct block *block_create(struct kunit *test)
{
	struct block *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->t = table_create(test);
	b->addr = b->t.addr + FIRST * PAGE_SIZE;
	b->ptep = b->t.ptep + FIRST;

	return b;
}

static u32 next_random(struct block *b)
{
	b->random = b->random * 1664525 + 1013904223;

	return b->random >> 16;
}

/* Entries agree on everything but the flags; these differ from seed to seed. */
static pteval_t flags(struct block *b, u32 seed)
{
	u32 r = next_random(b);
	pteval_t v = 0;

	/* All alike, few set, many set, any */
	switch (seed % 4) {
	case 0:
		r = seed / 4;
		break;
	case 1:
		r &= next_random(b) & next_random(b);
		break;
	case 2:
		r |= next_random(b) | next_random(b);
		break;
	}

	v |= r & 1 ? PTE_AF : 0;
	v |= r & 2 ? PTE_DIRTY : 0;
	v |= r & 4 ? 0 : PTE_RDONLY;

	return v;
}

/* Lock held from here to block_finish(). */
static void block_start(struct block *b, u32 seed, bool write,
			enum access access)
{
	unsigned int i;

	b->random = seed;
	spin_lock(b->t.ptl);
	for (i = 0; i < CONT_PTES; i++) {
		pteval_t v = flags(b, seed) | PTE_VALID | PTE_CONT;

		v |= write ? PTE_WRITE : PTE_RDONLY;
		b->before[i] = pte_val(make_pte(&b->t, i, v));
		WRITE_ONCE(b->ptep[i], __pte(b->before[i]));
	}
	agent_watch(b->ptep, CONT_PTES, access);
}

static void block_finish(struct block *b)
{
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++) {
		b->mid[i] = pte_val(agent.mid[i]);
		b->after[i] = pte_val(READ_ONCE(b->ptep[i]));
		WRITE_ONCE(b->ptep[i], __pte(0));
	}
	agent.nr = 0;
	spin_unlock(b->t.ptl);
}

static bool any_dirty(const pteval_t *v)
{
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++)
		if (is_dirty(__pte(v[i])))
			return true;

	return false;
}

static bool any_young(const pteval_t *v)
{
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++)
		if (is_young(__pte(v[i])))
			return true;

	return false;
}

/* All of it: the entries stay a block. */
static void block_wrprotect(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed, changed = 0;
	enum access access;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		for (access = 0; access < NR_ACCESSES; access++) {
			block_start(b, seed, seed % 5, access);
			wrprotect_ptes(b->t.mm, b->addr, b->ptep, CONT_PTES);
			block_finish(b);

			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			for (i = 0; i < CONT_PTES; i++)
				KUNIT_EXPECT_EQ_MSG(test, b->after[i],
						    wrprotected(b->mid[i]),
						    "entry %u", i);
			changed += agent.changed;
		}
	}
	KUNIT_EXPECT_GT(test, changed, 0);
}

/*
 * A part of it, which unfolds the block first. Hardware acts while entries are
 * cleared for that, and again while the part is write-protected.
 */
static void part_wrprotect(struct kunit *test)
{
	static const struct { unsigned int first, nr; } parts[] = {
		{ 0, 1 }, { 7, 1 }, { CONT_PTES - 1, 1 }, { 3, 5 },
		{ 0, CONT_PTES - 1 }, { 1, CONT_PTES - 1 },
	};
	struct block *b = block_create(test);
	unsigned int i, seed, part;
	enum access access;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		for (part = 0; part < ARRAY_SIZE(parts); part++) {
			unsigned int first = parts[part].first;
			unsigned int nr = parts[part].nr;
			bool dirty, young;

			access = (seed + part) % NR_ACCESSES;
			block_start(b, seed, true, access);
			wrprotect_ptes(b->t.mm, b->addr + first * PAGE_SIZE,
				       b->ptep + first, nr);
			block_finish(b);

			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			dirty = any_dirty(b->before);
			young = any_young(b->before);
			/* These were accessed only while it was unfolded */
			for (i = 0; i < CONT_PTES; i++) {
				if (i >= first && i < first + nr)
					continue;
				dirty |= is_dirty(__pte(b->mid[i]));
				young |= is_young(__pte(b->mid[i]));
			}
			for (i = 0; i < CONT_PTES; i++) {
				pteval_t v = b->after[i];
				bool in = i >= first && i < first + nr;

				KUNIT_EXPECT_FALSE(test, v & PTE_CONT);
				KUNIT_EXPECT_TRUE(test, v & PTE_VALID);
				KUNIT_EXPECT_EQ(test, pte_pfn(__pte(v)),
						b->t.pfn + i);
				KUNIT_EXPECT_EQ(test, !(v & PTE_WRITE), in);
				/* What one had been, all are, and no less */
				if (dirty)
					KUNIT_EXPECT_TRUE(test,
							  is_dirty(__pte(v)));
				if (young)
					KUNIT_EXPECT_TRUE(test,
							  is_young(__pte(v)));
				/* What the last access did is not undone */
				if (in && is_dirty(__pte(b->mid[i])))
					KUNIT_EXPECT_TRUE(test,
							  is_dirty(__pte(v)));
				if (in && is_young(__pte(b->mid[i])))
					KUNIT_EXPECT_TRUE(test,
							  is_young(__pte(v)));
			}
		}
	}
}

enum age { TEST_AND_CLEAR, CLEAR_FLUSH, CLEAR_YOUNG_DIRTY, NR_AGES };

/* A page of the block stands for all of it. */
static void block_young(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed, changed = 0;
	enum access access;
	enum age how;

	for (how = 0; how < NR_AGES; how++) {
		for (seed = 0; seed < NR_SEEDS; seed++) {
			unsigned int page = seed % (CONT_PTES - 3);
			unsigned long addr = b->addr + page * PAGE_SIZE;
			int young = -1;

			access = seed / 4 % NR_ACCESSES;
			block_start(b, seed, seed % 5, access);
			switch (how) {
			case TEST_AND_CLEAR:
				young = ptep_test_and_clear_young(b->t.vma, addr,
								  b->ptep + page);
				break;
			case CLEAR_FLUSH:
				young = contpte_ptep_clear_flush_young(b->t.vma,
								       addr,
								       b->ptep + page);
				break;
			default:
				clear_young_dirty_ptes(b->t.vma, addr,
						       b->ptep + page, 3,
						       CYDP_CLEAR_YOUNG);
			}
			block_finish(b);

			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			if (how != CLEAR_YOUNG_DIRTY)
				KUNIT_EXPECT_EQ(test, !!young, any_young(b->mid));
			for (i = 0; i < CONT_PTES; i++)
				KUNIT_EXPECT_EQ_MSG(test, b->after[i],
						    b->mid[i] & ~PTE_AF,
						    "entry %u", i);
			changed += agent.changed;
		}
	}
	KUNIT_EXPECT_GT(test, changed, 0);
}

/*
 * Aging asks for each page of a folio. The first one takes the flag from each
 * entry that has it, and there is nothing left to write for the others.
 */
static void block_aged_once(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int page, seed, young, wanted;

	if (!plain_pte_updates())
		kunit_skip(test, "arm64.noplainpte");

	for (seed = 0; seed < NR_SEEDS; seed++) {
		young = 0;
		block_start(b, seed, true, ACCESS_NONE);
		for (page = 0; page < CONT_PTES; page++)
			young += !!ptep_test_and_clear_young(b->t.vma,
					b->addr + page * PAGE_SIZE,
					b->ptep + page);
		block_finish(b);

		wanted = 0;
		for (page = 0; page < CONT_PTES; page++)
			wanted += is_young(__pte(b->before[page]));
		KUNIT_EXPECT_EQ(test, agent.windows[SETTLED_PTE_YOUNG], wanted);
		KUNIT_EXPECT_EQ(test, young, !!wanted);
	}
}

/* All of it, as munmap() does: nothing is lost, nothing is unfolded. */
static void block_clear(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed;
	enum access access;
	pte_t ret;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		for (access = 0; access < NR_ACCESSES; access++) {
			block_start(b, seed, seed % 5, access);
			ret = get_and_clear_full_ptes(b->t.mm, b->addr, b->ptep,
						      CONT_PTES, 0);
			block_finish(b);

			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			KUNIT_EXPECT_EQ(test, is_dirty(ret), any_dirty(b->mid));
			KUNIT_EXPECT_EQ(test, is_young(ret), any_young(b->mid));
			KUNIT_EXPECT_LE(test, agent_windows(), CONT_PTES);
			for (i = 0; i < CONT_PTES; i++)
				KUNIT_EXPECT_EQ(test, b->after[i], 0);
		}
	}
}

/* One page of it: what had been dirty or young remains so for all of them. */
static void part_clear(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed;
	pte_t ret;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		unsigned int page = seed % CONT_PTES;

		block_start(b, seed, seed % 5, seed / 4 % NR_ACCESSES);
		ret = ptep_get_and_clear(b->t.mm, b->addr + page * PAGE_SIZE,
					 b->ptep + page);
		block_finish(b);

		KUNIT_EXPECT_EQ(test, agent.wrong, 0);
		KUNIT_EXPECT_EQ(test, pte_pfn(ret), b->t.pfn + page);
		for (i = 0; i < CONT_PTES; i++) {
			pte_t pte = i == page ? ret : __pte(b->after[i]);

			if (i == page)
				KUNIT_EXPECT_EQ(test, b->after[i], 0);
			KUNIT_EXPECT_FALSE(test, pte_val(pte) & PTE_CONT);
			if (any_dirty(b->before) || any_dirty(b->mid))
				KUNIT_EXPECT_TRUE(test, is_dirty(pte));
			if (any_young(b->before) || any_young(b->mid))
				KUNIT_EXPECT_TRUE(test, is_young(pte));
		}
	}
}

/* A fault that sets flags sets them in all entries, and takes none away. */
static void block_access_flags(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed;
	int write;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		for (write = 0; write < 2; write++) {
			unsigned int page = seed % CONT_PTES;
			pte_t entry;

			block_start(b, seed, true, seed / 4 % NR_ACCESSES);
			entry = pte_mkyoung(ptep_get(b->ptep + page));
			if (write)
				entry = pte_mkdirty(entry);
			ptep_set_access_flags(b->t.vma,
					      b->addr + page * PAGE_SIZE,
					      b->ptep + page, entry, 0);
			block_finish(b);

			KUNIT_EXPECT_EQ(test, agent.wrong, 0);
			for (i = 0; i < CONT_PTES; i++) {
				pte_t pte = __pte(b->after[i]);

				KUNIT_EXPECT_TRUE(test, pte_val(pte) & PTE_CONT);
				KUNIT_EXPECT_TRUE(test, is_young(pte));
				if (write || is_dirty(__pte(b->mid[i])))
					KUNIT_EXPECT_TRUE(test, is_dirty(pte));
			}
		}
	}
}

/* A fault that grants write access to one page takes the block apart. */
static void part_access_flags(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, seed;

	for (seed = 0; seed < NR_SEEDS; seed++) {
		unsigned int page = seed % CONT_PTES;
		pte_t entry;

		block_start(b, seed, false, seed / 4 % NR_ACCESSES);
		entry = pte_mkyoung(pte_mkdirty(ptep_get(b->ptep + page)));
		entry = pte_mkwrite_novma(entry);
		ptep_set_access_flags(b->t.vma, b->addr + page * PAGE_SIZE,
				      b->ptep + page, entry, 0);
		block_finish(b);

		KUNIT_EXPECT_EQ(test, agent.wrong, 0);
		for (i = 0; i < CONT_PTES; i++) {
			pte_t pte = __pte(b->after[i]);

			KUNIT_EXPECT_FALSE(test, pte_val(pte) & PTE_CONT);
			KUNIT_EXPECT_EQ(test, !!(pte_val(pte) & PTE_WRITE),
					i == page);
			if (i == page || any_dirty(b->before))
				KUNIT_EXPECT_TRUE(test, is_dirty(pte));
			if (i == page || any_young(b->before))
				KUNIT_EXPECT_TRUE(test, is_young(pte));
		}
	}
}

/* ptep_get() tells the sum of all entries, wherever the flags are. */
static void block_gather(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int seed, page;

	for (seed = 0; seed < 4 * NR_SEEDS; seed++) {
		for (page = 0; page < CONT_PTES; page++) {
			pteval_t want;
			pte_t ret;

			block_start(b, seed, seed % 5, ACCESS_NONE);
			ret = ptep_get(b->ptep + page);
			block_finish(b);

			want = b->before[page];
			if (any_dirty(b->before)) {
				want |= PTE_DIRTY;
				if (want & PTE_WRITE)
					want &= ~PTE_RDONLY;
			}
			if (any_young(b->before))
				want |= PTE_AF;
			KUNIT_EXPECT_EQ_MSG(test, pte_val(ret), want,
					    "seed %u, page %u", seed, page);
		}
	}
}

/*
 * A block that says dirty, because one entry is, has others that are not. If
 * hardware sets one of these while it is updated, that must not be lost.
 */
static void block_decided_by_entry(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i;

	block_start(b, 0, true, ACCESS_WRITE);
	for (i = 0; i < CONT_PTES; i++)
		WRITE_ONCE(b->ptep[i], make_pte(&b->t, i, PTE_VALID | PTE_CONT |
					       PTE_WRITE | PTE_AF |
					       (i == 3 ? PTE_DIRTY :
							 PTE_RDONLY)));
	agent_watch(b->ptep, CONT_PTES, ACCESS_WRITE);
	wrprotect_ptes(b->t.mm, b->addr, b->ptep, CONT_PTES);
	block_finish(b);

	KUNIT_EXPECT_EQ(test, agent.changed, CONT_PTES - 1);
	for (i = 0; i < CONT_PTES; i++)
		KUNIT_EXPECT_TRUE_MSG(test, b->after[i] & PTE_DIRTY, "entry %u",
				      i);
}

/* A swap entry may have the bit set: it is read as it is, and left alone. */
static void not_a_block(struct kunit *test)
{
	const pteval_t present = PTE_VALID | PTE_AF | PTE_WRITE | PTE_DIRTY;
	const pte_t swap = __pte(PTE_CONT | BIT(12));
	struct block *b = block_create(test);
	unsigned int i, changed = 0;
	pte_t read, cleared;

	spin_lock(b->t.ptl);
	for (i = 0; i < CONT_PTES; i++)
		WRITE_ONCE(b->ptep[i],
			   i == 3 ? swap : make_pte(&b->t, i, present));
	read = ptep_get(b->ptep + 3);
	cleared = ptep_get_and_clear(b->t.mm, b->addr + 3 * PAGE_SIZE,
				     b->ptep + 3);
	for (i = 0; i < CONT_PTES; i++) {
		pte_t want = i == 3 ? __pte(0) : make_pte(&b->t, i, present);

		changed += pte_val(READ_ONCE(b->ptep[i])) != pte_val(want);
		WRITE_ONCE(b->ptep[i], __pte(0));
	}
	spin_unlock(b->t.ptl);

	KUNIT_EXPECT_EQ(test, pte_val(read), pte_val(swap));
	KUNIT_EXPECT_EQ(test, pte_val(cleared), pte_val(swap));
	KUNIT_EXPECT_EQ(test, changed, 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(not_a_block),
	KUNIT_CASE(block_wrprotect),
	KUNIT_CASE(part_wrprotect),
	KUNIT_CASE(block_young),
	KUNIT_CASE(block_aged_once),
	KUNIT_CASE(block_clear),
	KUNIT_CASE(part_clear),
	KUNIT_CASE(block_access_flags),
	KUNIT_CASE(part_access_flags),
	KUNIT_CASE(block_gather),
	KUNIT_CASE(block_decided_by_entry),
	{}
};

#else

static struct kunit_case cases[] = {
	KUNIT_CASE(contpte_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_contpte",
	.suite_init = agent_init,
	.suite_exit = agent_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of contiguous PTEs");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
