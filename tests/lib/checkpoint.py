#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""A second writer of checkpoint directories, written from ps-cluster(5) alone.

  checkpoint.py DIR STEP [--servers N] [--seed N] [--loss X] [--generation N] [--change W]
      makes DIR/step-000000000STEP and prints the model's digest
      --change adds W to one value of the dense table
"""

import argparse
import hashlib
import json
import os
import random
import struct

COLS, SPARSE_PARTS = 4, 16


def blake2b(data):
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def compact(value, **more):
    return json.dumps(value, separators=(",", ":"), **more).encode()


def safetensors(tensors):
    """Format tensors, [(name, type, shape, bytes)] with those of type U64 first."""
    header, data = {}, b""
    for name, kind, shape, blob in sorted(tensors, key=lambda t: t[1] != "U64"):
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = compact(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def make_model(seed, change):
    r = random.Random(seed)
    dense = [[r.gauss(0, 1) for _ in range(n)] for n in (50, 50, 7)]
    dense[1][3] += change
    rows = {r.getrandbits(64): [r.gauss(0, 1) for _ in range(COLS)] for _ in range(60)}
    return dense, rows


def model_digest(dense, rows):
    h = hashlib.blake2b(digest_size=32)
    h.update(b"emb\0")
    for i in sorted(rows):
        h.update(struct.pack("<Q", i) + floats(rows[i]))
    h.update(b"w\0")
    for part in dense:
        h.update(floats(part))
    return h.hexdigest()


def partitions(dense, rows):
    """Return [(table, part, parameters, state)], where the last two are lists of tensors."""
    for k, part in enumerate(dense):
        n = len(part)
        yield 0, k, [(f"w.{k}", "F32", [n], floats(part))], [(f"w.{k}.s0", "F32", [n], floats([0.5] * n))]
    for k in range(SPARSE_PARTS):
        ids = sorted(i for i in rows if i >> 60 == k)
        shape = [len(ids), COLS]
        yield 1, k, [(f"emb.{k}.ids", "U64", [len(ids)], struct.pack(f"<{len(ids)}Q", *ids)),
                     (f"emb.{k}", "F32", shape, b"".join(floats(rows[i]) for i in ids))], \
            [(f"emb.{k}.s0", "F32", shape, floats([0.25] * len(ids) * COLS))]


def write(path, data, files):
    with open(path, "wb") as f:
        f.write(data)
    files.append({"name": os.path.basename(path), "size": len(data), "blake2b": blake2b(data)})


def make(o):
    path = f"{o.dir}/step-{o.step:012}"
    dense, rows = make_model(o.seed, o.change)
    held = [([], []) for _ in range(o.servers)]
    parts, files = [], []
    for at, (table, part, params, state) in enumerate(partitions(dense, rows)):
        held[at % o.servers][0].extend(params)
        held[at % o.servers][1].extend(state)
        parts.append([table, part, 2 * (at % o.servers), str((1 << 64) - 1 - at), str(o.step)])
    os.makedirs(path)
    for server, (params, state) in enumerate(held):
        write(f"{path}/server-{server}.params.safetensors", safetensors(params), files)
        write(f"{path}/server-{server}.state.safetensors", safetensors(state), files)
    config = {"name": "made", "servers": o.servers}
    manifest = {
        "v": 1, "step": o.step, "generation": o.generation, "epoch": 1, "created": "2026-01-31T23:59:59.123Z",
        "name": "made", "digest_of_config": blake2b(compact(config, sort_keys=True)), "config": config,
        "optimizer": "adagrad", "mode": "asp",
        "tables": [{"name": "w", "sparse": False, "rows": 107, "cols": 1, "parts": len(dense)},
                   {"name": "emb", "sparse": True, "rows": 60, "cols": COLS, "parts": SPARSE_PARTS}],
        "parts": parts, "ranks": [{"rank": 0, "clock": o.step, "done": False}], "data": {},
        "eval": {"loss": o.loss, "examples": 10} if o.loss is not None else None, "files": files}
    text = compact(manifest)
    with open(f"{path}/MANIFEST.json", "wb") as f:
        f.write(text[:-1] + b',"seal":"' + blake2b(text).encode() + b'"}\n')
    print(model_digest(dense, rows))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("step", type=int)
    p.add_argument("--servers", type=int, default=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--loss", type=float)
    p.add_argument("--generation", type=int, default=1)
    p.add_argument("--change", type=float, default=0)
    make(p.parse_args())


if __name__ == "__main__":
    main()
