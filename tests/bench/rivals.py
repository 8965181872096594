# SPDX-License-Identifier: ISC
"""The rivals of `make bench-quality`: one function a rival, which @rival adds to RIVALS.

A rival is called as f(train, x, seed, constant): it learns from the examples `train`, and returns its predictions of
the examples `x`, in the form that the metric wants (Examples.want): names of classes, probabilities of class 1, or
numbers. `constant` is the constant that is tuned, or None for the rival's own default.
"""
import importlib.util
import os
import shutil
import subprocess
import tempfile
import warnings
from typing import NamedTuple

import numpy as np

RIVALS = {}


class Examples(NamedTuple):
    """x: a matrix (dense, or scipy's CSR), pairs of user and item, or a list of texts. y: one target a row. model: the
    model of pskit that learns the same. want: "class", "probability" of class 1, or "number"."""
    x: object
    y: np.ndarray
    model: str
    want: str

    def part(self, rows):
        x = [self.x[i] for i in rows] if isinstance(self.x, list) else self.x[rows]
        return self._replace(x=x, y=self.y[rows])


class Rival(NamedTuple):
    name: str
    package: str     # of Debian
    models: tuple    # the models of pskit beside which it stands
    constants: tuple # those that are tried when it is tuned
    other: bool      # another kind of model, shown for orientation: pskit need not reach it
    predict: object
    installed: bool


def rival(name, package, needs, models, constants, other=False):
    """Registers a rival. needs: the Python module, or the program, without which it is skipped."""
    def register(predict):
        installed = bool(shutil.which(needs) or importlib.util.find_spec(needs))
        RIVALS[name] = Rival(name, package, models, constants, other, predict, installed)
        return predict
    return register


def scored(metric, y, predicted):
    """The value of pskit's metric of this name."""
    if metric == "accuracy":
        return float(np.mean(predicted == y))
    if metric == "auc":
        rank = np.argsort(np.argsort(predicted, kind="stable"))  # predictions of rivals have few ties
        ones = y == 1
        n = ones.sum()
        return float((rank[ones].sum() - n * (n - 1) / 2) / (n * (len(y) - n)))
    error = float(np.mean((predicted - y) ** 2))
    return error ** 0.5 if metric == "rmse" else 1 - error / float(np.var(y))


def best_constant(r, train, metric):
    """The constant of rival r whose score is the best on a fifth of the training data."""
    order = np.random.default_rng(1).permutation(len(train.y))
    held, rest = train.part(order[:len(order) // 5]), train.part(order[len(order) // 5:])
    sign = -1 if metric == "rmse" else 1
    return max((None,) + r.constants,
               key=lambda c: sign * scored(metric, held.y, r.predict(rest, held.x, 1, c)))


def by_sklearn(m, train, x):
    """Trains an estimator of scikit-learn's interface."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m.fit(train.x, train.y)
    return m.predict_proba(x)[:, 1] if train.want == "probability" else m.predict(x)


@rival("LogisticRegression", "python3-sklearn", "sklearn", ("logistic", "softmax"), (0.01, 0.1, 10.0, 100.0))
def logistic_regression(train, x, seed, constant):
    from sklearn.linear_model import LogisticRegression
    return by_sklearn(LogisticRegression(C=constant or 1.0, random_state=seed), train, x)


@rival("Ridge", "python3-sklearn", "sklearn", ("linear",), (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0))
def ridge(train, x, seed, constant):
    from sklearn.linear_model import Ridge
    return by_sklearn(Ridge(alpha=constant or 1.0, random_state=seed), train, x)


@rival("MLPClassifier", "python3-sklearn", "sklearn", ("mlp",), (3e-4, 3e-3))
def mlp_classifier(train, x, seed, constant):
    from sklearn.neural_network import MLPClassifier
    return by_sklearn(MLPClassifier(learning_rate_init=constant or 1e-3, random_state=seed), train, x)


def write_libsvm(path, y, x):
    """Writes a matrix, dense or CSR, in the format of libsvm."""
    with open(path, "w") as f:
        for k in range(x.shape[0]):
            row = x[k] if isinstance(x, np.ndarray) else None
            at = np.nonzero(row)[0] if row is not None else x.indices[x.indptr[k]:x.indptr[k + 1]]
            values = row[at] if row is not None else x.data[x.indptr[k]:x.indptr[k + 1]]
            f.write("%g %s\n" % (y[k], " ".join("%d:%.9g" % (i + 1, v) for i, v in zip(at, values))))


@rival("liblinear", "liblinear-tools", "liblinear-train", ("logistic", "softmax", "linear"), (0.01, 0.1, 10.0, 100.0))
def liblinear(train, x, seed, constant):
    """Logistic regression (-s 0, one class against the others) with a bias; of numbers, L2 loss (-s 11 -p 0). The
    constant is its cost C."""
    names, y = (None, train.y) if train.want == "number" else np.unique(train.y, return_inverse=True)
    with tempfile.TemporaryDirectory() as d:
        a, b, model, out = (os.path.join(d, n) for n in ("train", "test", "model", "out"))
        write_libsvm(a, y, train.x)
        write_libsvm(b, np.zeros(x.shape[0]), x)
        kind = ["-s", "11", "-p", "0"] if train.want == "number" else ["-s", "0"]
        subprocess.run(["liblinear-train", "-q", "-B", "1", "-c", str(constant or 1.0)] + kind + [a, model], check=True)
        subprocess.run(["liblinear-predict", "-b", "0" if names is None else "1", b, model, out], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out) as f:
            lines = f.read().split("\n")[:-1]
    if names is None:
        return np.array(lines, float)
    if train.want == "probability":
        column = lines[0].split().index("1")    # "labels 1 0"
        return np.array([line.split()[column] for line in lines[1:]], float)
    return names[np.array([line.split()[0] for line in lines[1:]], int)]


def torch_net(model, columns, classes):
    """The network of pskit's model of this name, with the same widths."""
    import torch
    from torch import nn

    class Vectors(nn.Module):
        """wide_deep and deepfm: a linear model, with fm's pairs in deepfm, and a network on the sum of the vectors."""
        def __init__(self):
            super().__init__()
            self.wide = nn.Linear(columns, 1)
            self.v = nn.Parameter(torch.empty(columns, 8).uniform_(-0.05, 0.05))
            self.deep = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, x):
            s = x @ self.v
            f = self.wide(x) + self.deep(s)
            if model == "deepfm":
                f = f + (s ** 2 - x ** 2 @ self.v ** 2).sum(1, keepdim=True) / 2
            return f

    if model == "mlp":
        return nn.Sequential(nn.Linear(columns, 128), nn.ReLU(), nn.Linear(128, classes))
    return Vectors()


@rival("torch", "python3-torch", "torch", ("mlp", "wide_deep", "deepfm"), (3e-4, 3e-3))
def by_torch(train, x, seed, constant):
    """The same network by torch.optim.Adam, whose constants but the rate are torch's defaults, in batches of 64, and
    for as many epochs as pskit makes by default. Torch itself has no default for these."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dense = [torch.from_numpy(np.asarray(m.todense() if hasattr(m, "todense") else m, np.float32))
             for m in (train.x, x)]
    names, y = np.unique(train.y, return_inverse=True)
    net = torch_net(train.model, dense[0].shape[1], len(names))
    y = torch.from_numpy(y)
    rule = torch.optim.Adam(net.parameters(), lr=constant or 1e-3)
    loss = torch.nn.functional.cross_entropy if train.model == "mlp" else (
        lambda f, t: torch.nn.functional.binary_cross_entropy_with_logits(f[:, 0], t.float()))
    epochs = min(200, max(10 if train.model == "mlp" else 3, -(-400000 // len(y))))
    for _ in range(epochs):
        for at in torch.randperm(len(y)).split(64):
            rule.zero_grad()
            loss(net(dense[0][at]), y[at]).backward()
            rule.step()
    with torch.no_grad():
        f = net(dense[1]).numpy()
    return names[f.argmax(1)] if train.model == "mlp" else f[:, 0]


@rival("xgboost", "python3-xgboost", "xgboost", ("logistic", "softmax", "linear"), (0.03, 0.1), other=True)
def by_xgboost(train, x, seed, constant):
    """Boosted trees. The constant is the learning rate, whose default is 0.3."""
    import xgboost
    args = {"n_jobs": 1, "random_state": seed, "learning_rate": constant or 0.3}
    if train.want == "number":
        return xgboost.XGBRegressor(**args).fit(train.x, train.y).predict(x)
    names, y = np.unique(train.y, return_inverse=True)
    p = xgboost.XGBClassifier(**args).fit(train.x, y).predict_proba(x)
    return p[:, 1] if train.want == "probability" else names[p.argmax(1)]


@rival("fastText", "fasttext", "fasttext", ("fasttext",), (0.3, 1.0))
def fasttext(train, x, seed, constant):
    """Its defaults are words alone, dim 100, 5 epochs and lr 0.1. The constant is lr, with ngrams 2 and 25 epochs."""
    more = ["-lr", str(constant), "-wordNgrams", "2", "-epoch", "25"] if constant else []
    with tempfile.TemporaryDirectory() as d:
        a, b, model = (os.path.join(d, n) for n in ("train", "test", "model"))
        for name, texts in ((a, ["__label__%s %s" % pair for pair in zip(train.y, train.x)]), (b, x)):
            with open(name, "w") as f:
                f.write("\n".join(texts) + "\n")
        subprocess.run(["fasttext", "supervised", "-input", a, "-output", model, "-thread", "1", "-bucket", "200000",
                        "-seed", str(seed), "-verbose", "0"] + more, check=True, stderr=subprocess.DEVNULL)
        out = subprocess.run(["fasttext", "predict", model + ".bin", b], check=True, capture_output=True, text=True)
    return np.array([line.replace("__label__", "") for line in out.stdout.split("\n")[:len(x)]])


@rival("SVD", "python3-numpy", "numpy", ("mf",), (0.05, 0.1))
def svd(train, x, seed, constant):
    """Surprise's SVD with its defaults: 100 factors, 20 epochs, rate 0.005, regularization 0.02, one example at a
    time; here by rounds of 50 examples, which is nearly the same. The constant is the regularization."""
    decay = constant or 0.02
    rng = np.random.default_rng(seed)
    u, i = train.x.T
    y, mean = train.y, train.y.mean()
    users, items = np.maximum(train.x.max(0), x.max(0)) + 1
    bu, bi = np.zeros(users), np.zeros(items)
    p, q = rng.normal(0, 0.1, (users, 100)), rng.normal(0, 0.1, (items, 100))
    for _ in range(20):
        for at in np.array_split(rng.permutation(len(y)), max(1, len(y) // 50)):
            a, b = u[at], i[at]
            e = (y[at] - mean - bu[a] - bi[b] - (p[a] * q[b]).sum(1))[:, None]
            np.add.at(bu, a, 0.005 * (e[:, 0] - decay * bu[a]))
            np.add.at(bi, b, 0.005 * (e[:, 0] - decay * bi[b]))
            dp, dq = 0.005 * (e * q[b] - decay * p[a]), 0.005 * (e * p[a] - decay * q[b])
            np.add.at(p, a, dp)
            np.add.at(q, b, dq)
    a, b = x.T
    return np.clip(mean + bu[a] + bi[b] + (p[a] * q[b]).sum(1), y.min(), y.max())
