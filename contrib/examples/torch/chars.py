#!/usr/bin/python3
"""A model of the next character, of any text (tiny Shakespeare: raw.githubusercontent.com/karpathy/char-rnn, data/tinyshakespeare).
Workers train alone and meet now and then (DiLoCo), so that little travels: for slow links.

    ps-ctl run --exec "python3 chars.py input.txt" --set workers=2
    ps-ctl run --exec "python3 chars.py input.txt --every 1" --set workers=2        # each step to the servers
"""
import argparse
import contextlib

import torch
from torch.nn import functional as F

import pskit.torch as ps


class Net(torch.nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.letter = torch.nn.Embedding(letters, width)
        self.past = torch.nn.GRU(width, width, batch_first=True)
        self.out = torch.nn.Linear(width, letters)

    def forward(self, x):
        return self.out(self.past(self.letter(x))[0])

    def loss(self, text, begins, length):
        """Mean over the characters behind each of the begins."""
        part = text[torch.as_tensor(begins)[:, None] + torch.arange(length + 1)]
        return F.cross_entropy(self(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten())

    def go_on(self, text, n):
        """n further characters, each drawn by its chance."""
        with torch.no_grad():
            out, past = self.past(self.letter(text[None]))
            for _ in range(n):
                text = torch.cat([text, torch.multinomial(self.out(out[0, -1]).softmax(0), 1)])
                out, past = self.past(self.letter(text[None, -1:]), past)
        return text


def main():
    a = argparse.ArgumentParser()
    a.add_argument("text")
    for name, default in (("epochs", 1), ("batch", 32), ("length", 64), ("width", 128), ("lr", 0.003), ("every", 20)):
        a.add_argument("--" + name, type=type(default), default=default)
    a = a.parse_args()
    with open(a.text, encoding="utf-8") as f:
        text = f.read()
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    held = len(data) // 10                      # the last tenth is to judge it by
    train, test = data[:-held], data[-held:]
    begins = range(0, len(train) - a.length - 1, a.length // 2)

    ps.init()
    torch.manual_seed(1)
    model = Net(len(letters), a.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=a.lr)
    mine = ps.batches(begins, batch_size=a.batch, epochs=a.epochs)
    if a.every > 1:
        alone = ps.DiLoCo(model, optimizer, sync_every=a.every)
    else:
        alone = contextlib.nullcontext()
        optimizer = ps.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    with alone:
        for i in mine:
            optimizer.zero_grad()
            loss = model.loss(train, [begins[k] for k in i], a.length)
            loss.backward()
            optimizer.step()

    def score():
        with torch.no_grad():
            return {"loss": model.loss(test, range(0, len(test) - a.length - 1, a.length), a.length).item(), "examples": len(test)}
    ps.shutdown(score)
    if ps.rank() == 0:
        print("".join(letters[i] for i in model.go_on(test[:1], 200)))


main()
