#!/usr/bin/python3
"""Least squares as a worker of its own; in the rows of linear.csv the last number is the target."""
import numpy as np
import pskit

rows = np.loadtxt("linear.csv", delimiter=",")
x, y = np.hstack([rows[:, :-1], np.ones((len(rows), 1))]), rows[:, -1]
with pskit.connect() as ps:
    ps.join(f"w:{x.shape[1]}", examples=len(x))
    for task in ps.tasks():
        part = slice(task.begin, task.end)
        d = x[part] @ ps.param("w").astype(float) - y[part]
        ps.grad("w")[:] = d @ x[part] / len(task)
        ps.clock(d @ d / 2 / len(task))
    ps.finish()
