# SPDX-License-Identifier: ISC
"""Rows of the one table that `make bench` prints: what was measured, our figure, what it is
compared with, the ratio (more is better, whatever the unit), and what is asked for."""
import statistics

WIDTHS = (58, 12, 32, 7)


def line(what, ours, beside="", ratio="", asked="", met=True):
    print("%-*s %*s %*s %*s  %s%s" % (WIDTHS[0], what, WIDTHS[1], ours, WIDTHS[2], beside, WIDTHS[3], ratio, asked,
                                      "" if met else "  NOT MET"), flush=True)


def head(title):
    print("\n" + title)
    line("what", "ours", "beside", "ratio", "asked")


def figure(v, unit):
    if unit == "B/s":
        return "%.2f GB/s" % (v / 1e9)
    if unit == "s":
        return "%.1f us" % (v * 1e6) if v < 1e-3 else "%.3g ms" % (v * 1e3) if v < 1 else "%.3g s" % v
    if unit == "rows/s":
        return "%.1f M/s" % (v / 1e6)
    return "%.3g %s" % (v, unit)


def row(what, ours, unit, rival=None, name="", asked=None, ratio=None):
    """Of times, less is better: the ratio is the rival's to ours.  asked: a ratio."""
    beside = text = ""
    if rival:
        beside = "%s %s" % (name, figure(rival, unit))
        ratio = ratio or (rival / ours if unit == "s" else ours / rival)
        text = "%.2f" % ratio
    line(what, figure(ours, unit), beside, text, "" if asked is None else "%.3g" % asked, asked is None or ratio >= asked)


class Turns:
    """What is measured by turns, so that a slow moment of the machine falls on all alike."""

    def __init__(self, rounds):
        self.rounds, self.jobs, self.seen = rounds, [], {}

    def add(self, key, measure):
        """measure(): a number, or None where it cannot be had."""
        self.jobs.append((key, measure))

    def run(self):
        for _ in range(self.rounds):
            for key, measure in self.jobs:
                v = measure()
                if v is not None:
                    self.seen.setdefault(key, []).append(v)
        self.jobs = []

    def __getitem__(self, key):
        return statistics.median(self.seen[key]) if key in self.seen else None
