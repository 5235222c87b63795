// SPDX-License-Identifier: GPL-2.0
/* A page of text, a page of text for init, and 1 MiB of data: see icache.c */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sizes.h>

static char data[SZ_1M];

static int at;
module_param(at, int, 0444);
MODULE_PARM_DESC(at, "which byte of the data to write");

static int __init icache_load_init(void)
{
	if (at < 0 || at >= SZ_1M)
		return -EINVAL;
	data[at] = 1;
	return 0;
}
module_init(icache_load_init);

static void __exit icache_load_exit(void)
{
	WARN_ON(data[at] != 1);
}
module_exit(icache_load_exit);

MODULE_DESCRIPTION("pteopt: a module whose data is much larger than its text");
MODULE_LICENSE("GPL");
