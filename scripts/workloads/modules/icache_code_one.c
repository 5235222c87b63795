// SPDX-License-Identifier: GPL-2.0
#define ANSWER	1
#include "icache_code.h"
