#!/usr/bin/python3
"""Logistic regression for ps-work train --exec with numpy: a weight for each feature of libsvm files, in a sparse table."""
import json, sys
import numpy as np


def read(path):
    lines = [line.split() for line in open(path)]
    pairs = [pair.split(":") for words in lines for pair in words[1:]]
    y = np.array([float(words[0]) > 0 for words in lines], float)
    start = np.cumsum([0] + [len(words) - 1 for words in lines])
    return y, start, np.array([p[0] for p in pairs], "<u8"), np.array([p[1] for p in pairs], float)


tables = {table["name"]: table for table in json.loads(sys.stdin.readline())["tables"]}
w, bias = tables["w"], tables["b"]
files = {}
for line in sys.stdin:
    words = line.split()
    asks, words = words[0] == "rows", words[words[0] == "rows":]
    path = words[5] if words[0] == "step" else words[2]
    files[path] = files.get(path) or read(path)
    y, start, ids, x = files[path]
    begin, end = (int(words[6]), int(words[7])) if words[0] == "step" else (0, len(y))
    y, n, ids, x = y[begin:end], end - begin, ids[start[begin]:start[end]], x[start[begin]:start[end]]
    if asks:                            # which rows: each once, ascending
        need = np.unique(ids)
        need.tofile(w["ids"])
        print("ok rows w", len(need), flush=True)
        continue
    need = np.fromfile(w["ids"], "<u8")
    of = np.searchsorted(need, ids)     # the row of each entry, and its example
    example = np.repeat(np.arange(n), np.diff(start[begin:end + 1]))
    z = np.bincount(example, np.fromfile(w["param"], "<f4")[of] * x, n) + np.fromfile(bias["param"], "<f4")
    d = 1 / (1 + np.exp(-z)) - y
    loss = np.mean(np.logaddexp(0, z) - y * z)
    if words[0] == "eval":
        print("ok loss", loss, "accuracy", np.mean((z > 0) == y), "examples", n, flush=True)
        continue
    (np.bincount(of, d[example] * x, len(need)) / n).astype("<f4").tofile(w["grad"])
    np.array([d.mean()], "<f4").tofile(bias["grad"])
    print("ok loss", loss, "examples", n, flush=True)
