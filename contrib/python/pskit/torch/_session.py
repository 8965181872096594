# SPDX-License-Identifier: ISC
"""One worker's part in a job whose tables are the parameters of a model."""

import os
import re
import sys

import torch

from .. import Error, Stopped, connect
from .._library import lib

NO_LIMIT = 1 << 40          # examples, where the script deals them out itself


def _pair(rank, size):
    if rank in os.environ and size in os.environ:
        return int(os.environ[rank]), int(os.environ[size])
    return None


def identity():
    """(rank, size) by the environment: of ps-ctl, torchrun, Open MPI, MPICH, Slurm; (None, None): it says nothing."""
    if "PSKIT_RANK" in os.environ:
        return int(os.environ["PSKIT_RANK"]), int(os.environ.get("PSKIT_WORKERS", 0)) or None
    # mpirun inside of Slurm comes first; a batch script that is no step has a SLURM_PROCID, too.
    return (_pair("RANK", "WORLD_SIZE") or _pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") or _pair("PMI_RANK", "PMI_SIZE") or
            ("SLURM_STEP_ID" in os.environ and _pair("SLURM_PROCID", "SLURM_NTASKS")) or (None, None))


def _say(_level, text):
    print("pskit:", text, file=sys.stderr, flush=True)


def table_name(name):
    """A parameter's name as a table's: 1 to 63 letters, digits, "_", "." and "-"."""
    fit = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if not 0 < len(fit) <= 63:
        raise ValueError(f"parameter {name!r}: a table's name has 1 to 63 letters; name it by named_parameters")
    return fit


class _Dense:
    """A parameter and its table."""

    __slots__ = ("name", "parameter", "decay", "version")

    def __init__(self, name, parameter, decay):
        self.name, self.parameter, self.decay, self.version = table_name(name), parameter, decay, None

    @property
    def spec(self):
        rows = self.parameter.shape[0] if self.parameter.dim() > 1 else self.parameter.numel()
        cols = self.parameter.numel() // max(rows, 1)
        return f"{self.name}:{rows}{f'x{cols}' if cols > 1 else ''}{'' if self.decay else ':nodecay'}"


class Session:
    """What init() makes.  It joins as late as it can: when the first step begins all tables are known."""

    def __init__(self, where=None, **options):
        self.rank, self.size = identity()
        if self.rank is not None and "PSKIT_RANK" not in os.environ:
            options = {"rank": self.rank, "name": f"worker-{self.rank}", **options}
        self.handle = connect(where, **{"log": _say, "log_level": 1, **options})
        self.pid = os.getpid()
        self.dense, self.sparse, self.wanted = [], {}, {}
        self.examples, self._views = 0, {}
        self.pushers, self.pushed = [], set()
        self.task = None
        self.started = self.over = self.closed = False
        self.left = None                    # the Stopped that ended it
        self.bound = True                   # parameters lie in the library's memory
        self.batch = 0                      # examples of a step of the optimizer, where batches() deals them out
        self.local = None                   # a LocalSGD, which takes several of these between two pushes

    # ---- before the job begins

    def _early(self, what):
        if self.started:
            raise RuntimeError(f"{what}: the job has begun; all of its tables and settings come before the first step")

    def add(self, named):
        """Dense tables for (name, parameter, whether it decays), all or none: their places in self.dense."""
        self._early("parameters")
        before = len(self.dense)
        try:
            for name, p, decay in named:
                self._add_one(name, p, decay)
        except ValueError:
            del self.dense[before:]
            raise
        return self.dense[before:]

    def _add_one(self, name, p, decay):
        if p.dtype != torch.float32 or p.device.type != "cpu":
            raise ValueError(f"parameter {name!r}: must be float32 on the CPU, and is {p.dtype} on {p.device}")
        if any(p is d.parameter for d in self.dense):
            raise ValueError(f"parameter {name!r}: is another optimizer's already, or named twice")
        d = _Dense(name, p, decay)
        if d.name in self.sparse or any(d.name == other.name for other in self.dense):
            raise ValueError(f"parameter {name!r}: there are two of this name")
        self.dense.append(d)

    def drop(self, tables):
        self.dense = [d for d in self.dense if d not in tables]

    def add_sparse(self, name, embedding):
        self._early("an embedding")
        name = table_name(name)
        if name in self.sparse or any(name == d.name for d in self.dense):
            raise ValueError(f"embedding {name!r}: there are two of this name")
        self.sparse[name] = embedding

    def want(self, settings):
        self._early("settings")
        for key, value in settings.items():
            if self.wanted.get(key, value) != value:
                raise ValueError(f"{key} is to be {self.wanted[key]} and {value}: the servers have one update rule, and one mode")
        self.wanted.update(settings)

    # ---- steps

    def start(self):
        """Join, and begin the first step."""
        if self.pid != os.getpid():
            raise RuntimeError("this process was forked from a worker: it is none, and cannot train")
        if self.started:
            return
        if not self.dense and not self.sparse:
            raise RuntimeError("there are no parameters to train: make a DistributedOptimizer first")
        if self.batch:
            self.want({"batch": self.batch * (self.local.sync_every if self.local else 1)})
        for key, value in self.wanted.items():
            self.handle.set(key, repr(value) if isinstance(value, float) else value)
        for d in self.dense:
            self.handle.begin_with(d.name, d.parameter.detach().contiguous().numpy())
        self.handle.join(",".join([d.spec for d in self.dense] + [e.spec(n) for n, e in self.sparse.items()]),
                         self.examples or NO_LIMIT)
        self.started = True
        self.rank = self.handle.rank
        if self.size is None:
            self.size = int(self.handle.setting("workers").rsplit(":", 1)[-1])
        self._begin()

    def view(self, d, gradient=False):
        """The library's memory, in the parameter's shape."""
        a = self.handle._view(lib.ps_grad if gradient else lib.ps_param, d.name)
        # The handle keeps its arrays, of which there are three for each table.
        view = self._views.get(id(a))
        if view is None:
            view = self._views[id(a)] = torch.from_numpy(a).view(d.parameter.shape)
        return view

    def _begin(self):
        self.pushed.clear()
        try:
            self.task = self.handle.begin()
        except Stopped as e:
            self.task, self.left = None, e
            return
        self.over = self.task is None
        self.bind()

    def bind(self):
        if not self.bound:
            return
        for d in self.dense:
            d.parameter.data = self.view(d)
            d.version = d.parameter._version

    def changed(self):
        """The first parameter that was written to since it came from the servers."""
        return next((d for d in self.dense if self.bound and d.parameter._version != d.version), None)

    def live(self):
        if self.closed:
            raise RuntimeError("shutdown() was called: there are no further steps")
        self.start()
        if self.left:
            raise self.left
        if self.over:
            raise Error(100, "all steps of the job are done")

    def end(self, pusher, loss=None):
        """Of one of those that push: the step ends when all have."""
        self.pushed.add(pusher)
        if self.pushed != set(self.pushers):
            return
        for name, e in self.sparse.items():
            e.push(self.handle, name)
        self.handle.clock(loss)
        self._begin()

    # ---- the end

    def on_score(self, score):
        def called(_handle):
            self.bind()
            return score()
        self.handle.on_score(called)

    def finish(self, score):
        try:
            if score:
                self.on_score(score)
            if self.started and not self.left:
                self.handle.finish()
        finally:
            self.close()

    def close(self):
        """Parameters stay, in memory of their own."""
        if self.closed:
            return
        self.closed = True
        if self.started and self.bound:
            for d in self.dense:
                d.parameter.data = d.parameter.data.clone()
        self.handle.close()
