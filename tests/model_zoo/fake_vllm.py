"""Stands in for an interpreter that has vLLM: serves `/health` and chat completions, at once.

It answers with its own process id and the GPUs it was given, and keeps a child that outlives it
by a moment, as an engine may. The model's name says how it misbehaves: `broken` ends at once with a
long log, `slow` never gets healthy, `mortal` dies at the first question.
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

ENGINE = (
    "import signal, sys, time;"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(time.sleep(0.2)));"
    "time.sleep(300)"
)

_AT = "(EngineCore pid=12) ERROR 11-24 00:33:36 [core.py:1510] "
FAILED_START = f"""
{_AT}EngineCore failed to start.
{_AT}Traceback (most recent call last):
{_AT}  File "core.py", line 1482, in run_engine_core
{_AT}    raise RuntimeError(
{_AT}RuntimeError: no weights here
Process EngineCore:
Traceback (most recent call last):
  File "process.py", line 314, in _bootstrap
    self.run()
RuntimeError: no weights here
Traceback (most recent call last):
  File "utils.py", line 1431, in wait_for_engine_startup
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""

arguments = dict(pairwise(sys.argv))
model = arguments["--model"].rsplit("/", 1)[-1]


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.reply(503 if model == "slow" else 200, {})

    def do_POST(self) -> None:
        if model == "mortal":
            sys.stdout.write("the engine died\n")
            sys.stdout.flush()
            os._exit(9)
        self.rfile.read(int(self.headers["Content-Length"]))
        content = {"pid": os.getpid(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")}
        message = {"role": "assistant", "content": json.dumps(content)}
        self.reply(200, {"choices": [{"message": message, "finish_reason": "stop"}]})

    def reply(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = (
        256  # connections at once; with the default of 5 a busy machine resets some
    )


def main() -> None:
    if model == "broken":
        sys.stdout.writelines(f"line {number} of the log\n" for number in range(60))
        sys.exit(FAILED_START)
    engine = subprocess.Popen([sys.executable, "-c", ENGINE])
    sys.stdout.write(json.dumps({"pids": [os.getpid(), engine.pid], "arguments": sys.argv}) + "\n")
    sys.stdout.flush()
    Server(("127.0.0.1", int(arguments["--port"])), Answers).serve_forever()


if __name__ == "__main__":
    main()
