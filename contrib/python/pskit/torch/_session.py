# SPDX-License-Identifier: ISC
"""A worker of a job whose tables are the parameters of a torch model."""

import os
import re
import sys

import torch

from .. import Error, Stopped, connect
from .._library import lib
from . import _rules

NO_LIMIT = 1 << 40          # examples of a job whose script chooses them itself


def _pair(rank, size):
    if rank in os.environ and size in os.environ:
        return int(os.environ[rank]), int(os.environ[size])
    return None


def identity():
    """(rank, size) as ps-ctl, torchrun, Open MPI, MPICH or Slurm set them in the environment; (None, None) if none of them did."""
    if "PSKIT_RANK" in os.environ:
        return int(os.environ["PSKIT_RANK"]), int(os.environ.get("PSKIT_WORKERS", 0)) or None
    # mpirun inside Slurm takes precedence. A batch script that is not a step has a SLURM_PROCID, too.
    return (_pair("RANK", "WORLD_SIZE") or _pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") or _pair("PMI_RANK", "PMI_SIZE") or
            ("SLURM_STEP_ID" in os.environ and _pair("SLURM_PROCID", "SLURM_NTASKS")) or (None, None))


def _log(_level, text):
    print("pskit:", text, file=sys.stderr, flush=True)


def table_name(name):
    """The name of the table for a parameter.  Tables' names have 1 to 63 letters, digits, "_", "." and "-"."""
    fit = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if not 0 < len(fit) <= 63:
        raise ValueError(f"parameter {name!r}: the name must have 1 to 63 letters; give another one in named_parameters")
    return fit


class _Dense:
    """A parameter, the name of its table and its update rule (see _rules).  version: torch's count of changes to the parameter
    when the servers' values came."""

    __slots__ = ("name", "parameter", "rule", "version")

    def __init__(self, name, parameter, rule):
        self.name, self.parameter, self.rule, self.version = table_name(name), parameter, rule, None

    def spec(self, decays):
        """The table as job.tables describes it."""
        rows = self.parameter.shape[0] if self.parameter.dim() > 1 else self.parameter.numel()
        cols = self.parameter.numel() // max(rows, 1)
        return f"{self.name}:{rows}{f'x{cols}' if cols > 1 else ''}{'' if decays else ':nodecay'}"


class Session:
    """The connection that init() makes.  It joins the job when the first step begins, because all tables are known then."""

    def __init__(self, where=None, **options):
        self.rank, self.size = identity()
        if self.rank is not None and "PSKIT_RANK" not in os.environ:
            options = {"rank": self.rank, "name": f"worker-{self.rank}", **options}
        self.handle = connect(where, **{"log": _log, "log_level": 1, **options})
        self.pid = os.getpid()
        self.dense, self.sparse, self.wanted = [], {}, {}
        self.collections = []               # the EmbeddingBagCollections
        self.examples, self._views = 0, {}
        self.pushers, self.pushed = [], set()
        self.task = None
        self.started = self.over = self.closed = False
        self.left = None                    # the Stopped exception with which this worker left the job
        self.bound = True                   # the parameters are in the library's memory
        self.batch = 0                      # examples of a step of the optimizer, if batches() is used
        self.local = None                   # a LocalSGD, which makes several of these steps between two pushes

    # ---- before the job begins

    def _early(self, what):
        if self.started:
            raise RuntimeError(f"{what}: the job has begun; define all tables and settings before the first step")

    def add(self, named):
        """Add dense tables for (name, parameter, rule) triples, all or none, and return them."""
        self._early("parameters")
        before = len(self.dense)
        try:
            for name, p, rule in named:
                self._add_one(name, p, rule)
            self._settings()
        except ValueError:
            del self.dense[before:]
            raise
        return self.dense[before:]

    def _add_one(self, name, p, rule):
        if p.dtype != torch.float32 or p.device.type != "cpu":
            raise ValueError(f"parameter {name!r}: must be float32 on the CPU, not {p.dtype} on {p.device}")
        if any(p is d.parameter for d in self.dense):
            raise ValueError(f"parameter {name!r}: belongs to another optimizer already, or has two names")
        d = _Dense(name, p, rule)
        if d.name in self.sparse or any(d.name == other.name for other in self.dense):
            raise ValueError(f"parameter {name!r}: another parameter has this name")
        self.dense.append(d)

    def drop(self, tables):
        self.dense = [d for d in self.dense if d not in tables]

    def add_sparse(self, name, embedding):
        """Add a sparse table, and return its name.  embedding has rule (None: the job's), spec(table), which is an item of
        job.tables, and take_gradient(): the ids and the gradient of the rows that the step has used, or None."""
        self._early("an embedding")
        name = table_name(name)
        if name in self.sparse or any(name == d.name for d in self.dense):
            raise ValueError(f"embedding {name!r}: another table has this name")
        self.sparse[name] = embedding
        return name

    def want(self, settings):
        """Settings of the job, for all tables.  ValueError: the script has given another value before."""
        self._early("settings")
        for key, value in settings.items():
            if self.wanted.get(key, value) != value:
                raise ValueError(f"{key}: the job can have one value for all optimizers, and got {self.wanted[key]} and {value}")
        self.wanted.update(settings)

    def _settings(self):
        """The settings for the rules of all tables, and the names of the dense tables whose weights decay."""
        return _rules.settings({d.name: d.rule for d in self.dense}, {n: e.rule for n, e in self.sparse.items()})

    # ---- steps

    def start(self):
        """Join the job and begin the first step, if that is not done."""
        if self.pid != os.getpid():
            raise RuntimeError("this process was forked from a worker, and cannot train")
        if self.started:
            return
        if not self.dense and not self.sparse:
            raise RuntimeError("there are no parameters to train: make a DistributedOptimizer first")
        if self.batch:
            self.want({"batch": self.batch * (self.local.sync_every if self.local else 1)})
        rules, decays = self._settings()
        for key, value in {**rules, **self.wanted}.items():
            self.handle.set(key, repr(value) if isinstance(value, float) else value)
        for d in self.dense:
            self.handle.begin_with(d.name, d.parameter.detach().contiguous().numpy())
        self.handle.join(",".join([d.spec(d.name in decays) for d in self.dense] + [e.spec(n) for n, e in self.sparse.items()]),
                         self.examples or NO_LIMIT)
        self.started = True
        self.rank = self.handle.rank
        if self.size is None:
            self.size = int(self.handle.setting("workers").rsplit(":", 1)[-1])
        self._begin()

    def view(self, d, gradient=False):
        """The library's memory of a parameter or its gradient, as a tensor of the parameter's shape."""
        a = self.handle._view(lib.ps_grad if gradient else lib.ps_param, d.name)
        # The handle keeps its arrays, at most three for each table.
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
        """Let the parameters be the library's memory with the values of this step."""
        if not self.bound:
            return
        for d in self.dense:
            d.parameter.data = self.view(d)
            d.version = d.parameter._version

    def changed(self):
        """The first parameter that the script has changed since its values came from the servers, or None."""
        return next((d for d in self.dense if self.bound and d.parameter._version != d.version), None)

    def live(self):
        """Raise an exception unless there is a step to train."""
        if self.closed:
            raise RuntimeError("shutdown() was called: there are no further steps")
        self.start()
        if self.left:
            raise self.left
        if self.over:
            raise Error(100, "all steps of the job are done")

    def end(self, pusher, loss=None):
        """`pusher` has its gradients ready.  When all pushers have, push them and begin the next step."""
        self.pushed.add(pusher)
        if self.pushed != set(self.pushers):
            return
        gradients = [(name, *g) for name, e in self.sparse.items() if (g := e.take_gradient()) is not None]
        if gradients:
            self.handle.push_many(gradients)
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
        """Leave the library.  The parameters keep their values, in memory of their own."""
        if self.closed:
            return
        self.closed = True
        if self.started and self.bound:
            for d in self.dense:
                d.parameter.data = d.parameter.data.clone()
        self.handle.close()
