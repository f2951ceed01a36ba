"""Runs a command that must not outlive whoever started it: `python leash.py COMMAND ARGUMENT ...`.

Standard input is the leash. When it closes, because the starter let go or was killed, the command
and every process of its group are asked to end and, ten seconds later, made to. The same happens
to what the command leaves behind when it ends by itself: a vLLM server that is killed leaves
engines running that hold the GPU. Nothing but the standard library is imported, and nothing is
restarted.
"""

from __future__ import annotations

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


def run(command: Sequence[str]) -> int:
    """Run the command until it ends or the leash is let go; its exit code, as a shell tells it."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_when_released, args=(server.pid,), daemon=True).start()
    code = server.wait()
    _signal_group(server.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _end_when_released(group: int) -> None:
    # not through sys.stdin: its lock, held here, would break the interpreter's shutdown
    while os.read(0, 4096):
        pass
    _signal_group(group, signal.SIGTERM)
    time.sleep(GRACE)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
