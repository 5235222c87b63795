// SPDX-License-Identifier: GPL-2.0
/*
 * The view of a page table, and the poke that changes one entry of it.
 *
 *	walk	PID START END		addresses in hex, of whole pages
 *	poke	PID ADDRESS OLD NEW	raw values in hex
 *
 * A walk copies the entries of a range while it holds the mmap lock for
 * reading, and the lock of each table while it reads that table: what one table
 * says is a state that was there at one time. It changes nothing, not even an
 * access flag, and takes no reference to what the entries map.
 */
#include <linux/cacheflush.h>
#include <linux/hugetlb.h>
#include <linux/mmap_lock.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "pteopt.h"

/* Entries that an answer has room for, and so a limit to its memory */
#define ROWS_MAX	65536U

enum row_level { LEVEL_PTE, LEVEL_PMD, LEVEL_PUD };
enum row_kind { ROW_NONE, ROW_PRESENT, ROW_PROTNONE, ROW_SWAP, NR_ROW_KINDS };

static const char * const level_name[] = { "pte", "pmd", "pud" };
static const char * const kind_name[] = { "none", "present", "prot-none",
					  "not-present" };

/* One entry, or a run of addresses without one */
struct row {
	unsigned long addr;
	unsigned long pages;
	u64 raw;
	unsigned long pfn;
	u8 level, kind;
	u8 order;
	bool young, dirty, write, special, paged, icache_clean;
	struct pteopt_bits bits;
};

/*
 * What a walk found. The counts are of entries; the blocks are of as many
 * entries as the architecture can make one contiguous block of.
 */
struct walk {
	struct mm_struct *mm;
	unsigned int nr, size;
	unsigned int kind[NR_ROW_KINDS];
	unsigned int settled;
	unsigned int folded, mixed, plain;
	struct row *row;
};

/* Room for @nr more rows, so that none has to be made under a spinlock. */
static int walk_reserve(struct walk *w, unsigned int nr)
{
	unsigned int size = w->size;
	struct row *row;

	if (w->nr > ROWS_MAX)
		return -E2BIG;
	if (w->nr + nr <= size)
		return 0;

	size = max(2 * size, w->nr + nr);
	row = kvrealloc(w->row, array_size(size, sizeof(*row)),
			GFP_KERNEL_ACCOUNT);
	if (!row)
		return -ENOMEM;
	w->row = row;
	w->size = size;
	return 0;
}

/* Addresses without an entry: one row for as many as follow each other. */
static void walk_add_none(struct walk *w, unsigned long addr,
			  unsigned long pages)
{
	struct row *last = w->nr ? &w->row[w->nr - 1] : NULL;

	if (last && last->kind == ROW_NONE) {
		last->pages += pages;
		return;
	}
	w->row[w->nr++] = (struct row) {
		.addr = addr, .pages = pages, .kind = ROW_NONE,
	};
}

/*
 * One entry, of any level, for they all have the format of a PTE. Under the
 * lock of its table, so that what it maps cannot be freed.
 */
static void walk_add_entry(struct walk *w, unsigned long addr,
			   unsigned long pages, enum row_level level, pte_t raw)
{
	struct row *row = &w->row[w->nr++];

	*row = (struct row) {
		.addr = addr, .pages = pages, .level = level,
		.raw = pte_val(raw), .kind = ROW_SWAP,
	};
	if (!pte_present(raw)) {
		w->kind[ROW_SWAP]++;
		return;
	}

	row->bits = pteopt_arch_bits(raw);
	row->kind = row->bits.accessible ? ROW_PRESENT : ROW_PROTNONE;
	row->young = pte_young(raw);
	row->dirty = pte_dirty(raw);
	row->write = pte_write(raw);
	row->special = pte_special(raw);
	row->pfn = pte_pfn(raw);
	if (!row->special && pfn_valid(row->pfn)) {
		struct folio *folio = page_folio(pfn_to_page(row->pfn));

		row->paged = true;
		row->order = folio_order(folio);
		row->icache_clean = test_bit(PG_dcache_clean, &folio->flags);
	}
	w->kind[row->kind]++;
	w->settled += row->bits.settled;
}

/* What is known of the block that the last entry is in */
struct block {
	unsigned int seen, present, cont;
};

/* Count a block when all of it was seen and anything of it is there. */
static void walk_block(struct walk *w, struct block *block, unsigned long addr,
		       const struct row *row)
{
	unsigned int nr = pteopt_arch_block();

	if (!nr)
		return;
	if (IS_ALIGNED(addr, nr * PAGE_SIZE))
		*block = (struct block) {};
	block->seen++;
	if (row) {
		block->present += row->kind != ROW_SWAP;
		block->cont += row->bits.cont;
	}

	if (!IS_ALIGNED(addr + PAGE_SIZE, nr * PAGE_SIZE) ||
	    block->seen != nr || !block->present)
		return;
	if (block->cont == nr)
		w->folded++;
	else if (block->present == nr && !block->cont)
		w->plain++;
	else
		w->mixed++;
}

static int walk_table(struct walk *w, pmd_t *pmdp, pmd_t pmd,
		      unsigned long addr, unsigned long end)
{
	pte_t *ptep = pte_offset_kernel(&pmd, addr);
	struct block block = {};
	spinlock_t *ptl;
	int ret;

	ret = walk_reserve(w, PTRS_PER_PTE);
	if (ret)
		return ret;

	/*
	 * A table can be taken from a mapping of a file with nothing but its
	 * lock and that of the PMD held. It is freed by RCU then.
	 */
	rcu_read_lock();
	ptl = ptep_lockptr(w->mm, ptep);
	spin_lock(ptl);
	if (!pmd_same(pmd, pmdp_get_lockless(pmdp))) {
		ret = -EAGAIN;
		goto unlock;
	}

	for (; addr != end; addr += PAGE_SIZE, ptep++) {
		pte_t raw = READ_ONCE(*ptep);

		if (pte_none(raw)) {
			walk_add_none(w, addr, 1);
			walk_block(w, &block, addr, NULL);
		} else {
			walk_add_entry(w, addr, 1, LEVEL_PTE, raw);
			walk_block(w, &block, addr, &w->row[w->nr - 1]);
		}
	}

unlock:
	spin_unlock(ptl);
	rcu_read_unlock();
	return ret;
}

static int walk_pmd(struct walk *w, pmd_t *pmdp, unsigned long addr,
		    unsigned long end)
{
	spinlock_t *ptl;
	pmd_t pmd;
	int ret;

again:
	ret = walk_reserve(w, 1);
	if (ret)
		return ret;

	pmd = pmdp_get_lockless(pmdp);
	if (pmd_none(pmd)) {
		walk_add_none(w, addr, (end - addr) / PAGE_SIZE);
		return 0;
	}
	if (pmd_present(pmd) && !pmd_leaf(pmd)) {
		ret = walk_table(w, pmdp, pmd, addr, end);
		if (ret != -EAGAIN)
			return ret;
		cond_resched();
		goto again;
	}

	ptl = pmd_lock(w->mm, pmdp);
	if (!pmd_same(pmd, *pmdp)) {
		spin_unlock(ptl);
		goto again;
	}
	walk_add_entry(w, addr, (end - addr) / PAGE_SIZE, LEVEL_PMD,
		       pmd_pte(pmd));
	spin_unlock(ptl);
	return 0;
}

static int walk_pud(struct walk *w, pud_t *pudp, unsigned long addr,
		    unsigned long end)
{
	pud_t pud = READ_ONCE(*pudp);
	unsigned long next;
	pmd_t *pmdp;
	int ret;

	ret = walk_reserve(w, 1);
	if (ret)
		return ret;

	if (pud_none(pud)) {
		walk_add_none(w, addr, (end - addr) / PAGE_SIZE);
		return 0;
	}
	if (!pud_present(pud) || pud_leaf(pud)) {
		spin_lock(&w->mm->page_table_lock);
		pud = READ_ONCE(*pudp);
		if (pud_none(pud))
			walk_add_none(w, addr, (end - addr) / PAGE_SIZE);
		else
			walk_add_entry(w, addr, (end - addr) / PAGE_SIZE,
				       LEVEL_PUD, pud_pte(pud));
		spin_unlock(&w->mm->page_table_lock);
		return 0;
	}

	for (pmdp = pmd_offset(pudp, addr); addr != end; addr = next, pmdp++) {
		next = pmd_addr_end(addr, end);
		ret = walk_pmd(w, pmdp, addr, next);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int walk_range(struct walk *w, unsigned long addr, unsigned long end)
{
	unsigned long next;
	int ret;

	for (; addr != end; addr = next) {
		pgd_t *pgdp = pgd_offset(w->mm, addr);
		p4d_t *p4dp = p4d_offset(pgdp, addr);

		ret = walk_reserve(w, 1);
		if (ret)
			return ret;
		/* Of a level that is folded away, all is one entry */
		next = min(pgd_addr_end(addr, end), p4d_addr_end(addr, end));
		if (pgd_none(*pgdp) || p4d_none(*p4dp)) {
			walk_add_none(w, addr, (next - addr) / PAGE_SIZE);
			continue;
		}
		next = pud_addr_end(addr, next);
		ret = walk_pud(w, pud_offset(p4dp, addr), addr, next);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* The mm of a process that is not about to exit, or an error. */
static struct mm_struct *mm_of(pid_t nr)
{
	struct mm_struct *mm = NULL;
	struct task_struct *task;
	struct pid *pid;

	pid = find_get_pid(nr);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (task) {
		mm = get_task_mm(task);
		put_task_struct(task);
	}
	return mm ?: ERR_PTR(-ESRCH);
}

static void walk_release(void *answer)
{
	struct walk *w = answer;

	if (!w)
		return;
	kvfree(w->row);
	kfree(w);
}

static int walk_request(char *text, void **answer)
{
	unsigned long start, end;
	struct mm_struct *mm;
	struct walk *w;
	int pid, ret;
	char extra;

	if (sscanf(text, "%d %lx %lx %c", &pid, &start, &end, &extra) != 3 ||
	    pid <= 0 || start >= end ||
	    !PAGE_ALIGNED(start) || !PAGE_ALIGNED(end))
		return -EINVAL;

	mm = mm_of(pid);
	if (IS_ERR(mm))
		return PTR_ERR(mm);

	ret = -EFAULT;
	if (end > mm->task_size)
		goto put;
	ret = -ENOMEM;
	w = kzalloc(sizeof(*w), GFP_KERNEL_ACCOUNT);
	if (!w)
		goto put;

	w->mm = mm;
	ret = mmap_read_lock_killable(mm);
	if (!ret) {
		ret = walk_range(w, start, end);
		mmap_read_unlock(mm);
	}
	w->mm = NULL;
	if (!ret && w->nr > ROWS_MAX)
		ret = -E2BIG;
	if (ret)
		walk_release(w);
	else
		*answer = w;
put:
	mmput(mm);
	return ret;
}

static void show_row(struct seq_file *seq, const struct row *row)
{
	static const char letter[] = "ADWXCSPI";
	char flags[sizeof(letter)];
	unsigned int i;
	const bool is[] = {
		row->young, row->dirty, row->write, row->bits.exec,
		row->bits.cont, row->bits.settled, row->special,
		row->icache_clean,
	};

	if (row->kind == ROW_NONE) {
		seq_printf(seq, "%lx %lu - none\n", row->addr, row->pages);
		return;
	}
	seq_printf(seq, "%lx %lu %s %s raw=%016llx", row->addr, row->pages,
		   level_name[row->level], kind_name[row->kind], row->raw);
	if (row->kind != ROW_SWAP) {
		for (i = 0; i < ARRAY_SIZE(is); i++)
			flags[i] = is[i] ? letter[i] : '-';
		flags[i] = '\0';
		seq_printf(seq, " %s pfn=%lx", flags, row->pfn);
		if (row->paged)
			seq_printf(seq, " order=%u", row->order);
	}
	seq_putc(seq, '\n');
}

static bool walk_show(struct seq_file *seq, const void *answer, loff_t n)
{
	const struct walk *w = answer;

	if (n > w->nr)
		return false;
	if (!seq)
		return true;
	if (n < w->nr) {
		show_row(seq, &w->row[n]);
		return true;
	}
	seq_printf(seq, "# entries: %u present, %u prot-none, %u not-present; %u settled\n",
		   w->kind[ROW_PRESENT], w->kind[ROW_PROTNONE],
		   w->kind[ROW_SWAP], w->settled);
	if (pteopt_arch_block())
		seq_printf(seq, "# blocks: %u folded, %u mixed, %u plain\n",
			   w->folded, w->mixed, w->plain);
	return true;
}

const struct pteopt_file pteopt_walk_file = {
	.name		= "walk",
	.request	= walk_request,
	.show		= walk_show,
	.release	= walk_release,
};

/* --- poke ---------------------------------------------------------------- */

/* What a poke replaced. The answer is one line. */
struct poke {
	unsigned long addr;
	u64 old, new;
};

/* Replace one raw entry. No flush, no check of what the new value means. */
static int poke_entry(struct mm_struct *mm, const struct poke *poke)
{
	unsigned long addr = poke->addr;
	struct vm_area_struct *vma;
	spinlock_t *ptl;
	pgd_t *pgdp;
	p4d_t *p4dp;
	pud_t *pudp;
	pmd_t *pmdp, pmd;
	pte_t *ptep;
	int ret;

	vma = vma_lookup(mm, addr);
	if (!vma)
		return -EFAULT;
	if (is_vm_hugetlb_page(vma))
		return -EOPNOTSUPP;
	pgdp = pgd_offset(mm, addr);
	if (pgd_none(*pgdp))
		return -ENOENT;
	p4dp = p4d_offset(pgdp, addr);
	if (p4d_none(*p4dp))
		return -ENOENT;
	pudp = pud_offset(p4dp, addr);
	if (pud_none(*pudp))
		return -ENOENT;
	if (!pud_present(*pudp) || pud_leaf(*pudp))
		return -EOPNOTSUPP;
	pmdp = pmd_offset(pudp, addr);
	pmd = pmdp_get_lockless(pmdp);
	if (pmd_none(pmd))
		return -ENOENT;
	if (!pmd_present(pmd) || pmd_leaf(pmd))
		return -EOPNOTSUPP;

	rcu_read_lock();
	ptep = pte_offset_kernel(&pmd, addr);
	ptl = ptep_lockptr(mm, ptep);
	spin_lock(ptl);
	ret = -EAGAIN;
	if (pmd_same(pmd, pmdp_get_lockless(pmdp)) &&
	    pte_val(READ_ONCE(*ptep)) == poke->old) {
		pteopt_arch_store(ptep, __pte(poke->new));
		ret = 0;
	}
	spin_unlock(ptl);
	rcu_read_unlock();
	return ret;
}

static int poke_request(char *text, void **answer)
{
	struct poke poke, *done;
	struct mm_struct *mm;
	int pid, ret;
	char extra;

	if (sscanf(text, "%d %lx %llx %llx %c", &pid, &poke.addr, &poke.old,
		   &poke.new, &extra) != 4 || pid <= 0 ||
	    !PAGE_ALIGNED(poke.addr))
		return -EINVAL;
	if (!pteopt_arch_can_update())
		return -EOPNOTSUPP;

	mm = mm_of(pid);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	ret = -ENOMEM;
	done = kmemdup(&poke, sizeof(poke), GFP_KERNEL_ACCOUNT);
	if (!done)
		goto put;
	ret = -EFAULT;
	if (poke.addr < mm->task_size) {
		ret = mmap_read_lock_killable(mm);
		if (!ret) {
			ret = poke_entry(mm, &poke);
			mmap_read_unlock(mm);
		}
	}
	if (ret)
		kfree(done);
	else
		*answer = done;
put:
	mmput(mm);
	return ret;
}

static bool poke_show(struct seq_file *seq, const void *answer, loff_t n)
{
	const struct poke *poke = answer;

	if (n)
		return false;
	if (seq)
		seq_printf(seq, "%lx %016llx -> %016llx\n", poke->addr,
			   poke->old, poke->new);
	return true;
}

static void poke_release(void *answer)
{
	kfree(answer);
}

const struct pteopt_file pteopt_poke_file = {
	.name		= "poke",
	.request	= poke_request,
	.show		= poke_show,
	.release	= poke_release,
};
