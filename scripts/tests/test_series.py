# SPDX-License-Identifier: GPL-2.0
"""When a series counts as changed."""
import unittest

import series

PATCH = b"""Subject: [PATCH 1/1] mm: do good

diff --git a/mm/x.c b/mm/x.c
index 6d7e2c92..806e2d83 100644
--- a/mm/x.c
+++ b/mm/x.c
@@ -525,3 +525,3 @@ void f(void)
 	here();
-	good();
+	bad();
 	there();
"""
MOVED = PATCH.replace(b"6d7e2c92..806e2d83", b"300a8ad4..ade9884b") \
    .replace(b"-525,3 +525,3", b"-533,3 +541,3")


class Refresh(unittest.TestCase):
    def differing(self, new, same_source):
        return series.differing({"1": PATCH}, new, same_source)

    def test_same(self):
        for same_source in (True, False):
            self.assertEqual(self.differing({"1": PATCH}, same_source), [])

    def test_moved_lines_are_a_change_of_the_same_source_only(self):
        self.assertEqual(self.differing({"1": MOVED}, True), ["1"])
        self.assertEqual(self.differing({"1": MOVED}, False), [])

    def test_changes_are_seen_in_another_source(self):
        for old, new in ((b"+\tbad", b"+\tworse"), (b"f(void)", b"g(void)"),
                         (b"do good", b"do better"), (b" 100644", b" 100755")):
            self.assertEqual(self.differing({"1": MOVED.replace(old, new)},
                                            False), ["1"], new)

    def test_missing_and_new_patches(self):
        self.assertEqual(self.differing({"2": PATCH}, False), ["1", "2"])


if __name__ == "__main__":
    unittest.main()
