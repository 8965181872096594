# SPDX-License-Identifier: ISC
"""Which update rule of the servers is that of a torch optimizer."""

import torch


def _no(optimizer, why):
    return ValueError(f"{type(optimizer).__name__}: {why}: the servers have no such update rule (SGD, with momentum and nesterov, Adam, "
                      "AdamW and Adagrad they have)")


def _sgd(o, g):
    if g["dampening"]:
        raise _no(o, "dampening")
    if not g["momentum"]:
        return {"optimizer": "sgd"}
    return {"optimizer": "nesterov" if g["nesterov"] else "momentum", "momentum": g["momentum"]}


def _adam(o, g):
    if g["amsgrad"]:
        raise _no(o, "amsgrad")
    if not g["eps"] > 0:
        raise _no(o, "eps must be above 0")
    return {"optimizer": "adamw" if isinstance(o, torch.optim.AdamW) else "adam", "beta1": g["betas"][0], "beta2": g["betas"][1],
            "eps": g["eps"]}


def _adagrad(o, g):
    if g["lr_decay"] or g["initial_accumulator_value"] or not g["eps"] > 0:
        raise _no(o, "lr_decay, initial_accumulator_value or an eps of 0")
    return {"optimizer": "adagrad", "eps": g["eps"]}


_KNOWN = {torch.optim.SGD: _sgd, torch.optim.Adam: _adam, torch.optim.AdamW: _adam, torch.optim.Adagrad: _adagrad}


def settings(optimizer):
    """(what to set, for each param_group whether weight decay is for it).  ValueError: no rule is the same."""
    read = next((f for kind, f in _KNOWN.items() if type(optimizer) is kind), None)
    if read is None:
        raise _no(optimizer, "unknown here")
    found, decay = None, 0.0
    for g in optimizer.param_groups:
        if g.get("maximize"):
            raise _no(optimizer, "maximize")
        here = dict(read(optimizer, g), lr=float(g["lr"]))
        if found not in (None, here):
            raise _no(optimizer, "param_groups that differ in more than weight_decay")
        found = here
        if g["weight_decay"] and decay not in (0.0, g["weight_decay"]):
            raise _no(optimizer, "two weight_decays, neither of them 0")
        decay = decay or float(g["weight_decay"])
    if decay:
        found["l2"] = decay
    return found, [bool(g["weight_decay"]) or not decay for g in optimizer.param_groups]
