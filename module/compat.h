/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that asks what the kernel is: by what a header defines where
 * that is possible, else by version.
 */
#ifndef PTEOPT_COMPAT_H
#define PTEOPT_COMPAT_H

#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/version.h>

#if KERNEL_VERSION(6, 12, 0) > LINUX_VERSION_CODE
#error "pteopt needs 6.12 or later: ptep_lockptr(), mTHP, batched PTE helpers"
#endif

/*
 * On a debug kernel of the series the inline helpers call into it. It exports
 * that to tests only.
 */
#if KERNEL_VERSION(6, 13, 0) > LINUX_VERSION_CODE
#define PTEOPT_IMPORT_NS	MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING)
#else
#define PTEOPT_IMPORT_NS	MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING")
#endif

#endif /* PTEOPT_COMPAT_H */
