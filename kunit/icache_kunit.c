// SPDX-License-Identifier: GPL-2.0
/*
 * PG_dcache_clean is set for what is mapped executable, survives what leaves the
 * contents as they are, and nothing else; what is synced, how often, and how
 * often the CPUs are interrupted, by the icache trace events.
 *
 * An emulator has no stale instruction cache. The flag decides whether a sync is
 * done, so it is what can be tested here.
 */

#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cacheflush.h>
#include <linux/file.h>
#include <linux/huge_mm.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/moduleloader.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#if defined(CONFIG_ARM64) && defined(CONFIG_ARCH_HAS_ICACHE_CLEAN_FLAG)

#include <asm/cpufeature.h>
#include <trace/events/icache.h>

#include "memory.h"

/* With 4K pages it is what a fault-around maps */
#define NR_PAGES	16UL
#define FILE_SIZE	(NR_PAGES * PAGE_SIZE)

/* --- what the trace events say -------------------------------------------- */

#define MAX_SYNCS	32

static struct {
	struct task_struct *task;
	unsigned int syncs, rounds;
	struct {
		unsigned long start, end;
		long dc_bytes, ic_bytes;
	} sync[MAX_SYNCS];
} seen;

static void on_sync(void *data, unsigned long start, unsigned long end,
		    long dc_bytes, long ic_bytes)
{
	unsigned int i = seen.syncs;

	if (current != seen.task)
		return;
	seen.syncs++;
	if (i >= MAX_SYNCS)
		return;
	seen.sync[i].start = start;
	seen.sync[i].end = end;
	seen.sync[i].dc_bytes = dc_bytes;
	seen.sync[i].ic_bytes = ic_bytes;
}

static void on_round(void *data, unsigned int cpus)
{
	if (current == seen.task)
		seen.rounds++;
}

static void watch_stop(void *unused)
{
	seen.task = NULL;
	unregister_trace_icache_flush(on_sync, NULL);
	unregister_trace_icache_flush_cpus(on_round, NULL);
	tracepoint_synchronize_unregister();
}

/* Count the events of this thread from now on until the end of the case */
static void watch(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		kunit_skip(test, "needs CONFIG_TRACEPOINTS to count syncs");
	if (!seen.task) {
		KUNIT_ASSERT_EQ(test, 0,
				register_trace_icache_flush(on_sync, NULL));
		KUNIT_ASSERT_EQ(test, 0,
				register_trace_icache_flush_cpus(on_round, NULL));
		KUNIT_ASSERT_EQ(test, 0,
				kunit_add_action_or_reset(test, watch_stop,
							  NULL));
	}
	memset(&seen, 0, sizeof(seen));
	seen.task = current;
}

/* --- an executable file ----------------------------------------------------- */

static void put_file(void *file)
{
	fput(file);
}

static void write_file(struct kunit *test, struct file *file, loff_t pos,
		       size_t len, char byte)
{
	void *buf = kunit_kmalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	memset(buf, byte, len);
	KUNIT_ASSERT_EQ(test, kernel_write(file, buf, len, &pos), len);
}

static struct file *make_file(struct kunit *test)
{
	struct file *file = shmem_file_setup("icache", FILE_SIZE, 0);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, put_file, file));
	write_file(test, file, 0, FILE_SIZE, 1);

	return file;
}

static bool is_clean(struct folio *folio)
{
	return test_bit(PG_dcache_clean, &folio->flags);
}

/* Pages of the file that are marked clean, one bit each */
static unsigned long clean_pages(struct kunit *test, struct file *file)
{
	unsigned long clean = 0, i;

	for (i = 0; i < NR_PAGES; i++) {
		struct folio *folio = filemap_get_folio(file->f_mapping, i);

		KUNIT_ASSERT_FALSE(test, IS_ERR(folio));
		clean |= (unsigned long)is_clean(folio) << i;
		folio_put(folio);
	}

	return clean;
}

static unsigned long map_file(struct kunit *test, struct file *file,
			      unsigned long prot, unsigned long flags)
{
	unsigned long addr = kunit_vm_mmap(test, file, 0, FILE_SIZE, prot,
					   flags, 0);

	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));

	return addr;
}

static void touch(struct kunit *test, unsigned long addr)
{
	char byte;

	KUNIT_ASSERT_EQ(test, 0, get_user(byte, (char __user *)addr));
	KUNIT_ASSERT_EQ(test, byte, 1);
}

static const unsigned long all = GENMASK(NR_PAGES - 1, 0);

/* Map all of it executable, which makes it clean. */
static unsigned long map_exec(struct kunit *test, struct file *file)
{
	unsigned long addr = map_file(test, file, PROT_READ | PROT_EXEC,
				      MAP_SHARED), i;

	for (i = 0; i < NR_PAGES; i++)
		touch(test, addr + i * PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, clean_pages(test, file), all);

	return addr;
}

/* --- cases -------------------------------------------------------------------- */

/* What is mapped executable is clean; what is only read is not made so. */
static void icache_exec_is_clean(struct kunit *test)
{
	struct file *file = make_file(test);

	KUNIT_EXPECT_EQ(test, clean_pages(test, file), 0);
	touch(test, map_file(test, file, PROT_READ, MAP_SHARED));
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), 0);
	map_exec(test, file);
}

static void icache_read_keeps(struct kunit *test)
{
	struct file *file = make_file(test);
	unsigned long addr = map_exec(test, file);
	struct page *page;
	loff_t pos = 0;
	char byte;
	long nr;

	/* A writable mapping is what makes readers care */
	touch(test, map_file(test, file, PROT_READ | PROT_WRITE, MAP_SHARED));
	KUNIT_ASSERT_TRUE(test, mapping_writably_mapped(file->f_mapping));

	KUNIT_ASSERT_EQ(test, kernel_read(file, &byte, 1, &pos), 1);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all);

	KUNIT_ASSERT_EQ(test, get_user_pages_unlocked(addr + PAGE_SIZE, 1,
						      &page, 0), 1);
	put_page(page);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all);

	/* As PTRACE_PEEKTEXT does */
	mmap_read_lock(current->mm);
	nr = get_user_pages_remote(current->mm, addr + 2 * PAGE_SIZE, 1,
				   FOLL_FORCE, &page, NULL);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_EQ(test, nr, 1);
	put_page(page);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all);
}

static void icache_write_clears(struct kunit *test)
{
	struct file *file = make_file(test);
	struct page *page;
	unsigned long addr;

	map_exec(test, file);
	addr = map_file(test, file, PROT_READ | PROT_WRITE, MAP_SHARED);

	write_file(test, file, 0, 1, 1);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all & ~BIT(0));

	KUNIT_ASSERT_EQ(test, get_user_pages_unlocked(addr + PAGE_SIZE, 1,
						      &page, FOLL_WRITE), 1);
	put_page(page);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all & ~GENMASK(1, 0));

	/* The next executable mapping makes good for it */
	map_exec(test, file);
}

/* New contents at new addresses: the flag may not come along. */
static void icache_migration_drops(struct kunit *test)
{
	struct folio *from, *to;

	if (IS_ENABLED(CONFIG_DEBUG_VM) && IS_ENABLED(CONFIG_MEMCG))
		kunit_skip(test, "CONFIG_DEBUG_VM wants charged folios");

	from = folio_alloc(GFP_KERNEL, 0);
	to = folio_alloc(GFP_KERNEL, 0);
	KUNIT_EXPECT_TRUE(test, from && to);
	if (from && to) {
		folio_lock(from);
		folio_lock(to);
		set_bit(PG_dcache_clean, &from->flags);
		folio_migrate_flags(to, from);
		KUNIT_EXPECT_FALSE(test, is_clean(to));
		clear_bit(PG_dcache_clean, &from->flags);
		folio_unlock(to);
		folio_unlock(from);
	}
	if (from)
		folio_put(from);
	if (to)
		folio_put(to);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* The parts of a folio are as clean as the whole, in both states. */
static void split(struct kunit *test, unsigned long prot, bool clean)
{
	unsigned long addr, i, nr_clean = 0;
	struct page *page;
	int ret;

	addr = memory_map_huge(test, prot);
	/* A split maps the zero page for what is zero */
	for (i = 0; i < HPAGE_PMD_NR; i++)
		KUNIT_ASSERT_EQ(test, 0,
				put_user(1, (char __user *)addr +
					    i * PAGE_SIZE));
	KUNIT_ASSERT_EQ(test, get_user_pages_unlocked(addr, 1, &page, 0), 1);
	KUNIT_EXPECT_EQ(test, is_clean(page_folio(page)), clean);

	if (IS_ENABLED(CONFIG_TRACEPOINTS))
		watch(test);
	lock_page(page);
	ret = split_huge_page(page);
	unlock_page(page);
	put_page(page);
	KUNIT_ASSERT_EQ(test, ret, 0);

	for (i = 0; i < HPAGE_PMD_NR; i++) {
		KUNIT_ASSERT_EQ(test,
				get_user_pages_unlocked(addr + i * PAGE_SIZE, 1,
							&page, 0), 1);
		KUNIT_EXPECT_EQ(test, folio_order(page_folio(page)), 0);
		nr_clean += is_clean(page_folio(page));
		put_page(page);
	}
	KUNIT_EXPECT_EQ(test, nr_clean, clean ? HPAGE_PMD_NR : 0);
	/* They are mapped again, by the split */
	KUNIT_EXPECT_EQ(test, seen.syncs, 0);
}

static void icache_split_keeps(struct kunit *test)
{
	split(test, PROT_READ | PROT_WRITE | PROT_EXEC, true);
	split(test, PROT_READ | PROT_WRITE, false);
}
#endif

#ifdef CONFIG_TRACEPOINTS
static bool has_idc(void)
{
	return cpus_have_final_cap(ARM64_HAS_CACHE_IDC);
}

static bool has_dic(void)
{
	return cpus_have_final_cap(ARM64_HAS_CACHE_DIC);
}

/*
 * A fault-around: each folio once, with what the CPU needs, and
 * nothing at all if it is clean. A write costs a sync of its own page.
 */
static void icache_once(struct kunit *test)
{
	struct file *file = make_file(test);
	unsigned long area, addr;
	unsigned int i;

	if (PAGE_SIZE != SZ_4K)
		kunit_skip(test, "a fault-around maps fewer pages");

	/* A page table that is there already, and the file next to it */
	area = kunit_vm_mmap(test, NULL, 0, 2 * PMD_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, area, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(area));
	area = ALIGN(area, PMD_SIZE);
	KUNIT_ASSERT_EQ(test, 0, put_user(1, (char __user *)area));
	addr = kunit_vm_mmap(test, file, area + FILE_SIZE, FILE_SIZE,
			     PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, 0);
	KUNIT_ASSERT_EQ(test, addr, area + FILE_SIZE);

	watch(test);
	touch(test, addr + FILE_SIZE / 2);
	KUNIT_EXPECT_EQ(test, clean_pages(test, file), all);
	KUNIT_EXPECT_EQ(test, seen.syncs, NR_PAGES);
	KUNIT_EXPECT_EQ(test, seen.rounds, 0);
	for (i = 0; i < min_t(unsigned int, seen.syncs, MAX_SYNCS); i++) {
		KUNIT_EXPECT_EQ(test, seen.sync[i].end - seen.sync[i].start,
				PAGE_SIZE);
		KUNIT_EXPECT_EQ(test, seen.sync[i].dc_bytes > 0, !has_idc());
		KUNIT_EXPECT_EQ(test, seen.sync[i].ic_bytes != 0, !has_dic());
	}

	watch(test);
	map_exec(test, file);
	KUNIT_EXPECT_EQ(test, seen.syncs, 0);

	/* One page has new contents */
	write_file(test, file, 3 * PAGE_SIZE, 1, 1);
	watch(test);
	map_exec(test, file);
	KUNIT_EXPECT_EQ(test, seen.syncs, 1);
}

/* A large folio: the I-cache as a whole, or line by line. */
static void icache_large(struct kunit *test)
{
	static const unsigned long sizes[] = { SZ_512K, SZ_1M };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct folio *folio = folio_alloc(GFP_KERNEL,
						  get_order(sizes[i]));

		if (!folio)
			kunit_skip(test, "no %lu bytes in a row", sizes[i]);
		watch(test);
		__sync_icache_dcache(pfn_pte(folio_pfn(folio), PAGE_KERNEL));
		__sync_icache_dcache(pfn_pte(folio_pfn(folio), PAGE_KERNEL));
		KUNIT_EXPECT_TRUE(test, is_clean(folio));
		KUNIT_EXPECT_EQ(test, seen.syncs, 1);
		KUNIT_EXPECT_EQ(test, seen.sync[0].dc_bytes > 0, !has_idc());
		if (has_dic())
			KUNIT_EXPECT_EQ(test, seen.sync[0].ic_bytes, 0);
		else if (sizes[i] < SZ_1M)
			KUNIT_EXPECT_EQ(test, seen.sync[0].ic_bytes, sizes[i]);
		else
			KUNIT_EXPECT_EQ(test, seen.sync[0].ic_bytes, -1);
		folio_put(folio);
	}
}

/* Loading a module: its text and nothing else, and one round for all of it. */
static void icache_module(struct kunit *test)
{
	struct module *mod = kunit_kzalloc(test, sizeof(*mod), GFP_KERNEL);
	unsigned int i, text = 0;

	KUNIT_ASSERT_NOT_NULL(test, mod);
	for_each_mod_mem_type(type) {
		struct module_memory *mem = &mod->mem[type];

		mem->size = (type + 1) * PAGE_SIZE;
		mem->base = vmalloc(mem->size);
		KUNIT_EXPECT_NOT_NULL(test, mem->base);
		if (!mem->base)
			mem->size = 0;
	}

	watch(test);
	flush_module_icache(mod);
	KUNIT_EXPECT_EQ(test, seen.syncs,
			IS_ENABLED(CONFIG_STRICT_MODULE_RWX) ? 2 :
			MOD_MEM_NUM_TYPES);
	KUNIT_EXPECT_EQ(test, seen.rounds, 1);
	for_each_mod_mem_type(type) {
		const struct module_memory *mem = &mod->mem[type];

		for (i = 0; i < min_t(unsigned int, seen.syncs, MAX_SYNCS); i++)
			if (mod_mem_type_is_text(type) &&
			    seen.sync[i].start == (unsigned long)mem->base &&
			    seen.sync[i].end == seen.sync[i].start + mem->size)
				text++;
	}
	KUNIT_EXPECT_EQ(test, text, 2);

	/* Nothing to execute, nothing to do */
	for_each_mod_mem_type(type) {
		struct module_memory *mem = &mod->mem[type];

		if (mod_mem_type_is_text(type) ||
		    !IS_ENABLED(CONFIG_STRICT_MODULE_RWX))
			mem->size = 0;
	}
	watch(test);
	flush_module_icache(mod);
	KUNIT_EXPECT_EQ(test, seen.syncs, 0);
	KUNIT_EXPECT_EQ(test, seen.rounds, 0);

	for_each_mod_mem_type(type)
		vfree(mod->mem[type].base);
}

#else
static void icache_counts(struct kunit *test)
{
	kunit_skip(test, "needs CONFIG_TRACEPOINTS to count syncs");
}
#endif /* CONFIG_TRACEPOINTS */

static struct kunit_case cases[] = {
	KUNIT_CASE(icache_exec_is_clean),
	KUNIT_CASE(icache_read_keeps),
	KUNIT_CASE(icache_write_clears),
	KUNIT_CASE(icache_migration_drops),
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	KUNIT_CASE(icache_split_keeps),
#endif
#ifdef CONFIG_TRACEPOINTS
	KUNIT_CASE(icache_once),
	KUNIT_CASE(icache_large),
	KUNIT_CASE(icache_module),
#else
	KUNIT_CASE(icache_counts),
#endif
	{}
};

#else

static void icache_unavailable(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_ARM64))
		kunit_skip(test, "this suite is about arm64");
	KUNIT_FAIL(test, "no ARCH_HAS_ICACHE_CLEAN_FLAG: the series is not applied");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(icache_unavailable),
	{}
};

#endif

static struct kunit_suite suite = {
	.name = "pteopt_icache",
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of icache synchronisation");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
