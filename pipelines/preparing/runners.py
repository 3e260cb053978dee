"""Runs units of work: in processes of this machine, or with Apache Beam."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from pipelines.preparing.work_units import Unit
from pipelines.start import failures
from tfr_ext.core.system import child_process

# Not Beam's own default, which may download a runner. Later flags override these.
_DEFAULTS = ("--runner=FnApiRunner", "--default_sdk_harness_log_level=ERROR")


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_here(
    units: Sequence[Unit], work: Callable[[Unit], None], num_workers: int
) -> None:
    """Does the work of some units, begun in order, and waits until it is done.

    `work` must be a function of a module, which processes import. With one worker, or
    only one unit, the work is done in this process.
    """
    num_workers = min(num_workers, len(units))
    if num_workers == 1:
        for unit in units:
            work(unit)
        return
    waiting = list(units)[::-1]
    with child_process.Pool() as pool:
        for pipe in [pool.start(_serve, work) for _ in range(num_workers)]:
            pool.send(pipe, waiting.pop())
        while len(pool):
            for pipe in pool.ready():
                try:
                    problem = pool.receive(pipe)
                except child_process.Ended as ended:
                    raise OSError(
                        f"One of {num_workers} worker processes {ended} before its "
                        "work did. If memory is short, give --num_workers=1. The same "
                        "command goes on."
                    ) from None
                if problem:
                    raise OSError(problem)
                if waiting:
                    pool.send(pipe, waiting.pop())
                else:
                    pool.join(pipe)


def _serve(pipe: Any, work: Callable[[Unit], None]) -> None:
    """Does the work of units that are sent, and sends back errors."""
    for unit in child_process.tasks(pipe):
        problem = ""
        try:
            work(unit)
        except failures.USER_ERRORS as error:
            problem = failures.explain(error)
        pipe.send(problem)


def import_beam() -> Any:
    """Imports Apache Beam, and silences all its messages but errors."""
    logging.disable(logging.WARNING)  # It names packages that nothing here needs.
    try:
        import apache_beam
    except ImportError as error:
        raise ImportError(
            f"--beam_args needs Apache Beam ({error}). Install it: pip install "
            "tfr-ext[beam], or with TensorFlow 2.21 pip install apache-beam. Without "
            "--beam_args, processes of this machine do the work."
        ) from error
    finally:
        logging.disable(logging.NOTSET)
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    return apache_beam


def unknown_options(beam_args: Sequence[str]) -> list[str]:
    """Returns the options that neither Beam nor the module of its runner knows."""
    import_beam()
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    options = PipelineOptions(list(beam_args))
    module, _, _ = (options.view_as(StandardOptions).runner or "").rpartition(".")
    if module:  # Its options, such as Dask's, are known once it is imported.
        with contextlib.suppress(Exception):  # The pipeline reports it.
            importlib.import_module(module)
    known = options.get_all_options()
    every = options.get_all_options(retain_unknown_options=True)
    return [f"--{name}" for name in every if name not in known]


def run_on_beam(
    units: Sequence[Unit], work: Callable[[Unit], None], beam_args: Sequence[str]
) -> None:
    """Does the work of some units, in any order, and waits until it is done.

    `work` must be a function of a module, which workers import. A `--runner` in
    `beam_args` replaces the one that does the work in this process.
    """
    beam = import_beam()
    from apache_beam.options.pipeline_options import PipelineOptions

    options = PipelineOptions([*_DEFAULTS, *beam_args])
    try:
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | "Units" >> beam.Create(list(units))
                | "Spread" >> beam.Reshuffle()
                | "Work" >> beam.Map(work)
            )
    except Exception as error:  # Beam raises errors in many disguises.
        raise OSError(f"Beam's pipeline failed: {error}") from error
