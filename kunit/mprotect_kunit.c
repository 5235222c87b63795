// SPDX-License-Identifier: GPL-2.0
/*
 * Protection changes in place: change_prot_ptes(), change_prot_huge_pmd() and
 * their caller, change_protection(), on page tables of a user address space.
 *
 * Entries are set by hand where a certain combination of bits is the point; the
 * test's thread is the only user of its address space, so that nothing but the
 * code under test, and the hardware agent that a test plays, touches them. What
 * it changed by hand is put back, since the address space is torn down later.
 */

#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/swapops.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "memory.h"

#ifdef change_prot_ptes

#ifdef CONFIG_SETTLED_PTES_TEST
#include <linux/settled_ptes.h>
#endif

/* A mapping of the test: at least this many pages, from a multiple of it on. */
#define NR_PAGES	64UL

struct region {
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	unsigned long addr;
	pte_t *ptep;
	spinlock_t *ptl;
	/* What the entries were when the lock was dropped last. */
	pte_t seen[NR_PAGES];
};

/* Map anonymous memory and write to each page of it. */
static struct region region_create(struct kunit *test)
{
	unsigned long size = NR_PAGES * PAGE_SIZE;
	struct region r = {};
	pmd_t *pmd;

	/* The end may not be in the same page table; twice the size is. */
	r.addr = ALIGN(memory_map(test, 2 * size), size);
	r.mm = current->mm;
	memory_fill(test, r.addr, NR_PAGES);
	r.vma = memory_vma(test, r.addr, 0);
	pmd = memory_pmd(r.addr);
	if (pmd_leaf(*pmd))
		kunit_skip(test, "the memory is mapped by a huge page");
	r.ptep = pte_offset_kernel(pmd, r.addr);
	r.ptl = pte_lockptr(r.mm, pmd);
	return r;
}

static void region_lock(struct region *r)
{
	mmap_write_lock(r->mm);
	spin_lock(r->ptl);
}

static void region_unlock(struct region *r)
{
	int i;

	for (i = 0; i < NR_PAGES; i++)
		r->seen[i] = ptep_get(r->ptep + i);
	spin_unlock(r->ptl);
	mmap_write_unlock(r->mm);
}

/*
 * Change an entry, which maps what it mapped before or nothing, while the lock
 * is held. On arm64 not by set_pte_at(): it may sync caches and tags, by what
 * modules can not call, and account for what the test is going to undo.
 */
static void set_entry(struct region *r, unsigned long page, pte_t pte)
{
#ifdef CONFIG_ARM64
	WRITE_ONCE(r->ptep[page], pte);
#else
	set_pte_at(r->mm, r->addr + page * PAGE_SIZE, r->ptep + page, pte);
#endif
}

static pte_t take_entry(struct region *r, unsigned long page)
{
#ifdef CONFIG_ARM64
	pte_t pte = READ_ONCE(r->ptep[page]);

	WRITE_ONCE(r->ptep[page], __pte(0));
	return pte;
#else
	return ptep_get_and_clear(r->mm, r->addr + page * PAGE_SIZE,
				  r->ptep + page);
#endif
}

static pgprot_t prot_of(unsigned long vm_flags)
{
	return vm_get_page_prot(vm_flags);
}

/* What a private mapping can be given: as /proc/self/maps would write it. */
static const struct prot {
	const char *name;
	unsigned long vm_flags;
} prots[] = {
	{ "---", 0 },
	{ "r--", VM_READ },
	{ "rw-", VM_READ | VM_WRITE },
	{ "r-x", VM_READ | VM_EXEC },
	{ "rwx", VM_READ | VM_WRITE | VM_EXEC },
};

/* change_protection() as mprotect() uses it */
static long change(struct region *r, const struct prot *prot,
		   unsigned long from, unsigned long to)
{
	unsigned long cp_flags = 0;
	struct mmu_gather tlb;
	long pages;

	mmap_write_lock(r->mm);
	vma_start_write(r->vma);
	vm_flags_reset(r->vma, (r->vma->vm_flags & ~VM_ACCESS_FLAGS) |
		       prot->vm_flags);
	WRITE_ONCE(r->vma->vm_page_prot, prot_of(r->vma->vm_flags));
	if (prot->vm_flags & VM_WRITE)
		cp_flags = MM_CP_TRY_CHANGE_WRITABLE;

	tlb_gather_mmu(&tlb, r->mm);
	pages = change_protection(&tlb, r->vma, r->addr + from * PAGE_SIZE,
				  r->addr + to * PAGE_SIZE, cp_flags);
	tlb_finish_mmu(&tlb);
	mmap_write_unlock(r->mm);
	return pages;
}

static void check_access(struct kunit *test, struct region *r,
			 const struct prot *prot)
{
	unsigned long page;

	for (page = 0; page < NR_PAGES; page += 9) {
		unsigned char __user *p = (unsigned char __user *)
					  (r->addr + page * PAGE_SIZE);
		unsigned char c = 0;
		int err = get_user(c, p);

		if (prot->vm_flags & VM_READ) {
			KUNIT_EXPECT_EQ_MSG(test, err, 0, "%s, page %lu",
					    prot->name, page);
			KUNIT_EXPECT_EQ_MSG(test, c, pattern(page),
					    "%s, page %lu", prot->name, page);
		} else {
			KUNIT_EXPECT_EQ_MSG(test, err, -EFAULT, "%s, page %lu",
					    prot->name, page);
		}

		err = put_user(pattern(page), p);
		KUNIT_EXPECT_EQ_MSG(test, err,
				    prot->vm_flags & VM_WRITE ? 0 : -EFAULT,
				    "%s, page %lu", prot->name, page);
	}
}

/* From each protection to each, and contents and access are right. */
static void mprotect_transitions(struct kunit *test)
{
	struct region r = region_create(test);
	int from, to;

	for (from = 0; from < ARRAY_SIZE(prots); from++) {
		for (to = 0; to < ARRAY_SIZE(prots); to++) {
			KUNIT_EXPECT_EQ(test, NR_PAGES,
					change(&r, &prots[from], 0, NR_PAGES));
			check_access(test, &r, &prots[from]);
			KUNIT_EXPECT_EQ(test, NR_PAGES,
					change(&r, &prots[to], 0, NR_PAGES));
			check_access(test, &r, &prots[to]);
		}
	}
	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

/* Exactly the pages of a range are changed. */
static void mprotect_range(struct kunit *test)
{
	struct region r = region_create(test);
	unsigned long i;

	KUNIT_EXPECT_EQ(test, 18, change(&r, &prots[1], 3, 21));
	region_lock(&r);
	region_unlock(&r);
	for (i = 0; i < NR_PAGES; i++)
		KUNIT_EXPECT_EQ_MSG(test, pte_write(r.seen[i]),
				    i < 3 || i >= 21, "page %lu", i);

	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

static bool page_of(struct region *r, unsigned long page, struct page **pagep)
{
	pte_t pte = ptep_get(r->ptep + page);

	*pagep = pte_present(pte) ? pte_page(pte) : NULL;
	return *pagep && PageAnon(*pagep);
}

/* Write access is granted page by page, to those that nobody shares. */
static void mprotect_grant(struct kunit *test)
{
	/* Runs of one, of some, at either end, and across 16 pages */
	static const u64 shared_pages[] = {
		0, 1, BIT_ULL(63), BIT_ULL(5), 0xaaaaaaaaaaaaaaaaULL,
		GENMASK_ULL(40, 13), GENMASK_ULL(31, 16), ~0ULL,
	};
	struct region r = region_create(test);
	unsigned long i;
	struct page *page;
	int set;

	for (set = 0; set < ARRAY_SIZE(shared_pages); set++) {
		u64 shared = shared_pages[set];
		u64 writable = 0;

		/* As fork() would leave it, were it to fork */
		change(&r, &prots[1], 0, NR_PAGES);
		region_lock(&r);
		for (i = 0; i < NR_PAGES; i++)
			if (page_of(&r, i, &page) && shared & BIT_ULL(i))
				ClearPageAnonExclusive(page);
		region_unlock(&r);

		change(&r, &prots[2], 0, NR_PAGES);

		region_lock(&r);
		for (i = 0; i < NR_PAGES; i++) {
			if (pte_write(ptep_get(r.ptep + i)))
				writable |= BIT_ULL(i);
			if (page_of(&r, i, &page))
				SetPageAnonExclusive(page);
		}
		region_unlock(&r);
		KUNIT_EXPECT_EQ_MSG(test, writable, ~shared, "set %d", set);
	}
	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

/* userfaultfd wants to see the write to a page that it write-protected. */
static void mprotect_grant_uffd(struct kunit *test)
{
#ifdef CONFIG_HAVE_ARCH_USERFAULTFD_WP
	struct region r = region_create(test);
	pte_t pte;

	change(&r, &prots[1], 0, NR_PAGES);
	mmap_write_lock(r.mm);
	vm_flags_set(r.vma, VM_UFFD_WP);
	mmap_write_unlock(r.mm);
	region_lock(&r);
	set_entry(&r, 6, pte_mkuffd_wp(ptep_get(r.ptep + 6)));
	region_unlock(&r);

	change(&r, &prots[2], 0, NR_PAGES);

	region_lock(&r);
	pte = ptep_get(r.ptep + 6);
	set_entry(&r, 6, pte_clear_uffd_wp(pte));
	region_unlock(&r);
	mmap_write_lock(r.mm);
	vm_flags_clear(r.vma, VM_UFFD_WP);
	mmap_write_unlock(r.mm);

	KUNIT_EXPECT_TRUE(test, pte_write(r.seen[5]));
	KUNIT_EXPECT_FALSE(test, pte_write(pte));
	KUNIT_EXPECT_TRUE(test, pte_uffd_wp(pte));
	KUNIT_EXPECT_TRUE(test, pte_write(r.seen[7]));
#else
	kunit_skip(test, "no userfaultfd write protection on this architecture");
#endif
}

/*
 * A mapping that wants to see the first write to each page, as that of a file:
 * what is dirty has been written to already, and only that is made writable.
 */
static void mprotect_grant_shared(struct kunit *test)
{
	struct region r = region_create(test);
	unsigned long i, writable = 0;
	struct mmu_gather tlb;

	change(&r, &prots[1], 0, NR_PAGES);
	region_lock(&r);
	for (i = 0; i < NR_PAGES; i += 3)
		set_entry(&r, i, pte_mkclean(ptep_get(r.ptep + i)));
	region_unlock(&r);

	mmap_write_lock(r.mm);
	vma_start_write(r.vma);
	vm_flags_set(r.vma, VM_SHARED | VM_WRITE);
	WRITE_ONCE(r.vma->vm_page_prot, prot_of(VM_READ));
	tlb_gather_mmu(&tlb, r.mm);
	change_protection(&tlb, r.vma, r.addr, r.addr + NR_PAGES * PAGE_SIZE,
			  MM_CP_TRY_CHANGE_WRITABLE);
	tlb_finish_mmu(&tlb);
	vm_flags_clear(r.vma, VM_SHARED);
	mmap_write_unlock(r.mm);

	region_lock(&r);
	region_unlock(&r);
	for (i = 0; i < NR_PAGES; i++) {
		KUNIT_EXPECT_EQ_MSG(test, pte_write(r.seen[i]), i % 3 != 0,
				    "page %lu", i);
		writable += pte_write(r.seen[i]);
	}
	KUNIT_EXPECT_GT(test, writable, 0);

	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE

/* The same for a huge page, and for the pages of a large folio. */
static void mprotect_grant_large(struct kunit *test)
{
	static const u64 shared_pages[] = {
		0, 1, BIT_ULL(15), BIT_ULL(21), GENMASK_ULL(31, 16), ~0ULL, 0,
	};
	const unsigned long nr = min_t(unsigned long, NR_PAGES, HPAGE_PMD_NR);
	unsigned long i, set;
	struct region r = {};
	struct page *page;
	bool writable[2];
	pmd_t *pmd;

	r.addr = memory_map_huge(test, PROT_READ | PROT_WRITE);
	r.mm = current->mm;
	r.vma = memory_vma(test, r.addr, 0);
	pmd = memory_pmd(r.addr);
	page = pmd_page(*pmd);

	for (i = 0; i < 2; i++) {
		change(&r, &prots[1], 0, HPAGE_PMD_NR);
		if (i)
			SetPageAnonExclusive(page);
		else
			ClearPageAnonExclusive(page);
		change(&r, &prots[2], 0, HPAGE_PMD_NR);
		writable[i] = pmd_write(*pmd);
	}
	KUNIT_EXPECT_FALSE(test, writable[0]);
	KUNIT_EXPECT_TRUE(test, writable[1]);

	/* A part is changed, so PTEs take the place of the huge PMD */
	change(&r, &prots[1], 0, 1);
	KUNIT_ASSERT_FALSE(test, pmd_trans_huge(*pmd));
	r.ptep = pte_offset_kernel(pmd, r.addr);
	r.ptl = pte_lockptr(r.mm, pmd);

	for (set = 0; set < ARRAY_SIZE(shared_pages); set++) {
		u64 all = GENMASK_ULL(nr - 1, 0), seen = 0;
		u64 shared = shared_pages[set] & all;

		change(&r, &prots[1], 0, nr);
		for (i = 0; i < nr; i++)
			if (shared & BIT_ULL(i))
				ClearPageAnonExclusive(page + i);
		change(&r, &prots[2], 0, nr);
		mmap_write_lock(r.mm);
		spin_lock(r.ptl);
		for (i = 0; i < nr; i++) {
			if (pte_write(ptep_get(r.ptep + i)))
				seen |= BIT_ULL(i);
			SetPageAnonExclusive(page + i);
		}
		spin_unlock(r.ptl);
		mmap_write_unlock(r.mm);
		KUNIT_EXPECT_EQ_MSG(test, seen, all & ~shared, "set %lu", set);
	}
}

#define LARGE_CASES	KUNIT_CASE(mprotect_grant_large),
#else
#define LARGE_CASES
#endif /* CONFIG_TRANSPARENT_HUGEPAGE */

/* A page under migration loses write access as one that is present does. */
static void mprotect_migration(struct kunit *test)
{
	struct region r = region_create(test);
	struct page *page = NULL;
	swp_entry_t entry;
	pte_t saved;

	if (!IS_ENABLED(CONFIG_MIGRATION))
		kunit_skip(test, "CONFIG_MIGRATION is off");

	region_lock(&r);
	page_of(&r, 6, &page);
	region_unlock(&r);
	KUNIT_ASSERT_NOT_NULL(test, page);

	/* Such an entry is for a locked page only */
	folio_lock(page_folio(page));
	region_lock(&r);
	saved = take_entry(&r, 6);
	entry = make_writable_migration_entry(page_to_pfn(page));
	set_entry(&r, 6, swp_entry_to_pte(entry));
	region_unlock(&r);

	KUNIT_EXPECT_EQ(test, NR_PAGES,
			change(&r, &prots[1], 0, NR_PAGES));

	region_lock(&r);
	entry = pte_to_swp_entry(ptep_get(r.ptep + 6));
	pte_clear(r.mm, r.addr + 6 * PAGE_SIZE, r.ptep + 6);
	set_entry(&r, 6, saved);
	region_unlock(&r);
	folio_unlock(page_folio(page));

	KUNIT_EXPECT_TRUE(test, is_readable_exclusive_migration_entry(entry));
	KUNIT_EXPECT_EQ(test, swp_offset_pfn(entry), page_to_pfn(page));

	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

/* One call of the hook, its flush recorded in a gather that nobody flushes. */
static unsigned int call_hook(struct region *r, struct mmu_gather *tlb,
			      unsigned long first, unsigned int nr,
			      pgprot_t newprot, unsigned long cp_flags)
{
	*tlb = (struct mmu_gather){ .mm = r->mm };
	__tlb_reset_range(tlb);

	region_lock(r);
	nr = change_prot_ptes(tlb, r->vma, r->addr + first * PAGE_SIZE,
			      r->ptep + first, nr, newprot, cp_flags);
	region_unlock(r);
	return nr;
}

/*
 * An entry is flushed if it loses a permission that the TLB may have seen; it is
 * not if nothing changed, or if it was not accessible.
 */
static void mprotect_flush(struct kunit *test)
{
	static const struct {
		int to;
		unsigned long first, nr;
		bool flush;
	} steps[] = {
		{ 1, 0, NR_PAGES, true },
		{ 1, 0, NR_PAGES, false },
		{ 0, 0, NR_PAGES, true },
		/* Some readable, then the others writable */
		{ 1, 8, 8, false },
		{ 2, 0, 8, false },
		{ 2, 16, NR_PAGES - 16, false },
		{ 2, 0, 8, false },
		/* A part loses write access: exactly that part is flushed. */
		{ 1, 17, 18, true },
	};
	struct region r = region_create(test);
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(steps); n++) {
		unsigned long vm_flags = prots[steps[n].to].vm_flags;
		unsigned long addr = r.addr + steps[n].first * PAGE_SIZE;
		/* The two steps that other machines keep are always flushed. */
		bool flush = steps[n].flush || !arch_has_change_prot_ptes();
		struct mmu_gather tlb;

		KUNIT_EXPECT_EQ_MSG(test, steps[n].nr,
				    call_hook(&r, &tlb, steps[n].first,
					      steps[n].nr, prot_of(vm_flags),
					      vm_flags & VM_WRITE ?
					      MM_CP_MKWRITE : 0), "step %u", n);
		if (flush)
			KUNIT_EXPECT_EQ_MSG(test, tlb.start, addr, "step %u", n);
		KUNIT_EXPECT_EQ_MSG(test, tlb.end, flush ?
				    addr + steps[n].nr * PAGE_SIZE : 0,
				    "step %u", n);
	}

	flush_tlb_mm(r.mm);
	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

/* The hook stops where an entry is not present, of whatever kind that is. */
static void mprotect_run_end(struct kunit *test)
{
	pgprot_t ro = prot_of(VM_READ), rw = prot_of(VM_READ | VM_WRITE);
	pte_t none = __pte(0), swap = swp_entry_to_pte(swp_entry(1, 5)), saved;
	struct region r = region_create(test);
	struct mmu_gather tlb;

	region_lock(&r);
	saved = take_entry(&r, 19);
	region_unlock(&r);

	KUNIT_EXPECT_EQ(test, 19, call_hook(&r, &tlb, 0, NR_PAGES, ro, 0));
	KUNIT_EXPECT_FALSE(test, pte_write(r.seen[18]));
	KUNIT_EXPECT_TRUE(test, pte_same(r.seen[19], none));
	KUNIT_EXPECT_TRUE(test, pte_write(r.seen[20]));

	region_lock(&r);
	set_entry(&r, 19, swap);
	region_unlock(&r);

	KUNIT_EXPECT_EQ(test, 3, call_hook(&r, &tlb, 16, NR_PAGES - 16, ro, 0));
	KUNIT_EXPECT_TRUE(test, pte_same(r.seen[19], swap));
	KUNIT_EXPECT_TRUE(test, pte_write(r.seen[20]));

	region_lock(&r);
	pte_clear(r.mm, r.addr + 19 * PAGE_SIZE, r.ptep + 19);
	set_entry(&r, 19, saved);
	region_unlock(&r);

	/* Not one more than asked for */
	KUNIT_EXPECT_EQ(test, 7, call_hook(&r, &tlb, 20, 7, ro, 0));
	KUNIT_EXPECT_FALSE(test, pte_write(r.seen[26]));
	KUNIT_EXPECT_TRUE(test, pte_write(r.seen[27]));

	KUNIT_EXPECT_EQ(test, NR_PAGES, call_hook(&r, &tlb, 0, NR_PAGES, rw,
						  MM_CP_MKWRITE));
}

#ifdef CONFIG_ARM64

static bool gather_is_empty(const struct mmu_gather *tlb)
{
	return !tlb->cleared_ptes && !tlb->cleared_pmds && !tlb->end;
}

/* What hardware may do to an entry: all there is left to do. */
static pte_t hardware_update(pte_t pte)
{
	if (!(pte_val(pte) & PTE_VALID))
		return pte;

	pte_val(pte) |= PTE_AF;
	if (pte_val(pte) & PTE_DBM)
		pte_val(pte) &= ~PTE_RDONLY;
	return pte;
}

/*
 * The hardware agent: between the load and the store of each update of the
 * watched entries it makes its own.
 */
static struct {
	pte_t *first;
	unsigned int nr;
	bool acts;
	/* Updates for a change of protection */
	unsigned int updates;
	/* Entries cleared, as break-before-make does, or converted without */
	unsigned int breaks;
	/* Plain updates of entries that hardware may update */
	unsigned int lossy;
} agent;

#ifdef CONFIG_SETTLED_PTES_TEST
static void agent_hook(struct mm_struct *mm, pte_t *ptep, pte_t old,
		       enum settled_pte_op op, bool plain)
{
	pte_t pte, new;

	if (ptep < agent.first || ptep >= agent.first + agent.nr)
		return;

	if (op == SETTLED_PTE_PROT)
		agent.updates++;
	if (op == SETTLED_PTE_CLEAR || op == SETTLED_PTE_CONVERT)
		agent.breaks++;

	pte = READ_ONCE(*ptep);
	new = hardware_update(pte);
	if (plain && pte_val(new) != pte_val(pte))
		agent.lossy++;
	if (agent.acts)
		cmpxchg_relaxed(&pte_val(*ptep), pte_val(pte), pte_val(new));
}

static void agent_watch(pte_t *ptep, unsigned int nr, bool acts)
{
	memset(&agent, 0, sizeof(agent));
	agent.first = ptep;
	agent.nr = nr;
	agent.acts = acts;
}

/* Its counts stay. */
static void agent_leave(void)
{
	agent.nr = 0;
}

#define HAVE_AGENT
#else
static void agent_watch(pte_t *ptep, unsigned int nr, bool acts)
{
}

static void agent_leave(void)
{
}
#endif

static bool have_agent(void)
{
	return IS_ENABLED(CONFIG_SETTLED_PTES_TEST);
}

static void skip_unless_by_hand(struct kunit *test)
{
	skip_if_counted(test);
	if (IS_ENABLED(CONFIG_ARM64_CONTPTE) && NR_PAGES < CONT_PTES)
		kunit_skip(test, "blocks of %d pages are too large", CONT_PTES);
}

/* Change entries by hand; what they were goes to @saved if it is not NULL. */
static void set_by_hand(struct region *r, unsigned long first, unsigned int nr,
			const pte_t *ptes, pte_t *saved)
{
	unsigned int i;

	region_lock(r);
	for (i = 0; i < nr; i++) {
		if (saved)
			saved[i] = READ_ONCE(r->ptep[first + i]);
		WRITE_ONCE(r->ptep[first + i], ptes[i]);
	}
	region_unlock(r);
}

/* call_hook(), and the entries as they are in memory after that in @after */
static unsigned int call_hook_raw(struct region *r, struct mmu_gather *tlb,
				  unsigned long first, unsigned int nr,
				  pgprot_t newprot, unsigned long cp_flags,
				  pte_t *after, unsigned int nr_after)
{
	unsigned int done = call_hook(r, tlb, first, nr, newprot, cp_flags), i;

	region_lock(r);
	for (i = 0; i < nr_after; i++)
		after[i] = READ_ONCE(r->ptep[first + i]);
	region_unlock(r);
	return done;
}

/* Every combination of the bits that matter which a user entry can have. */
#define NR_STATES	36

static bool state(int i, unsigned long pfn, pte_t *pte)
{
	pteval_t val = pte_val(pfn_pte(pfn, PAGE_READONLY_EXEC));

	if (i >= 32) {
		val = pte_val(pfn_pte(pfn, PAGE_NONE));
		if (!(i & 1))
			val &= ~PTE_AF;
		if (i & 2)
			val |= PTE_DIRTY;
		*pte = __pte(val);
		return true;
	}

	val &= ~(PTE_AF | PTE_WRITE | PTE_RDONLY | PTE_DIRTY);
	if (i & 1)
		val |= PTE_AF;
	if (i & 2)
		val |= PTE_WRITE;
	if (i & 4)
		val |= PTE_RDONLY;
	if (i & 8)
		val |= PTE_DIRTY;
	if (i & 16)
		val |= PTE_UXN;
	*pte = __pte(val);
	/* Not writable, but not read-only: that is none. */
	return i & (2 | 4);
}

/* The rule by which entries that are right already are left alone */
static bool is_unchanged(pte_t old, pte_t new)
{
	return !((pte_val(old) ^ pte_val(new)) & ~PTE_DIRTY);
}

/* A permission that the TLB may have seen is gone, or other bits it keeps. */
static bool flush_is_due(pte_t old, pte_t new)
{
	const pteval_t software = PTE_DIRTY | PTE_SPECIAL | PTE_DEVMAP |
				  PTE_UFFD_WP;

	return pte_valid(old) && ((pte_val(old) ^ pte_val(new)) & ~software);
}

static const unsigned long change_flags[] = {
	0, MM_CP_MKWRITE, MM_CP_UFFD_WP, MM_CP_UFFD_WP_RESOLVE,
};

/*
 * Single entries: the new value follows from the old one and from what hardware
 * did to that during the update, whatever the two are.
 */
static void mprotect_values(struct kunit *test)
{
	struct region r = region_create(test);
	int i, prot, flags, acts;
	struct mmu_gather tlb;
	unsigned long pfn;
	pte_t saved;

	skip_unless_by_hand(test);
	region_lock(&r);
	saved = READ_ONCE(r.ptep[3]);
	region_unlock(&r);
	pfn = pte_pfn(saved);

	for (i = 0; i < NR_STATES; i++)
	for (prot = 0; prot < ARRAY_SIZE(prots); prot++)
	for (flags = 0; flags < ARRAY_SIZE(change_flags); flags++)
	for (acts = 0; acts <= have_agent(); acts++) {
		pgprot_t newprot = prot_of(prots[prot].vm_flags);
		unsigned long cp_flags = change_flags[flags];
		pte_t old, seen, new, after;
		bool same, flush;
		unsigned int nr;

		if (!state(i, pfn, &old))
			continue;
		/* Write access to what can not be read is not granted. */
		if (!prot && cp_flags == MM_CP_MKWRITE)
			continue;

		seen = acts ? hardware_update(old) : old;
		new = pte_change_prot(old, r.vma, newprot, cp_flags);
		same = is_unchanged(old, new);
		/* What hardware adds on its own is not ours to flush */
		flush = !same && flush_is_due(old, new);
		new = same ? old :
		      pte_change_prot(seen, r.vma, newprot, cp_flags);

		set_by_hand(&r, 3, 1, &old, NULL);
		agent_watch(r.ptep + 3, 1, acts);
		nr = call_hook_raw(&r, &tlb, 3, 1, newprot, cp_flags, &after,
				   1);
		agent_leave();

		KUNIT_EXPECT_EQ(test, nr, 1);
		KUNIT_EXPECT_EQ_MSG(test, pte_val(after), pte_val(new),
				    "0x%llx to %s, flags %lx, agent %d",
				    pte_val(old), prots[prot].name, cp_flags,
				    acts);
		KUNIT_EXPECT_EQ_MSG(test, !gather_is_empty(&tlb), flush,
				    "0x%llx to %s, flags %lx, agent %d",
				    pte_val(old), prots[prot].name, cp_flags,
				    acts);
		if (!have_agent())
			continue;
		KUNIT_EXPECT_EQ_MSG(test, agent.updates, !same,
				    "0x%llx to %s, flags %lx",
				    pte_val(old), prots[prot].name, cp_flags);
		KUNIT_EXPECT_EQ(test, agent.breaks, 0);
		KUNIT_EXPECT_EQ(test, agent.lossy, 0);
	}
	set_by_hand(&r, 3, 1, &saved, NULL);
}

/* A run of entries none of which is like the one before it */
static void mprotect_mixed_run(struct kunit *test)
{
	static pte_t saved[NR_PAGES], old[NR_PAGES], after[NR_PAGES];
	struct region r = region_create(test);
	pgprot_t ro = prot_of(VM_READ);
	struct mmu_gather tlb;
	unsigned int i, n;

	skip_unless_by_hand(test);
	for (i = 0, n = 0; i < NR_PAGES; n++) {
		unsigned long pfn = pte_pfn(ptep_get(r.ptep + i));

		i += state((n * 7) % NR_STATES, pfn, &old[i]);
	}
	set_by_hand(&r, 0, NR_PAGES, old, saved);
	agent_watch(r.ptep, NR_PAGES, true);
	KUNIT_EXPECT_EQ(test, NR_PAGES,
			call_hook_raw(&r, &tlb, 0, NR_PAGES, ro, 0, after,
				      NR_PAGES));
	agent_leave();
	set_by_hand(&r, 0, NR_PAGES, saved, NULL);

	KUNIT_EXPECT_EQ(test, agent.lossy, 0);
	for (i = 0; i < NR_PAGES; i++) {
		pte_t new = pte_change_prot(old[i], r.vma, ro, 0);

		if (is_unchanged(old[i], new))
			new = old[i];
		else if (have_agent())
			new = pte_change_prot(hardware_update(old[i]), r.vma,
					      ro, 0);
		KUNIT_EXPECT_EQ_MSG(test, pte_val(after[i]), pte_val(new),
				    "page %u was 0x%llx", i, pte_val(old[i]));
	}
}

/* A change of the memory type is by way of an invalid entry. */
static void mprotect_memory_type(struct kunit *test)
{
	struct region r = region_create(test);
	pgprot_t ro = prot_of(VM_READ);
	pte_t saved, old, after;
	struct mmu_gather tlb;

	skip_unless_by_hand(test);
	if (!have_agent())
		kunit_skip(test, "needs CONFIG_SETTLED_PTES_TEST");

	saved = ptep_get(r.ptep + 3);
	old = __pte((pte_val(saved) & ~PTE_ATTRINDX_MASK) |
		    PTE_ATTRINDX(MT_NORMAL_NC));
	set_by_hand(&r, 3, 1, &old, NULL);
	agent_watch(r.ptep + 3, 1, false);
	call_hook_raw(&r, &tlb, 3, 1, ro, 0, &after, 1);
	agent_leave();
	set_by_hand(&r, 3, 1, &saved, NULL);

	KUNIT_EXPECT_EQ(test, agent.breaks, 1);
	KUNIT_EXPECT_EQ(test, agent.updates, 0);
	KUNIT_EXPECT_EQ(test, pte_val(after),
			pte_val(pte_change_prot(old, r.vma, ro, 0)));
	KUNIT_EXPECT_FALSE(test, gather_is_empty(&tlb));
}

/* The instruction cache is synced when memory becomes executable, and then only. */
static void mprotect_exec_sync(struct kunit *test)
{
	static const struct {
		int from, to;
		bool sync;
	} steps[] = {
		{ 2, 3, true }, { 1, 3, true }, { 0, 4, true },
		{ 4, 3, false }, { 3, 4, false }, { 3, 1, false },
	};
	static const unsigned long numbers[] = { 1, NR_PAGES };
	struct region r = region_create(test);
	unsigned long i, nr, synced;
	struct page *page;
	unsigned int n;

	for (n = 0; n < 2 * ARRAY_SIZE(steps); n++) {
		const struct prot *from = &prots[steps[n / 2].from];
		const struct prot *to = &prots[steps[n / 2].to];

		change(&r, from, 0, NR_PAGES);
		region_lock(&r);
		for (i = 0; i < NR_PAGES; i++)
			if (page_of(&r, i, &page))
				clear_bit(PG_dcache_clean, &page->flags);
		region_unlock(&r);

		nr = numbers[n % 2];
		change(&r, to, 0, nr);

		synced = 0;
		region_lock(&r);
		for (i = 0; i < NR_PAGES; i++)
			if (page_of(&r, i, &page))
				synced += test_bit(PG_dcache_clean,
						   &page->flags);
		region_unlock(&r);
		KUNIT_EXPECT_EQ_MSG(test, synced, steps[n / 2].sync ? nr : 0,
				    "%lu pages, %s to %s", nr, from->name,
				    to->name);
	}
	change(&r, &prots[2], 0, NR_PAGES);
	check_access(test, &r, &prots[2]);
}

#ifdef CONFIG_ARM64_CONTPTE

/* The entries of the block that these tests use */
#define BLOCK		CONT_PTES

/* The young and dirty state of the entries of a block, hardware's doing */
enum mix {
	ALL_DIRTY,
	ALL_CLEAN,
	ALL_OLD,
	ONE_OLD,
	ONE_YOUNG,
	ONE_DIRTY,
	ONE_CLEAN,
	NR_MIXES
};

static const char * const mix_names[] = {
	"all dirty", "all clean", "all old", "one old", "one young",
	"one dirty", "one clean",
};

struct block {
	struct region region;
	struct folio *folio;
	/* The region's own entries, where the block is while a test runs */
	pte_t saved[BLOCK];
	pte_t old[BLOCK];
	pte_t after[BLOCK];
};

/* A block maps a folio of its own, so that it need not be given one. */
static struct block *block_create(struct kunit *test)
{
	struct block *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->region = region_create(test);
	skip_unless_by_hand(test);
	b->folio = folio_alloc(GFP_KERNEL | __GFP_ZERO,
			       ilog2(2 * CONT_PTES));
	if (!b->folio)
		kunit_skip(test, "no memory for a large folio");
	region_lock(&b->region);
	memcpy(b->saved, b->region.ptep, sizeof(b->saved));
	region_unlock(&b->region);
	return b;
}

static void block_destroy(struct block *b)
{
	set_by_hand(&b->region, 0, BLOCK, b->saved, NULL);
	folio_put(b->folio);
}

static pte_t mix_entry(enum mix mix, unsigned int i, pgprot_t prot, pte_t pte)
{
	bool one = i == 6;
	bool old = mix == ALL_OLD || (mix == ONE_OLD && one) ||
		   (mix == ONE_YOUNG && !one);
	bool clean = mix == ALL_CLEAN || mix == ALL_OLD || mix == ONE_YOUNG ||
		     (mix == ONE_CLEAN && one) || (mix == ONE_DIRTY && !one);

	if (pgprot_val(prot) & PTE_WRITE)
		pte_val(pte) = clean ? pte_val(pte) | PTE_RDONLY :
				       pte_val(pte) & ~PTE_RDONLY;
	else if (!clean)
		pte_val(pte) |= PTE_DIRTY;
	if (old)
		pte_val(pte) &= ~PTE_AF;
	return pte;
}

/* Make the block what it is before a test: @prot, all of it, contpte or not. */
static void block_set(struct block *b, pgprot_t prot, enum mix mix, bool cont)
{
	unsigned long pfn = folio_pfn(b->folio);
	unsigned int i;

	for (i = 0; i < BLOCK; i++) {
		pte_t pte = pfn_pte(pfn + i, prot);

		b->old[i] = mix_entry(mix, i, prot, pte);
		if (cont)
			pte_val(b->old[i]) |= PTE_CONT;
	}
	set_by_hand(&b->region, 0, BLOCK, b->old, NULL);
}

/* How the block has its permissions: PAGE_SHARED is the only writable kind. */
static pgprot_t block_prot(const struct prot *prot)
{
	if (!(prot->vm_flags & VM_WRITE))
		return prot_of(prot->vm_flags);
	return prot->vm_flags & VM_EXEC ? PAGE_SHARED_EXEC : PAGE_SHARED;
}

struct gathered {
	bool young;
	bool dirty;
	unsigned int nr_dirty;
	unsigned int cont;
	unsigned int valid;
	/* All agree on what is not the state of a single page. */
	bool uniform;
};

static struct gathered gather(const pte_t *ptes, unsigned int nr)
{
	const pteval_t single = PTE_AF | PTE_DIRTY | PTE_RDONLY;
	struct gathered g = { .uniform = true };
	unsigned int i;

	for (i = 0; i < nr; i++) {
		pteval_t first = pte_val(ptes[0]) + i * PAGE_SIZE;

		g.young |= pte_young(ptes[i]);
		g.dirty |= pte_dirty(ptes[i]);
		g.nr_dirty += pte_dirty(ptes[i]);
		g.cont += pte_cont(ptes[i]);
		g.valid += pte_valid(ptes[i]);
		g.uniform &= !((pte_val(ptes[i]) ^ first) & ~single);
	}
	return g;
}

/* Bits that are neither the address, nor the state of a page, nor PTE_CONT */
static pteval_t permissions(pte_t pte)
{
	pteval_t val = pte_val(pte) & ~(PTE_ADDR_LOW | PTE_CONT | PTE_AF |
					PTE_DIRTY);

	/* Dirty state, if the entry is writable */
	return val & PTE_WRITE ? val & ~PTE_RDONLY : val;
}

/* A whole block is changed as such: it is contpte before, and after. */
static void mprotect_block(struct kunit *test)
{
	struct block *b = block_create(test);
	int from, to, mix, acts;
	struct mmu_gather tlb;

	for (from = 1; from < ARRAY_SIZE(prots); from++)
	for (to = 0; to < ARRAY_SIZE(prots); to++)
	for (mix = 0; mix < NR_MIXES; mix++)
	for (acts = 0; acts <= have_agent(); acts++) {
		bool write = prots[to].vm_flags & VM_WRITE;
		pgprot_t newprot = prot_of(prots[to].vm_flags);
		unsigned long cp_flags = write ? MM_CP_MKWRITE : 0;
		struct gathered was, is;
		pte_t new;
		bool same;
		char what[64];

		snprintf(what, sizeof(what), "%s to %s, %s, agent %d",
			 prots[from].name, prots[to].name, mix_names[mix],
			 acts);
		block_set(b, block_prot(&prots[from]), mix, true);
		was = gather(b->old, BLOCK);
		new = pte_change_prot(b->old[0], b->region.vma, newprot,
				      cp_flags);
		same = permissions(new) == permissions(b->old[0]);

		agent_watch(b->region.ptep, BLOCK, acts);
		KUNIT_EXPECT_EQ_MSG(test, BLOCK,
				    call_hook_raw(&b->region, &tlb, 0, BLOCK,
						  newprot, cp_flags, b->after,
						  BLOCK), "%s", what);
		agent_leave();
		is = gather(b->after, BLOCK);

		KUNIT_EXPECT_TRUE_MSG(test, is.uniform, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.cont, to ? BLOCK : 0, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.valid, to ? BLOCK : 0, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, permissions(b->after[6]),
				    permissions(new), "%s", what);
		KUNIT_EXPECT_FALSE_MSG(test, was.young && !is.young, "%s", what);
		KUNIT_EXPECT_FALSE_MSG(test, was.dirty && !is.dirty, "%s", what);
		/* Of what is no block any more, each entry tells of its page. */
		if (!to)
			KUNIT_EXPECT_EQ_MSG(test, is.nr_dirty,
					    is.dirty ? BLOCK : 0, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, !gather_is_empty(&tlb), !same, "%s",
				    what);
		if (!have_agent())
			continue;
		KUNIT_EXPECT_EQ_MSG(test, agent.updates, same ? 0 : BLOCK, "%s",
				    what);
		KUNIT_EXPECT_EQ_MSG(test, agent.breaks, 0, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, agent.lossy, 0, "%s", what);
		if (!acts || same)
			continue;
		/* It had every chance to, in each entry. */
		KUNIT_EXPECT_TRUE_MSG(test, is.young, "%s", what);
		if (prots[from].vm_flags & VM_WRITE)
			KUNIT_EXPECT_TRUE_MSG(test, is.dirty, "%s", what);
	}
	block_destroy(b);
}

/* No dirty state is left in some entries only of a block that is writable. */
static void mprotect_block_uniform(struct kunit *test)
{
	pgprot_t rw = prot_of(VM_READ | VM_WRITE);
	struct block *b = block_create(test);
	struct mmu_gather tlb;
	unsigned int i, mix;

	for (mix = 0; mix < NR_MIXES; mix++) {
		pteval_t differ = 0;

		block_set(b, PAGE_READONLY, mix, true);
		call_hook_raw(&b->region, &tlb, 0, BLOCK, rw, MM_CP_MKWRITE,
			      b->after, BLOCK);
		for (i = 0; i < BLOCK; i++)
			differ |= pte_val(b->after[i]) ^
				  (pte_val(b->after[0]) + i * PAGE_SIZE);
		KUNIT_EXPECT_EQ_MSG(test, differ, 0, "%s", mix_names[mix]);
	}
	block_destroy(b);
}

/* A block of which a part is changed is unfolded, and the rest is as it was. */
static void mprotect_block_part(struct kunit *test)
{
	static const struct {
		unsigned int first, nr;
	} parts[] = {
		{ 0, 1 }, { 0, 8 }, { 0, BLOCK - 1 }, { 1, BLOCK - 1 },
		{ BLOCK - 1, 1 }, { 5, 1 }, { 5, 7 },
	};
	pgprot_t ro = prot_of(VM_READ);
	struct block *b = block_create(test);
	struct gathered was, is;
	struct mmu_gather tlb;
	unsigned int i, part, mix;

	for (part = 0; part < ARRAY_SIZE(parts); part++)
	for (mix = 0; mix < NR_MIXES; mix++) {
		unsigned int first = parts[part].first, nr = parts[part].nr;
		char what[64];

		snprintf(what, sizeof(what), "%u from %u, %s", nr, first,
			 mix_names[mix]);
		block_set(b, PAGE_SHARED, mix, true);
		was = gather(b->old, BLOCK);
		KUNIT_EXPECT_EQ_MSG(test, nr,
				    call_hook(&b->region, &tlb, first, nr, ro,
					      0), "%s", what);
		set_by_hand(&b->region, 0, BLOCK, b->saved, b->after);
		is = gather(b->after, BLOCK);
		KUNIT_EXPECT_EQ_MSG(test, is.cont, 0, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.valid, BLOCK, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.young, was.young, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.dirty, was.dirty, "%s", what);
		for (i = 0; i < BLOCK; i++) {
			bool part_of = i >= first && i < first + nr;

			KUNIT_EXPECT_EQ_MSG(test, pte_write(b->after[i]),
					    !part_of, "%s, entry %u", what, i);
		}
		KUNIT_EXPECT_EQ_MSG(test, tlb.start,
				    b->region.addr + first * PAGE_SIZE, "%s",
				    what);
		KUNIT_EXPECT_EQ_MSG(test, tlb.end,
				    b->region.addr + (first + nr) * PAGE_SIZE,
				    "%s", what);
	}
	block_destroy(b);
}

/* What is not valid becomes a block at once, if nothing stands against it. */
static void mprotect_block_from_none(struct kunit *test)
{
	static const char * const cases[] = {
		"plain", "another gather", "special", "page frame",
		"one entry valid", "order of pages", "one entry less",
	};
	pgprot_t rw = prot_of(VM_READ | VM_WRITE);
	struct block *b = block_create(test);
	struct gathered was, is;
	struct mmu_gather tlb;
	unsigned int c, i, mix;

	for (c = 0; c < ARRAY_SIZE(cases); c++)
	for (mix = 0; mix < NR_MIXES; mix++) {
		struct mm_struct *mm = b->region.mm;
		/* Folded, but by break-before-make */
		bool fold = c == 1;
		char what[64];

		snprintf(what, sizeof(what), "%s, %s", cases[c],
			 mix_names[mix]);
		block_set(b, PAGE_NONE, mix, false);
		for (i = 0; i < BLOCK; i++) {
			if (c == 2)
				b->old[i] = pte_mkspecial(b->old[i]);
			if (c == 3)
				b->old[i] = pte_advance_pfn(b->old[i], 1);
		}
		if (c == 4)
			b->old[9] = pte_change_prot(b->old[9], b->region.vma,
						    PAGE_READONLY, 0);
		if (c == 5)
			swap(b->old[3], b->old[4]);
		set_by_hand(&b->region, 0, BLOCK, b->old, NULL);
		was = gather(b->old, BLOCK);

		if (fold) {
			inc_tlb_flush_pending(mm);
			inc_tlb_flush_pending(mm);
		}
		agent_watch(b->region.ptep, BLOCK, false);
		i = c == 6 ? BLOCK - 1 : BLOCK;
		KUNIT_EXPECT_EQ_MSG(test, i,
				    call_hook_raw(&b->region, &tlb, 0, i, rw,
						  MM_CP_MKWRITE, b->after,
						  BLOCK), "%s", what);
		agent_leave();
		if (fold) {
			dec_tlb_flush_pending(mm);
			dec_tlb_flush_pending(mm);
		}
		is = gather(b->after, BLOCK);

		KUNIT_EXPECT_EQ_MSG(test, is.valid, i, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.dirty, was.dirty, "%s", what);
		KUNIT_EXPECT_EQ_MSG(test, is.young, was.young, "%s", what);
		/* In case 4, the last entry's fold finds the block uniform. */
		if (c != 4)
			KUNIT_EXPECT_EQ_MSG(test, is.cont,
					    c <= 1 ? BLOCK : 0, "%s", what);
		if (c != 4)
			KUNIT_EXPECT_TRUE_MSG(test, gather_is_empty(&tlb), "%s",
					      what);
		if (have_agent() && c != 4)
			KUNIT_EXPECT_EQ_MSG(test, agent.breaks,
					    fold ? BLOCK : 0, "%s", what);
		if (have_agent() && c == 4)
			KUNIT_EXPECT_EQ_MSG(test, agent.breaks, is.cont, "%s",
					    what);
	}
	block_destroy(b);
}

/*
 * Valid entries that are not contpte only become so by break-before-make: the
 * TLB may hold them one by one.
 */
static void mprotect_block_fold(struct kunit *test)
{
	pgprot_t ro = prot_of(VM_READ), rw = prot_of(VM_READ | VM_WRITE);
	struct block *b = block_create(test);
	struct gathered is;
	struct mmu_gather tlb;
	unsigned int mix;

	if (!have_agent())
		kunit_skip(test, "needs CONFIG_SETTLED_PTES_TEST");

	for (mix = 0; mix < NR_MIXES; mix++) {
		/* All of it was unfolded, and becomes read-only */
		block_set(b, PAGE_SHARED, mix, false);
		agent_watch(b->region.ptep, BLOCK, false);
		call_hook_raw(&b->region, &tlb, 0, BLOCK, ro, 0, b->after,
			      BLOCK);
		agent_leave();
		is = gather(b->after, BLOCK);
		KUNIT_EXPECT_EQ_MSG(test, is.cont, agent.breaks, "%s",
				    mix_names[mix]);
		KUNIT_EXPECT_EQ_MSG(test, is.cont, BLOCK, "%s", mix_names[mix]);

		/* One page read-only, and writable again, of a block */
		block_set(b, PAGE_SHARED, mix, true);
		call_hook(&b->region, &tlb, 5, 1, ro, 0);
		agent_watch(b->region.ptep, BLOCK, false);
		call_hook_raw(&b->region, &tlb, 5, 1, rw, MM_CP_MKWRITE,
			      b->after, 1);
		KUNIT_EXPECT_EQ_MSG(test, agent.breaks, 0, "%s",
				    mix_names[mix]);
		call_hook_raw(&b->region, &tlb, 0, BLOCK, ro, 0, b->after,
			      BLOCK);
		agent_leave();
		is = gather(b->after, BLOCK);
		KUNIT_EXPECT_EQ_MSG(test, is.cont, agent.breaks, "%s",
				    mix_names[mix]);
	}
	block_destroy(b);
}

/*
 * When faults can get in before the caller flushes, a block that is no more is
 * flushed before the page table lock is dropped.
 */
static void mprotect_block_numa(struct kunit *test)
{
	struct block *b = block_create(test);
	struct mmu_gather tlb;
	struct gathered is;

	block_set(b, PAGE_SHARED, ALL_DIRTY, true);
	call_hook_raw(&b->region, &tlb, 0, BLOCK, PAGE_NONE, MM_CP_PROT_NUMA,
		      b->after, BLOCK);
	is = gather(b->after, BLOCK);
	KUNIT_EXPECT_EQ(test, is.valid, 0);
	KUNIT_EXPECT_EQ(test, is.cont, 0);
	KUNIT_EXPECT_TRUE(test, gather_is_empty(&tlb));

	/* Single entries may be rebuilt as such meanwhile, without harm. */
	block_set(b, PAGE_SHARED, ALL_DIRTY, false);
	call_hook_raw(&b->region, &tlb, 0, BLOCK, PAGE_NONE, MM_CP_PROT_NUMA,
		      b->after, BLOCK);
	KUNIT_EXPECT_FALSE(test, gather_is_empty(&tlb));

	/* Nobody gets in when mprotect() does it. */
	block_set(b, PAGE_SHARED, ALL_DIRTY, true);
	call_hook_raw(&b->region, &tlb, 0, BLOCK, PAGE_NONE, 0, b->after,
		      BLOCK);
	KUNIT_EXPECT_FALSE(test, gather_is_empty(&tlb));
	block_destroy(b);
}

#define BLOCK_CASES					\
	KUNIT_CASE(mprotect_block),		\
	KUNIT_CASE(mprotect_block_uniform),		\
	KUNIT_CASE(mprotect_block_part),		\
	KUNIT_CASE(mprotect_block_from_none),		\
	KUNIT_CASE(mprotect_block_fold),		\
	KUNIT_CASE(mprotect_block_numa),
#else
#define BLOCK_CASES
#endif /* CONFIG_ARM64_CONTPTE */

#ifdef CONFIG_TRANSPARENT_HUGEPAGE

/* A huge PMD: the rule of single entries, and one flush. */
static void mprotect_huge_pmd(struct kunit *test)
{
	struct region r = region_create(test);
	int i, prot, acts;
	pmd_t *pmdp;

	skip_unless_by_hand(test);
	pmdp = kunit_kzalloc(test, sizeof(*pmdp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pmdp);

	for (i = 0; i < NR_STATES; i++)
	for (prot = 0; prot < ARRAY_SIZE(prots); prot++)
	for (acts = 0; acts <= have_agent(); acts++) {
		unsigned long addr = r.addr & HPAGE_PMD_MASK;
		pgprot_t newprot = prot_of(prots[prot].vm_flags);
		struct mmu_gather tlb = { .mm = r.mm };
		pte_t old, seen, new, after;
		bool same, numa = !prot && (i & 8);

		if (!state(i, pte_pfn(r.seen[0]) & ~(HPAGE_PMD_NR - 1), &old))
			continue;
		/* The caches of a page that is not ours are not our business. */
		if (prots[prot].vm_flags & VM_EXEC)
			continue;
		old = pmd_pte(__pmd(pte_val(old) & ~PMD_TABLE_BIT));
		seen = acts ? hardware_update(old) : old;
		new = pte_change_prot(old, r.vma, newprot, 0);
		same = is_unchanged(old, new);
		new = same ? old : pte_change_prot(seen, r.vma, newprot, 0);

		WRITE_ONCE(*pmdp, pte_pmd(old));
		__tlb_reset_range(&tlb);
		agent_watch((pte_t *)pmdp, 1, acts);
		mmap_write_lock(r.mm);
		spin_lock(&r.mm->page_table_lock);
		change_prot_huge_pmd(&tlb, r.vma, addr, pmdp, newprot,
				     numa ? MM_CP_PROT_NUMA : 0);
		after = pmd_pte(READ_ONCE(*pmdp));
		spin_unlock(&r.mm->page_table_lock);
		mmap_write_unlock(r.mm);
		agent_leave();

		KUNIT_EXPECT_EQ_MSG(test, pte_val(after), pte_val(new),
				    "0x%llx to %s, agent %d", pte_val(old),
				    prots[prot].name, acts);
		/* Recorded or done at once, not both */
		KUNIT_EXPECT_EQ_MSG(test, !!tlb.cleared_pmds,
				    !same && !numa && flush_is_due(old, new),
				    "0x%llx to %s, agent %d", pte_val(old),
				    prots[prot].name, acts);
		if (!have_agent())
			continue;
		KUNIT_EXPECT_EQ(test, agent.updates, !same);
		KUNIT_EXPECT_EQ(test, agent.lossy, 0);
	}
}

#define PMD_CASES	KUNIT_CASE(mprotect_huge_pmd),
#else
#define PMD_CASES
#endif /* CONFIG_TRANSPARENT_HUGEPAGE */

#define ARM64_CASES					\
	KUNIT_CASE(mprotect_values),		\
	KUNIT_CASE(mprotect_mixed_run),			\
	KUNIT_CASE(mprotect_memory_type),		\
	KUNIT_CASE(mprotect_exec_sync),			\
	BLOCK_CASES					\
	PMD_CASES
#else
#define ARM64_CASES
#endif /* CONFIG_ARM64 */

static struct kunit_case mprotect_cases[] = {
	KUNIT_CASE(mprotect_transitions),
	KUNIT_CASE(mprotect_range),
	KUNIT_CASE(mprotect_flush),
	KUNIT_CASE(mprotect_grant),
	KUNIT_CASE(mprotect_grant_uffd),
	KUNIT_CASE(mprotect_grant_shared),
	LARGE_CASES
	KUNIT_CASE(mprotect_migration),
	KUNIT_CASE(mprotect_run_end),
	ARM64_CASES
	{}
};

#else /* !change_prot_ptes */

static void mprotect_hook(struct kunit *test)
{
	KUNIT_FAIL(test, "this kernel has no change_prot_ptes()");
}

static struct kunit_case mprotect_cases[] = {
	KUNIT_CASE(mprotect_hook),
	{}
};

#endif /* change_prot_ptes */

/* The agent is there for all cases: each change of the hook takes a grace period. */
static int mprotect_init(struct kunit_suite *suite)
{
#ifdef HAVE_AGENT
	settled_pte_set_hook(agent_hook);
#endif
	return 0;
}

static void mprotect_exit(struct kunit_suite *suite)
{
#ifdef HAVE_AGENT
	settled_pte_set_hook(NULL);
#endif
}

static struct kunit_suite mprotect_suite = {
	.name = "pteopt_mprotect",
	.suite_init = mprotect_init,
	.suite_exit = mprotect_exit,
	.test_cases = mprotect_cases,
};
kunit_test_suite(mprotect_suite);

MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_DESCRIPTION("KUnit tests of protection changes in place");
MODULE_LICENSE("GPL");
