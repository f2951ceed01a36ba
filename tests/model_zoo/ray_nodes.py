"""Three nodes of Ray on this machine."""

from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

from tests.model_zoo.processes import RAY_SECONDS, children, wait_until_gone

GPUS = 2
"""What the nodes but the first claim to have."""


class Nodes:
    """A head, which has no GPU, and two nodes that claim to have some."""

    def __init__(self) -> None:
        small = {"object_store_memory": 80 * 2**20, "num_cpus": 1}
        self._small: dict[str, Any] = small
        self.cluster: Any = Cluster(True, head_node_args={**small, "include_dashboard": False})
        self.add()
        self.add()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> None:
        self.cluster.add_node(num_gpus=GPUS, **self._small)

    def kill(self, raylet: int) -> None:
        """Kill the node of this process, as if its machine lost power, and wait for its actors."""
        actors = [pid for pid, home in replicas().items() if home == raylet]
        [node] = (
            each
            for each in self.cluster.worker_nodes
            if each.all_processes["raylet"][0].process.pid == raylet
        )
        self.cluster.remove_node(node, allow_graceful=False)
        wait_until_gone(actors, 20)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        before = children()
        nodes = Nodes()
        started = children() - before
        patch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes
        nodes.cluster.shutdown()
        wait_until_gone(started, RAY_SECONDS)


def replicas() -> dict[int, int]:
    """The actors of this machine by process id, with the process id of their node."""
    found = {}
    for process in psutil.process_iter(["cmdline", "ppid"]):
        command = process.info["cmdline"] or [""]
        if command[0].startswith("ray::Replica"):
            found[process.pid] = int(process.info["ppid"])
    return found
