#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Reads TensorBoard's event files, and prints JSON Lines: file_version, or step, wall, tag and value or
histogram.  Written from the descriptions of the formats, without our code: every CRC is checked, and an
incomplete record is an error."""
import json
import struct
import sys

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (n, crc) = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc(data[at : at + 8]), f"length at {at}"
        body = data[at + 12 : at + 12 + n]
        assert len(body) == n, f"record at {at} is cut"
        assert struct.unpack_from("<I", data, at + 12 + n)[0] == masked_crc(body), f"record at {at}"
        yield body
        at += 16 + n


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            assert kind == 2, f"wire type {kind}"
            n, at = varint(data, at)
            assert at + n <= len(data), "a field that is longer than what holds it"
            value, at = data[at : at + n], at + n
        yield key >> 3, value


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def histogram(data):
    f = dict(fields(data))
    h = dict(zip(("min", "max", "num", "sum", "sum_squares"), (f.get(i, 0) for i in range(1, 6))))
    return {**h, "limits": doubles(f[6]), "counts": doubles(f[7])}


def main():
    for path in sys.argv[1:]:
        for event in records(open(path, "rb").read()):
            f = dict(fields(event))
            if 3 in f:
                print(json.dumps({"file_version": f[3].decode()}))
            for field, value in fields(f.get(5, b"")):
                assert field == 1
                v = dict(fields(value))
                line = {"step": f[2], "wall": f[1], "tag": v[1].decode()}
                line.update({"histogram": histogram(v[5])} if 5 in v else {"value": v[2]})
                print(json.dumps(line))


main()
