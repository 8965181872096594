#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""trace_check.py TRACE NAME...: checks that a trace is well-formed for Chrome, has these processes, and that its
spans fit together as those of one cluster.  Prints the workers' share of each phase as JSON."""
import bisect
import collections
import json
import sys

trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
assert sorted(set(names.values())) == sorted(sys.argv[2:]), sorted(names.values())
threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}

# Events are sorted; times and durations are not negative; every thread has a name.
timed = [e for e in events if e["ph"] != "M"]
assert timed, "no spans"
assert all(a["ts"] <= b["ts"] for a, b in zip(timed, timed[1:]))
assert all(e["ts"] >= 0 and e.get("dur", 0) >= 0 for e in timed)
assert {(e["pid"], e["tid"]) for e in timed} <= threads

# Spans of a thread are nested or disjoint.  Times have three decimals.
spans = collections.defaultdict(list)
for e in timed:
    if e["ph"] == "X":
        e["from"], e["to"] = round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)
        spans[e["pid"], e["tid"]].append(e)
for of in spans.values():
    stack = []
    for e in of:
        while stack and stack[-1]["to"] <= e["from"]:
            stack.pop()
        if stack:
            assert e["to"] <= stack[-1]["to"], (stack[-1], e)
            e["parent"] = stack[-1]
        stack.append(e)

# A worker's step consists of its phases, without gaps; steps do not overlap.
workers = {p for p, n in names.items() if n.startswith("worker")}
servers = {p for p, n in names.items() if n.startswith("server")}
share = collections.Counter()
for pid in workers:
    steps = [e for e in spans[pid, 1] if e["name"] == "step"]
    assert len(steps) > 3 and all(a["to"] <= b["from"] for a, b in zip(steps, steps[1:])), names[pid]
    assert all(a["args"]["step"] < b["args"]["step"] for a, b in zip(steps, steps[1:]))
    parts = collections.defaultdict(list)
    for e in spans[pid, 1]:
        if e["name"] != "step":
            assert e["name"] in ("wait", "data", "pull", "compute", "push"), e
            assert e["parent"]["args"]["step"] == e["args"]["step"]
            parts[e["args"]["step"]].append(e)
            share[e["name"]] += e["to"] - e["from"]
    for s in steps:
        inside = parts[s["args"]["step"]]
        assert inside[0]["from"] == s["from"] and inside[-1]["to"] == s["to"]
        assert all(a["to"] == b["from"] for a, b in zip(inside, inside[1:]))

# Each flow goes from a worker's step to that step's end at a server, where it ends in a span.
flows = collections.defaultdict(dict)
for e in timed:
    if e["ph"] in "stf":
        flows[e["id"]][e["ph"]] = e
assert flows
index = collections.defaultdict(dict)
for (pid, tid), of in spans.items():
    for e in of:
        index[pid, tid].setdefault(e["name"], []).append(e)


start = {(place, name): [e["from"] for e in of] for place, by_name in index.items() for name, of in by_name.items()}


def holds(e, name):
    """Return the step of the span of this name that contains e."""
    place, at = (e["pid"], e["tid"]), round(e["ts"] * 1000)
    i = bisect.bisect_right(start[place, name], at)
    # A span without duration may begin where another one ends.
    found = [x for x in index[place][name][max(0, i - 2) : i] if at <= x["to"]]
    assert found, e
    return {x["args"]["step"] for x in found}


reached = collections.defaultdict(set)
for flow in flows.values():
    s, f = flow["s"], flow["f"]
    assert s["pid"] in workers and f["pid"] in servers
    step = holds(s, "step") & holds(f, "barrier")
    assert step, flow
    if "t" in flow:
        assert flow["t"]["pid"] == f["pid"] and step & holds(flow["t"], "apply")
    reached[s["pid"]].add(f["pid"])
assert all(reached[w] == servers for w in workers), reached

# A server gets the first push of a step after a worker has begun it: the clocks are aligned.
begun = {}
for pid in workers:
    for e in index[pid, 1]["step"]:
        begun[e["args"]["step"]] = min(begun.get(e["args"]["step"], e["from"]), e["from"])
pairs = [(begun[e["args"]["step"]], e["from"]) for (pid, tid), of in index.items() for e in of.get("apply", [])
         if e["args"]["step"] in begun]
late = sum(a <= b for a, b in pairs)
assert late > 0.95 * len(pairs), (late, len(pairs))

total = sum(share.values())
print(json.dumps({"shares": {k: v / total for k, v in share.items()}, "steps": len(begun), "flows": len(flows)}))
