# SPDX-License-Identifier: ISC
"""Embeddings whose rows are on the servers, local SGD and DiLoCo, and a communication hook for DistributedDataParallel."""

import torch

from . import _rules


def _session():
    from . import session
    return session()


def sum_gradients(touched, dim):
    """The ids and the gradient of the rows in (ids, leaf, begin) triples, each row once, or None; empties the list.  The rows of the
    ids are the leaf's from `begin` on."""
    done = [(ids, leaf.grad[begin:begin + len(ids)]) for ids, leaf, begin in touched if leaf.grad is not None]
    touched.clear()
    if not done:
        return None
    if len(done) == 1:
        return done[0][0].numpy(), done[0][1].contiguous().numpy()
    ids, place = torch.unique(torch.cat([i for i, _ in done]), return_inverse=True)
    return ids.numpy(), torch.zeros(len(ids), dim).index_add_(0, place, torch.cat([g for _, g in done])).numpy()


class Embedding(torch.nn.Module):
    """A torch.nn.Embedding whose rows are on the servers only.  forward() pulls the rows that a batch uses, and the optimizer's
    step() pushes their gradients.  init: "zeros", or "glorot" for uniform values within
    sqrt(6 / (num_embeddings + embedding_dim)).  The update rule is the one that most parameters of the job have."""

    def __init__(self, num_embeddings, embedding_dim, name="embedding", init="glorot"):
        super().__init__()
        if init not in ("zeros", "glorot"):
            raise ValueError(f"init: must be zeros or glorot, got {init!r}")
        self.num_embeddings, self.embedding_dim, self.name, self.init = num_embeddings, embedding_dim, name, init
        self._touched, self.rule = [], None
        self._session = _session()
        self._session.add_sparse(name, self)

    def spec(self, table):
        return f"{table}:{self.num_embeddings}x{self.embedding_dim}{':glorot' if self.init == 'glorot' else ''}:sparse"

    def forward(self, ids):
        s = self._session
        s.start()
        touched, place = torch.unique(ids, return_inverse=True)
        if len(touched) and not 0 <= int(touched[0]) <= int(touched[-1]) < self.num_embeddings:
            raise IndexError(f"embedding {self.name!r}: ids must be from 0 to {self.num_embeddings - 1}")
        rows = torch.from_numpy(s.handle.pull(self.name, touched.numpy()))
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            self._touched.append((touched, rows, 0))
        return torch.nn.functional.embedding(place, rows)

    def take_gradient(self):
        return sum_gradients(self._touched, self.embedding_dim)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, table={self.name}"


class LocalSGD:
    """A context in which the optimizer trains a copy of the model in each worker.  Every sync_every steps all workers replace
    their copies by the mean of them.

        with ps.LocalSGD(model, optimizer, sync_every=64):
            for x, y in loader: ...                     # as without pskit
    """

    def __init__(self, model, optimizer, sync_every):
        self._init(model, optimizer, sync_every, {"optimizer": "sgd", "lr": 1.0})

    def _init(self, model, optimizer, sync_every, outer):
        if sync_every < 1:
            raise ValueError("sync_every: must be at least 1")
        s = self._session = _session()
        self._tables = s.add((n, p, outer) for n, p in model.named_parameters() if p.requires_grad)
        s.bound, s.local = False, self
        s.pushers.append(self)
        self.sync_every, self._optimizer, self._alone = sync_every, optimizer, 0

    def __enter__(self):
        self._session.start()
        self._take()
        self._inner = self._optimizer.step
        self._optimizer.step = self._step
        return self

    def __exit__(self, kind, *_):
        self._optimizer.step = self._inner
        if kind is None:
            self.sync()

    def _step(self, *args, **more):
        out = self._inner(*args, **more)
        self._alone += 1
        if self._alone == self.sync_every:
            self.sync()
        return out

    def _take(self):
        with torch.no_grad():
            for d in self._tables:
                d.parameter.copy_(self._session.view(d))

    def sync(self):
        """Push the change of this worker's parameters since the last synchronization, and pull the new parameters."""
        if not self._alone:
            return
        s = self._session
        s.live()
        self._alone = 0
        with torch.no_grad():
            for d in self._tables:
                torch.sub(s.view(d), d.parameter, out=s.view(d, gradient=True))
        s.end(self)
        if not s.left:
            self._take()


class DiLoCo(LocalSGD):
    """LocalSGD whose servers use the mean of the workers' changes as a gradient for an outer optimizer.  outer: a torch optimizer
    with equal settings for all parameters; None: SGD with lr 0.7 and Nesterov momentum 0.9, as in Douillard et al., 2023."""

    def __init__(self, model, inner, outer=None, sync_every=500):
        rule = _rules.of_whole(outer) if outer else {"optimizer": "nesterov", "momentum": 0.9, "lr": 0.7}
        self._init(model, inner, sync_every, rule)


class GradientMean:
    """Let the servers compute the mean gradient of DistributedDataParallel.  The optimizer runs in the workers.

        ddp.register_comm_hook(ps.GradientMean(ddp.parameters()), ps.ddp_comm_hook)
    """

    def __init__(self, parameters):
        s = self.session = _session()
        # With this rule an update is w - (g + w), so a pull returns the mean of what was pushed, with the opposite sign.
        rule = {"optimizer": "sgd", "lr": 1.0, "l2": 1.0}
        self.table, = s.add([("gradient", torch.zeros(sum(p.numel() for p in parameters if p.requires_grad)), rule)])
        s.pushers.append(self)
        self.waiting = []


def ddp_comm_hook(state, bucket):
    """The hook that register_comm_hook takes with a GradientMean as its state."""
    s = state.session
    future = torch.futures.Future()
    state.waiting.append((bucket.buffer(), future))
    if not bucket.is_last():
        return future
    s.live()
    waiting, state.waiting = state.waiting, []
    sizes = [b.numel() for b, _ in waiting]
    for (b, _), to in zip(waiting, s.view(state.table, gradient=True).split(sizes)):
        torch.neg(b, out=to)
    s.end(state)
    if s.left:
        raise s.left
    for (b, f), mean in zip(waiting, s.view(state.table).split(sizes)):
        f.set_result(b.copy_(mean))
    return future
