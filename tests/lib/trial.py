#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""Makes inputs for reference.py and for pskit, and compares their results.

  trial.py make --model mlp --examples 200 --features 6 --classes 3 --hidden 7,5 [--sparse]
      x.npy, y.npy, data.csv (or data.svm), init.safetensors in the current directory
  trial.py batches --examples 200 --batch 6 --ranks 3 --steps 200 --seed 1 > batches.txt
      the order of ps-consistency(7): which rank trains on which examples at which step
  trial.py compare CASES
      prints the largest difference for each line "ours.safetensors [options of reference.py]";
      exits with 1 when one is above the bound
"""

import argparse
import contextlib
import sys

import numpy as np

import reference
from reference import safetensors_load, safetensors_save

MASK = (1 << 64) - 1

# The defaults of job.factors and job.cross.
FACTORS, CROSS = 8, 2

# |ours - reference| <= 1e-5 * max(|reference|, 0.1).  Parameters here are of
# size 1; each step adds a single-precision rounding of the gradient, which does
# not shrink with the parameter, so below 0.1 the bound is absolute: 1e-6.
RELATIVE, FLOOR = 1e-5, 0.1


# --- the order of examples, from ps-consistency(7) alone ------------------------


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def rotl(x, k):
    return (x << k | x >> (64 - k)) & MASK


class Xoshiro:
    def __init__(self, seed):
        self.s = [mix((seed + i * 0x9E3779B97F4A7C15) & MASK) for i in range(4)]

    def next(self):
        s = self.s
        out = (rotl(s[1] * 5 & MASK, 7) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return out


def order(seed, epoch, n):
    bits = max(10, (n - 1).bit_length())
    r = Xoshiro(mix(mix(seed) ^ epoch))
    keys = [r.next() for _ in range(6)]

    def example(x):
        while True:
            for k in keys:
                x = (x ^ k) * (k >> 32 | 1) % (1 << bits)
                x ^= x >> (bits + 1) // 2
            if x < n:
                return x

    return [example(i) for i in range(n)]


def batches(o):
    step, epoch = 0, 0
    while step < o.steps:
        rows, at = order(o.seed, epoch, o.examples), 0
        while at < o.examples and step < o.steps:
            for rank in range(o.ranks):
                print(step, rank, *rows[at:at + o.batch])
                at += o.batch
            step += 1
        epoch += 1


# --- data --------------------------------------------------------------------------


def shapes(o):
    if o.model in ("linear", "logistic"):
        return {"w": (o.features, 1), "b": (1, 1)}
    if o.model == "softmax":
        return {"w": (o.features, o.classes), "b": (1, o.classes)}
    fields = o.features * FACTORS
    widths = [fields, *o.hidden, 1] if o.model == "dcn" else [o.features, *o.hidden, o.classes]
    layers = {name + str(i): (widths[i] if name == "w" else 1, widths[i + 1])
              for i in range(len(widths) - 1) for name in "wb"}
    if o.model == "dcn":
        layers.update(v=(o.features, FACTORS), cross=(fields, 1))
        for i in range(CROSS):
            layers.update({f"cross_w{i}": (fields, fields), f"cross_b{i}": (1, fields)})
    return layers


def make(o):
    rng = np.random.default_rng(3)
    x = np.float32(np.round(rng.normal(size=(o.examples, o.features)), 4))
    if o.sparse:
        x *= rng.random(x.shape) < 0.3
        x[np.arange(o.examples), np.arange(o.examples) % o.features] = 1
    teacher = rng.normal(size=(o.features, o.classes if o.classes else 1))
    f = x @ teacher + 0.3 * rng.normal(size=(o.examples, teacher.shape[1]))
    if o.model == "linear":
        y = np.float32(np.round(f[:, 0], 4))
    elif o.model in ("logistic", "dcn"):
        y = (f[:, 0] > 0).astype(np.int64)
    else:
        y = f.argmax(axis=1)
    np.save("x.npy", x)
    np.save("y.npy", y)
    if o.sparse:
        with open("data.svm", "w") as out:
            for row, label in zip(x, y):
                print(label, *(f"{i + 1}:{v:.9g}" for i, v in enumerate(row) if v), file=out)
    else:
        with open("data.csv", "w") as out:
            for row, label in zip(x, y):
                print(*(f"{v:.9g}" for v in row), label, sep=",", file=out)
    # The products of dcn would grow.
    scale = 0.0 if o.sparse else 0.1 if o.model == "dcn" else 0.5
    safetensors_save("init.safetensors",
                     {name: np.float32(scale * rng.normal(size=shape)) for name, shape in shapes(o).items()})


# --- comparing ------------------------------------------------------------------------


def dense(tensors):
    """Convert sparse tables to dense ones; NAME.ids lists the rows that NAME has."""
    out = {}
    for name, a in tensors.items():
        if name.endswith(".ids"):
            continue
        ids = tensors.get(name + ".ids")
        if ids is not None:
            whole = np.zeros((int(ids.max()) + 1, a.shape[1]), a.dtype)
            whole[ids] = a
            a = whole
        out[name] = a.reshape(-1).astype(np.float64)
    return out


def compare(o):
    with open(o.cases) as cases, open("losses", "w") as losses:
        for ours, *options in map(str.split, cases):
            with contextlib.redirect_stdout(losses):
                reference.main([*options, "--params", "init.safetensors", "--x", "x.npy", "--y", "y.npy",
                                "--out", "reference.safetensors"])
            print(" ".join(options) + ": off by %.1e at most" % difference(ours, "reference.safetensors"))


def difference(one, other):
    """Return the largest difference of any element.  Exits with a message when it is above the bound."""
    ours, theirs = dense(safetensors_load(one)), dense(safetensors_load(other))
    if sorted(ours) != sorted(theirs):
        sys.exit(f"tables {sorted(ours)}, not {sorted(theirs)}")
    worst, where = 0.0, ""
    for name in ours:
        if len(ours[name]) != len(theirs[name]):
            sys.exit(f"{name} has {len(ours[name])} elements, not {len(theirs[name])}")
        if not np.all(np.isfinite(ours[name])):
            sys.exit(f"{name} has elements that are not finite")
        off = np.abs(ours[name] - theirs[name]) / np.maximum(FLOOR, np.abs(theirs[name]))
        if off.max() >= worst:
            i = int(off.argmax())
            worst, where = off[i], f"{name}[{i}] {ours[name][i]!r}, reference {theirs[name][i]!r}"
    start = dense(safetensors_load("init.safetensors"))
    if all(np.array_equal(start[name], theirs[name]) for name in theirs if name in start):
        sys.exit("nothing was trained")
    if worst > RELATIVE:
        sys.exit(f"{one}: off by {worst:.3g}: {where}")
    return worst


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = a.add_subparsers(dest="what", required=True)
    m = sub.add_parser("make")
    m.add_argument("--model", required=True)
    m.add_argument("--hidden", default=[], type=lambda s: [int(n) for n in s.split(",")])
    m.add_argument("--sparse", action="store_true")
    b = sub.add_parser("batches")
    for p, names in ((m, {"examples": 200, "features": 6, "classes": 3}),
                     (b, {"examples": 200, "batch": 6, "ranks": 3, "steps": 200, "seed": 1})):
        for name, default in names.items():
            p.add_argument("--" + name, type=int, default=default)
    c = sub.add_parser("compare")
    c.add_argument("cases")
    o = a.parse_args()
    {"make": make, "batches": batches, "compare": compare}[o.what](o)


if __name__ == "__main__":
    main()
