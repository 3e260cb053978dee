"""Do all strategies give the same model?

    python benchmarks/strategies.py [--epochs N] [--strategies NAME ...]

Trains on synthetic lists by `python -m pipelines.train`, alone, mirrored over logical
CPUs, and in several processes on this machine, and prints the metrics of the test
lists, the loss of the last epoch and the best epoch of each. The batches do not divide
by the number of replicas.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
FLAGS = (
    "--flagfile=configs/quickstart.cfg",
    "--synthetic_num_queries=600",
    "--synthetic_list_size=30",
    "--hidden_sizes=64,32",
    "--batch_size=37",
    "--metrics=ndcg_10,map,err_10",
    "--verbose=silent",
    "--noexport_model",
)
# Flags of each strategy, and how many processes of each job it has.
STRATEGIES: dict[str, tuple[Sequence[str], Mapping[str, int]]] = {
    "one process": ((), {}),
    "mirrored over 2": (("--strategy=mirrored", "--logical_cpus=2"), {}),
    "mirrored over 4": (("--strategy=mirrored", "--logical_cpus=4"), {}),
    "multi_worker, 2": (("--strategy=multi_worker",), {"worker": 2}),
    "multi_worker, 3": (("--strategy=multi_worker",), {"chief": 1, "worker": 2}),
    "parameter_server": (
        ("--strategy=parameter_server",),
        {"chief": 1, "worker": 2, "ps": 1},
    ),
}


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback address that nobody uses now."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def train(flags: Sequence[str], jobs: Mapping[str, int]) -> None:
    """Trains in one process, or in those of some jobs; stops if one of them fails."""
    command = [sys.executable, "-m", "pipelines.train", *FLAGS, *flags]
    ports = iter(free_ports(sum(jobs.values())))
    cluster = {
        job: [f"localhost:{next(ports)}" for _ in range(count)]
        for job, count in jobs.items()
    }
    tasks = [{"type": job, "index": k} for job in jobs for k in range(jobs[job])]
    environments = [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks
    ]
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **own}, stdout=subprocess.DEVNULL
        )
        for own in environments or [{}]
    ]
    if any([process.wait() for process in processes]):
        sys.exit(f"{' '.join(command)} failed.")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    args = parser.parse_args()
    for number, name in enumerate(args.strategies):
        flags, jobs = STRATEGIES[name]
        with tempfile.TemporaryDirectory() as folder:
            model_dir = pathlib.Path(folder)
            train(
                (*flags, f"--num_epochs={args.epochs}", f"--model_dir={model_dir}"),
                jobs,
            )
            found = json.loads((model_dir / "metrics.json").read_text())["test"]
            state = json.loads((model_dir / "checkpoints" / "state.json").read_text())
        if not number:
            print(f"{'strategy':<18}", *(f"{metric:>9}" for metric in found), end="")
            print(f"{'loss':>10}{'best epoch':>12}")
        print(f"{name:<18}", *(f"{value:>9.5f}" for value in found.values()), end="")
        print(f"{state['history']['loss'][-1]:>10.5f}{state['best_epoch']:>12}")


if __name__ == "__main__":
    main()
