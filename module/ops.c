// SPDX-License-Identifier: GPL-2.0
/*
 * Operations on page tables, many times, in a known state, on memory of which
 * nobody else knows.
 *
 *	run	OP [rounds=N] [order=N] [cpus=N] [cold=0|1]
 *
 * A round brings all entries of a page table into the state that the operation
 * starts from, and then does it to each of them: that part is timed. With cpus=N
 * that many CPUs do so at once, each on a page table of its own. With cold=1 a
 * buffer is read before each round that takes the place of the tables in the
 * caches.
 *
 * The entries are in a mapping of the caller, made and removed by the request.
 * It is for page frames (VM_PFNMAP) of folios that belong to the module, and the
 * mmap lock is held for reading while it is in use, so that:
 *  - munmap(), mprotect(), mremap() and fork() of other threads wait;
 *  - reclaim, migration, KSM, NUMA balancing and khugepaged have nothing to find:
 *    the folios are on no list and have no reverse mapping, and all of them pass
 *    such a VMA by, as the OOM reaper does;
 *  - a fault has no effect, see mapping_fault().
 */
#include <linux/anon_inodes.h>
#include <linux/cacheflush.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/mman.h>
#include <linux/mmap_lock.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/umh.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "pteopt.h"

#define ROUNDS_MAX	100000U
/* Entries of a table that are used; with large pages a table has many more */
#define ENTRIES_MAX	512U

char *pteopt_helper = "/bin/true";

static unsigned int evict_mib = 64;
module_param(evict_mib, uint, 0600);
MODULE_PARM_DESC(evict_mib, "MiB to read before a cold round, more than the last cache holds (default: 64)");

static struct workqueue_struct *run_queue;

/**
 * struct slot - entries of one page table of a test mapping
 * @vma: the mapping; its file has no pages, and it resolves no faults
 * @addr: user address of the first entry, aligned to PMD_SIZE
 * @ptep: the first entry
 * @ptl: lock of the page table
 * @nr: number of entries; all map folios of @folios
 * @order: order of each folio
 * @folios: nr >> order folios
 *
 * Nothing of mm touches the entries, see mapping_create(): not reclaim, for the
 * folios are on no LRU list, and not a fault, fork or migration.
 */
struct slot {
	struct vm_area_struct *vma;
	unsigned long addr;
	pte_t *ptep;
	spinlock_t *ptl;
	unsigned int nr;
	unsigned int order;
	struct folio **folios;
};

struct op;

/* A request, and what came of it. */
struct run {
	const struct op *op;
	unsigned int rounds, order, cpus;
	bool cold;

	unsigned int units;		/* in a round of one CPU */
	unsigned int samples;		/* rounds of all CPUs */
	u64 *ns;			/* of each, sorted in the end */

	const u64 *evict;
	size_t evict_words;
	struct task_struct *caller;
	struct completion go;
	atomic_t missing;
};

/**
 * struct op - what can be run
 * @name: in the request
 * @unit: of what the time is given
 * @blocks: it is about contiguous blocks, so needs folios that are large enough
 * @prepare: changes a slot that was just filled into what @act starts from
 * @act: the timed part; returns the number of units that it worked on
 * @check: whether @act did what it is for
 * @whole: takes the place of all the above: does its own rounds
 *
 * All but @whole run with the lock of the page table held.
 */
struct op {
	const char *name, *unit;
	bool blocks;
	void (*prepare)(struct slot *slot);
	unsigned int (*act)(struct slot *slot);
	bool (*check)(struct slot *slot);
	int (*whole)(struct run *run);
};

/* --- the mapping --------------------------------------------------------- */

static vm_fault_t mapping_fault(struct vm_fault *vmf)
{
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct mapping_vm_ops = {
	.fault = mapping_fault,
};

static int mapping_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTCOPY |
		     VM_DONTDUMP);
	vma->vm_ops = &mapping_vm_ops;
	return 0;
}

static const struct file_operations mapping_fops = {
	.owner	= THIS_MODULE,
	.mmap	= mapping_mmap,
};

static void slot_free(struct slot *slot)
{
	unsigned int i;

	if (!slot->folios)
		return;
	for (i = 0; i < slot->nr >> slot->order; i++)
		if (slot->folios[i])
			folio_put(slot->folios[i]);
	kvfree(slot->folios);
	slot->folios = NULL;
}

static int slot_alloc(struct slot *slot)
{
	unsigned int i, nr = slot->nr >> slot->order;

	slot->folios = kvcalloc(nr, sizeof(*slot->folios), GFP_KERNEL_ACCOUNT);
	if (!slot->folios)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		slot->folios[i] = folio_alloc(GFP_HIGHUSER | __GFP_ZERO |
					      __GFP_ACCOUNT, slot->order);
		if (!slot->folios[i])
			return -ENOMEM;
	}
	return 0;
}

static unsigned long entry_addr(const struct slot *slot, unsigned int i)
{
	return slot->addr + i * PAGE_SIZE;
}

/* Have mm make a page table, by an entry that goes again */
static int slot_table(struct slot *slot)
{
	struct mm_struct *mm = slot->vma->vm_mm;
	unsigned long addr = slot->addr;
	vm_fault_t fault;
	pmd_t *pmdp;

	fault = vmf_insert_pfn(slot->vma, addr, folio_pfn(slot->folios[0]));
	if (fault != VM_FAULT_NOPAGE)
		return fault & VM_FAULT_OOM ? -ENOMEM : -EFAULT;

	pmdp = pmd_offset(pud_offset(p4d_offset(pgd_offset(mm, addr), addr),
				     addr), addr);
	slot->ptep = pte_offset_kernel(pmdp, addr);
	slot->ptl = ptep_lockptr(mm, slot->ptep);
	spin_lock(slot->ptl);
	ptep_get_and_clear(mm, addr, slot->ptep);
	spin_unlock(slot->ptl);
	return 0;
}

/*
 * Fill the slot with young, dirty and writable entries, in contiguous blocks if
 * the folios are large enough. No CPU uses the addresses, so the TLB has nothing
 * of what was there; what a curious thread of the caller may have put there is
 * flushed before the folios are freed.
 */
static void slot_fill(struct slot *slot)
{
	unsigned int i, nr = 1U << slot->order;
	struct mm_struct *mm = slot->vma->vm_mm;

	for (i = 0; i < slot->nr; i += nr) {
		unsigned long pfn = folio_pfn(slot->folios[i >> slot->order]);
		pte_t pte = pfn_pte(pfn, slot->vma->vm_page_prot);

		if (!pte_none(READ_ONCE(slot->ptep[i])))
			get_and_clear_full_ptes(mm, entry_addr(slot, i),
						slot->ptep + i, nr, 0);
		pte = pte_mkyoung(pte_mkdirty(pte_mkwrite_novma(pte)));
		pteopt_arch_install(mm, entry_addr(slot, i), slot->ptep + i,
				    pte, nr);
	}
}

/*
 * Make the entries what mm expects in such a mapping: of no page that it knows.
 * Only a software bit changes, once there is no contiguous block any more.
 */
static void slot_retire(struct slot *slot)
{
	struct mm_struct *mm = slot->vma->vm_mm;
	unsigned int i;

	if (!slot->ptep)
		return;
	spin_lock(slot->ptl);
	for (i = 0; i < slot->nr; i++) {
		pte_t *ptep = slot->ptep + i;

		if (pte_none(READ_ONCE(*ptep)))
			continue;
		pteopt_arch_plain(mm, entry_addr(slot, i), ptep);
		pteopt_arch_store(ptep, pte_mkspecial(READ_ONCE(*ptep)));
	}
	spin_unlock(slot->ptl);
}

/* --- the operations ------------------------------------------------------ */

static void unfold_all(struct slot *slot)
{
	unsigned int i, block = pteopt_arch_block();

	for (i = 0; i < slot->nr; i += block)
		pteopt_arch_plain(slot->vma->vm_mm, entry_addr(slot, i),
				  slot->ptep + i);
}

static unsigned int act_unfold(struct slot *slot)
{
	unfold_all(slot);
	return slot->nr / pteopt_arch_block();
}

static unsigned int act_fold(struct slot *slot)
{
	unsigned int i, block = pteopt_arch_block();

	for (i = 0; i < slot->nr; i += block)
		pteopt_arch_fold(slot->vma->vm_mm, entry_addr(slot, i),
				 slot->ptep + i);
	return slot->nr / block;
}

static bool all_cont(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		if (!pteopt_arch_bits(READ_ONCE(slot->ptep[i])).cont)
			return false;
	return true;
}

static bool none_cont(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		if (pteopt_arch_bits(READ_ONCE(slot->ptep[i])).cont)
			return false;
	return true;
}

static unsigned int act_wrprotect(struct slot *slot)
{
	unsigned int i, nr = 1U << slot->order;

	for (i = 0; i < slot->nr; i += nr)
		wrprotect_ptes(slot->vma->vm_mm, entry_addr(slot, i),
			       slot->ptep + i, nr);
	return slot->nr;
}

static bool none_writable(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		if (pte_write(READ_ONCE(slot->ptep[i])))
			return false;
	return true;
}

static unsigned int act_clear(struct slot *slot)
{
	unsigned int i, nr = 1U << slot->order;

	for (i = 0; i < slot->nr; i += nr)
		get_and_clear_full_ptes(slot->vma->vm_mm, entry_addr(slot, i),
					slot->ptep + i, nr, 0);
	return slot->nr;
}

static bool all_none(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		if (!pte_none(READ_ONCE(slot->ptep[i])))
			return false;
	return true;
}

/* One call for each entry, as reclaim makes them, also within a block */
static unsigned int act_age(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		ptep_test_and_clear_young(slot->vma, entry_addr(slot, i),
					  slot->ptep + i);
	return slot->nr;
}

static bool none_young(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr; i++)
		if (pte_young(READ_ONCE(slot->ptep[i])))
			return false;
	return true;
}

/* As after a write to the folios */
static void icache_stale(struct slot *slot)
{
	unsigned int i;

	for (i = 0; i < slot->nr >> slot->order; i++)
		flush_dcache_folio(slot->folios[i]);
}

static unsigned int act_icache(struct slot *slot)
{
	unsigned int i, nr = slot->nr >> slot->order;

	for (i = 0; i < nr; i++)
		pteopt_arch_icache_sync(slot->folios[i],
					READ_ONCE(slot->ptep[i << slot->order]));
	return nr;
}

/*
 * The system call, on anonymous memory of the caller, with whatever folios its
 * settings give: read-only and back, so that both directions are in each round.
 */
static int whole_mprotect(struct run *run)
{
	size_t len = min_t(size_t, PMD_SIZE, ENTRIES_MAX * PAGE_SIZE);
	void *entry = pteopt_resolve(pteopt_arch_mprotect_symbol);
	unsigned long addr, at;
	unsigned int i;
	int ret = 0;

	if (IS_ERR(entry))
		return PTR_ERR(entry);
	addr = vm_mmap(NULL, 0, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(addr))
		return addr;

	for (at = addr; !ret && at < addr + len; at += PAGE_SIZE)
		ret = put_user(1, (char __user *)at);
	run->units = 2 * len / PAGE_SIZE;
	for (i = 0; !ret && i < run->rounds; i++) {
		u64 start = ktime_get_ns();

		ret = pteopt_arch_mprotect(entry, addr, len, PROT_READ);
		if (!ret)
			ret = pteopt_arch_mprotect(entry, addr, len,
						   PROT_READ | PROT_WRITE);
		run->ns[run->samples++] = ktime_get_ns() - start;
		if (fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	vm_munmap(addr, len);
	return ret;
}

/* A process that executes the helper and exits, as the kernel starts one */
static int whole_exec(struct run *run)
{
	char *argv[2] = { pteopt_helper, NULL };
	char *envp[2] = { "PATH=/sbin:/bin:/usr/sbin:/usr/bin", NULL };
	unsigned int i;

	run->units = 1;
	for (i = 0; i < run->rounds; i++) {
		u64 start = ktime_get_ns();
		int ret = call_usermodehelper(argv[0], argv, envp,
					      UMH_WAIT_PROC | UMH_KILLABLE);

		run->ns[run->samples++] = ktime_get_ns() - start;
		if (ret < 0)
			return ret;
		if (ret)
			return -ECHILD;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static const struct op ops[] = {
	{
		.name = "fold", .unit = "block", .blocks = true,
		.prepare = unfold_all, .act = act_fold, .check = all_cont,
	}, {
		.name = "unfold", .unit = "block", .blocks = true,
		.act = act_unfold, .check = none_cont,
	}, {
		.name = "wrprotect", .unit = "entry",
		.act = act_wrprotect, .check = none_writable,
	}, {
		.name = "clear", .unit = "entry",
		.act = act_clear, .check = all_none,
	}, {
		.name = "age", .unit = "entry",
		.act = act_age, .check = none_young,
	}, {
		.name = "icache", .unit = "folio",
		.prepare = icache_stale, .act = act_icache,
	}, {
		.name = "mprotect", .unit = "entry", .whole = whole_mprotect,
	}, {
		.name = "exec", .unit = "process", .whole = whole_exec,
	},
};

/* --- rounds -------------------------------------------------------------- */

static void evict(const struct run *run)
{
	const u64 *word = run->evict;
	size_t i;

	for (i = 0; i < run->evict_words; i += L1_CACHE_BYTES / sizeof(*word)) {
		(void)READ_ONCE(word[i]);
		if (!(i & 0xfffff))
			cond_resched();
	}
}

static int rounds(const struct run *run, struct slot *slot,
		  u64 *ns, unsigned int *units)
{
	const struct op *op = run->op;
	bool good = true;
	unsigned int i;

	for (i = 0; i < run->rounds; i++) {
		u64 start;

		if (run->cold)
			evict(run);
		spin_lock(slot->ptl);
		slot_fill(slot);
		if (op->prepare)
			op->prepare(slot);
		start = ktime_get_ns();
		*units = op->act(slot);
		ns[i] = ktime_get_ns() - start;
		if (op->check)
			good = op->check(slot);
		spin_unlock(slot->ptl);
		if (!good)
			return -EIO;
		if (fatal_signal_pending(run->caller))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* What one CPU does if there are several */
struct worker {
	struct work_struct work;
	struct run *run;
	struct slot *slot;
	u64 *ns;
	unsigned int units;
	int ret;
};

static void worker_run(struct work_struct *work)
{
	struct worker *me = container_of(work, struct worker, work);
	struct mm_struct *mm = me->slot->vma->vm_mm;

	/* The caller is in the mm, and waits for us */
	kthread_use_mm(mm);
	if (atomic_dec_and_test(&me->run->missing))
		complete_all(&me->run->go);
	wait_for_completion(&me->run->go);
	me->ret = rounds(me->run, me->slot, me->ns, &me->units);
	kthread_unuse_mm(mm);
}

/* No CPU comes or goes: the caller holds cpus_read_lock(). */
static int run_on_cpus(struct run *run, struct slot *slots)
{
	struct worker *workers;
	unsigned int i = 0, cpu;
	int ret = 0;

	workers = kcalloc(run->cpus, sizeof(*workers), GFP_KERNEL_ACCOUNT);
	if (!workers)
		return -ENOMEM;

	init_completion(&run->go);
	atomic_set(&run->missing, run->cpus);
	for_each_online_cpu(cpu) {
		struct worker *me = &workers[i];

		INIT_WORK(&me->work, worker_run);
		me->run = run;
		me->slot = &slots[i];
		me->ns = run->ns + i * run->rounds;
		queue_work_on(cpu, run_queue, &me->work);
		if (++i == run->cpus)
			break;
	}
	for (i = 0; i < run->cpus; i++) {
		flush_work(&workers[i].work);
		ret = ret ?: workers[i].ret;
		run->units = workers[i].units;
	}
	kfree(workers);
	return ret;
}

/* All of it on a mapping that is there for the time of the call only. */
static int run_mapped(struct run *run)
{
	struct mm_struct *mm = current->mm;
	struct slot *slots;
	struct vm_area_struct *vma;
	unsigned long addr, first;
	struct file *file;
	unsigned int i;
	size_t len;
	int ret;

	/* Before the mmap lock, as elsewhere in the kernel */
	cpus_read_lock();
	ret = -EINVAL;
	if (run->cpus > num_online_cpus())
		goto unlock;
	/* Up to PMD_SIZE is lost to alignment */
	if (check_mul_overflow((size_t)run->cpus + 1, (size_t)PMD_SIZE, &len))
		goto unlock;
	ret = -ENOMEM;
	slots = kcalloc(run->cpus, sizeof(*slots), GFP_KERNEL_ACCOUNT);
	if (!slots)
		goto unlock;
	for (ret = 0, i = 0; !ret && i < run->cpus; i++) {
		slots[i].nr = min_t(unsigned int, PTRS_PER_PTE, ENTRIES_MAX);
		slots[i].order = run->order;
		ret = slot_alloc(&slots[i]);
	}
	if (ret)
		goto free;

	file = anon_inode_getfile("[pteopt]", &mapping_fops, NULL, O_RDWR);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
		goto free;
	}
	addr = vm_mmap(file, 0, len, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (IS_ERR_VALUE(addr)) {
		ret = addr;
		goto put;
	}

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	/* Another thread could have put something else here by now */
	if (!vma || vma->vm_file != file || vma->vm_start != addr ||
	    vma->vm_end != addr + len || !(vma->vm_flags & VM_WRITE)) {
		mmap_read_unlock(mm);
		ret = -EBUSY;
		goto put;
	}

	first = ALIGN(addr, PMD_SIZE);
	for (i = 0; !ret && i < run->cpus; i++) {
		slots[i].vma = vma;
		slots[i].addr = first + i * PMD_SIZE;
		ret = slot_table(&slots[i]);
	}
	if (!ret) {
		run->samples = run->cpus * run->rounds;
		ret = run->cpus == 1 ?
			rounds(run, &slots[0], run->ns, &run->units) :
			run_on_cpus(run, slots);
	}
	for (i = 0; i < run->cpus && slots[i].vma; i++)
		slot_retire(&slots[i]);
	/* Clears them, and flushes what any TLB may have */
	zap_vma_ptes(vma, addr, len);
	mmap_read_unlock(mm);
	vm_munmap(addr, len);
put:
	fput(file);
free:
	for (i = 0; i < run->cpus; i++)
		slot_free(&slots[i]);
	kfree(slots);
unlock:
	cpus_read_unlock();
	return ret;
}

/* --- request and answer -------------------------------------------------- */

static int parse(char *text, struct run *run)
{
	char *word = strsep(&text, " ");
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(word, ops[i].name))
			run->op = &ops[i];
	if (!run->op)
		return -EINVAL;

	while ((word = strsep(&text, " "))) {
		unsigned int value, cold, *where = &cold;
		char *number = word;
		int ret;

		strsep(&number, "=");
		if (!strcmp(word, "rounds"))
			where = &run->rounds;
		else if (!strcmp(word, "order"))
			where = &run->order;
		else if (!strcmp(word, "cpus"))
			where = &run->cpus;
		else if (strcmp(word, "cold"))
			return -EINVAL;
		if (!number)
			return -EINVAL;
		ret = kstrtouint(number, 10, &value);
		if (ret)
			return ret;
		*where = value;
		if (where != &cold)
			continue;
		if (value > 1)
			return -EINVAL;
		run->cold = value;
	}
	return 0;
}

static int check_run(const struct run *run)
{
	unsigned int entries = min_t(unsigned int, PTRS_PER_PTE, ENTRIES_MAX);
	unsigned int block = pteopt_arch_block();

	if (!run->rounds || run->rounds > ROUNDS_MAX ||
	    !run->cpus || run->cpus > num_online_cpus())
		return -EINVAL;
	if (run->op->whole)
		return run->cpus == 1 && !run->order && !run->cold ? 0 : -EINVAL;
	if (run->order > ilog2(entries) || run->order > MAX_PAGE_ORDER)
		return -EINVAL;
	if (!pteopt_arch_can_update())
		return -EOPNOTSUPP;
	if (run->op->blocks && !block)
		return -EOPNOTSUPP;
	if (run->op->blocks && (1U << run->order) < block)
		return -EINVAL;
	return 0;
}

static int compare_ns(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void run_release(void *answer)
{
	struct run *run = answer;

	if (!run)
		return;
	kvfree(run->ns);
	kfree(run);
}

static int run_request(char *text, void **answer)
{
	void *buffer = NULL;
	struct run *run;
	int ret;

	if (!current->mm)
		return -ESRCH;
	run = kzalloc(sizeof(*run), GFP_KERNEL_ACCOUNT);
	if (!run)
		return -ENOMEM;
	run->caller = current;
	run->rounds = 100;
	run->cpus = 1;
	ret = parse(text, run) ?: check_run(run);
	if (ret)
		goto free;

	ret = -ENOMEM;
	run->ns = kvcalloc(run->cpus * run->rounds, sizeof(*run->ns),
			   GFP_KERNEL_ACCOUNT);
	if (!run->ns)
		goto free;
	if (run->cold) {
		buffer = vzalloc((size_t)evict_mib << 20);
		if (!buffer)
			goto free;
		run->evict = buffer;
		run->evict_words = ((size_t)evict_mib << 20) / sizeof(u64);
	}

	ret = run->op->whole ? run->op->whole(run) : run_mapped(run);
	vfree(buffer);
	if (ret)
		goto free;
	sort(run->ns, run->samples, sizeof(*run->ns), compare_ns, NULL);
	*answer = run;
	return 0;

free:
	run_release(run);
	return ret;
}

/* Nanoseconds for one unit, with three decimals */
static void show_ns(struct seq_file *seq, const char *name, u64 ns,
		    unsigned int units)
{
	u64 ps = div_u64(ns * 1000, units);
	u32 rest;

	ps = div_u64_rem(ps, 1000, &rest);
	seq_printf(seq, " %s=%llu.%03u", name, ps, rest);
}

static bool run_show(struct seq_file *seq, const void *answer, loff_t n)
{
	const struct run *run = answer;

	if (n)
		return false;
	if (!seq)
		return true;
	seq_printf(seq, "%s unit=%s units=%u rounds=%u cpus=%u order=%u cold=%u",
		   run->op->name, run->op->unit, run->units, run->rounds,
		   run->cpus, run->order, run->cold);
	show_ns(seq, "min", run->ns[0], run->units);
	show_ns(seq, "median", run->ns[run->samples / 2], run->units);
	show_ns(seq, "p90", run->ns[run->samples * 9 / 10], run->units);
	seq_putc(seq, '\n');
	return true;
}

const struct pteopt_file pteopt_run_file = {
	.name		= "run",
	.request	= run_request,
	.show		= run_show,
	.release	= run_release,
};

/**
 * pteopt_run_init - get ready for requests
 *
 * Context: Process context.
 * Return: 0 or -ENOMEM.
 */
int pteopt_run_init(void)
{
	run_queue = alloc_workqueue("pteopt", WQ_CPU_INTENSIVE, 0);
	return run_queue ? 0 : -ENOMEM;
}

/**
 * pteopt_run_exit - undo pteopt_run_init()
 *
 * Context: Process context. No file is open any more.
 */
void pteopt_run_exit(void)
{
	destroy_workqueue(run_queue);
}
