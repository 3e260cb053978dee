"""The cluster of processes that the environment variable TF_CONFIG describes.

>>> cluster = parsed('{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, '
...                  '"task": {"type": "worker", "index": 1}}')
>>> cluster.own, len(cluster.tasks), str(cluster.own)
(Task(job='worker', index=1, address='c:1'), 3, 'worker 1')
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from typing import Any

VARIABLE = "TF_CONFIG"
# Seconds after which a process that does not answer counts as one that is not there.
_PATIENCE = 3.0


@dataclasses.dataclass(frozen=True)
class Task:
    """A process of a cluster: number `index` of the job 'chief', 'worker' or 'ps'."""

    job: str
    index: int
    address: str

    def __str__(self) -> str:
        """Returns its name in messages."""
        return f"{self.job} {self.index}"

    @property
    def host(self) -> str:
        """Its host."""
        return self.address.rpartition(":")[0]

    def is_reachable(self) -> bool:
        """Returns whether a process listens at its address."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        except OSError:
            return False
        return True


@dataclasses.dataclass(frozen=True)
class Cluster:
    """All processes, and which of them this one is."""

    tasks: tuple[Task, ...]
    own: Task

    def of(self, job: str) -> list[Task]:
        """Returns the processes of a job."""
        return [task for task in self.tasks if task.job == job]

    def addresses(self, job: str) -> list[str]:
        """Returns the addresses of the processes of a job."""
        return [task.address for task in self.of(job)]


def from_environment() -> Cluster | None:
    """Returns the cluster that TF_CONFIG describes; None if it is not set."""
    text = os.environ.get(VARIABLE)
    return parsed(text) if text else None


def parsed(text: str) -> Cluster:
    """Returns the cluster that a text describes."""
    try:
        found = json.loads(text)
        tasks = tuple(
            Task(job, index, _checked(address))
            for job, addresses in found["cluster"].items()
            for index, address in enumerate(addresses)
        )
        job, index = found["task"]["type"], int(found["task"]["index"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{VARIABLE} must be JSON such as "
            '{"cluster": {"worker": ["host:port", "host:port"]}, '
            '"task": {"type": "worker", "index": 0}}. '
            f"Received: {text!r}."
        ) from error
    own = [task for task in tasks if (task.job, task.index) == (job, index)]
    if not own:
        known = ", ".join(map(str, tasks))
        raise ValueError(
            f"{VARIABLE} says that this process is {job} {index}, but lists only "
            f"{known or 'nothing'}."
        )
    return Cluster(tasks, own[0])


def _checked(address: Any) -> str:
    _, _, port = address.rpartition(":")
    if not 0 < int(port) < 65536:
        raise ValueError(address)
    return address
