# SPDX-License-Identifier: ISC
"""torch_alone.py RULE MODEL: trains the model of `torch_calls.py same RULE` by torch alone, and compares it with the saved one."""
import json
import struct
import sys

import torch

from torch_calls import RULES, data, loss, net

x, y = data()
model = net(0)
opt = RULES[sys.argv[1]](list(model.parameters()))
for _ in range(20):
    opt.zero_grad()
    loss(model(x), y).backward()
    opt.step()
with open(sys.argv[2], "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    body = f.read()
assert {k for k in head if k != "__metadata__"} == {n for n, _ in model.named_parameters()}, head
for name, p in model.named_parameters():
    begin, end = head[name]["data_offsets"]
    ours = torch.frombuffer(bytearray(body[begin:end]), dtype=torch.float32).view(p.shape)
    assert torch.allclose(ours, p, rtol=1e-4, atol=1e-6), (sys.argv[1], name, (ours - p).abs().max())
