// SPDX-License-Identifier: GPL-2.0
#define ANSWER	2
#include "icache_code.h"
