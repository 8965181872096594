# SPDX-License-Identifier: ISC
"""The update rules of the servers that torch optimizers stand for, and the settings of a job that has several of them.

A rule is a dict of settings: optimizer, lr, its constants, and l2 where weights decay."""

import collections

import torch

# job.rules can have so many entries.
ENTRIES_MAX = 16


def _unsupported(optimizer, why):
    return ValueError(f"{type(optimizer).__name__}: the servers have no such update rule: {why}; they support SGD with momentum and "
                      "nesterov, Adam, AdamW and Adagrad")


def _sgd(optimizer, group):
    if group["dampening"]:
        raise _unsupported(optimizer, "dampening must be 0")
    if not group["momentum"]:
        return {"optimizer": "sgd"}
    return {"optimizer": "nesterov" if group["nesterov"] else "momentum", "momentum": group["momentum"]}


def _adam(optimizer, group):
    if not group["eps"] > 0:
        raise _unsupported(optimizer, "eps must be above 0")
    decoupled = isinstance(optimizer, torch.optim.AdamW)
    if group["amsgrad"] and decoupled:
        raise _unsupported(optimizer, "amsgrad is only supported with Adam")
    name = "amsgrad" if group["amsgrad"] else "adamw" if decoupled else "adam"
    return {"optimizer": name, "beta1": group["betas"][0], "beta2": group["betas"][1], "eps": group["eps"]}


def _adagrad(optimizer, group):
    if group["lr_decay"] or group["initial_accumulator_value"] or not group["eps"] > 0:
        raise _unsupported(optimizer, "lr_decay and initial_accumulator_value must be 0, and eps above 0")
    return {"optimizer": "adagrad", "eps": group["eps"]}


_KNOWN = {torch.optim.SGD: _sgd, torch.optim.Adam: _adam, torch.optim.AdamW: _adam, torch.optim.Adagrad: _adagrad}


def of_groups(optimizer):
    """The rule of each param_group of a torch optimizer.  ValueError: the servers have no such rule."""
    read = next((f for kind, f in _KNOWN.items() if type(optimizer) is kind), None)
    if read is None:
        raise _unsupported(optimizer, "this optimizer is not known")
    rules = []
    for group in optimizer.param_groups:
        if group.get("maximize"):
            raise _unsupported(optimizer, "maximize must be False")
        rule = dict(read(optimizer, group), lr=float(group["lr"]))
        if group["weight_decay"]:
            rule["l2"] = float(group["weight_decay"])
        rules.append(rule)
    return rules


def of_whole(optimizer):
    """The one rule of an optimizer all of whose param_groups have equal settings."""
    rules = of_groups(optimizer)
    if any(rule != rules[0] for rule in rules):
        raise _unsupported(optimizer, "its param_groups must have equal settings here")
    return rules[0]


def _key(rule):
    """The rule without its weight decay, as a key of dicts."""
    return tuple(sorted((k, v) for k, v in rule.items() if k != "l2"))


def _with_common_decay(rules):
    """The rules, where those without weight decay get the l2 that others with the same constants have.  The layout of a cluster
    has a flag for tables whose weights do not decay, so that they need no rule of their own."""
    decays = collections.defaultdict(collections.Counter)
    for rule in rules.values():
        if "l2" in rule:
            decays[_key(rule)][rule["l2"]] += 1
    return {name: {"l2": max(decays[_key(r)], key=decays[_key(r)].get, default=0.0), **r} for name, r in rules.items()}


def _pattern(name, same, others):
    """The shortest pattern of job.rules for the table `name`: a part of its name up to a dot, and *, if that matches no table of
    `others` and some further one of `same`."""
    parts = name.split(".")
    for n in range(1, len(parts)):
        start = ".".join(parts[:n]) + "."
        if sum(s.startswith(start) for s in same) > 1 and not any(o.startswith(start) for o in others):
            return start + "*"
    return name


def _text(value):
    return repr(value) if isinstance(value, float) else str(value)


def of_rows(rule):
    """The rule of a sparse table from the dict or the torch optimizer class's settings that a script gives; None stays None."""
    if rule is None:
        return None
    if not isinstance(rule, dict) or "optimizer" not in rule or "lr" not in rule:
        raise ValueError(f"rule: must be a dict with optimizer, lr and the rule's constants, such as "
                         f"{{\"optimizer\": \"rowwise_adagrad\", \"lr\": 0.01}}, got {rule!r}")
    return {"l2": 0.0, **rule}


def settings(rules, sparse={}):
    """The settings of a job whose dense tables have these rules (by name) and whose sparse tables have the rules in `sparse` (None:
    that of the job), and the set of dense tables whose weights decay.

    The rule that most dense tables have becomes that of the job.  The others become entries of job.rules.  ValueError: there
    would be too many entries."""
    decaying = {name for name, rule in rules.items() if "l2" in rule}
    rules = _with_common_decay(rules)
    own_rows = {name: rule for name, rule in sparse.items() if rule}
    counts = collections.Counter(tuple(sorted(rule.items())) for rule in (rules or own_rows).values())
    job = dict(max(counts, key=counts.get, default=()))
    decaying |= {name for name, rule in rules.items() if not rule["l2"]}
    rules = {**rules, **own_rows}
    own = {name: rule for name, rule in rules.items() if rule != job}
    entries = {}
    for name, rule in own.items():
        same = [n for n, r in own.items() if r == rule]
        pattern = _pattern(name, same, [n for n in [*rules, *sparse] if n not in same])
        entries[pattern] = " ".join(f"{k}={_text(v)}" for k, v in rule.items())
    if len(entries) > ENTRIES_MAX:
        raise ValueError(f"param_groups: {len(entries)} parameters or parts of the model have settings of their own, and at most "
                         f"{ENTRIES_MAX} may: give the parameters of a group names with a common beginning, or equal settings")
    if not job.get("l2"):
        job.pop("l2", None)
    if entries:
        job["rules"] = ", ".join(f"{pattern}:{constants}" for pattern, constants in entries.items())
    return job, decaying
