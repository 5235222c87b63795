# SPDX-License-Identifier: GPL-2.0
"""What orderlog.py says about orders of stores, TLBIs and barriers."""
import unittest

import lib
import orderlog
from orderlog import (CONT, DBM, RDONLY, USER, UXN, VALID, Event, Machine,
                      read_machine)

BASE = 0xffff000001356000
RW = VALID | USER | DBM | UXN
RO = VALID | USER | RDONLY | UXN
RX = VALID | USER | RDONLY
# str x21, [x22], #8; str xzr, [x28]; swp x0, x1, [x2]; stp xzr, xzr, [x0]
STORE, CLEAR, SWAP, PAIR = 0xf80086d5, 0xf900039f, 0xf8208041, 0xa9007c1f


def step(before: int, after: int) -> orderlog.OrderStep:
    def entries(bits: int) -> tuple[int, ...]:
        return tuple(bits | i << 12 for i in range(16))
    return orderlog.OrderStep("a/b", (
        orderlog.Block(BASE, entries(before), entries(after)),))


def stores(opcode: int, kind: str = "store", nr: int = 16) -> list[Event]:
    return [Event(kind, opcode, BASE + 8 * i) for i in range(nr)]


FLUSH = [Event("dsb"), Event("tlbi"), Event("dsb")]
SYNC = [Event("dc"), Event("dc"), Event("dsb"), Event("ic"), Event("ic"),
        Event("dsb")]


class Order(unittest.TestCase):
    def judge(self, before, after, events, cont, tlbis=None):
        if tlbis is None:
            tlbis = sum(e.kind == "tlbi" for e in events)
        return orderlog.problems(step(before, after), events, (tlbis, cont))

    def good(self, *args):
        self.assertEqual(self.judge(*args), [])

    def bad(self, text, *args):
        found = self.judge(*args)
        self.assertEqual(len(found), 1, found)
        self.assertIn(text, found[0])

    def test_in_place(self):
        self.good(RW | CONT, RO | CONT, stores(STORE) + FLUSH, "yes")

    def test_fold_by_break_before_make(self):
        self.good(RW, RO | CONT, stores(STORE) + stores(CLEAR) + FLUSH
                  + stores(STORE) + FLUSH, "yes")

    def test_live_change_where_cpus_can_stand_it(self):
        for events, wrong in ((stores(STORE), []),
                              (stores(CLEAR) + FLUSH + stores(STORE),
                               ["it was cleared, where it could change in "
                                "place", "1 flushes, expected 0"])):
            found = orderlog.problems(step(RW, RW | CONT), events, (0, "yes"),
                                      Machine(live=True))
            self.assertEqual([text.rpartition(": ")[2] for text in found],
                             wrong)

    def test_live_change_has_one_tlbi_at_most(self):
        self.assertEqual(orderlog.problems(
            step(RW, RO | CONT), stores(STORE) + stores(STORE) + FLUSH,
            (2, "yes"), Machine(live=True)), [])

    def test_cleared_by_pairs_or_swaps(self):
        for events in (stores(PAIR), stores(SWAP, "atomic")):
            self.good(RW, RW | CONT, events + FLUSH + stores(STORE), "yes")

    def test_cleared_and_set_without_a_tlbi_between(self):
        # A batch that takes all entries out, and chooses CONT as it puts them
        # back; the flush comes at the end of the call.
        self.bad("contiguous bit", RW, RO | CONT, stores(SWAP, "atomic")
                 + stores(STORE) + FLUSH, "yes")

    def test_contiguous_bit_flipped_in_place(self):
        self.bad("contiguous bit", RW, RW | CONT,
                 stores(STORE) + FLUSH + stores(STORE), "yes")

    def test_no_barrier_behind_the_tlbi(self):
        self.bad("contiguous bit", RW, RW | CONT, stores(CLEAR)
                 + [Event("dsb"), Event("tlbi")] + stores(STORE)
                 + [Event("dsb")], "yes")

    def test_one_entry_cleared_too_late(self):
        events = stores(CLEAR, nr=15) + FLUSH + \
            [Event("store", CLEAR, BASE + 8 * 15)] + stores(STORE)
        found = self.judge(RW, RW | CONT, events, "yes")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("entries 0:15: the contiguous"))

    def test_to_and_from_none_needs_no_break(self):
        self.good(RW | CONT, UXN, stores(STORE) + FLUSH, "no")
        self.good(UXN, RW | CONT, stores(STORE), "yes")

    def test_flush_before_the_last_store(self):
        self.bad("lost write", RW | CONT, RO | CONT, FLUSH + stores(STORE),
                 "yes")

    def test_no_flush(self):
        self.bad("lost read, write", RW | CONT, UXN, stores(STORE), "no")

    def test_grant_needs_no_flush(self):
        self.good(RO | CONT, RW | CONT, stores(STORE), "yes")

    def test_synced_before_it_is_executable(self):
        self.good(RW | CONT, RX | CONT, SYNC + stores(STORE) + FLUSH, "yes")

    def test_executable_too_early(self):
        for events in (stores(STORE) + SYNC + FLUSH,
                       SYNC[:-1] + stores(STORE) + FLUSH,
                       [e for e in SYNC if e.kind != "dc"] + stores(STORE)
                       + FLUSH,
                       SYNC[2:] + SYNC[:2] + stores(STORE) + FLUSH,
                       SYNC[:2] + SYNC[3:] + stores(STORE) + FLUSH):
            self.bad("became executable", RW | CONT, RX | CONT, events, "yes")

    def test_sync_of_one_block_is_not_that_of_another(self):
        first, second = step(RW, RX).blocks[0], step(RW, RX).blocks[0]
        second = orderlog.Block(BASE + 128, second.before, second.after)
        both = orderlog.OrderStep("a/b", (first, second))
        later = [Event("store", STORE, BASE + 128 + 8 * i) for i in range(16)]
        for events, bad in ((SYNC + stores(STORE) + SYNC + later, 0),
                            (SYNC + stores(STORE) + later, 1)):
            found = orderlog.problems(both, events + FLUSH, (1, "no no"))
            self.assertEqual(len(found), bad, found)

    def test_what_coherent_caches_need(self):
        idc = "detected: Data cache clean to the PoU not required for I/D"
        dic = "detected: Instruction cache invalidation not required for I/D"
        for log, sync in (("", ("dc", "dsb", "ic", "dsb")),
                          (idc, ("dsb", "ic", "dsb")),
                          (idc + dic, ("dsb",))):
            machine = read_machine(log)
            self.assertEqual(machine.sync, sync)
            found = orderlog.problems(
                step(RW, RX), [Event(kind) for kind in sync] + stores(STORE)
                + FLUSH, (1, "no"), machine)
            self.assertEqual(found, [])

    def test_store_not_seen(self):
        self.bad("no store", RO | CONT, RW | CONT, stores(STORE, nr=15), "yes")

    def test_one_flush_too_many(self):
        self.bad("2 flushes, expected 1", RW | CONT, RO | CONT,
                 stores(STORE) + FLUSH + FLUSH, "yes", 1)

    def test_block_lost(self):
        self.bad("contpte afterwards: no, expected yes", RO, RW, stores(STORE),
                 "yes")

    def test_mixed_block(self):
        block = orderlog.Block(BASE, (0,) * 16, (RW | CONT,) * 15 + (RW,))
        self.assertEqual(orderlog.is_cont(block), "mixed")

    def test_unknown_step(self):
        found = orderlog.problems(step(RW, RW), [], None)
        self.assertEqual(found, ["EXPECTED has no such step"])


class Opcodes(unittest.TestCase):
    def test_clears(self):
        for opcode in (CLEAR, SWAP, PAIR, 0xf800841f, 0xa8810000 | 31 << 10
                       | 31):
            self.assertTrue(orderlog.clears(opcode), hex(opcode))
        # str x0; cas; stp x0, xzr; str wzr
        for opcode in (STORE, 0xc8a07c41, 0xa9007c00, 0xb900001f):
            self.assertFalse(orderlog.clears(opcode), hex(opcode))


class Parse(unittest.TestCase):
    def lines(self, when="after", n=16):
        entries = " ".join(["0x1"] * n)
        return ["@@ order a/b", f"before 0 0x1000 {entries}",
                f"{when} 0 0x1000 {entries}"]

    def test_steps(self):
        steps = orderlog.parse_steps(["noise", *self.lines()])
        self.assertEqual(steps[0].name, "a/b")
        self.assertEqual(steps[0].blocks[0].where, 0x1000)
        self.assertEqual(len(steps[0].blocks[0].after), 16)

    def test_garbled_steps(self):
        for lines in (self.lines(n=15), self.lines(when="before")[:1]):
            with self.assertRaises(lib.Fail):
                orderlog.parse_steps(lines)

    def test_log(self):
        log = orderlog.parse_log(
            "seq\tvcpu\tclass\topcode\tsymbol\tpc\tinterval\tvaddr\n"
            "0\t0\ttlbi\td50882a6\tf\t0x1\t-\t-\n"
            "1\t0\tstore\tf900039f\tf\t0x2\t3\t0xffff000000b1e008\n"
            "2\t0\ttlbi\td508832a\t__purge_vmap_area_lazy\t0x3\t3\t-\n")
        self.assertEqual(log, {3: [Event("store", CLEAR,
                                         0xffff000000b1e008)]})
        with self.assertRaises(lib.Fail):
            orderlog.parse_log("head\n1\t0\tstore\n")


if __name__ == "__main__":
    unittest.main()
