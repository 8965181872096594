# SPDX-License-Identifier: ISC
"""Files of numpy, of float32 in two dimensions, without numpy, whose import takes a third of a second.

  arrays.py ones ROWS COLS          print an array of ones
  arrays.py holds FILE EXPRESSION   exit 0 if the expression of the array a is true: of a.shape, (a == NUMBER).all(),
                                    and slices of rows as a[:10]
"""
import array
import ast
import struct
import sys


class Equal:
    def __init__(self, values, to):
        self.values, self.to = values, to

    def all(self):
        return self.values.count(self.to) == len(self.values)


class Array:
    def __init__(self, shape, values):
        self.shape, self.values = shape, values

    def __getitem__(self, rows):
        begin, end, step = rows.indices(self.shape[0])
        assert step == 1
        cols = self.shape[1]
        return Array((end - begin, cols), self.values[begin * cols:end * cols])

    def __eq__(self, to):
        # As float32 has it.
        return Equal(self.values, struct.unpack("f", struct.pack("f", to))[0])


def load(path):
    with open(path, "rb") as f:
        begin = f.read(10)
        assert begin[:8] == b"\x93NUMPY\x01\x00", begin
        head = ast.literal_eval(f.read(struct.unpack("<H", begin[8:])[0]).decode())
        values = array.array("f", f.read())
    assert head["descr"] == "<f4" and not head["fortran_order"], head
    rows, cols = head["shape"]
    assert len(values) == rows * cols, (head, len(values))
    return Array((rows, cols), values)


def print_ones(rows, cols):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, cols)
    head = head.ljust(117) + "\n"
    sys.stdout.buffer.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                            array.array("f", [1]).tobytes() * (rows * cols))


if sys.argv[1] == "ones":
    print_ones(int(sys.argv[2]), int(sys.argv[3]))
else:
    a = load(sys.argv[2])
    if not eval(sys.argv[3]):
        sys.exit("%s, as %s" % (a.shape, sorted(set(a.values))[:9]))
