// SPDX-License-Identifier: GPL-2.0
/*
 * pteopt - shows page tables, and runs and counts the operations on them
 *
 * /sys/kernel/debug/pteopt/, for root:
 *	walk	the entries of a range of a process, decoded
 *	run	one operation, many times, on a private mapping
 *	poke	replaces an entry; only there with poke=1, which taints
 * and the trace events of events.c.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/panic.h>

#include "pteopt.h"

static bool poke;
module_param(poke, bool, 0400);
MODULE_PARM_DESC(poke, "Allow raw writes to page tables, for tests; taints the kernel (default: N)");

module_param_named(helper, pteopt_helper, charp, 0400);
MODULE_PARM_DESC(helper, "Program that the exec operation runs (default: /bin/true)");

static struct dentry *pteopt_dir;

static int __init pteopt_init(void)
{
	int ret = pteopt_run_init();

	if (ret)
		return ret;
	pteopt_dir = debugfs_create_dir("pteopt", NULL);
	if (IS_ERR(pteopt_dir)) {
		pteopt_run_exit();
		return PTR_ERR(pteopt_dir);
	}
	pteopt_file_create(pteopt_dir, &pteopt_walk_file);
	pteopt_file_create(pteopt_dir, &pteopt_run_file);
	if (poke) {
		pr_warn("pteopt: poke=1: anything can be written to page tables, the kernel is tainted\n");
		add_taint(TAINT_USER, LOCKDEP_STILL_OK);
		pteopt_file_create(pteopt_dir, &pteopt_poke_file);
	}

	return 0;
}
module_init(pteopt_init);

static void __exit pteopt_exit(void)
{
	debugfs_remove(pteopt_dir);
	pteopt_run_exit();
}
module_exit(pteopt_exit);

MODULE_DESCRIPTION("View of page tables, and operations on them one by one");
MODULE_LICENSE("GPL");
PTEOPT_IMPORT_NS;
