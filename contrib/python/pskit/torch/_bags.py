# SPDX-License-Identifier: ISC
"""Bags of embeddings whose rows are on the servers, and the iterator that prefetches the rows of the next batch."""

import collections

import numpy as np
import torch
from torch.nn import functional as F

from . import _rules
from ._more import sum_gradients

_MODES = ("sum", "mean", "none")


def _session():
    from . import session
    return session()


class KeyedJaggedTensor:
    """Ids of several features of a batch, in the layout of torchrec's class of this name, which may be given instead: values has
    the ids of all bags of the first feature, then those of the second one, and so on; lengths has the number of ids of each bag, in
    the same order.  weights: one float for each id, or None."""

    def __init__(self, keys, values, lengths=None, weights=None, offsets=None):
        self._keys, self._values, self._weights = list(keys), values, weights
        if lengths is None:
            if offsets is None:
                raise ValueError("KeyedJaggedTensor: lengths or offsets must be given")
            lengths = offsets.diff()
        self._lengths = lengths
        if lengths.numel() % max(len(self._keys), 1):
            raise ValueError(f"KeyedJaggedTensor: {lengths.numel()} lengths are not the same number for each of {len(self._keys)} keys")
        if int(lengths.sum()) != values.numel():
            raise ValueError(f"KeyedJaggedTensor: the lengths sum to {int(lengths.sum())}, but there are {values.numel()} values")
        if weights is not None and weights.numel() != values.numel():
            raise ValueError(f"KeyedJaggedTensor: there are {weights.numel()} weights for {values.numel()} values")

    def keys(self):
        return self._keys

    def values(self):
        return self._values

    def lengths(self):
        return self._lengths

    def weights_or_none(self):
        return self._weights


class KeyedTensor:
    """The outputs of a collection by feature, as torchrec's class of this name has them."""

    def __init__(self, keys, tensors):
        self._keys, self._tensors = list(keys), list(tensors)

    def keys(self):
        return self._keys

    def values(self):
        """All features side by side, of shape (batch, sum of the widths); not for features without pooling."""
        return torch.cat(self._tensors, 1)

    def __getitem__(self, key):
        return self._tensors[self._keys.index(key)]

    def to_dict(self):
        return dict(zip(self._keys, self._tensors))

    def tensors(self):
        return self._tensors


class EmbeddingBagConfig:
    """A table of an EmbeddingBagCollection.  The first four arguments are those of torchrec's class.  num_embeddings is about the
    number of rows, and no bound, unless hashed is set: then ids are hashed to 0 .. num_embeddings-1.  pooling: sum, mean or none
    (the rows themselves).  init: "zeros", or "glorot" for uniform values within sqrt(6 / (num_embeddings + embedding_dim)).
    rule: the update rule of its rows as a dict of settings, such as {"optimizer": "rowwise_adagrad", "lr": 0.01}; None: the rule
    that most parameters of the job have."""

    def __init__(self, name, embedding_dim, num_embeddings=10000, feature_names=None, pooling="sum", init="glorot", hashed=False,
                 rule=None):
        self.name, self.embedding_dim, self.num_embeddings = name, embedding_dim, num_embeddings
        self.feature_names = [name] if feature_names is None else list(feature_names)
        self.pooling, self.init, self.hashed, self.rule = pooling, init, hashed, rule


def _mode(pooling):
    """sum, mean or none, of a text or of torchrec's enumeration."""
    mode = str(getattr(pooling, "value", pooling)).lower()
    if mode not in _MODES:
        raise ValueError(f"mode: must be sum, mean or none, got {pooling!r}")
    return mode


def hash_ids(ids, size):
    """int64 ids, mixed and reduced to 0 .. size-1: the finalizer of MurmurHash3 (splitmix64's constants), then the remainder."""
    x = ids.numpy().view(np.uint64).copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return torch.from_numpy((x % np.uint64(size)).view(np.int64))


class _Table:
    """A sparse table of a bag: its shape, its rule, and the rows that the present step has used."""

    def __init__(self, session, name, config):
        init = getattr(config, "init", "glorot")
        if init not in ("zeros", "glorot"):
            raise ValueError(f"init: must be zeros or glorot, got {init!r}")
        self.dim, self.rows, self.init, self.mode = config.embedding_dim, config.num_embeddings, init, _mode(config.pooling)
        self.hashed, self.rule = getattr(config, "hashed", False), _rules.of_rows(getattr(config, "rule", None))
        self.touched, self.session = [], session
        self.name = session.add_sparse(name, self)

    def spec(self, table):
        return f"{table}:{self.rows}x{self.dim}{':glorot' if self.init == 'glorot' else ''}:sparse"

    def take_gradient(self):
        return sum_gradients(self.touched, self.dim)

    def plan(self, ids):
        """The ids that occur, once each and ascending, and the place of each of the given ids among them."""
        ids = ids.detach().reshape(-1).to(torch.int64)
        return torch.unique(hash_ids(ids, self.rows) if self.hashed else ids, return_inverse=True)

    def state(self):
        """The ids and values of all rows that exist."""
        if not self.session.started or self.session.closed:
            raise RuntimeError(f"the rows of {self.name!r} are on the servers: state_dict() must be called in the job, before shutdown(); "
                               "ps-ctl export reads them afterwards")
        ids, rows = self.session.handle.scan(self.name)
        return torch.from_numpy(ids.view(np.int64)), torch.from_numpy(rows)


def _pull(session, plans, training):
    """The rows of (table, (ids, places)) plans, in one round trip: {table: (leaf, begin)}.  Tables of one width share a leaf of the
    graph, so that their bags can be made by one call."""
    session.start()
    count, begins = collections.Counter(), []
    for table, (ids, _) in plans:
        begins.append(count[table.dim])
        count[table.dim] += len(ids)
    leaves = {dim: torch.empty(n, dim) for dim, n in count.items()}
    session.handle.pull_many([(table.name, ids.numpy(), leaves[table.dim][begin:begin + len(ids)].numpy())
                              for (table, (ids, _)), begin in zip(plans, begins)])
    if training and torch.is_grad_enabled():
        for leaf in leaves.values():
            leaf.requires_grad_()
        for (table, (ids, _)), begin in zip(plans, begins):
            table.touched.append((ids, leaves[table.dim], begin))
    return {table: (leaves[table.dim], begin) for (table, _), begin in zip(plans, begins)}


def _pool(mode, leaf, place, offsets, weights):
    """The bags that begin at the offsets, of the rows of a leaf at these places; for none the rows themselves."""
    if mode == "none":
        out = F.embedding(place, leaf)
        return out if weights is None else out * weights.unsqueeze(1)
    if weights is not None and mode != "sum":
        raise ValueError(f"weights are only supported with sum, as in torch, not with {mode}")
    if not len(leaf):
        return torch.zeros(len(offsets), leaf.shape[1])
    return F.embedding_bag(place, leaf, offsets, mode=mode, per_sample_weights=weights)


class _Bags(torch.nn.Module):
    """What EmbeddingBag and EmbeddingBagCollection have in common: plans of inputs that were named before their step."""

    def __init__(self):
        super().__init__()
        self._session = _session()
        self._known = []                    # (input, plans) of inputs that name() has seen, the present one and the next

    def _plans_of(self, ids, make):
        """The plans of an input, which name() has made or which are made now."""
        plans = next((p for known, p in self._known if known is ids), None)
        return make(ids) if plans is None else plans

    def _name(self, ids, make):
        plans = self._plans_of(ids, make)
        self._known = [k for k in self._known if k[0] is not ids][-1:] + [(ids, plans)]
        return [(table.name, touched.numpy()) for table, (touched, _) in plans]

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, table in self._tables_by_name():
            destination[f"{prefix}{name}ids"], destination[f"{prefix}{name}rows"] = table.state()

    def _load_from_state_dict(self, state, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        mine = [f"{prefix}{name}{what}" for name, _ in self._tables_by_name() for what in ("ids", "rows")]
        if any(k in state for k in mine):
            error_msgs.append(f"{prefix or 'the module'}: its rows are on the servers and cannot be loaded by a worker; begin the job with "
                              "job.init, or ps-ctl run --init-from")


class EmbeddingBag(_Bags):
    """A torch.nn.EmbeddingBag whose rows are on the servers only.  Ids are any int64; a row begins to exist when its first gradient is
    pushed.  num_embeddings is about their number, and no bound, unless hashed is set: then ids are hashed to 0 .. num_embeddings-1.
    mode: sum, mean or none, which returns the row of each id.  init and rule: as in EmbeddingBagConfig.  The optimizer's step()
    pushes the gradients of the rows.  state_dict() has the rows that exist, as `ids` and `rows`."""

    def __init__(self, num_embeddings, embedding_dim, mode="mean", name="embedding", include_last_offset=False, init="glorot",
                 hashed=False, rule=None):
        super().__init__()
        self.include_last_offset = include_last_offset
        self._table = _Table(self._session, name, EmbeddingBagConfig(name, embedding_dim, num_embeddings, pooling=mode, init=init, hashed=hashed,
                                                                     rule=rule))

    def _tables_by_name(self):
        return [("", self._table)]

    def _plans(self, ids):
        return [(self._table, self._table.plan(ids))]

    def name_rows(self, ids):
        """The (table, ids) pairs of an input, for prefetch().  forward() of the same tensor uses what was computed here."""
        return self._name(ids, self._plans)

    def forward(self, input, offsets=None, per_sample_weights=None):
        """As torch's: ids of shape (bags, length), or of one dimension with the offsets at which bags begin."""
        t = self._table
        (_, (_, place)), = plans = self._plans_of(input, self._plans)
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        if t.mode == "none":
            leaf, _ = _pull(self._session, plans, self.training)[t]
            return _pool(t.mode, leaf, place, None, weights).view(*input.shape, t.dim)
        if input.dim() == 2:
            if offsets is not None:
                raise ValueError("offsets: must be None for ids of two dimensions")
            offsets = torch.arange(0, input.numel(), input.shape[1]) if input.numel() else torch.zeros(input.shape[0], dtype=torch.int64)
        elif input.dim() != 1 or offsets is None:
            raise ValueError("input: must have two dimensions, or one and offsets")
        elif self.include_last_offset:
            offsets = offsets[:-1]
        leaf, _ = _pull(self._session, plans, self.training)[t]
        return _pool(t.mode, leaf, place, offsets, weights)

    def extra_repr(self):
        return f"{self._table.rows}, {self._table.dim}, mode={self._table.mode}, table={self._table.name}"


class EmbeddingBagCollection(_Bags):
    """Tables of embeddings that are pulled together, in one round trip a step.  tables: a list of EmbeddingBagConfig, of this module
    or of torchrec.  The tables of the job are called NAME.TABLE.  Features of the same table share its rows.  forward() takes a
    KeyedJaggedTensor and returns a KeyedTensor with the pooled bags of each feature, in the order of the tables; a table without
    pooling gives the row of each id of the feature, in the order of the values.  is_weighted: the input's weights are used.
    state_dict() has the rows that exist, as TABLE.ids and TABLE.rows."""

    def __init__(self, tables, is_weighted=False, name="embeddings"):
        super().__init__()
        self.is_weighted, self.name = is_weighted, name
        self._tables, self._features = {}, []
        for c in tables:
            table = self._tables[c.name] = _Table(self._session, f"{name}.{c.name}", c)
            for feature in c.feature_names:
                if any(feature == f for f, _ in self._features):
                    raise ValueError(f"feature {feature!r}: belongs to two tables")
                self._features.append((feature, table))
        self._session.collections.append(self)

    def _tables_by_name(self):
        return [(f"{name}.", table) for name, table in self._tables.items()]

    def features(self):
        return [f for f, _ in self._features]

    def _cut(self, input):
        """By feature: its lengths, and where its ids begin and end in the values."""
        keys, lengths = list(input.keys()), input.lengths()
        if not keys:
            raise ValueError("the input has no features")
        lengths = lengths.view(len(keys), -1)
        ends = lengths.sum(1).cumsum(0).tolist()
        return {k: (lengths[i], ends[i - 1] if i else 0, ends[i]) for i, k in enumerate(keys)}

    def _plans(self, input):
        """The plan of each table that has a feature in the input, for the ids of all of its features in their order."""
        cut, values, plans = self._cut(input), input.values(), []
        for table in self._tables.values():
            parts = [values[slice(*cut[f][1:])] for f, t in self._features if t is table and f in cut]
            if parts:
                plans.append((table, table.plan(parts[0] if len(parts) == 1 else torch.cat(parts))))
        return plans

    def name_rows(self, input):
        """The (table, ids) pairs of an input, for prefetch().  forward() of the same input uses what was computed here."""
        return self._name(input, self._plans)

    def forward(self, input):
        cut, weights = self._cut(input), input.weights_or_none() if self.is_weighted else None
        missing = [f for f, _ in self._features if f not in cut]
        if missing:
            raise ValueError(f"the input has no feature {missing[0]!r}")
        if self.is_weighted and weights is None:
            raise ValueError("the input has no weights, but the collection is weighted")
        plans = self._plans_of(input, self._plans)
        pulled, places, used = _pull(self._session, plans, self.training), dict(plans), collections.Counter()
        groups, out = collections.defaultdict(list), {}
        for feature, table in self._features:
            lengths, begin, end = cut[feature]
            at = used[table]
            used[table] = at + end - begin
            groups[table.dim, table.mode].append((feature, places[table][1][at:used[table]] + pulled[table][1], lengths, begin, end,
                                                  pulled[table][0]))
        for (_, mode), group in groups.items():
            features, place, lengths, begins, ends, leaves = zip(*group)
            ids, lengths = torch.cat(place), torch.cat(lengths).to(torch.int64)
            w = None if weights is None else torch.cat([weights[b:e] for b, e in zip(begins, ends)])
            bags = _pool(mode, leaves[0], ids, lengths.cumsum(0) - lengths, w)
            out.update(zip(features, bags.split([len(p) for p in place]) if mode == "none" else bags.view(len(features), -1, bags.shape[1])))
        return KeyedTensor(self.features(), [out[f] for f in self.features()])

    def extra_repr(self):
        return ", ".join(f"{n}: {t.rows} x {t.dim} {t.mode}" for n, t in self._tables.items())


# ---- the next batch


def _keyed_inputs(batch):
    """The members of a batch that look like a KeyedJaggedTensor."""
    if hasattr(batch, "lengths") and hasattr(batch, "keys") and hasattr(batch, "weights_or_none"):
        return [batch]
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (tuple, list)) else ()
    return [kjt for part in parts for kjt in _keyed_inputs(part)]


class prefetch:
    """Iterate over a loader of batches, one batch ahead: while a batch is computed, the servers know which rows the next one needs.
    The next step then begins with these rows and the dense parameters in one round trip.  The rows are those of the next step, with
    whatever this step and other workers change, so the training is the same as without.  With the setting pull_delta the rows
    are transferred during the computation, and afterwards only those that have changed.

    loader: ps.batches, a DataLoader whose batch_sampler is ps.batches, or anything else that can be iterated over.  Each batch must
    be one step.
    rows: a function of a batch that returns (table, ids) pairs, as name_rows() of EmbeddingBag and EmbeddingBagCollection does.  None:
    each KeyedJaggedTensor in the batch is for all collections whose features it has.
    load: a function that makes a batch of what the loader has, such as the list of examples that ps.batches has.

        for dense, sparse, y in ps.prefetch(loader): ...
        for x, y in ps.prefetch(loader, lambda batch: bag.name_rows(batch[0])): ...
    """

    def __init__(self, loader, rows=None, load=None):
        self._session, self._loader, self._rows, self._made = _session(), loader, rows, load or (lambda batch: batch)

    def __len__(self):
        return len(self._loader)

    def _name(self, batch):
        """Name the rows of the next batch, in the present step."""
        if self._rows is not None:
            pairs = self._rows(batch)
        else:
            pairs = [pair for kjt in _keyed_inputs(batch) for c in self._session.collections if set(c.features()) <= set(kjt.keys())
                     for pair in c.name_rows(kjt)]
        if self._session.task is not None and pairs:
            self._session.handle.prefetch(pairs)

    def __iter__(self):
        from . import batches
        sampler = self._loader if isinstance(self._loader, batches) else getattr(self._loader, "batch_sampler", None)
        self._session.start()
        if not isinstance(sampler, batches):
            return self._ahead_of_any()
        return map(self._made, self._loader) if self._session.local else self._ahead_of_tasks(sampler)

    def _ahead_of_any(self):
        end, it = object(), map(self._made, self._loader)
        batch = next(it, end)
        while batch is not end:
            after = next(it, end)
            if after is not end:
                self._name(after)
            yield batch
            batch = after

    def _load(self, sampler, task):
        indices = sampler.indices(task)
        if self._loader is sampler:
            return self._made(indices)
        return self._made(self._loader.collate_fn([self._loader.dataset[i] for i in indices]))

    def _ahead_of_tasks(self, sampler):
        """The next task is known before its step begins, unless the members of the job change: then its batch is loaded again."""
        s, last, loaded = self._session, None, (None, None)
        while s.task is not None:
            if s.task is last:
                raise RuntimeError("prefetch: the last step has not ended; call opt.step() after each batch")
            last, key = s.task, (s.task.epoch, s.task.begin, s.task.end)
            batch = loaded[1] if loaded[0] == key else self._load(sampler, s.task)
            after = s.handle.next()
            if after is not None:
                loaded = (after.epoch, after.begin, after.end), self._load(sampler, after)
                self._name(loaded[1])
            yield batch
