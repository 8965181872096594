"""A worker by pskit.torch: torch_calls.py WORD ... (tests/75-torch.bats)."""
import os
import sys

import torch

RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
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
    """A loop of its own, and nothing that ends it but the script."""
    model = net(ps.rank())
    opt = ps.DistributedOptimizer(RULES[rule](model.parameters()), named_parameters=model.named_parameters())
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
    x, y = data()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_sampler=ps.batches(x, batch_size=50, epochs=4))
    for a, b in loader:
        opt.zero_grad()
        e = loss(model(a), b)
        e.backward()
        opt.step(loss=e)
    ps.shutdown(lambda: accuracy(model))


def state(ps):
    model = net(5)
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = inner.state_dict()
    opt = ps.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    assert isinstance(opt, torch.optim.SGD) and opt.state_dict() == kept
    opt.load_state_dict(kept)
    refused(RuntimeError, "are others", opt.load_state_dict, torch.optim.SGD(model.parameters(), lr=0.2).state_dict())
    model.load_state_dict({k: v + 1 for k, v in saved.items()})
    x, y = data()
    opt.zero_grad()
    assert all(torch.equal(p, saved[k] + 1) for k, p in model.state_dict().items())
    loss(model(x), y).backward()
    opt.step()
    torch.save(model.state_dict(), f"state.{ps.rank()}")
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in torch.load(f"state.{ps.rank()}", weights_only=True).items())
    # What is written to parameters that the servers have is no secret.
    model.load_state_dict(saved)
    refused(RuntimeError, "changed in place", opt.step)
    opt._session.bind()
    opt.param_groups[0]["lr"] = 0.01
    refused(RuntimeError, "learning rate", opt.step)
    opt.param_groups[0]["lr"] = 0.1
    refused(RuntimeError, "the job has begun", ps.batches, x)
    ps.shutdown()
    refused(RuntimeError, "shutdown", opt.step)
    assert not any(torch.equal(p, saved[k]) for k, p in model.state_dict().items())


if __name__ == "__main__":
    import pskit.torch
    assert "PSKIT_SLOT" in os.environ or "RANK" in os.environ
    pskit.torch.init()
    globals()[sys.argv[1]](pskit.torch, *sys.argv[2:])
