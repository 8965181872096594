# SPDX-License-Identifier: ISC
"""A worker that uses pskit.torch: torch_calls.py CASE ... (tests/78-torch.bats)."""
import os
import sys
import time

import torch

RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    # The settings of each group differ, and one group has no weight decay.
    "groups": lambda p: torch.optim.AdamW([{"params": p[:2]}, {"params": p[2:3], "lr": 0.03, "weight_decay": 0.5},
                                           {"params": p[3:], "lr": 0.03, "betas": (0.5, 0.9), "weight_decay": 0}], lr=0.01),
}
loss = torch.nn.functional.cross_entropy


def data(n=1000):
    chance = torch.Generator().manual_seed(7)
    x = torch.randn(n, 20, generator=chance)
    return x, (x @ torch.randn(20, 4, generator=chance)).argmax(1)


def net(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def accuracy(model):
    x, y = data()
    with torch.no_grad():
        return {"accuracy": (model(x).argmax(1) == y).float().mean().item(), "examples": len(x)}


def refused(kind, word, f, *args, **more):
    try:
        f(*args, **more)
    except kind as e:
        assert word in str(e), (word, e)
    else:
        raise AssertionError(f"was not refused: {word}")


def same(ps, rule):
    """Train in a loop of our own, which only the script ends."""
    model = net(ps.rank())
    opt = ps.DistributedOptimizer(RULES[rule](list(model.parameters())), named_parameters=model.named_parameters())
    ps.broadcast_parameters(model.state_dict(), root_rank=0)
    ps.broadcast_optimizer_state(opt, root_rank=0)
    x, y = data()
    for _ in range(20):
        opt.zero_grad()
        loss(model(x), y).backward()
        opt.step()
    ps.shutdown()
    assert ps.size() == 2
    print([p.double().sum().item() for p in model.parameters()])


def learn(ps, mode, compression="none"):
    model = net(ps.rank())
    opt = ps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8), mode=mode, staleness=2,
                                  compression=getattr(ps.Compression, compression))
    ps.on_score(lambda: accuracy(model))
    x, y = data()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_sampler=ps.batches(x, batch_size=50, epochs=4))
    for a, b in loader:
        opt.zero_grad()
        e = loss(model(a), b)
        e.backward()
        opt.step(loss=e)
    ps.shutdown()


def state(ps):
    model = net(5)
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = inner.state_dict()
    opt = ps.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    assert isinstance(opt, torch.optim.SGD) and opt.state_dict() == kept
    opt.load_state_dict(kept)
    refused(RuntimeError, "settings differ", opt.load_state_dict, torch.optim.SGD(model.parameters(), lr=0.2).state_dict())
    model.load_state_dict({k: v + 1 for k, v in saved.items()})
    x, y = data()
    opt.zero_grad()
    assert all(torch.equal(p, saved[k] + 1) for k, p in model.state_dict().items())
    loss(model(x), y).backward()
    opt.step()
    torch.save(model.state_dict(), f"state.{ps.rank()}")
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in torch.load(f"state.{ps.rank()}", weights_only=True).items())
    # Writing to parameters that the servers own must be reported.
    model.load_state_dict(saved)
    refused(RuntimeError, "changed in place", opt.step)
    opt._session.bind()
    opt.param_groups[0]["lr"] = 0.01
    refused(RuntimeError, "learning rate", opt.step)
    opt.param_groups[0]["lr"] = 0.1
    refused(RuntimeError, "the job has begun", ps.batches, x)
    ps.shutdown()
    refused(RuntimeError, "shutdown", opt.step)
    # There is time for more calls afterwards.
    if ps.rank() == 0:
        time.sleep(1)
    torch.save(model.state_dict(), f"last.{ps.rank()}")
    assert not any(torch.equal(p, saved[k]) for k, p in model.state_dict().items())


def embedding(ps):
    """Train few rows of a million; a row used twice in a step gets the sum of its gradients."""
    torch.manual_seed(ps.rank())
    table, out = ps.Embedding(1000000, 8, name="words"), torch.nn.Linear(8, 2)
    refused(ValueError, "has this name", ps.Embedding, 10, 8, name="words")
    opt = ps.DistributedOptimizer(torch.optim.Adagrad(out.parameters(), lr=0.5), named_parameters=out.named_parameters())
    ids = torch.randperm(2000, generator=torch.Generator().manual_seed(3)).view(400, 5) % 500
    y, ids = ids.sum(1) % 2, ids * 1999
    batches = ps.batches(ids, batch_size=20, epochs=15)
    opt.zero_grad()
    assert (table(ids[0]) != 0).all(), "the rows begin by chance"
    for i in batches:
        opt.zero_grad()
        a, b = ids[i].split([2, 3], 1)
        e = loss(out((table(a).sum(1) + table(b).sum(1)) / 5), y[i])
        e.backward()
        opt.step(loss=e)
    refused(IndexError, "ids must be from 0", table, torch.tensor([1000000]))

    def score():
        with torch.no_grad():
            return {"accuracy": (out(table(ids).mean(1)).argmax(1) == y).float().mean().item()}
    ps.shutdown(score)


def local(ps):
    model = net(ps.rank())
    inner = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = data()
    mine = ps.batches(x, batch_size=20, epochs=6)
    pushes = 0
    with ps.DiLoCo(model, inner, sync_every=8) as both:
        before = inner.step
        for i in mine:
            inner.zero_grad()
            loss(model(x[i]), y[i]).backward()
            inner.step()
            pushes += not both._alone
    assert inner.step != before and 0 < pushes < 30
    ps.shutdown(lambda: accuracy(model))
    print([p.double().sum().item() for p in model.parameters()])


def ddp(ps):
    import torch.distributed as dist
    # Several buckets, whose order changes after the first step.
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/rendezvous", rank=ps.rank(), world_size=ps.size())
    model, plain = net(1), net(1)
    x, y = data()
    both = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    both.register_comm_hook(ps.GradientMean(both.parameters()), ps.ddp_comm_hook)
    steps = [(m, torch.optim.SGD(m.parameters(), lr=0.1)) for m in (both, plain)]
    for k in range(10):
        for m, opt in steps:
            opt.zero_grad()
            i = torch.arange(k, 1000, 10)
            i = i[ps.rank()::2] if m is both else i
            loss(m(x[i]), y[i]).backward()
            opt.step()
    ps.shutdown()
    for p, q in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-6), (p - q).abs().max()


def long(ps):
    """Train until worker-0 has seen the other leave; then worker-0 trains to the end."""
    model = net(1)
    opt = ps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8))
    x, y = data()
    for i in ps.batches(x, batch_size=10, epochs=100000):
        opt.zero_grad()
        e = loss(model(x[i]), y[i])
        e.backward()
        opt.step(loss=e)
        if os.path.exists("enough"):
            break
    ps.shutdown(lambda: accuracy(model))


def wrong(ps):
    """Check that settings which no server supports are refused before anything begins."""
    model = net(1)
    named = list(model.named_parameters())
    for f in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1), lambda p: torch.optim.AdamW(p, amsgrad=True),
              lambda p: torch.optim.RMSprop(p), lambda p: torch.optim.Adagrad(p, lr_decay=0.1)):
        refused(ValueError, "servers have no such update rule", ps.DistributedOptimizer, f(model.parameters()))
    many = [torch.zeros(1, requires_grad=True) for _ in range(18)]
    refused(ValueError, "at most 16 may", ps.DistributedOptimizer,
            torch.optim.SGD([{"params": [q], "lr": 0.1 * (k + 1)} for k, q in enumerate(many)], lr=1))
    refused(ValueError, "equal settings here", ps.DiLoCo, net(1), torch.optim.SGD(model.parameters(), lr=1),
            torch.optim.SGD([{"params": [q], "lr": 0.1 * (k + 1)} for k, q in enumerate(net(1).parameters())], lr=1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    refused(ValueError, "same name", ps.DistributedOptimizer, sgd, named + [(named[0][0], torch.zeros(1))])
    refused(ValueError, "is missing", ps.DistributedOptimizer, sgd, named[1:])
    refused(ValueError, "must be bsp, ssp or asp", ps.DistributedOptimizer, sgd, named, mode="fast")
    refused(ValueError, "root_rank must be 0", ps.broadcast_parameters, model.state_dict(), root_rank=1)
    refused(ValueError, "float32 on the CPU", ps.DistributedOptimizer, torch.optim.SGD(net(1).double().parameters(), lr=0.1))
    refused(RuntimeError, "no parameters to train", ps.rank.__globals__["session"]().start)
    # Two optimizers of two rules in one step; biases without decay; the sum of two backward passes.
    decay = [p for n, p in named if n.endswith("weight")]
    rest = [p for n, p in named if n.endswith("bias")]
    one = ps.DistributedOptimizer(torch.optim.AdamW([{"params": decay[:1]}, {"params": rest, "weight_decay": 0}], lr=0.01),
                                  named, backward_passes_per_step=2)
    refused(ValueError, "one value for all optimizers", ps.DistributedOptimizer, torch.optim.SGD(decay[1:], lr=0.01), named,
            mode="asp")
    two = ps.DistributedOptimizer(torch.optim.SGD(decay[1:], lr=0.2, momentum=0.5), named, backward_passes_per_step=2)
    plain = net(1)
    weights = [p for p in plain.parameters() if p.dim() > 1]
    adamw = torch.optim.AdamW([{"params": weights[:1]}, {"params": [p for p in plain.parameters() if p.dim() == 1], "weight_decay": 0}],
                              lr=0.01)
    momentum = torch.optim.SGD(weights[1:], lr=0.2, momentum=0.5)
    x, y = data()
    for k in range(6):
        for opt in (one, two, adamw, momentum) if k % 2 == 0 else (one, two):
            opt.zero_grad()
        for m in (model, plain):
            loss(m(x[k::6]), y[k::6]).backward()
        for opt in (one, two, adamw, momentum) if k % 2 else (one, two):
            opt.step()
    for (name, p), q in zip(named, plain.parameters()):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-6), (name, (p - q).abs().max())
    ps.shutdown()


if __name__ == "__main__":
    import pskit.torch
    assert "PSKIT_RANK" in os.environ or "RANK" in os.environ
    pskit.torch.init()
    torch.set_num_threads(1)
    globals()[sys.argv[1]](pskit.torch, *sys.argv[2:])
