"""Asks a server with Inspect, for `tests.bench.limits`; needs Inspect's environment.

Every call is a sample of its own, so none waits for another. Inspect adapts how many it has under
way at once, up to the number that it is given.
"""

import os
import sys
import tempfile


def main() -> None:
    url, calls, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.environ["OPENAI_API_KEY"] = "none"
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import generate

    samples = [Sample(input=f"Question {number}") for number in range(calls)]
    with tempfile.TemporaryDirectory() as logs:
        [log] = inspect_ai.eval(
            inspect_ai.Task(dataset=samples, solver=generate()),
            model="openai/mock",
            model_base_url=url,
            model_args={"responses_api": False},
            adaptive_connections=connections,
            max_samples=2 * connections,
            log_dir=logs,
            display="none",
        )
    if log.status != "success":
        sys.exit(f"Inspect ended with {log.status}: {log.error}")


if __name__ == "__main__":
    main()
