// SPDX-License-Identifier: GPL-2.0
/*
 * Page table entries of user memory as they are in memory, for tests in user
 * space: while the module is loaded, debugfs has a file, pteopt_entries, with
 * two 64-bit words for each page of the reader's address space:
 *
 *   the leaf entry that maps the page, or 0 if there is none
 *   the kernel address of that entry, by which a log of stores tells it
 *
 * Nothing is gathered over a contpte block. The case of the suite compares what
 * the file would say with what the kernel knows of the page.
 */

#include <kunit/test.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "memory.h"

#ifdef change_prot_ptes

struct entry {
	u64 value;
	u64 where;
};

/* With the mmap lock held for writing, no table is taken away. */
static struct entry read_entry(struct mm_struct *mm, unsigned long addr)
{
	struct entry e = {};
	pgd_t *pgd;
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t *pte;

	mmap_assert_write_locked(mm);
	pgd = pgd_offset(mm, addr);
	if (pgd_none(*pgd))
		return e;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return e;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud))
		return e;
	if (pud_leaf(*pud))
		return (struct entry){ pud_val(*pud), (uintptr_t)pud };
	pmd = pmd_offset(pud, addr);
	if (pmd_none(*pmd))
		return e;
	if (pmd_leaf(*pmd))
		return (struct entry){ pmd_val(*pmd), (uintptr_t)pmd };
	pte = pte_offset_kernel(pmd, addr);
	return (struct entry){ pte_val(READ_ONCE(*pte)), (uintptr_t)pte };
}

static ssize_t entries_read(struct file *file, char __user *to, size_t count,
			    loff_t *pos)
{
	struct mm_struct *mm = current->mm;
	unsigned long page = *pos / sizeof(struct entry);
	size_t done = 0;

	if (!mm || *pos % sizeof(struct entry) || count % sizeof(struct entry))
		return -EINVAL;

	while (done < count && page < TASK_SIZE >> PAGE_SHIFT) {
		struct entry e;

		if (mmap_write_lock_killable(mm))
			return -EINTR;
		e = read_entry(mm, page << PAGE_SHIFT);
		mmap_write_unlock(mm);
		if (copy_to_user(to + done, &e, sizeof(e)))
			return -EFAULT;
		done += sizeof(e);
		page++;
	}
	*pos += done;
	return done;
}

static const struct file_operations entries_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = entries_read,
	.llseek = default_llseek,
};

static struct dentry *entries_file;

static int __init entries_init(void)
{
	entries_file = debugfs_create_file("pteopt_entries", 0400, NULL, NULL,
					   &entries_fops);
	return PTR_ERR_OR_ZERO(entries_file);
}
module_init(entries_init);

static void __exit entries_exit(void)
{
	debugfs_remove(entries_file);
}
module_exit(entries_exit);

static void entries_of_pages(struct kunit *test)
{
	struct mm_struct *mm;
	unsigned long addr;
	struct page *page;
	struct entry e[2];

	addr = memory_map(test, 2 * PAGE_SIZE);
	mm = current->mm;
	KUNIT_ASSERT_EQ(test, 0, put_user(1, (char __user *)addr));
	KUNIT_ASSERT_EQ(test, 1, get_user_pages_fast(addr, 1, 0, &page));

	mmap_write_lock(mm);
	e[0] = read_entry(mm, addr);
	e[1] = read_entry(mm, addr + PAGE_SIZE);
	mmap_write_unlock(mm);

	KUNIT_EXPECT_TRUE(test, pte_present(__pte(e[0].value)));
	KUNIT_EXPECT_TRUE(test, pte_write(__pte(e[0].value)));
	KUNIT_EXPECT_EQ(test, pte_pfn(__pte(e[0].value)), page_to_pfn(page));
	KUNIT_EXPECT_EQ(test, pte_val(READ_ONCE(*(pte_t *)e[0].where)),
			e[0].value);
	/* The neighbour was not touched. */
	KUNIT_EXPECT_EQ(test, e[1].value, 0);
	put_page(page);
}

#else /* !change_prot_ptes */

static void entries_of_pages(struct kunit *test)
{
	KUNIT_FAIL(test, "this kernel has no change_prot_ptes()");
}

#endif /* change_prot_ptes */

static struct kunit_case entries_cases[] = {
	KUNIT_CASE(entries_of_pages),
	{}
};

static struct kunit_suite entries_suite = {
	.name = "pteopt_entries",
	.test_cases = entries_cases,
};
kunit_test_suite(entries_suite);

MODULE_DESCRIPTION("Raw page table entries for tests in user space");
MODULE_LICENSE("GPL");
