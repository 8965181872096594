# SPDX-License-Identifier: ISC
"""pskit for PyTorch: a model's parameters are the tables of a parameter server.

    import torch, pskit.torch as ps

    ps.init()
    model = Net()
    opt = ps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                  named_parameters=model.named_parameters(), mode="bsp")
    for x, y in torch.utils.data.DataLoader(data, batch_sampler=ps.batches(data, batch_size=64, epochs=5)):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step(loss=loss)
    ps.shutdown()

    ps-ctl run --exec "python3 train.py" --set workers=2

The servers apply the update rule: that of the torch optimizer, which keeps no state of its own.  What the cluster file
(or --set) says goes before what the script says.  Parameters are float32 on the CPU; buffers, as those of BatchNorm,
stay each worker's own.
"""

import atexit
import sys

import torch

from .. import Error, Stopped
from . import _rules
from ._session import Session

__all__ = ["init", "shutdown", "on_score", "rank", "size", "DistributedOptimizer", "Compression", "broadcast_parameters",
           "broadcast_optimizer_state", "batches", "Embedding", "LocalSGD", "DiLoCo", "GradientMean", "ddp_comm_hook", "Error", "Stopped"]

_session = None


def init(where=None, **options):
    """Find the cluster: a run directory or join file, else PS_CLUSTER.  Options are those of pskit.connect."""
    global _session
    if _session is not None and not _session.closed:
        raise RuntimeError("init() was called before: shutdown() comes first")
    _session = Session(where, **options)


def session():
    if _session is None:
        raise RuntimeError("pskit.torch.init() comes first")
    return _session


def rank():
    """This worker's number, from 0."""
    s = session()
    if s.rank is None:
        s.start()
    return s.rank


def size():
    """How many workers there are at most."""
    s = session()
    if s.size is None:
        s.start()
    return s.size


def on_score(score):
    """score() is called in one of the workers each job.eval_every steps (ps-ctl set eval_every=100), and at the end."""
    session().on_score(score)


def shutdown(score=None):
    """This worker has no more to do: returns when the job is over.  score() -> {"loss": ..., "accuracy": ..., "examples": ...}
    is called in one of the workers, with the last parameters in the model."""
    session().finish(score)


@atexit.register
def _at_exit():
    if _session is not None and not _session.closed:
        if _session.started and not _session.left and not hasattr(sys, "last_type"):
            print("pskit.torch: the script ended without shutdown(): this worker leaves the job", file=sys.stderr)
        _session.close()


# ---- the optimizer


class Compression:
    """Of gradients on the wire, as names of codecs; any other codec is given by its name ("topk:0.01")."""

    none, fp16 = "raw", "f16"


def _mode(mode, staleness):
    if mode not in ("bsp", "ssp", "asp"):
        raise ValueError(f"mode: must be bsp, ssp or asp, and is {mode!r}")
    return f"ssp:{int(staleness)}" if mode == "ssp" else mode


class _Distributed:
    """What a torch optimizer is, whose rule the servers apply."""

    def step(self, closure=None, loss=None):
        """Push the gradients, and take the parameters of the next step.  loss, if it is given, is for ps-stat and the result."""
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._passes += 1
        if self._passes % self._passes_per_step:
            return loss
        s = self._session
        before = None if s.started else [d.parameter.detach().clone() for d in s.dense]
        s.live()
        self._check(before)
        for d in self._tables:
            grad, to = d.parameter.grad, s.view(d, gradient=True)
            if grad is None:
                to.zero_()
            else:
                to.copy_(grad.to_dense() if grad.is_sparse else grad)
        s.end(self, None if loss is None else float(loss))
        return loss

    def _check(self, before):
        s = self._session
        if before and not all(torch.equal(d.parameter.detach(), b) for d, b in zip(s.dense, before)):
            raise RuntimeError("the gradient is of other parameters than the job's: call zero_grad() before the first backward()")
        d = s.changed()
        if d is not None:
            raise RuntimeError(f"parameter {d.name!r} was changed in place, and the servers do not know: load a state before the first "
                               "step, and leave what comes after to step()")
        if [g["lr"] for g in self.param_groups] != self._rates:
            raise RuntimeError("the learning rate was changed here, and is the servers': give schedule= (job.schedule), or ps-ctl set lr=")

    def zero_grad(self, set_to_none=True):
        if self._passes % self._passes_per_step:
            return
        if not self._session.closed:
            self._session.start()
        super().zero_grad(set_to_none=set_to_none)

    def synchronize(self):
        """Of Horovod: step() does all of it."""

    def add_param_group(self, group):
        if hasattr(self, "_session"):
            raise RuntimeError("add_param_group: all parameters come before DistributedOptimizer")
        super().add_param_group(group)

    def load_state_dict(self, state):
        """Of what a wrapped optimizer has saved: its settings, which must be those that it has."""
        if state.get("state"):
            raise RuntimeError("load_state_dict: the optimizer's state is the servers' (and in their checkpoints), and cannot be loaded here")
        strip = [{k: v for k, v in g.items() if k != "params"} for g in state["param_groups"]]
        if strip != [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]:
            raise RuntimeError("load_state_dict: its settings are others than this optimizer was made with")


def _name(optimizer, named_parameters):
    """[(name, parameter)] of each param_group."""
    named = list(named_parameters) if named_parameters is not None else []
    names = {}
    for name, p in named:
        if names.setdefault(id(p), name) != name:
            raise ValueError(f"named_parameters: {name!r} and {names[id(p)]!r} are one parameter")
    if len({n for n, _ in named}) < len(named):
        raise ValueError("named_parameters: a name comes twice")
    groups, count = [], 0
    for g in optimizer.param_groups:
        groups.append([])
        for p in g["params"]:
            if named and id(p) not in names:
                raise ValueError(f"named_parameters: parameter {count} of the optimizer, of shape {tuple(p.shape)}, is not among them")
            if p.requires_grad:
                groups[-1].append((names.get(id(p), f"parameter.{count}"), p))
            count += 1
    return groups


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1, *, mode="bsp",
                         staleness=3, schedule=None, clip_norm=None):
    """The same optimizer, whose step() pushes gradients to the servers and takes the parameters of the next step.

    mode: bsp, ssp (at most `staleness` steps apart) or asp.  schedule: of the learning rate, as job.schedule ("cosine:1000").
    clip_norm: longest gradient of a worker.  backward_passes_per_step: so many step() are one, of the sum of their gradients.
    Parameters without a name are called parameter.0 ...; named ones keep theirs, also in ps-ctl export."""
    s = session()
    if backward_passes_per_step < 1:
        raise ValueError("backward_passes_per_step: must be at least 1")
    rule, decays = _rules.settings(optimizer)
    groups = _name(optimizer, named_parameters)
    tables = s.add([(name, p, decay) for group, decay in zip(groups, decays) for name, p in group])
    try:
        s.want({**rule, "sync": _mode(mode, staleness), "codec": compression, **({"schedule": schedule} if schedule else {}),
                **({"clip_norm": float(clip_norm)} if clip_norm else {})})
    except ValueError:
        s.drop(tables)
        raise
    optimizer._tables, optimizer._session, optimizer._passes, optimizer._passes_per_step = tables, s, 0, backward_passes_per_step
    optimizer._rates = [g["lr"] for g in optimizer.param_groups]
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    s.pushers.append(optimizer)
    return optimizer


def broadcast_parameters(params, root_rank=0):
    """All workers begin with the parameters of rank 0, which they do anyhow: its first ones are the servers' first ones.
    Buffers stay each worker's own."""
    session()
    if root_rank != 0:
        raise ValueError("broadcast_parameters: the first parameters are those of rank 0")


def broadcast_optimizer_state(optimizer, root_rank=0):
    """There is one state, on the servers."""
    if not isinstance(optimizer, _Distributed) and optimizer.state_dict()["state"]:
        raise ValueError("broadcast_optimizer_state: the servers begin without a state, and this optimizer has one")


# ---- data


class batches:
    """A batch sampler: the examples of this worker's steps, as the servers deal them out; those of a worker that is lost go
    to the others.  It ends when all epochs are done, or when this worker is to leave.  For a DataLoader with num_workers=0."""

    def __init__(self, data, batch_size=64, epochs=1, shuffle=True, seed=1):
        s = session()
        self._session, self._n, self._shuffle, self._seed = s, len(data), shuffle, seed
        self._order = None, None
        if self._n < 1:
            raise ValueError("batches: there are no examples")
        s._early("batches")
        s.examples, s.batch = self._n, batch_size
        s.want({"epochs": epochs})

    def _indices(self, task):
        if not self._shuffle:
            return list(range(task.begin, task.end))
        if self._order[0] != task.epoch:
            chance = torch.Generator().manual_seed(self._seed * 1000003 + task.epoch)
            self._order = task.epoch, torch.randperm(self._n, generator=chance)
        return self._order[1][task.begin:task.end].tolist()

    def __iter__(self):
        s, last = self._session, None
        s.start()
        while s.task is not None:
            if s.task is last:
                raise RuntimeError("batches: the step was not ended: opt.step() comes after each batch, and a DataLoader has num_workers=0")
            last = s.task
            yield from self._pieces(self._indices(last))

    def _pieces(self, indices):
        s = self._session
        each = s.batch if s.local else len(indices)
        for at in range(0, len(indices), each):
            yield indices[at:at + each]
        # The last of an epoch may have been fewer.
        if s.local:
            s.local.sync()


from ._more import DiLoCo, Embedding, GradientMean, LocalSGD, ddp_comm_hook  # noqa: E402
