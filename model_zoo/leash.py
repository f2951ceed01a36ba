"""Runs a command that must not outlive whoever started it: `python leash.py COMMAND ARGUMENT ...`.

Standard input is the leash. When it closes, because the starter let go or was killed, the command
and every process of its group are asked to end and, ten seconds later, made to. The same happens
to what the command leaves behind when it ends by itself: a vLLM server that is killed leaves
engines running that hold the GPU. This process ends when all of them are gone. Nothing but the
standard library is imported, and nothing is restarted.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

GRACE = 10.0
"""Seconds between asking the command's processes to end and killing them."""

_POLL_SECONDS = 0.02
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl


def run(command: Sequence[str]) -> int:
    """Run the command until it ends or the leash is let go; its exit code, as a shell tells it."""
    # An engine whose server has ended would become a child of init, and in a container whose first
    # process waits for no children it would never be gone.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    released = threading.Event()
    watch = threading.Thread(target=_end_when_released, args=(server.pid, released), daemon=True)
    watch.start()
    code = server.wait()
    if not released.is_set():  # else they were asked with the command
        _signal_group(server.pid, signal.SIGTERM)
    if not _is_gone_within(GRACE, server.pid):
        _signal_group(server.pid, signal.SIGKILL)
        _is_gone_within(GRACE, server.pid)
    return code if code >= 0 else 128 - code


def _end_when_released(group: int, released: threading.Event) -> None:
    # not through sys.stdin: its lock, held here, would break the interpreter's shutdown
    while os.read(0, 4096):
        pass
    released.set()
    _signal_group(group, signal.SIGTERM)
    time.sleep(GRACE)
    _signal_group(group, signal.SIGKILL)


def _is_gone_within(seconds: float, group: int) -> bool:
    """Wait for the processes that the command has left; whether none is there any more."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(-group, os.WNOHANG)
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
