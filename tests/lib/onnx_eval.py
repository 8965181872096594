# SPDX-License-Identifier: ISC
"""Judges ONNX exports: the checker of python3-onnx, and a small evaluator of the operators in numpy.

onnx_eval.py MODEL DATA PREDICTIONS [WAY]: checks MODEL, evaluates it on DATA, and compares the outputs with
PREDICTIONS, the lines of `ps-work predict --json`. DATA is a table of text with a heading (csv), an array
(npy), or lines of libsvm or ffm, by the end of its name. WAY: a sign that separates the categories of a
list, or "js", which has node evaluate the model (onnx.js).
onnx_eval.py --inputs MODEL prints the inputs and outputs."""

import json
import math
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

TOLERANCE = 1e-5
TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.INT64: np.int64,
         TensorProto.BOOL: np.bool_}
MISSING = ("", "?", "NA", "nan")


def attribute(node, name, default=None):
    for a in node.attribute:
        if a.name == name:
            return onnx.helper.get_attribute_value(a)
    return default


def label_encoder(node, x):
    texts = attribute(node, "keys_strings")
    if texts is not None:
        known = dict(zip((t.decode() for t in texts), attribute(node, "values_int64s")))
        default = attribute(node, "default_int64", -1)
        out = np.array([known.get(t, default) for t in x.ravel()], np.int64)
    else:
        known = dict(zip(attribute(node, "keys_int64s"), (t.decode() for t in attribute(node, "values_strings"))))
        out = np.array([known.get(int(t), "") for t in x.ravel()], object)
    return out.reshape(x.shape)


def reduce_sum(node, x, axes):
    return x.sum(axis=tuple(int(a) for a in axes), keepdims=bool(attribute(node, "keepdims", 1)), dtype=x.dtype)


def reshape(_node, x, dims):
    return x.reshape([x.shape[i] if d == 0 else int(d) for i, d in enumerate(dims)])


def slice_of(_node, x, starts, ends, axes):
    at = [slice(None)] * x.ndim
    for s, e, a in zip(starts, ends, axes):
        at[int(a)] = slice(int(s), int(e))
    return x[tuple(at)]


def softmax(node, x):
    axis = attribute(node, "axis", -1)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def unsqueeze(_node, x, axes):
    for a in axes:
        x = np.expand_dims(x, int(a))
    return x


def gather(node, x, at):
    axis = attribute(node, "axis", 0)
    assert (at >= 0).all() and (at < x.shape[axis]).all(), "an index of Gather is outside"
    return np.take(x, at, axis=axis)


def arg_max(node, x):
    assert not attribute(node, "keepdims", 1)
    return x.argmax(axis=attribute(node, "axis", 0)).astype(np.int64)


OPERATORS = {
    "Add": lambda _n, a, b: a + b,
    "And": lambda _n, a, b: a & b,
    "ArgMax": arg_max,
    "Cast": lambda n, x: x.astype(TYPES[attribute(n, "to")]),
    "Concat": lambda n, *x: np.concatenate(x, axis=attribute(n, "axis")),
    "Div": lambda _n, a, b: a / b,
    "Equal": lambda _n, a, b: a == b,
    "Exp": lambda _n, x: np.exp(x),
    "Expand": lambda _n, x, shape: x * np.ones([int(d) for d in shape], x.dtype),
    "Gather": gather,
    "GreaterOrEqual": lambda _n, a, b: a >= b,
    "Identity": lambda _n, x: x,
    "IsNaN": lambda _n, x: np.isnan(x),
    "LabelEncoder": label_encoder,
    "Less": lambda _n, a, b: a < b,
    "LessOrEqual": lambda _n, a, b: a <= b,
    "MatMul": lambda _n, a, b: np.matmul(a, b),
    "Mul": lambda _n, a, b: a * b,
    "ReduceSum": reduce_sum,
    "Relu": lambda _n, x: np.maximum(x, 0),
    "Reshape": reshape,
    "Shape": lambda _n, x: np.array(x.shape, np.int64),
    "Sigmoid": lambda _n, x: (1 / (1 + np.exp(-x))).astype(x.dtype),
    "Slice": slice_of,
    "Softmax": softmax,
    "Sqrt": lambda _n, x: np.sqrt(x),
    "Sub": lambda _n, a, b: a - b,
    "Tanh": lambda _n, x: np.tanh(x),
    "Transpose": lambda n, x: x.transpose(attribute(n, "perm")),
    "Unsqueeze": unsqueeze,
    "Where": lambda _n, c, a, b: np.where(c, a, b),
}


def evaluate(model, feeds):
    """The outputs of the model, by name. Types are those of ONNX: an operator mixes none."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values.update(feeds)
    for node in model.graph.node:
        inputs = [values[name] for name in node.input]
        if node.op_type in ("Add", "Sub", "Mul", "Div", "MatMul", "Equal", "Less", "LessOrEqual", "GreaterOrEqual"):
            assert inputs[0].dtype == inputs[1].dtype, f"{node.op_type} of {inputs[0].dtype} and {inputs[1].dtype}"
        values[node.output[0]] = OPERATORS[node.op_type](node, *inputs)
    return {o.name: values[o.name] for o in model.graph.output}


# ---- inputs ----

def column_feeds(model, path, sign):
    with open(path, encoding="utf-8") as f:
        head, *rows = [line.rstrip("\n").split(",") for line in f]
    feeds = {}
    for i in model.graph.input:
        kind = i.type.tensor_type.elem_type
        name = i.name[:-5] if i.name.endswith(".word") and i.name not in head else i.name
        cells = [row[head.index(name)] for row in rows]
        if kind == TensorProto.STRING and name != i.name:
            feeds[i.name] = np.array([["" if number_of(c) is not None or c in MISSING else c] for c in cells], object)
        elif kind == TensorProto.STRING and sign and sign in "".join(cells):
            lists = [c.split(sign) for c in cells]
            most = max(map(len, lists))
            feeds[i.name] = np.array([x + ["\1pad"] * (most - len(x)) for x in lists], object)
        elif kind == TensorProto.STRING:
            feeds[i.name] = np.array([[c] for c in cells], object)
        else:
            numbers = [number_of(c) for c in cells]
            feeds[i.name] = np.array([[math.nan if v is None else v] for v in numbers], TYPES[kind])
    return feeds


def number_of(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def entry_feeds(model, path, with_fields):
    examples = []
    with open(path, encoding="ascii") as f:
        for line in f:
            examples.append([tuple(entry.split(":")) for entry in line.split()[1:]])
    most = max(map(len, examples)) + 1
    ids, values, fields = (np.zeros((len(examples), most), t) for t in (np.int64, np.float32, np.int64))
    for r, example in enumerate(examples):
        for k, entry in enumerate(example):
            ids[r, k], values[r, k] = int(entry[-2]), float(entry[-1])
            fields[r, k] = int(entry[0]) if with_fields else 0
    feeds = {"ids": ids, "values": values, "fields": fields}
    return {i.name: feeds[i.name] for i in model.graph.input}


def feeds_of(model, path, sign):
    if path.endswith(".npy"):
        return {"x": np.load(path).astype(np.float32)}
    if path.endswith(".csv"):
        return column_feeds(model, path, sign)
    return entry_feeds(model, path, path.endswith(".ffm"))


# ---- comparison ----

def evaluate_by_node(path, feeds):
    """onnxruntime-node evaluates the model: arrays go there and back as JSON."""
    def plain(x):
        kind = {"f": "float32" if x.dtype == np.float32 else "float64", "i": "int64"}.get(x.dtype.kind, "string")
        # JSON has no NaN, and JavaScript no integers of 64 bits.
        data = [None if v != v else str(v) if kind == "int64" else v for v in x.ravel().tolist()]
        return {"type": kind, "dims": x.shape, "data": data}

    text = json.dumps({name: plain(x) for name, x in feeds.items()})
    script = __file__.replace("onnx_eval.py", "onnx.js")
    done = subprocess.run(["node", script, path], input=text, stdout=subprocess.PIPE, check=True, encoding="utf-8")
    return {name: np.array(o["data"], object if o["type"] == "string" else float).reshape(o["dims"])
            for name, o in json.loads(done.stdout).items()}


def expected(line):
    """The outputs that a line of predictions stands for."""
    o = json.loads(line)
    want = {}
    for key in ("probability", "score"):
        if key in o:
            want[key] = list(o[key].values())
    prediction = o.get("prediction")
    if isinstance(prediction, str):
        want["prediction"] = prediction
    elif prediction is not None:
        want["prediction"] = list(prediction.values()) if isinstance(prediction, dict) else [prediction]
    return want


def compare(outputs, lines):
    worst = 0
    for r, line in enumerate(lines):
        want = expected(line)
        assert set(want) == set(outputs), f"outputs {sorted(outputs)}, predictions have {sorted(want)}"
        for name, value in want.items():
            got = outputs[name][r]
            if isinstance(value, str):
                assert got == value or near_tie(outputs, r), f"line {r + 1}: {name} is {got}, not {value}"
                continue
            assert len(got) == len(value), f"line {r + 1}: {name} has {len(got)} numbers, not {len(value)}"
            for a, b in zip(got, value):
                worst = max(worst, abs(a - b) / max(1, abs(b)))
    return worst


def near_tie(outputs, r):
    scores = sorted(outputs.get("probability", [[0, 1]])[r])
    return scores[-1] - scores[-2] < TOLERANCE


def main(argv):
    if argv[0] == "--inputs":
        graph = onnx.load(argv[1]).graph
        for v in list(graph.input) + list(graph.output):
            t = v.type.tensor_type
            print(v.name, TensorProto.DataType.Name(t.elem_type), *(d.dim_param or d.dim_value for d in t.shape.dim))
        return
    path, data, predictions, way = (argv + [""])[:4]
    onnx.checker.check_model(path)
    model = onnx.load(path)
    # The full check of a file would overwrite it.
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    feeds = feeds_of(model, data, "" if way == "js" else way)
    with np.errstate(over="ignore"):
        outputs = evaluate_by_node(path, feeds) if way == "js" else evaluate(model, feeds)
    with open(predictions, encoding="utf-8") as f:
        lines = f.read().splitlines()
    assert len(lines) == len(next(iter(outputs.values()))), "the numbers of examples differ"
    worst = compare(outputs, lines)
    print(f"{len(lines)} examples, largest difference {worst:.2g}")
    sys.exit(0 if worst <= TOLERANCE else 1)


main(sys.argv[1:])
