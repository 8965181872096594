#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""A client of the HTTP endpoint for tests, with nothing but Python's own library.

usage: predict_http.py hostile URL BODY            clients that send and read slowly, and many connections: prints what became of
                                                  them, and the longest time that an honest request took meanwhile
       predict_http.py v2 URL MODEL FILE [binary]  the rows of a CSV as tensors of columns; the answers as ps-work predict's
       predict_http.py load URL SECONDS BODY      one request after the other on 4 connections; a line for each answer that
                                                  was seen: TIMES STATUS MODEL BODY; exit code 1 if a connection was lost
"""
import csv
import http.client
import json
import socket
import struct
import sys
import threading
import time
from urllib.parse import urlsplit


def connect(url):
    u = urlsplit(url)
    return http.client.HTTPConnection(u.hostname, u.port, timeout=20)


def figure(url, name):
    c = connect(url)
    c.request("GET", "/metrics")
    for text in c.getresponse().read().decode().splitlines():
        if text.startswith(name + " "):
            return float(text.split()[1])
    return 0


def is_number(text):
    try:
        float(text)
        return True
    except ValueError:
        return False


def v2(url, model, path, binary):
    with open(path) as f:
        rows = list(csv.reader(f))
    names, rows = rows[0], rows[1:]
    inputs, raw = [], b""
    for i, name in enumerate(names):
        cells = [r[i] for r in rows]
        numbers = all(is_number(c) for c in cells)
        t = {"name": name, "shape": [len(rows)], "datatype": "FP64" if numbers else "BYTES"}
        if binary:
            part = b"".join(struct.pack("<d", float(c)) if numbers else struct.pack("<I", len(c)) + c.encode() for c in cells)
            t["parameters"] = {"binary_data_size": len(part)}
            raw += part
        else:
            t["data"] = [float(c) if numbers else c for c in cells]
        inputs.append(t)
    head = json.dumps({"id": "q1", "inputs": inputs, "parameters": {"binary_data_output": binary}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {"Content-Type": "application/json"}
    c = connect(url)
    c.request("POST", "/v2/models/%s/infer" % model, head + raw, headers)
    answer = c.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit("%d %s" % (answer.status, body.decode()))
    n = int(answer.headers.get("Inference-Header-Content-Length", len(body)))
    out = json.loads(body[:n])
    assert out["id"] == "q1" and out["model_name"] == model, out
    at, values = n, {}
    for t in out["outputs"]:
        if "data" in t:
            values[t["name"]] = t["data"]
            continue
        size = t["parameters"]["binary_data_size"]
        part, at = body[at:at + size], at + size
        if t["datatype"] == "BYTES":
            values[t["name"]] = []
            while part:
                k = struct.unpack("<I", part[:4])[0]
                values[t["name"]].append(part[4:4 + k].decode())
                part = part[4 + k:]
        else:
            values[t["name"]] = list(struct.unpack("<%df" % (size // 4), part))
    assert at == len(body)
    k = len(values["probability"]) // len(rows)
    for i, name in enumerate(values["prediction"]):
        print("%d,%s,%s" % (i + 1, name, ",".join("%.6g" % p for p in values["probability"][i * k:(i + 1) * k])))


def load(url, seconds, body):
    seen, lost, lock = {}, [], threading.Lock()
    end = time.monotonic() + float(seconds)

    def ask():
        c = connect(url)
        while time.monotonic() < end:
            try:
                c.request("POST", "/predict", body)
                a = c.getresponse()
                key = "%d %s %s" % (a.status, a.headers.get("Pskit-Model"), a.read().decode().replace("\n", " "))
                closes = a.headers.get("Connection") == "close"
            except (OSError, http.client.HTTPException) as e:
                lost.append(repr(e))
                return
            with lock:
                seen[key] = seen.get(key, 0) + 1
            if closes:
                return
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for key, n in sorted(seen.items()):
        print(n, key)
    for why in lost:
        print("lost:", why)
    sys.exit(1 if lost else 0)


def hostile(url, body):
    u = urlsplit(url)
    head = "POST /predict?form=json HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
    longest, done = [0], threading.Event()

    def ask():
        c = connect(url)
        while not done.is_set():
            begin = time.monotonic()
            try:
                c.request("POST", "/predict", body)
                status = c.getresponse()
                status.read()
            except (OSError, http.client.HTTPException):
                # It was idle when there were too many.
                c.close()
                continue
            assert status.status in (200, 429), status.status
            longest[0] = max(longest[0], time.monotonic() - begin)
    honest = threading.Thread(target=ask)
    honest.start()

    def dial():
        s = socket.create_connection((u.hostname, u.port), timeout=20)
        return s

    def ends(s):
        try:
            while s.recv(65536):
                pass
            return "closed"
        except ConnectionError:
            return "closed"
        except socket.timeout:
            return "open"
    # A body that never ends.
    sender = dial()
    sender.sendall((head % (u.netloc, 1000)).encode() + b"a")
    print("slow body", ends(sender))
    # An answer that nobody reads.
    text = body.split("\n")[0] + "\n" + (body.split("\n")[1] + "\n") * 60000
    reader = dial()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.sendall((head % (u.netloc, len(text))).encode() + text.encode())
    while figure(url, "ps_serve_cut_total") < 2:
        time.sleep(0.02)
    print("slow reader closed")
    # More connections than there may be.
    many = [dial() for _ in range(300)]
    c = connect(url)
    c.request("POST", "/predict", body)
    print("with 300 connections", c.getresponse().status)
    del many
    # Bodies that fill the memory.
    full = []
    for _ in range(40):
        s = dial()
        s.sendall((head % (u.netloc, 900000)).encode() + b"x" * 500000)
        full.append(s)
    c = connect(url)
    c.request("POST", "/predict", text)
    print("with full memory", c.getresponse().status)
    done.set()
    honest.join()
    print("longest %.3f" % longest[0])


if sys.argv[1] == "hostile":
    hostile(sys.argv[2], sys.argv[3])
elif sys.argv[1] == "v2":
    v2(sys.argv[2], sys.argv[3], sys.argv[4], len(sys.argv) > 5)
else:
    load(sys.argv[2], sys.argv[3], sys.argv[4])
