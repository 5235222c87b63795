// SPDX-License-Identifier: GPL-2.0
/* @NAME@: what behaviour this suite proves, and what makes it fail. */

#include <kunit/test.h>
#include <linux/module.h>

/* One behaviour each; the name says condition and result. */
static void condition_result(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, true);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(condition_result),
	{}
};

static struct kunit_suite suite = {
	.name = "pteopt_@NAME@",
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("pteopt: KUnit tests of @NAME@");
MODULE_LICENSE("GPL");
