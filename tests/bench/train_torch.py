# SPDX-License-Identifier: ISC
"""The rival of tests/bench/train: the same network and rule by torch, alone or as one process of
DistributedDataParallel over gloo. Images lie in memory as float32, and each batch is one indexed copy.

usage: train_torch.py FASHION_DIR PROCS BATCH THREADS RENDEZVOUS RANK

Rank 0 prints {"seconds": of all steps, "accuracy": on the test set}.
"""
import gzip
import json
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist

EPOCHS, RATE = 5, 0.1


def load(directory, name):
    with gzip.open("%s/%s-images-idx3-ubyte.gz" % (directory, name)) as f:
        x = numpy.frombuffer(f.read(), numpy.uint8, offset=16).reshape(-1, 784)
    with gzip.open("%s/%s-labels-idx1-ubyte.gz" % (directory, name)) as f:
        y = numpy.frombuffer(f.read(), numpy.uint8, offset=8)
    return torch.from_numpy(x.astype(numpy.float32) / 255), torch.from_numpy(y.astype(numpy.int64))


def main():
    directory, rendezvous = sys.argv[1], sys.argv[5]
    procs, batch, threads, rank = (int(sys.argv[i]) for i in (2, 3, 4, 6))
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    x, y = load(directory, "train")
    net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = net
    if procs > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=procs)
        model = torch.nn.parallel.DistributedDataParallel(net)
    rule = torch.optim.SGD(model.parameters(), lr=RATE)
    chance = torch.Generator().manual_seed(2)       # the same order for all
    loss = torch.nn.CrossEntropyLoss()
    if procs > 1:
        dist.barrier()
    begin = time.perf_counter()
    for _ in range(EPOCHS):
        order = torch.randperm(len(x), generator=chance)
        for at in range(0, len(x), batch * procs):
            mine = order[at + rank * batch:at + (rank + 1) * batch]
            if procs > 1 and at + batch * procs > len(x):
                mine = order[at:][rank::procs]      # the rest, shared out
            rule.zero_grad(set_to_none=True)
            loss(model(x[mine]), y[mine]).backward()
            rule.step()
    if procs > 1:
        dist.barrier()
    seconds = time.perf_counter() - begin
    if rank == 0:
        xt, yt = load(directory, "t10k")
        with torch.no_grad():
            right = (net(xt).argmax(1) == yt).float().mean().item()
        print(json.dumps({"seconds": seconds, "accuracy": right}))


main()
