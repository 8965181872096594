#!/usr/bin/python3
"""A small CNN on Fashion-MNIST (Debian: dataset-fashion-mnist).

    ps-ctl run --exec "python3 fashion.py" --set workers=2
    ps-ctl run --exec "python3 fashion.py --mode asp --epochs 5" --set workers=2
"""
import argparse
import gzip

import numpy as np
import torch
from torch.nn import functional as F

DATA = "/usr/share/datasets/fashion-mnist"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


def load(part, directory=DATA):
    """Images (n, 1, 28, 28) and labels of "train" or "t10k"."""
    with gzip.open(f"{directory}/{part}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(f"{directory}/{part}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)
    return torch.from_numpy(x.astype(np.float32) / 255), torch.from_numpy(y.astype(np.int64))


def score(model, x, y):
    with torch.no_grad():
        out = torch.cat([model(part) for part in x.split(1000)])
    return {"accuracy": (out.argmax(1) == y).float().mean().item(), "loss": F.cross_entropy(out, y).item(), "examples": len(y)}


def main():
    import pskit.torch as ps

    a = argparse.ArgumentParser()
    for name, default in (("mode", "bsp"), ("epochs", 3), ("batch", 32), ("lr", 0.02), ("data", DATA)):
        a.add_argument("--" + name, type=type(default), default=default)
    a = a.parse_args()
    ps.init()
    torch.manual_seed(1)
    x, y = load("train", a.data)
    model = Net()
    opt = ps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9),
                                  named_parameters=model.named_parameters(), mode=a.mode)
    for i in ps.batches(x, batch_size=a.batch, epochs=a.epochs):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[i]), y[i])
        loss.backward()
        opt.step(loss=loss)
    test = load("t10k", a.data)
    ps.shutdown(lambda: score(model, *test))
    if ps.rank() == 0:
        torch.save(model.state_dict(), "fashion.pt")


if __name__ == "__main__":
    main()
