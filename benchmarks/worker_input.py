"""At which rate does each of several workers make its batches?

    python benchmarks/worker_input.py [--queries N] [--rounds N] [--workers N ...]

Reads batches of lists in the shape of MSLR-WEB (synthetic, 136 features, 120 items,
batches of 128, in memory), as `--strategy=multi_worker` does before it trains on them:
each worker makes all batches, and its replica takes its share. All run on this machine,
each on a core of its own, and wait for each other at each batch, as a step makes them.
Printed for each number of workers: the queries per second of whole batches that each
worker makes, and the ratio to one process without a strategy on one core; medians over
the rounds. It runs on Linux only, where a process can be kept on a core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")  # as the commands do

from strategies import free_ports  # noqa: E402


def work(queries: int, rounds: int) -> None:
    """Prints the queries per second of each round, as one worker of `TF_CONFIG`."""
    from tfr_ext import data
    from tfr_ext.training import replicas

    strategy = replicas.strategy("multi_worker" if "TF_CONFIG" in os.environ else "")
    lists = data.synthetic_lists(queries, 120, 131, 5)
    batched = data.BatchedLists(lists, 128, seed=0, max_padding=data.MAX_PADDING)
    rates = []
    for _ in range(rounds + 1):
        batches = batched.dataset()
        if strategy is not None:
            batches = strategy.experimental_distribute_dataset(batches)
            replicas.wait_for_all(strategy)
        start = time.perf_counter()
        for _ in batches:
            pass
        rates.append(queries / (time.perf_counter() - start))
    print(json.dumps(rates[1:]))


def rates_of(workers: int, arguments: list[str]) -> list[list[float]]:
    """Returns the rates of each worker's rounds; of one process if there are none."""
    addresses = [f"localhost:{port}" for port in free_ports(workers)]
    cores = sorted(os.sched_getaffinity(0))
    processes = []
    for index in range(max(workers, 1)):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        processes.append(
            subprocess.Popen(
                [sys.executable, __file__, *arguments, f"--core={cores[index]}"],
                env=os.environ | ({"TF_CONFIG": json.dumps(config)} if workers else {}),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"One of {workers} workers failed.")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=7)
    most = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--workers", type=int, nargs="+", default=list(range(1, most + 1))
    )
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, [args.core])
        work(args.queries, args.rounds)
        return
    if max(args.workers) > most:
        parser.error(f"--workers must be at most {most}, the number of cores.")
    arguments = [f"--queries={args.queries}", f"--rounds={args.rounds}"]
    print(f"{'':<14}{'queries/s of each worker':>26}{'/ one process':>15}")
    one = statistics.median(rates_of(0, arguments)[0])
    print(f"{'one process':<14}{one:>26,.0f}")
    for count in args.workers:
        each = [statistics.median(rates) for rates in rates_of(count, arguments)]
        told = ", ".join(f"{rate:,.0f}" for rate in each)
        ratio = statistics.mean(each) / one
        print(f"{f'{count} worker(s)':<14}{told:>26}{ratio:>15.2f}")


if __name__ == "__main__":
    main()
