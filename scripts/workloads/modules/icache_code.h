/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A module whose code says who it is: ANSWER, to each CPU when it is loaded, and
 * to whoever reads the parameter `answer`. Two of them, loaded in turn, put other
 * code where the CPUs have run the last one's: see modules.c of the stress programs.
 */
#include <linux/compiler.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/smp.h>
#include <linux/sysfs.h>

static int expected;
module_param(expected, int, 0444);
MODULE_PARM_DESC(expected, "what the code has to answer");

static atomic_t wrong, runs;

/* In the text and nowhere else */
static noinline int answer(void)
{
	int value = ANSWER;

	OPTIMIZER_HIDE_VAR(value);
	return value;
}

static int answer_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", answer());
}

static const struct kernel_param_ops answer_ops = { .get = answer_get };
module_param_cb(answer, &answer_ops, NULL, 0444);
MODULE_PARM_DESC(answer, "what the code does answer");

static void ask(void *unused)
{
	atomic_inc(&runs);
	if (answer() != expected)
		atomic_inc(&wrong);
}

static int __init icache_code_init(void)
{
	cpus_read_lock();
	on_each_cpu(ask, NULL, 1);
	if (atomic_read(&runs) != num_online_cpus())
		atomic_inc(&wrong);
	cpus_read_unlock();
	return atomic_read(&wrong) ? -EILSEQ : 0;
}
module_init(icache_code_init);

static void __exit icache_code_exit(void)
{
}
module_exit(icache_code_exit);

MODULE_DESCRIPTION("pteopt: a module whose code says who it is");
MODULE_LICENSE("GPL");
