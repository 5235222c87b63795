// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks of PTEs that are made and unmade: which CPUs may do that while the
 * entries are live; no flag is lost that hardware sets meanwhile, wherever it
 * does; where the CPUs may, no entry is ever invalid, and where they may not,
 * all are before the TLB is flushed, and the TLB is.
 */

#include "helpers.h"

#ifdef CONFIG_ARM64
#include <asm/cpucaps.h>
#endif

#if defined(ARM64_HAS_BBML2_NOABORT) && defined(CONFIG_SETTLED_PTES_TEST) && \
	defined(CONFIG_ARM64_CONTPTE)

#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <asm/cputype.h>
#include <asm/tlbflush.h>

/* Pages 16 to 31, or their like, so that there is something on both sides */
#define FIRST		CONT_PTES

/* What hardware or software may have set in an entry, as a number */
#define NR_FLAGS	8

/* Conversions that another CPU watches */
#define NR_WATCHED	1000000

static bool in_place(void)
{
	return system_supports_bbml2_noabort();
}

/* --- which CPUs ----------------------------------------------------------- */

#define MIDR(model, variant, revision)	\
	((model) | (variant) << MIDR_VARIANT_SHIFT | (revision))

static const struct {
	const char *name;
	u32 midr;
	u8 bbm;
	bool has;
} cpus[] = {
	/* The level alone says nothing, unless it is the third */
	{ "unknown", MIDR_CPU_MODEL(0x12, 0x345), 0, false },
	{ "unknown", MIDR_CPU_MODEL(0x12, 0x345), 1, false },
	{ "unknown", MIDR_CPU_MODEL(0x12, 0x345), 2, false },
	{ "unknown", MIDR_CPU_MODEL(0x12, 0x345), 3, true },
	{ "unknown", MIDR_CPU_MODEL(0x12, 0x345), 15, true },
	{ "QEMU's max", 0x000f0510, 2, false },
	{ "Cortex-A72 r0p3", MIDR(MIDR_CORTEX_A72, 0, 3), 0, false },
	{ "Cortex-A76 r4p1", MIDR(MIDR_CORTEX_A76, 4, 1), 2, false },
	{ "Cortex-X3 r1p2", MIDR(MIDR_CORTEX_X3, 1, 2), 2, false },
	{ "Cortex-X925 r0p1", MIDR(MIDR_CORTEX_X925, 0, 1), 2, false },
	{ "Neoverse-N1 r4p1", MIDR(MIDR_NEOVERSE_N1, 4, 1), 2, false },
	{ "Neoverse-N2 r0p3", MIDR(MIDR_NEOVERSE_N2, 0, 3), 2, false },
	{ "Neoverse-V2 r0p2", MIDR(MIDR_NEOVERSE_V2, 0, 2), 2, false },
	/* Errata, and the first revision without */
	{ "Cortex-X4 r0p2", MIDR(MIDR_CORTEX_X4, 0, 2), 2, false },
	{ "Cortex-X4 r0p3", MIDR(MIDR_CORTEX_X4, 0, 3), 2, true },
	{ "Neoverse-V3 r0p0", MIDR(MIDR_NEOVERSE_V3, 0, 0), 2, false },
	{ "Neoverse-V3 r0p1", MIDR(MIDR_NEOVERSE_V3, 0, 1), 2, false },
	{ "Neoverse-V3 r0p2", MIDR(MIDR_NEOVERSE_V3, 0, 2), 2, true },
	{ "Neoverse-V3AE r0p1", MIDR(MIDR_NEOVERSE_V3AE, 0, 1), 2, false },
	{ "Neoverse-V3AE r0p2", MIDR(MIDR_NEOVERSE_V3AE, 0, 2), 2, true },
	{ "C1-Ultra r1p0", MIDR(MIDR_C1_ULTRA, 1, 0), 2, false },
	{ "C1-Ultra r1p1", MIDR(MIDR_C1_ULTRA, 1, 1), 2, true },
	{ "C1-Premium r0p3", MIDR(MIDR_C1_PREMIUM, 0, 3), 2, false },
	{ "C1-Premium r2p0", MIDR(MIDR_C1_PREMIUM, 2, 0), 2, true },
	{ "C1-Pro r0p0", MIDR(MIDR_C1_PRO, 0, 0), 2, true },
	{ "Cortex-A715 r1p0", MIDR(MIDR_CORTEX_A715, 1, 0), 2, true },
	{ "Cortex-A725 r0p0", MIDR(MIDR_CORTEX_A725, 0, 0), 2, true },
	{ "Neoverse-N3 r0p0", MIDR(MIDR_NEOVERSE_N3, 0, 0), 2, true },
	{ "Olympus r0p0", MIDR(MIDR_NVIDIA_OLYMPUS, 0, 0), 2, true },
	/* A hypervisor that takes it away, and CPUs that never say it */
	{ "Neoverse-V3 r0p2", MIDR(MIDR_NEOVERSE_V3, 0, 2), 0, false },
	{ "Neoverse-V3 r0p2", MIDR(MIDR_NEOVERSE_V3, 0, 2), 1, false },
	{ "Neoverse-V3 r0p1", MIDR(MIDR_NEOVERSE_V3, 0, 1), 3, true },
	{ "AmpereOne", MIDR(MIDR_AMPERE1, 0, 0), 0, true },
	{ "AmpereOne A", MIDR(MIDR_AMPERE1A, 0, 1), 2, true },
	/* Numbers that are the same, of another implementer */
	{ "another 0xd84", MIDR(MIDR_CPU_MODEL(ARM_CPU_IMP_HISI, 0xd84), 0, 2),
	  2, false },
};

static void convert_cpus(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cpus); i++) {
		u64 mmfr2 = SYS_FIELD_PREP(ID_AA64MMFR2_EL1, BBM, cpus[i].bbm);

		KUNIT_EXPECT_EQ_MSG(test, cpus[i].has,
				    cpu_has_bbml2_noabort(cpus[i].midr, mmfr2),
				    "%s, level %u", cpus[i].name, cpus[i].bbm);
		/* Nothing but the field counts */
		mmfr2 |= ~ID_AA64MMFR2_EL1_BBM_MASK;
		KUNIT_EXPECT_EQ_MSG(test, cpus[i].has,
				    cpu_has_bbml2_noabort(cpus[i].midr, mmfr2),
				    "%s, level %u", cpus[i].name, cpus[i].bbm);
	}
}

static void count_lacking(void *lacking)
{
	if (!cpu_has_bbml2_noabort(read_cpuid_id(),
				   read_cpuid(ID_AA64MMFR2_EL1)))
		atomic_inc(lacking);
}

/* The system has it if each CPU has. */
static void convert_system(struct kunit *test)
{
	atomic_t lacking = ATOMIC_INIT(0);

	on_each_cpu(count_lacking, &lacking, 1);
	kunit_info(test, "MIDR %#x, %d of %u CPUs lack it, %s in place",
		   read_cpuid_id(), atomic_read(&lacking), num_online_cpus(),
		   in_place() ? "blocks change" : "no block changes");
	KUNIT_EXPECT_EQ(test, in_place(), !atomic_read(&lacking));
}

/* --- flags ---------------------------------------------------------------- */

struct block {
	struct table t;
	unsigned long addr;
	pte_t *ptep;
	pteval_t before[CONT_PTES];
	pteval_t after[CONT_PTES];
	/* What it is to become, and what a reader saw meanwhile */
	bool cont;
	unsigned int invalid;
	unsigned int inconsistent;
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

static pteval_t flags(unsigned int n)
{
	return (n & 1 ? PTE_AF : 0) | (n & 2 ? PTE_DIRTY : 0) |
	       (n & 4 ? 0 : PTE_RDONLY);
}

/* A block in which entry @odd has other flags than the rest. Lock held. */
static void block_set(struct block *b, bool cont, bool write,
		      unsigned int common, unsigned int odd, unsigned int other)
{
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++) {
		pteval_t v = flags(i == odd ? other : common) | PTE_VALID;

		v |= write ? PTE_WRITE : PTE_RDONLY;
		v |= cont ? PTE_CONT : 0;
		b->before[i] = pte_val(make_pte(&b->t, i, v));
		WRITE_ONCE(b->ptep[i], __pte(b->before[i]));
	}
}

/* Make a block of it, or unmake it. Lock held. */
static void block_convert(struct block *b, bool cont, unsigned int page)
{
	unsigned long addr = b->addr + page * PAGE_SIZE;
	pte_t *ptep = b->ptep + page;

	if (cont)
		__contpte_try_fold(b->t.mm, addr, ptep, __ptep_get(ptep));
	else
		__contpte_try_unfold(b->t.mm, addr, ptep, __ptep_get(ptep));
}

/* Lock held. */
static void block_take(struct block *b)
{
	unsigned int i;

	agent.nr = 0;
	for (i = 0; i < CONT_PTES; i++) {
		b->after[i] = pte_val(READ_ONCE(b->ptep[i]));
		WRITE_ONCE(b->ptep[i], __pte(0));
	}
}

static bool any(const struct block *b, bool (*is)(pte_t pte))
{
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++)
		if (is(__pte(b->before[i])) || is(agent.mid[i]))
			return true;

	return false;
}

/*
 * All entries are what they were, but for PTE_CONT, and for flags: what one of
 * them had, or got while it was converted, all have, and nothing more. Returns
 * the number of entries that are not like that.
 */
static unsigned int block_wrong(const struct block *b, bool cont)
{
	const pteval_t flag_bits = PTE_AF | PTE_DIRTY | PTE_RDONLY;
	bool dirty = any(b, is_dirty), young = any(b, is_young);
	unsigned int i, wrong = 0;

	for (i = 0; i < CONT_PTES; i++) {
		pte_t pte = __pte(b->after[i]);
		pteval_t want = b->before[i] & ~flag_bits & ~PTE_CONT;

		want |= cont ? PTE_CONT : 0;
		wrong += (pte_val(pte) & ~flag_bits) != want ||
			 is_dirty(pte) != dirty || is_young(pte) != young ||
			 (dirty && !(pte_val(pte) & PTE_DIRTY)) ||
			 ((pte_val(pte) ^ b->after[0]) & flag_bits);
	}

	return wrong;
}

/* Every two flags, every place, hardware in each window. */
static void convert_flags(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int cont, write, access, common, other, odd;
	unsigned int changed = 0, plain = 0;

	for (cont = 0; cont < 2; cont++)
	for (write = 0; write < 2; write++)
	for (access = 0; access < NR_ACCESSES; access++)
	for (common = 0; common < NR_FLAGS; common++)
	for (other = 0; other < NR_FLAGS; other++)
	for (odd = 0; odd < CONT_PTES; odd++) {
		unsigned int wrong;

		spin_lock(b->t.ptl);
		block_set(b, !cont, write, common, odd, other);
		agent_watch(b->ptep, CONT_PTES, access);
		block_convert(b, cont, (odd + other) % CONT_PTES);
		block_take(b);
		wrong = block_wrong(b, cont);
		spin_unlock(b->t.ptl);

		KUNIT_EXPECT_EQ_MSG(test, wrong, 0,
				    "%s, write %u, access %u, all %u, entry %u %u",
				    cont ? "fold" : "unfold", write, access,
				    common, odd, other);
		KUNIT_EXPECT_EQ(test, agent.wrong, 0);
		changed += agent.changed;
		plain += agent.plain[SETTLED_PTE_CONVERT] +
			 agent.plain[SETTLED_PTE_CLEAR];
		cond_resched();
	}
	KUNIT_EXPECT_GT(test, changed, 0);
	KUNIT_EXPECT_GT(test, plain, 0);
}

/*
 * Hardware marks one entry, in the window of another one: also of one that was
 * converted before, and of one that is still to be.
 */
static struct {
	unsigned int at;
	unsigned int marked;
	bool done;
} cross;

static void cross_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
		       enum settled_pte_op op, bool plain)
{
	pte_t *marked = agent.first + cross.marked;

	if (ptep != agent.first + cross.at || cross.done || !agent.nr)
		return;

	cross.done = true;
	/* By a contiguous entry, as long as the TLB may have one */
	if (pte_valid_cont(READ_ONCE(*marked)))
		hw_access(marked, true);
	else
		cross.done = false;
}

static void convert_marks(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int i, done = 0;

	settled_pte_set_hook(cross_hook);
	for (cross.at = 0; cross.at < CONT_PTES; cross.at++)
	for (cross.marked = 0; cross.marked < CONT_PTES; cross.marked++) {
		unsigned int clean = 0;

		spin_lock(b->t.ptl);
		/* Young and clean, of a writable mapping */
		block_set(b, true, true, 1, 0, 1);
		cross.done = false;
		agent.first = b->ptep;
		agent.nr = CONT_PTES;
		block_convert(b, false, cross.at);
		block_take(b);
		spin_unlock(b->t.ptl);

		for (i = 0; i < CONT_PTES; i++)
			clean += !is_dirty(__pte(b->after[i]));
		KUNIT_EXPECT_EQ_MSG(test, clean, cross.done ? 0 : CONT_PTES,
				    "%u marked at %u", cross.marked, cross.at);
		done += cross.done;
	}
	settled_pte_set_hook(agent_hook);
	KUNIT_EXPECT_GT(test, done, CONT_PTES);
}

/* --- what others see ------------------------------------------------------ */

/* A reader that holds no lock looks at all entries, in each window. */
static struct block *watched;

static void reader_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
			enum settled_pte_op op, bool plain)
{
	struct block *b = watched;
	unsigned int i;

	if (!b || ptep < b->ptep || ptep >= b->ptep + CONT_PTES)
		return;

	for (i = 0; i < CONT_PTES; i++)
		b->invalid += !pte_valid(READ_ONCE(b->ptep[i]));
	/* It would wait for the entry to be valid, and we are in its way */
	if (b->invalid)
		return;

	for (i = 0; i < CONT_PTES; i++) {
		pte_t raw = READ_ONCE(b->ptep[i]);
		pte_t pte = contpte_ptep_get_lockless(b->ptep + i);

		b->invalid += !pte_valid(pte);
		b->inconsistent += pte_pfn(pte) != b->t.pfn + i;
		/* One that is not part of the block yet speaks for itself */
		if (!b->cont || pte_cont(raw))
			b->inconsistent += !is_dirty(pte) || !is_young(pte);
	}
}

/* What one entry has, the block has, at any time of the conversion. */
static void convert_lockless(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int cont, odd;

	if (!in_place())
		kunit_skip(test, "no block changes in place on this machine");

	settled_pte_set_hook(reader_hook);
	for (cont = 0; cont < 2; cont++)
	for (odd = 0; odd < CONT_PTES; odd++) {
		spin_lock(b->t.ptl);
		/* One is young and dirty, the others are not */
		block_set(b, !cont, true, 0, odd, 7);
		b->cont = cont;
		watched = b;
		b->invalid = 0;
		b->inconsistent = 0;
		block_convert(b, cont, odd);
		watched = NULL;
		block_take(b);
		spin_unlock(b->t.ptl);

		KUNIT_EXPECT_EQ(test, b->invalid, 0);
		KUNIT_EXPECT_EQ(test, b->inconsistent, 0);
	}
	settled_pte_set_hook(agent_hook);
}

/*
 * In place, no entry is invalid in any window. Otherwise all have been cleared
 * when the last one is.
 */
static void convert_holes(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int common, cont, write;

	for (cont = 0; cont < 2; cont++)
	for (write = 0; write < 2; write++)
	for (common = 0; common < NR_FLAGS; common++) {
		spin_lock(b->t.ptl);
		block_set(b, !cont, write, common, 0, common);
		agent_watch(b->ptep, CONT_PTES, ACCESS_NONE);
		block_convert(b, cont, 5);
		block_take(b);
		spin_unlock(b->t.ptl);

		KUNIT_EXPECT_EQ(test, agent.windows[SETTLED_PTE_CLEAR],
				in_place() ? 0 : CONT_PTES);
		KUNIT_EXPECT_EQ(test, agent.windows[SETTLED_PTE_CONVERT],
				in_place() ? CONT_PTES : 0);
		KUNIT_EXPECT_EQ(test, agent_windows(), CONT_PTES);
	}
}

/* Let the entries map these pages; the TLB is not told. */
static void block_map(struct block *b, unsigned long pfn, bool cont)
{
	unsigned int i;

	spin_lock(b->t.ptl);
	for (i = 0; i < CONT_PTES; i++)
		WRITE_ONCE(b->ptep[i], __pte(0));
	for (i = 0; i < CONT_PTES; i++) {
		pte_t pte = pfn_pte(pfn + i, PAGE_READONLY);

		WRITE_ONCE(b->ptep[i], cont ? pte_mkcont(pte) : pte);
	}
	spin_unlock(b->t.ptl);
	dsb(ishst);
}

/* How many of the pages, as user space sees them, begin with that byte? */
static unsigned int block_read(struct block *b, u8 want)
{
	unsigned int i, same = 0;

	for (i = 0; i < CONT_PTES; i++) {
		u8 byte = ~want;

		pagefault_disable();
		if (__get_user(byte, (u8 __user *)(b->addr + i * PAGE_SIZE)))
			byte = ~want;
		pagefault_enable();
		same += byte == want;
	}

	return same;
}

/*
 * The entries of pages that were just read change behind the TLB's back: what a
 * read returns tells if the conversion invalidated the TLB.
 */
static void convert_flush(struct kunit *test)
{
	struct block *b = block_create(test);
	unsigned int cont, first, second;
	struct folio *other;

	if (in_place())
		kunit_skip(test, "the TLB is not flushed on this machine");
	skip_if_counted(test);

	other = folio_alloc(GFP_KERNEL, ilog2(CONT_PTES));
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test,
							   table_free_folio,
							   other));
	memset(pfn_to_kaddr(b->t.pfn), 1, CONT_PTE_SIZE);
	memset(folio_address(other), 2, CONT_PTE_SIZE);

	for (cont = 0; cont < 2; cont++) {
		preempt_disable();
		block_map(b, b->t.pfn, !cont);
		first = block_read(b, 1);
		block_map(b, folio_pfn(other), !cont);
		spin_lock(b->t.ptl);
		block_convert(b, cont, 3);
		spin_unlock(b->t.ptl);
		dsb(ishst);
		second = block_read(b, 2);
		preempt_enable();

		spin_lock(b->t.ptl);
		block_take(b);
		spin_unlock(b->t.ptl);
		flush_tlb_mm(b->t.mm);
		KUNIT_EXPECT_EQ(test, first, CONT_PTES);
		KUNIT_EXPECT_EQ(test, second, CONT_PTES);
		KUNIT_EXPECT_EQ(test, !!(b->after[0] & PTE_CONT), cont);
	}
}

/* Another CPU, without the lock, while a block is made and unmade. */
struct reader {
	struct block *b;
	unsigned long reads;
	unsigned long holes;
	unsigned long wrong;
};

static int reader_thread(void *data)
{
	struct reader *r = data;
	struct block *b = r->b;
	unsigned int i = 0;

	while (!kthread_should_stop()) {
		pte_t pte;

		i = (i + 5) % CONT_PTES;
		pte = READ_ONCE(b->ptep[i]);
		r->holes += !pte_valid(pte);
		pte = contpte_ptep_get_lockless(b->ptep + i);
		r->holes += !pte_valid(pte);
		r->wrong += pte_valid(pte) &&
			    (pte_pfn(pte) != b->t.pfn + i || !is_dirty(pte));
		if (!(++r->reads % 1024))
			cond_resched();
	}

	return 0;
}

static void convert_watched(struct kunit *test)
{
	unsigned int n, few = NR_WATCHED / 100;
	struct block *b = block_create(test);
	struct reader r = { .b = b };
	struct task_struct *reader;
	unsigned int converted = 0;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs a second CPU");

	settled_pte_set_hook(NULL);
	spin_lock(b->t.ptl);
	/* All are young and dirty */
	block_set(b, false, true, 7, 0, 7);
	spin_unlock(b->t.ptl);

	reader = kthread_run(reader_thread, &r, "convert reader");
	KUNIT_ASSERT_FALSE(test, IS_ERR(reader));
	while (!READ_ONCE(r.reads))
		cond_resched();

	/* Where there are holes, it is enough that the reader has seen one */
	for (n = 0; n < NR_WATCHED; n++) {
		bool cont = !(n & 1);

		if (!in_place() && n >= few && READ_ONCE(r.holes))
			break;

		spin_lock(b->t.ptl);
		block_convert(b, cont, n % CONT_PTES);
		converted += pte_cont(READ_ONCE(b->ptep[n * 7 % CONT_PTES])) ==
			     cont;
		/* An entry that is old takes an atomic update */
		if (n % 3 == 0) {
			pte_t *ptep = b->ptep + n % CONT_PTES;

			WRITE_ONCE(*ptep, pte_mkold(READ_ONCE(*ptep)));
		}
		spin_unlock(b->t.ptl);
		cond_resched();
	}
	kthread_stop(reader);

	spin_lock(b->t.ptl);
	block_take(b);
	spin_unlock(b->t.ptl);
	settled_pte_set_hook(agent_hook);

	kunit_info(test, "%u conversions, %lu reads, %lu holes", n, r.reads,
		   r.holes);
	KUNIT_EXPECT_EQ(test, converted, n);
	KUNIT_EXPECT_GT(test, r.reads, few);
	KUNIT_EXPECT_EQ(test, r.wrong, 0);
	if (in_place())
		KUNIT_EXPECT_EQ(test, r.holes, 0);
	else
		KUNIT_EXPECT_GT(test, r.holes, 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(convert_cpus),
	KUNIT_CASE(convert_system),
	KUNIT_CASE_SLOW(convert_flags),
	KUNIT_CASE(convert_marks),
	KUNIT_CASE(convert_lockless),
	KUNIT_CASE(convert_holes),
	KUNIT_CASE(convert_flush),
	KUNIT_CASE_SLOW(convert_watched),
	{}
};

#else

static void convert_unavailable(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_SETTLED_PTES_TEST) &&
	    IS_ENABLED(CONFIG_ARM64_CONTPTE))
		KUNIT_FAIL(test, "no capability for blocks that change in place");
	else
		contpte_unavailable(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(convert_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_convert",
	.suite_init = agent_init,
	.suite_exit = agent_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of blocks that are made and unmade");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
