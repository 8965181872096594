# SPDX-License-Identifier: ISC
"""Runs scripts that import torch without the 1.3 s of processor time that each import takes.

  torch_fork.py serve SOCKET            imports torch, and forks a process for each script
  torch_fork.py SOCKET SCRIPT [ARG]...  runs a script there, with this process's environment, directory, descriptors and
                                        exit status; SIGTERM is passed on
"""
import array
import json
import os
import signal
import socket
import sys


def serve(path):
    import torch  # noqa: F401  for the scripts
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path + ".new")
        listener.listen()
        os.rename(path + ".new", path)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    # This process waits for the one of the script, which ends as any Python does.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run_script(json.loads(text), fds)
        return
    connection.send(array.array("i", [pid]))
    connection.send(array.array("i", [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]))
    os._exit(0)


def run_script(call, fds):
    import runpy
    for to, fd in enumerate(fds):
        os.dup2(fd, to)
        os.close(fd)
    os.chdir(call["directory"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = call["argv"]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


def call(path, argv):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        text = json.dumps({"argv": argv, "directory": os.getcwd(), "environment": dict(os.environ)})
        socket.send_fds(connection, [text.encode()], [0, 1, 2])
        pid = array.array("i", connection.recv(4, socket.MSG_WAITALL))[0]
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        code = array.array("i", connection.recv(4, socket.MSG_WAITALL))[0]
    # As a shell tells of a signal.
    sys.exit(128 - code if code < 0 else code)


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    call(sys.argv[1], sys.argv[2:])
