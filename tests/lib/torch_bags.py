# SPDX-License-Identifier: ISC
"""A worker with bags of embeddings: torch_bags.py CASE ... (tests/78-torch-bags.bats).

The workers train a model on halves of batches, and rank 0 then trains the same model by torch alone on whole batches."""
import sys

import numpy as np
import torch
from torch.nn import functional as F

HALF, STEPS, IDS = 16, 100, 40
RULES = {
    "sgd": {"optimizer": "sgd", "lr": 0.3},
    "adagrad": {"optimizer": "adagrad", "lr": 0.05, "eps": 1e-10},
    "rowwise": {"optimizer": "rowwise_adagrad", "lr": 0.05, "eps": 1e-10},
}


class RowWiseAdagrad(torch.optim.Optimizer):
    """One accumulator for each row, as FBGEMM's exact row-wise AdaGrad."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                sum_ = self.state[p].setdefault("sum", torch.zeros(len(p), 1))
                sum_ += p.grad.square().mean(1, keepdim=True)
                p -= group["lr"] * p.grad / (sum_.sqrt() + 1e-10) * (p.grad != 0).any(1, keepdim=True)


ALONE = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.3),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "rowwise": lambda p: RowWiseAdagrad(p, lr=0.05),
}
# Any int64 is an id.
ID = torch.randint(-2**63, 2**63 - 1, (IDS,), generator=torch.Generator().manual_seed(1))
ID[:3] = torch.tensor([0, -1, -2**63])


def batch(rank, step):
    """Numbers 0 .. IDS-1 of the ids of four features, three of which are jagged, and what to predict."""
    g = torch.Generator().manual_seed(1000 * rank + step)
    lengths = torch.randint(0, 4, (3 * HALF,), generator=g)
    # A tenth of the ids in each step, so that rows are trained at some steps and rest at others.
    some = torch.randperm(IDS, generator=torch.Generator().manual_seed(step))[:IDS // 4]
    values = some[torch.randint(len(some), (int(lengths.sum()),), generator=g)]
    weights = torch.rand(len(values), generator=g) + 0.5
    square = some[torch.randint(len(some), (HALF, 3), generator=g)]
    return lengths, values, weights, square, torch.randn(HALF, 1, generator=g)


class Net(torch.nn.Module):
    """weighted, plain: collections with features f1 and f3 (one table, sum) and f2 (mean); fixed: a bag of mean; single: rows."""

    def __init__(self, ps, rule):
        super().__init__()
        torch.manual_seed(5)
        r = RULES[rule]
        self.weighted = ps.EmbeddingBagCollection([ps.EmbeddingBagConfig("a", 8, IDS, ["f1", "f3"], "sum", rule=r)], is_weighted=True,
                                                  name="weighted")
        self.plain = ps.EmbeddingBagCollection([ps.EmbeddingBagConfig("b", 4, IDS, ["f2"], "mean", rule=r),
                                                ps.EmbeddingBagConfig("c", 4, IDS, ["f1"], "sum", rule=r)], name="plain")
        self.fixed = ps.EmbeddingBag(IDS, 8, name="fixed", rule=r)
        self.single = ps.EmbeddingBag(IDS, 4, mode="none", name="single", rule=r)
        self.out = torch.nn.Linear(36, 1)

    def forward(self, x):
        kjt, square = x
        return self.out(torch.cat([self.weighted(kjt).values(), self.plain(kjt).values(), self.fixed(square), self.single(square).sum(1)], 1))


class Alone(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        torch.manual_seed(5)
        bag = lambda name, mode: torch.nn.EmbeddingBag.from_pretrained(rows[name].clone(), freeze=False, mode=mode)  # noqa: E731
        self.a, self.b, self.c, self.fixed = bag("weighted.a", "sum"), bag("plain.b", "mean"), bag("plain.c", "sum"), bag("fixed", "mean")
        self.single = torch.nn.Embedding.from_pretrained(rows["single"].clone(), freeze=False)
        self.out = torch.nn.Linear(36, 1)

    def forward(self, lengths, values, weights, square):
        n = lengths.view(3, -1)
        ends = n.sum(1).cumsum(0).tolist()
        part = [slice(b, e) for b, e in zip([0] + ends, ends)]
        at = [torch.cat([torch.zeros(1, dtype=torch.int64), k.cumsum(0)[:-1]]) for k in n]
        return self.out(torch.cat([self.a(values[part[0]], at[0], weights[part[0]]), self.a(values[part[2]], at[2], weights[part[2]]),
                                   self.b(values[part[1]], at[1]), self.c(values[part[0]], at[0]), self.fixed(square),
                                   self.single(square).sum(1)], 1))


def inputs(ps, rank, step):
    lengths, values, weights, square, y = batch(rank, step)
    return (ps.KeyedJaggedTensor(["f1", "f2", "f3"], ID[values], lengths, weights), ID[square]), y


def same(ps, rule, *words):
    model = Net(ps, rule)
    opt = ps.DistributedOptimizer(torch.optim.SGD(model.out.parameters(), lr=0.01), named_parameters=model.named_parameters())
    handle, rank = opt._session.handle, ps.rank()
    opt.zero_grad()                         # joins the job
    tables = {"weighted.a": 8, "plain.b": 4, "plain.c": 4, "fixed": 8, "single": 4}
    first = {t: torch.empty(IDS, dim) for t, dim in tables.items()}
    handle.pull_many([(t, ID.numpy(), rows.numpy()) for t, rows in first.items()])
    assert not any(len(v) for k, v in model.state_dict().items() if not k.startswith("out."))

    def all_rows(b):
        (kjt, square), _ = b
        return [*model.weighted.name_rows(kjt), *model.plain.name_rows(kjt), *model.fixed.name_rows(square), *model.single.name_rows(square)]
    loader = (inputs(ps, rank, k) for k in range(STEPS))
    for x, y in ps.prefetch(loader, all_rows) if "prefetch" in words else loader:
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step(loss=loss)
    ours = model.state_dict()
    rows = {t: (ours[f"{t}.ids"], ours[f"{t}.rows"]) for t in tables}
    ps.shutdown()
    if rank:
        return
    alone = Alone(first)
    opts = [torch.optim.SGD(alone.out.parameters(), lr=0.01), ALONE[rule]([p for n, p in alone.named_parameters() if not n.startswith("out")])]
    for k in range(STEPS):
        for o in opts:
            o.zero_grad()
        for half in range(2):
            *x, y = batch(half, k)
            (F.mse_loss(alone(*x), y) / 2).backward()
        for o in opts:
            o.step()
    theirs = dict(zip(tables, (alone.a, alone.b, alone.c, alone.fixed, alone.single)))
    worst = (model.out.weight - alone.out.weight).abs().max().item()
    for t, (ids, values) in rows.items():
        assert sorted(ids.tolist()) == sorted(ID.tolist()), t
        number = {i: k for k, i in enumerate(ID.tolist())}
        moved = (theirs[t].weight - first[t]).abs().max()
        assert moved > 0.05, (t, moved)
        worst = max(worst, (values - theirs[t].weight[[number[i] for i in ids.tolist()]]).abs().max().item())
    print(f"{rule}: largest difference {worst:.2g}")
    assert worst < 1e-6, (rule, worst)


def shapes(ps):
    """Inputs of all forms, gradients of weights, what is refused, and hashed ids."""
    bag = ps.EmbeddingBag(10, 3, mode="sum", name="bag")
    last = ps.EmbeddingBag(10, 3, mode="sum", name="last", include_last_offset=True)
    hashed = ps.EmbeddingBag(7, 3, mode="sum", name="hashed", hashed=True)
    ebc = ps.EmbeddingBagCollection([ps.EmbeddingBagConfig("t", 3, 10, ["x"], "none")])
    w = torch.nn.Parameter(torch.ones(3))
    opt = ps.DistributedOptimizer(torch.optim.SGD([w], lr=0.1))
    for bad in (lambda: ps.EmbeddingBag(1, 1, mode="max", name="bad"), lambda: ps.EmbeddingBag(1, 1, init="ones", name="bad"),
                lambda: ps.EmbeddingBag(1, 1, name="bad", rule={"lr": 1}), lambda: ps.EmbeddingBag(1, 1, name="bag"),
                lambda: ps.KeyedJaggedTensor(["a"], torch.arange(3), torch.tensor([1, 1])),
                lambda: ps.EmbeddingBagCollection([ps.EmbeddingBagConfig("u", 1, feature_names=["y", "y"])], name="twice")):
        try:
            bad()
        except ValueError:
            continue
        raise AssertionError("was not refused")
    opt._session.sparse.pop("twice.u")
    ids, at = torch.tensor([5, 2**62, 5, -7]), torch.tensor([0, 2, 2])
    with torch.no_grad():
        row = {int(i): bag(i.view(1, 1))[0] for i in ids}
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    out = bag(ids, at, weights)
    assert torch.allclose(out, torch.stack([row[5] + 2 * row[2**62], torch.zeros(3), 3 * row[5] + 4 * row[-7]]))
    assert torch.equal(last(ids, torch.tensor([0, 2, 2, 4]))[1], torch.zeros(3))
    assert torch.equal(bag(torch.tensor([], dtype=torch.int64), torch.tensor([0, 0])), torch.zeros(2, 3))
    assert torch.equal(bag(torch.empty(2, 0, dtype=torch.int64)), torch.zeros(2, 3))
    many = torch.arange(1000).view(-1, 1)
    distinct = torch.unique(hashed(many).detach(), dim=0)
    assert len(distinct) == 7, distinct
    rows = ebc(ps.KeyedJaggedTensor(["x"], ids, torch.tensor([2, 0, 2])))["x"]
    assert rows.shape == (4, 3) and torch.equal(rows[0], rows[2])
    (out * w).sum().backward()
    assert torch.allclose(weights.grad, torch.stack([row[int(i)].sum() for i in ids]))
    opt.step()
    state = bag.state_dict()
    assert set(state["ids"].tolist()) == {5, 2**62, -7} and list(last.state_dict()["ids"]) == []
    # The gradient of a row is the sum of the weights of its uses, and all workers had the same.
    at5 = state["ids"].tolist().index(5)
    assert torch.allclose(state["rows"][at5], row[5] - 0.1 * 4, atol=1e-6), (state["rows"][at5], row[5])
    try:
        bag.load_state_dict(state)
    except RuntimeError as e:
        assert "job.init" in str(e)
    else:
        raise AssertionError("was not refused")
    ps.shutdown()


def tasks(ps, *words):
    """Examples that the coordinator deals, one task ahead; the batches are those of the tasks, also after a worker has left."""
    bag = ps.EmbeddingBag(IDS, 4, name="bag", mode="sum")
    out = torch.nn.Linear(4, 1)
    opt = ps.DistributedOptimizer(torch.optim.SGD(out.parameters(), lr=0.1), named_parameters=out.named_parameters())
    n = 203
    x = ID[torch.randint(IDS, (n, 3), generator=torch.Generator().manual_seed(2))]
    sampler = ps.batches(x, batch_size=10, epochs=4)
    seen, ahead, pulls = [], 0, []
    data = torch.utils.data.TensorDataset(x, torch.arange(n))
    handle = opt._session.handle
    real = handle.pull_many
    handle.pull_many = lambda items: (pulls.append(len(items)), real(items))[1]
    for a, i in ps.prefetch(torch.utils.data.DataLoader(data, batch_sampler=sampler), lambda batch: bag.name_rows(batch[0])):
        assert i.tolist() == sampler.indices(opt._session.task)
        ahead += handle.next() is not None
        seen += i.tolist()
        opt.zero_grad()
        loss = F.mse_loss(out(bag(a)).squeeze(1), torch.ones(len(a)))
        loss.backward()
        opt.step(loss=loss)
    np.save(f"seen.{ps.rank()}.npy", seen)
    assert set(pulls) == {1}
    assert ahead > len(pulls) / 2 or "leased" in words, (ahead, len(pulls))
    ps.shutdown()


if __name__ == "__main__":
    import pskit.torch
    pskit.torch.init()
    torch.set_num_threads(1)
    globals()[sys.argv[1]](pskit.torch, *sys.argv[2:])
