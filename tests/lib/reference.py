#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""Synchronous training in one process, from the formulas alone.

Slow and plain on purpose: pskit's models, update rules and schedules are
compared with it.  It shares no code with them, and needs numpy only.

  reference.py --model softmax --rule adam --lr 0.01 --params init.safetensors \\
      --x x.npy --y y.npy --batches batches.txt --out final.safetensors

--batches has a line for each (step, rank): "STEP RANK i j k ...", with row
numbers of x from 0, steps from 0 and ascending.  As with sync "bsp" the ranks'
mean gradients are averaged, weighted by their numbers of examples, and the
rule is applied once a step.  --steps and --ranks, when given, are checked
against the file.  On stdout: a line "STEP LOSS" for each step, where LOSS is
the mean over the step's examples before the update.
"""

import argparse
import json
import struct
import sys

import numpy as np

# --- files ------------------------------------------------------------------

SAFETENSORS_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}


def safetensors_load(path):
    """Load a file as {name: array}, in the order of the arrays' offsets."""
    with open(path, "rb") as f:
        raw = f.read()
    if len(raw) < 8:
        raise ValueError(f"{path}: shorter than a safetensors header")
    (n,) = struct.unpack("<Q", raw[:8])
    if n > len(raw) - 8:
        raise ValueError(f"{path}: the header of {n} bytes is longer than the file")
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    data = raw[8 + n:]
    out = {}
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        dtype = np.dtype(SAFETENSORS_TYPES[t["dtype"]])
        count = int(np.prod(t["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= len(data) or end - begin != count * dtype.itemsize:
            raise ValueError(f"{path}: tensor {name} does not fit its offsets")
        out[name] = np.frombuffer(data[begin:end], dtype).reshape(t["shape"]).copy()
    return out


def safetensors_save(path, tensors):
    names = {np.dtype(v): k for k, v in SAFETENSORS_TYPES.items()}
    header, blobs, at = {}, [], 0
    for name, a in tensors.items():
        a = np.asarray(a)
        a = np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).reshape(a.shape)
        blob = a.tobytes()
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def params_load(path):
    if path.endswith(".npz"):
        with np.load(path) as z:
            return {name: z[name] for name in z.files}
    return safetensors_load(path)


def params_save(path, params):
    if path.endswith(".npz"):
        np.savez(path, **params)
    else:
        safetensors_save(path, params)


def batches_load(path):
    """Load [(step, [rows of rank 0, rows of rank 1, ...]), ...]."""
    steps = {}
    with open(path) as f:
        for number, line in enumerate(f, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            step, rank, *rows = map(int, words)
            ranks = steps.setdefault(step, {})
            if rank in ranks:
                raise ValueError(f"{path}:{number}: rank {rank} has step {step} twice")
            ranks[rank] = np.array(rows, dtype=np.int64)
    return [(s, [ranks[k] for k in sorted(ranks)]) for s, ranks in sorted(steps.items())]


# --- models: each returns (mean loss, {table: gradient of it}) ----------------


def linear(p, x, y, _act):
    off = x @ p["w"].reshape(-1) + p["b"].reshape(-1)[0] - y
    return 0.5 * np.mean(off * off), {"w": x.T @ off / len(y), "b": np.mean(off)}


def logistic(p, x, y, _act):
    f = x @ p["w"].reshape(-1) + p["b"].reshape(-1)[0]
    loss = np.mean(np.logaddexp(0, f) - y * f)
    with np.errstate(over="ignore"):
        off = 1 / (1 + np.exp(-f)) - y
    return loss, {"w": x.T @ off / len(y), "b": np.mean(off)}


def cross_entropy(z, y):
    """Return the mean loss of logits z for labels y, and its gradient by z."""
    z = z - z.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(z).sum(axis=1, keepdims=True))
    rows = np.arange(len(y))
    delta = np.exp(z - log_sum)
    delta[rows, y] -= 1
    return np.mean(log_sum[:, 0] - z[rows, y]), delta / len(y)


def softmax(p, x, y, _act):
    loss, delta = cross_entropy(x @ p["w"] + p["b"].reshape(-1), y)
    return loss, {"w": x.T @ delta, "b": delta.sum(axis=0)}


def layers(p, x, act):
    """Return the inputs of the layers w0, w1, ..., and after them the output."""
    n = sum(1 for name in p if name.startswith("w"))
    h = [x]
    for i in range(n):
        z = h[-1] @ p[f"w{i}"] + p[f"b{i}"].reshape(-1)
        if i < n - 1:
            z = np.tanh(z) if act == "tanh" else np.maximum(z, 0)
        h.append(z)
    return h


def layers_back(p, h, delta, act):
    """Return the gradients of the layers, and that by their input, for the inputs h of the layers."""
    grads = {}
    for i in reversed(range(len(h))):
        grads[f"w{i}"] = h[i].T @ delta
        grads[f"b{i}"] = delta.sum(axis=0)
        delta = delta @ p[f"w{i}"].T
        if i > 0:
            delta = delta * (1 - h[i] ** 2 if act == "tanh" else (h[i] > 0))
    return grads, delta


def mlp(p, x, y, act):
    h = layers(p, x, act)
    loss, delta = cross_entropy(h.pop(), y)
    return loss, layers_back(p, h, delta, act)[0]


def dcn(p, x, y, act):
    """Each column of x is a field with one feature."""
    n, depth = len(x), sum(1 for name in p if name.startswith("cross_w"))
    x0 = (x[:, :, None] * p["v"]).reshape(n, -1)
    xs, us = [x0], []
    for i in range(depth):
        us.append(xs[i] @ p[f"cross_w{i}"] + p[f"cross_b{i}"].reshape(-1))
        xs.append(x0 * us[i] + xs[i])
    h = layers(p, x0, act)
    f = (xs[-1] @ p["cross"] + h.pop())[:, 0]
    loss = np.mean(np.logaddexp(0, f) - y * f)
    delta = ((1 / (1 + np.exp(-f)) - y) / n)[:, None]
    grads, by_x0 = layers_back(p, h, delta, act)
    grads["cross"] = xs[-1].T @ delta
    back = delta @ p["cross"].T
    for i in reversed(range(depth)):
        by_x0 = by_x0 + back * us[i]
        by_u = back * x0
        grads[f"cross_w{i}"] = xs[i].T @ by_u
        grads[f"cross_b{i}"] = by_u.sum(axis=0)
        back = back + by_u @ p[f"cross_w{i}"].T
    grads["v"] = np.einsum("rf,rfk->fk", x, (by_x0 + back).reshape(n, x.shape[1], -1))
    return loss, grads


MODELS = {"linear": linear, "logistic": logistic, "softmax": softmax, "mlp": mlp, "dcn": dcn}

# --- update rules: rule(h, lr, t, l1, l2, w, s, g, n) -> w; the state s is changed;
# g is the mean of n examples --------------------------------------------------


def sgd(h, lr, t, l1, l2, w, s, g, n):
    return w - lr * (g + l2 * w)


def momentum(h, lr, t, l1, l2, w, s, g, n):
    s[0] = h["momentum"] * s[0] + (g + l2 * w)
    return w - lr * s[0]


def nesterov(h, lr, t, l1, l2, w, s, g, n):
    g = g + l2 * w
    s[0] = h["momentum"] * s[0] + g
    return w - lr * (g + h["momentum"] * s[0])


def adagrad(h, lr, t, l1, l2, w, s, g, n):
    """The constants are for single examples: g becomes the batch's sum."""
    g = n * (g + l2 * w)
    s[0] = s[0] + g * g
    return w - lr * g / (np.sqrt(h["initial"] + s[0]) + h["eps"])


def rmsprop(h, lr, t, l1, l2, w, s, g, n):
    g = g + l2 * w
    s[0] = h["rho"] * s[0] + (1 - h["rho"]) * g * g
    return w - lr * g / np.sqrt(s[0] + h["eps"])


def adam_direction(h, t, s, g):
    s[0] = h["beta1"] * s[0] + (1 - h["beta1"]) * g
    s[1] = h["beta2"] * s[1] + (1 - h["beta2"]) * g * g
    m = s[0] / (1 - float(h["beta1"]) ** t)
    v = s[1] / (1 - float(h["beta2"]) ** t)
    return m / (np.sqrt(v) + h["eps"])


def adam(h, lr, t, l1, l2, w, s, g, n):
    return w - lr * adam_direction(h, t, s, g + l2 * w)


def amsgrad(h, lr, t, l1, l2, w, s, g, n):
    """As torch.optim.Adam(amsgrad=True): the greatest second moment so far."""
    g = g + l2 * w
    s[0] = h["beta1"] * s[0] + (1 - h["beta1"]) * g
    s[1] = h["beta2"] * s[1] + (1 - h["beta2"]) * g * g
    s[2] = np.maximum(s[2], s[1])
    root = np.sqrt(s[2]) / np.sqrt(1 - float(h["beta2"]) ** t)
    return w - lr / (1 - float(h["beta1"]) ** t) * s[0] / (root + h["eps"])


def adamw(h, lr, t, l1, l2, w, s, g, n):
    return w - lr * (adam_direction(h, t, s, g) + l2 * w)


def lamb(h, lr, t, l1, l2, w, s, g, n):
    """You et al. 2020, algorithm 2; biases, whose names do not begin with w, have the ratio 1."""
    u = adam_direction(h, t, s, g) + l2 * w
    length, step = np.sqrt(np.sum(w * w)), np.sqrt(np.sum(u * u))
    return w - lr * (length / step if l2 and length and step else 1) * u


def ftrl(h, lr, t, l1, l2, w, s, g, n):
    """McMahan et al. 2013, algorithm 1, with the batch's sum as g.  Before the
    first step z is what makes its formula give the initial w; where alpha
    changes with the schedule, the learning rates of past steps are taken as the
    present one's."""
    g = n * g
    z, squares = s
    old = (h["ftrl_beta"] + np.sqrt(squares)) / lr + l2
    z = np.where(w != 0, -w * old - np.sign(w) * l1, z)
    new = (h["ftrl_beta"] + np.sqrt(squares + g * g)) / lr + l2
    z = z + g - (new - old) * w
    s[0], s[1] = z, squares + g * g
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(np.abs(z) <= l1, 0, -(z - np.sign(z) * l1) / new)
    return np.where(new > 0, moved, w)


# name: (function, number of state arrays, the paper's constants)
RULES = {
    "sgd": (sgd, 0, {"lr": 0.1}),
    "momentum": (momentum, 1, {"lr": 0.1, "momentum": 0.9}),
    "nesterov": (nesterov, 1, {"lr": 0.1, "momentum": 0.9}),
    "adagrad": (adagrad, 1, {"lr": 0.01, "eps": 1e-10, "initial": 0.0}),
    "rowwise_adagrad": (adagrad, 1, {"lr": 0.01, "eps": 1e-10, "initial": 0.0}),  # of dense tables
    "rmsprop": (rmsprop, 1, {"lr": 0.001, "rho": 0.9, "eps": 1e-8}),
    "adam": (adam, 2, {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),
    "rowwise_adam": (adam, 2, {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),  # of dense tables
    "adamw": (adamw, 2, {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),
    "amsgrad": (amsgrad, 3, {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),
    "lamb": (lamb, 2, {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6}),
    "ftrl": (ftrl, 2, {"lr": 0.1, "ftrl_beta": 1.0}),
}


def schedule_factor(text, step):
    """Return the factor on the learning rate at a step, counted from 0."""
    if "+" in text:
        first, rest = text.split("+", 1)
        warm = int(first.split(":")[1])
        return schedule_factor(rest if step >= warm else first, step - warm * (step >= warm))
    kind, *a = text.split(":")
    if kind == "constant":
        return 1.0
    if kind == "step":
        return float(a[1]) ** (step // int(a[0]))
    if kind == "cosine":
        low = float(a[1]) if len(a) > 1 else 0.0
        done = min(step / int(a[0]), 1.0)
        return low + (1 - low) * (1 + np.cos(np.pi * done)) / 2
    if kind == "warmup":
        return min((step + 1) / int(a[0]), 1.0)
    if kind == "wsd":
        warm, stable, decay = map(int, a)
        if step < warm:
            return (step + 1) / warm
        return min(1.0, max(0.0, (warm + stable + decay - step) / decay))
    raise ValueError(f"unknown schedule {text!r}")


def train(model, rule, params, x, y, batches, hyper, schedule="constant", activation="relu",
          dtype=np.float64, report=None):
    """Final parameters, with the shapes of the initial ones.  hyper: what
    differs from the rule's paper, with "l1" and "l2"."""
    step_rule, nranks, h = RULES[rule]
    h = {**h, "l1": 0.0, "l2": 0.0, **hyper}
    # pskit stores hyperparameters in single precision, where 0.999 is another number.
    h = {k: dtype(np.float32(v)) for k, v in h.items()}
    p = {name: a.astype(dtype) for name, a in params.items()}
    ranks = {name: [np.zeros_like(a) for _ in range(nranks)] for name, a in p.items()}
    x = x.astype(dtype)
    for t, (step, rows) in enumerate(batches, 1):
        total = sum(len(r) for r in rows)
        loss, grads = 0.0, {name: np.zeros_like(a) for name, a in p.items()}
        for r in rows:
            if len(r) == 0:
                continue
            part, g = MODELS[model](p, x[r], y[r], activation)
            loss += part * len(r) / total
            for name, a in g.items():
                grads[name] += np.reshape(a, p[name].shape) * dtype(len(r) / total)
        lr = dtype(np.float32(float(h["lr"]) * schedule_factor(schedule, step)))
        for name in p:
            decay = name.startswith("w")
            p[name] = step_rule(h, lr, t, h["l1"] * decay, h["l2"] * decay, p[name], ranks[name],
                                grads[name], dtype(total))
        if report is not None:
            report(step, loss)
    return p


def main(argv=None):
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", required=True, choices=MODELS)
    a.add_argument("--rule", default="sgd", choices=RULES)
    a.add_argument("--params", required=True, help="initial parameters, .npz or safetensors")
    a.add_argument("--x", required=True, help="examples, .npy (rows, features)")
    a.add_argument("--y", required=True, help="targets or labels, .npy (rows)")
    a.add_argument("--batches", required=True, help="text file of row numbers")
    a.add_argument("--out", required=True, help="final parameters, .npz or safetensors")
    a.add_argument("--schedule", default="constant")
    a.add_argument("--activation", default="relu", choices=["relu", "tanh"])
    a.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    a.add_argument("--steps", type=int, help="steps that the batches must have")
    a.add_argument("--ranks", type=int, help="ranks that each step must have")
    hypers = ["lr", "momentum", "beta1", "beta2", "eps", "rho", "ftrl_beta", "l1", "l2"]
    for name in hypers:
        a.add_argument("--" + name.replace("_", "-"), type=float, default=None)
    o = a.parse_args(argv)

    batches = batches_load(o.batches)
    if o.steps is not None and len(batches) != o.steps:
        sys.exit(f"{o.batches}: {len(batches)} steps, not {o.steps}")
    if o.ranks is not None and any(len(rows) != o.ranks for _, rows in batches):
        sys.exit(f"{o.batches}: a step does not have {o.ranks} ranks")
    y = np.load(o.y)
    y = y.astype(np.int64 if o.model in ("softmax", "mlp") else o.dtype).reshape(-1)
    final = train(o.model, o.rule, params_load(o.params), np.load(o.x), y, batches,
                  {n: getattr(o, n) for n in hypers if getattr(o, n) is not None},
                  o.schedule, o.activation, np.dtype(o.dtype).type,
                  lambda step, loss: print(step, repr(float(loss))))
    params_save(o.out, {name: v.astype(np.float32) for name, v in final.items()})


if __name__ == "__main__":
    main()
