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

The servers apply the update rule of the torch optimizer, which itself keeps no state.  Its param_groups may have different
settings.  Settings of the cluster file and of --set take precedence over those of the script.  Parameters must be float32 on
the CPU.  Buffers, such as those of BatchNorm, are not shared: each worker has its own.
"""

import atexit
import sys

import torch

from .. import Error, Stopped
from . import _rules
from ._session import Session

__all__ = ["init", "shutdown", "on_score", "rank", "size", "DistributedOptimizer", "Compression", "broadcast_parameters",
           "broadcast_optimizer_state", "batches", "prefetch", "Embedding", "EmbeddingBag", "EmbeddingBagCollection", "EmbeddingBagConfig",
           "KeyedJaggedTensor", "KeyedTensor", "LocalSGD", "DiLoCo", "GradientMean", "ddp_comm_hook", "Error", "Stopped"]

_session = None


def init(where=None, **options):
    """Connect to the cluster of a run directory or a join file; None: that of PS_CLUSTER.  The options are those of pskit.connect."""
    global _session
    if _session is not None and not _session.closed:
        raise RuntimeError("init() was called already; call shutdown() before another init()")
    _session = Session(where, **options)


def session():
    if _session is None:
        raise RuntimeError("call pskit.torch.init() first")
    return _session


def rank():
    """The number of this worker, from 0.  Joins the job if nothing else tells it."""
    s = session()
    if s.rank is None:
        s.start()
    return s.rank


def size():
    """The largest number of workers.  Joins the job if nothing else tells it."""
    s = session()
    if s.size is None:
        s.start()
    return s.size


def on_score(score):
    """Let one of the workers call score() every job.eval_every steps (ps-ctl set eval_every=100) and at the end of the job."""
    session().on_score(score)


def shutdown(score=None):
    """Finish this worker's part, and return when the job is over.  One of the workers calls
    score() -> {"loss": ..., "accuracy": ..., "examples": ...} with the final parameters in the model."""
    session().finish(score)


@atexit.register
def _at_exit():
    if _session is not None and not _session.closed:
        if _session.started and not _session.left and not hasattr(sys, "last_type"):
            print("pskit.torch: the script ended without shutdown(); this worker leaves the job", file=sys.stderr)
        _session.close()


# ---- the optimizer


class Compression:
    """Codecs of gradients on the wire.  Other codecs are given by their names, such as "topk:0.01"."""

    none, fp16 = "raw", "f16"


def _mode(mode, staleness):
    if mode not in ("bsp", "ssp", "asp"):
        raise ValueError(f"mode: must be bsp, ssp or asp, got {mode!r}")
    return f"ssp:{int(staleness)}" if mode == "ssp" else mode


class _Distributed:
    """Methods of a torch optimizer whose update rule the servers apply."""

    def step(self, closure=None, loss=None):
        """Push the gradients, and pull the parameters of the next step.  ps-stat and the result of the job show the loss."""
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
            raise RuntimeError("the gradient was computed from other parameters than those of the job; call zero_grad() before the "
                               "first backward()")
        d = s.changed()
        if d is not None:
            raise RuntimeError(f"parameter {d.name!r} was changed in place, which the servers cannot know; load a state before the "
                               "first step, and change parameters by step() only")
        if [g["lr"] for g in self.param_groups] != self._rates:
            raise RuntimeError("the learning rate was changed in the script, but the servers apply it; use schedule= (job.schedule) or "
                               "ps-ctl set lr=")

    def zero_grad(self, set_to_none=True):
        if self._passes % self._passes_per_step:
            return
        if not self._session.closed:
            self._session.start()
        super().zero_grad(set_to_none=set_to_none)

    def synchronize(self):
        """Does nothing.  It is here for scripts that were written for Horovod; step() pushes and pulls."""

    def add_param_group(self, group):
        if hasattr(self, "_session"):
            raise RuntimeError("add_param_group: add all parameters before DistributedOptimizer is made")
        super().add_param_group(group)

    def load_state_dict(self, state):
        """Accept the state that an optimizer like this one has saved.  It has settings only, which must equal those of this one."""
        if state.get("state"):
            raise RuntimeError("load_state_dict: the servers keep the state of the optimizer, in checkpoints, too; it cannot be loaded here")
        strip = [{k: v for k, v in g.items() if k != "params"} for g in state["param_groups"]]
        if strip != [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]:
            raise RuntimeError("load_state_dict: the settings differ from those that this optimizer was made with")


def _name(optimizer, named_parameters):
    """The (name, parameter) pairs of each param_group."""
    named = list(named_parameters) if named_parameters is not None else []
    names = {}
    for name, p in named:
        if names.setdefault(id(p), name) != name:
            raise ValueError(f"named_parameters: {name!r} and {names[id(p)]!r} are the same parameter")
    if len({n for n, _ in named}) < len(named):
        raise ValueError("named_parameters: two parameters have the same name")
    groups, count = [], 0
    for g in optimizer.param_groups:
        groups.append([])
        for p in g["params"]:
            if named and id(p) not in names:
                raise ValueError(f"named_parameters: parameter {count} of the optimizer, of shape {tuple(p.shape)}, is missing")
            if p.requires_grad:
                groups[-1].append((names.get(id(p), f"parameter.{count}"), p))
            count += 1
    return groups


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1, *, mode="bsp",
                         staleness=3, schedule=None, clip_norm=None):
    """Change the optimizer so that step() pushes the gradients to the servers and pulls the parameters of the next step, and
    return it.

    named_parameters: names of the parameters, which become names of tables and of tensors in ps-ctl export.  Without them the
    parameters are called parameter.0, parameter.1 and so on.
    compression: the codec of gradients on the wire.
    backward_passes_per_step: the number of calls of step() whose gradients are summed into one step of the job.
    mode: bsp, ssp (workers are at most `staleness` steps apart) or asp.
    schedule: the learning rate as a function of the step, as job.schedule has it, such as "cosine:1000".
    clip_norm: the largest Euclidean norm of a worker's gradient.

    Each param_group may have its own lr, momentum, betas, eps and weight_decay.  The settings that most parameters have become
    those of the job, and the others entries of job.rules, of which there may be 16.  ValueError: the servers have no such rule.
    Several optimizers of one script, of any of the supported kinds, share a step of the job."""
    s = session()
    if backward_passes_per_step < 1:
        raise ValueError("backward_passes_per_step: must be at least 1")
    rules = _rules.of_groups(optimizer)
    groups = _name(optimizer, named_parameters)
    tables = s.add([(name, p, rule) for group, rule in zip(groups, rules) for name, p in group])
    try:
        s.want({"sync": _mode(mode, staleness), "codec": compression, **({"schedule": schedule} if schedule else {}),
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
    """Check root_rank, and do nothing else: all workers begin with the parameters of rank 0 in any case, because the servers do.
    Buffers are not shared."""
    session()
    if root_rank != 0:
        raise ValueError("broadcast_parameters: root_rank must be 0, because the servers begin with the parameters of rank 0")


def broadcast_optimizer_state(optimizer, root_rank=0):
    """Check that the optimizer has no state, and do nothing else: the servers have the only state."""
    if not isinstance(optimizer, _Distributed) and optimizer.state_dict()["state"]:
        raise ValueError("broadcast_optimizer_state: this optimizer has a state, but the servers begin without one")


# ---- data


class batches:
    """A batch sampler of the examples that the coordinator assigns to this worker's steps.  The examples of a worker that is lost
    are assigned to the others.  The iteration ends when all epochs are done or this worker is asked to leave.  With a DataLoader,
    num_workers must be 0."""

    def __init__(self, data, batch_size=64, epochs=1, shuffle=True, seed=1):
        s = session()
        self._session, self._n, self._shuffle, self._seed = s, len(data), shuffle, seed
        self._order = None, None
        if self._n < 1:
            raise ValueError("batches: the data have no examples")
        s._early("batches")
        s.examples, s.batch = self._n, batch_size
        s.want({"epochs": epochs})

    def indices(self, task):
        """The examples of a task, in the order of its epoch."""
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
                raise RuntimeError("batches: the last step has not ended; call opt.step() after each batch, and use a DataLoader with "
                                   "num_workers=0")
            last = s.task
            yield from self._pieces(self.indices(last))

    def _pieces(self, indices):
        s = self._session
        each = s.batch if s.local else len(indices)
        for at in range(0, len(indices), each):
            yield indices[at:at + each]
        # The last task of an epoch may have fewer batches than LocalSGD makes between two pushes.
        if s.local:
            s.local.sync()


from ._bags import EmbeddingBag, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, KeyedTensor, prefetch  # noqa: E402
from ._more import DiLoCo, Embedding, GradientMean, LocalSGD, ddp_comm_hook  # noqa: E402
