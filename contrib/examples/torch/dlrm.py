#!/usr/bin/python3
"""A deep learning recommendation model (Naumov et al., 2019; facebookresearch/dlrm) on click logs of Criteo's shape: 13 numbers
and 26 categories, whose vectors are on the servers.

    ps-ctl run --exec "python3 dlrm.py train.tsv test.tsv" --set workers=2
    ps-ctl run --exec "python3 dlrm.py train.ffm.zst test.ffm.zst --epochs 2" --set workers=2

Files are Criteo's (a label, 13 integers and 26 categories of 8 hexadecimal digits, by tabs), or libffm's with 39 fields, 13 of which
were integers and have become categories; they may be compressed by zstd.  Such a category becomes a number again by how often it
occurs.
"""
import argparse
import subprocess
import time

import numpy as np
import torch
from torch import nn

NUMBERS, CATEGORIES = 13, 26
NONE = -1               # there is no category
ROWS = 10000            # of a table, about


def read(path):
    """Labels (n), numbers (n, 13) and categories (n, 26).  For libffm the numbers are categories, too: int64, not float32."""
    if path.endswith(".zst"):
        text = subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
    else:
        with open(path, "rb") as f:
            text = f.read()
    return read_tsv(text) if b"\t" in text[:4096] else read_ffm(text)


def read_tsv(text):
    cells = [line.split(b"\t") for line in text.splitlines()]
    numbers = np.array([[float(c) if c else 0 for c in line[1:1 + NUMBERS]] for line in cells])
    ids = np.array([[int(c, 16) if c else NONE for c in line[1 + NUMBERS:]] for line in cells])
    return np.array([float(line[0]) for line in cells], np.float32), np.log1p(numbers.clip(0)).astype(np.float32), ids


def read_ffm(text):
    raw = np.frombuffer(text, np.uint8)
    features = np.diff(np.cumsum(raw == ord(":"))[raw == ord("\n")], prepend=0) // 2
    cells = np.fromstring(text.replace(b":", b" "), sep=" ")
    labels = np.cumsum(1 + 3 * features) - 1 - 3 * features
    field, index, _ = np.delete(cells, labels).reshape(-1, 3).astype(np.int64).T
    table = np.full((len(labels), NUMBERS + CATEGORIES), NONE)
    table[np.repeat(np.arange(len(labels)), features), field] = index
    return cells[labels].astype(np.float32), table[:, :NUMBERS], table[:, NUMBERS:]


def to_numbers(train, others):
    """The logarithm of how often each category occurs in `train`, in percent; the same of other examples.  0: there is none."""
    out = [np.zeros(t.shape, np.float32) for t in (train, others)]
    for k in range(train.shape[1]):
        seen, count = np.unique(train[:, k], return_counts=True)
        for t, to in zip((train, others), out):
            at = np.searchsorted(seen, t[:, k]).clip(max=len(seen) - 1)
            to[:, k] = np.where((seen[at] == t[:, k]) & (t[:, k] != NONE), np.log(100 * count[at] / len(train)), 0)
    return out


def load(train, test):
    """((labels, numbers, categories) of train, of test) as tensors."""
    (y, x, ids), (y2, x2, ids2) = read(train), read(test)
    if x.dtype == np.int64:
        x, x2 = to_numbers(x, x2)
    return [tuple(map(torch.from_numpy, part)) for part in ((y, x, ids), (y2, x2, ids2))]


def jagged(ids):
    """(values, lengths) of a batch of categories, feature by feature; an example without a category has an empty bag."""
    columns = ids.t()
    there = columns != NONE
    return columns[there], there.reshape(-1).to(torch.int64)


def mlp(*sizes):
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    """vectors: a module that makes one vector of `dim` numbers for each feature, from what a batch has as its third member."""

    def __init__(self, vectors, dim):
        super().__init__()
        self.vectors, n = vectors, CATEGORIES + 1
        self.bottom = mlp(NUMBERS, 512, 256, 64, dim)
        self.top = nn.Sequential(mlp(dim + n * (n - 1) // 2, 512, 256), nn.Linear(256, 1))
        self.pairs = torch.tril_indices(n, n, -1)

    def forward(self, x, categories):
        x = self.bottom(x)
        all_ = torch.stack([x, *self.vectors(categories)], 1)
        dots = torch.bmm(all_, all_.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, dots], 1)).squeeze(1)


def auc(y, score):
    """The area under the ROC curve: the chance that a click has a higher score than another example, ties by half."""
    values, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    clicks = y.sum()
    return float((rank[y > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(y) - clicks)))


def score(model, y, x, ids, wrap):
    with torch.no_grad():
        out = torch.cat([model(a, wrap(b)) for a, b in zip(x.split(4096), ids.split(4096))])
    return {"auc": auc(y.numpy(), out.numpy()), "loss": nn.functional.binary_cross_entropy_with_logits(out, y).item(), "examples": len(y)}


class Pace:
    """Examples a second from the end of the first step on."""

    def __init__(self):
        self.examples, self.began, self.ended = 0, None, None

    def step(self, examples):
        self.ended = time.perf_counter()
        if self.began is None:
            self.began = self.ended
        else:
            self.examples += examples

    def __str__(self):
        return f"{self.examples / max(self.ended - self.began, 1e-9):.0f} examples/s"


class ServerVectors(nn.Module):
    def __init__(self, ps, dim):
        super().__init__()
        self.bags = ps.EmbeddingBagCollection([ps.EmbeddingBagConfig(f"c{k}", dim, ROWS) for k in range(CATEGORIES)], name="category")

    def forward(self, categories):
        return self.bags(categories).tensors()


def arguments():
    a = argparse.ArgumentParser()
    a.add_argument("train")
    a.add_argument("test")
    for name, default in (("mode", "bsp"), ("epochs", 1), ("batch", 512), ("dim", 16), ("lr", 0.005)):
        a.add_argument("--" + name, type=type(default), default=default)
    return a.parse_args()


def main():
    import pskit.torch as ps

    a = arguments()
    ps.init()
    torch.manual_seed(1)
    (y, x, ids), test = load(a.train, a.test)
    model = DLRM(ServerVectors(ps, a.dim), a.dim)
    optimizer = ps.DistributedOptimizer(torch.optim.Adagrad(model.parameters(), lr=a.lr), named_parameters=model.named_parameters(),
                                        mode=a.mode)
    features = [f"c{k}" for k in range(CATEGORIES)]

    def wrap(part):
        return ps.KeyedJaggedTensor(features, *jagged(part))

    pace, batches = Pace(), ps.batches(y, batch_size=a.batch, epochs=a.epochs)
    for labels, numbers, categories in ps.prefetch(batches, load=lambda i: (y[i], x[i], wrap(ids[i]))):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(numbers, categories), labels)
        loss.backward()
        optimizer.step(loss=loss)
        pace.step(len(labels))
    print("this worker:", pace)
    model.eval()
    ps.shutdown(lambda: score(model, *test, wrap))


if __name__ == "__main__":
    main()
