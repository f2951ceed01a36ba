"""Runs a command that must not outlive its parent: `python process_guard.py COMMAND ARGUMENT ...`.

When standard input closes, because the parent closed it or died, the command and every process of
its group get SIGTERM and, ten seconds later, SIGKILL. The same happens when this process gets a
signal to end, and to processes that the command leaves behind: a vLLM server that is killed leaves
engines running that hold the GPU. This process ends when all of them are gone. Only the standard
library is imported, and nothing is restarted.
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

_POLL_SECONDS = 0.02
_END_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl


def run(command: Sequence[str]) -> int:
    """Run the command until it ends or standard input closes; the exit code as a shell gives it."""
    # An engine whose server has ended would become a child of init, and in a container whose first
    # process waits for no children it would never be gone.
    with suppress(AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    # Blocked from the start, and so in all threads: none is lost before the one below takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_unblock_signals
    )
    signalled = threading.Event()
    for watch in (
        threading.Thread(target=_end_when_input_closes, daemon=True),
        threading.Thread(target=_end_on_signal, args=(server.pid, signalled), daemon=True),
    ):
        watch.start()
    code = server.wait()
    if not signalled.is_set():  # else they got the signal with the command
        _signal_group(server.pid, signal.SIGTERM)
    if not _is_gone_within(GRACE, server.pid):
        _signal_group(server.pid, signal.SIGKILL)
        _is_gone_within(GRACE, server.pid)
    return code if code >= 0 else 128 - code


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)


def _end_when_input_closes() -> None:
    # not through sys.stdin: its lock, held here, would break the interpreter's shutdown
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _end_on_signal(group: int, signalled: threading.Event) -> None:
    signal.sigwait(_END_SIGNALS)
    signalled.set()
    _signal_group(group, signal.SIGTERM)
    time.sleep(GRACE)
    _signal_group(group, signal.SIGKILL)


def _is_gone_within(seconds: float, group: int) -> bool:
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
