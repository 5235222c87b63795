# SPDX-License-Identifier: GPL-2.0
"""Guests of several machines, one of which is started ahead."""
import unittest

import boot
from lib import Fail


class FakeGuest:
    """Writes down what is done to it."""

    def __init__(self, name, log):
        self.name, self.log, self.process, self.killed = name, log, self, False

    def start(self):
        self.log.append(f"start {self.name}")

    def wait(self):
        self.log.append(f"wait {self.name}")
        return self.name

    def poll(self):
        return 0 if f"wait {self.name}" in self.log else None

    def kill(self):
        self.log.append(f"kill {self.name}")


class OneAhead(unittest.TestCase):
    def setUp(self):
        self.log = []

    def make(self, name):
        if name == "bad":
            raise Fail(2, "no kernel", "it does not build")
        return FakeGuest(name, self.log)

    def test_the_next_one_runs_meanwhile(self):
        found = [outcome() for _, outcome in boot.one_ahead("ab", self.make)]
        self.assertEqual(found, ["a", "b"])
        self.assertEqual(self.log, ["start a", "start b", "wait a", "wait b"])

    def test_no_more_than_two_at_a_time(self):
        running = 0
        for _, outcome in boot.one_ahead("abcd", self.make):
            running = sum(line.startswith("start") for line in self.log) - \
                sum(line.startswith("wait") for line in self.log)
            self.assertLessEqual(running, 2)
            outcome()

    def test_one_without_a_guest_does_not_stop_the_others(self):
        found = []
        for _, outcome in boot.one_ahead(["a", "bad", "b"], self.make):
            try:
                found.append(outcome())
            except Fail as fail:
                found.append(fail.what)
        self.assertEqual(found, ["a", "no kernel", "b"])

    def test_none_is_left_behind(self):
        for _, outcome in boot.one_ahead("ab", self.make):
            break
        self.assertEqual(self.log[-2:], ["kill a", "kill b"])


if __name__ == "__main__":
    unittest.main()
