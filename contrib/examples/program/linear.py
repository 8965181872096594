#!/usr/bin/python3
"""Least squares for ps-work train --exec with numpy; in the data's rows the last number is the target."""
import json, sys
import numpy as np

hello = json.loads(sys.stdin.readline())
table = hello["tables"][0]
w = np.memmap(table["param"], np.float32, "r")
g = np.memmap(table["grad"], np.float32, "r+")
rows = np.loadtxt(hello["data"][0], delimiter=",")
x, y = np.hstack([rows[:, :-1], np.ones((len(rows), 1))]), rows[:, -1]
for line in sys.stdin:
    word = line.split()
    begin, end = int(word[6]), int(word[7])
    d = x[begin:end] @ w.astype(float) - y[begin:end]
    g[:] = d @ x[begin:end] / len(d)
    print("ok loss", (d @ d) / 2 / len(d), "examples", len(d), flush=True)
