"""How an experiment is run, and was run, in words."""

from __future__ import annotations

import dataclasses

from papers import tables
from papers.results import Result


@dataclasses.dataclass(frozen=True)
class Job:
    """An experiment with its flags.

    Attributes:
        name: name of its directory.
        file: name of its file in configs/experiments.
        setting: a further flag, such as '--eval_list_size=10', or ''.
    """

    name: str
    file: str
    setting: str = ""

    @property
    def flags(self) -> str:
        """All flags but for where things are."""
        flagfile = f"--flagfile=configs/experiments/{self.file}.cfg"
        return f"{flagfile} {self.setting}".strip()

    @property
    def command(self) -> str:
        """The command that runs it."""
        return (
            f"python -m pipelines.experiment {self.flags} \\\n"
            f"    --output_dir=models/experiments/{self.name}"
        )


def jobs(file: str, series: str = "") -> dict[str, Job]:
    """Returns the jobs of an experiment file by the value of the flag that varies.

    Args:
        file: name of a file in configs/experiments.
        series: a flag and values, such as 'eval_list_size=10,20': then there is a job
            for each value. Without it, there is one.

    Raises:
        ValueError: if the series has another form.
    """
    if not series:
        return {"": Job(file, file)}
    flag, separator, values = series.partition("=")
    if not (flag and separator and all(values.split(","))):
        raise ValueError(
            f"Expected a series such as 'list_size=10,20', not {series!r}."
        )
    return {
        value: Job(f"{file}_{value}", file, f"--{flag}={value}")
        for value in values.split(",")
    }


def told(result: Result) -> str:
    """Returns how an experiment was run, in words."""
    facts = result.experiment
    folds, seeds = (", ".join(map(str, facts[key])) for key in ("folds", "seeds"))
    sentences = [f"Folds {folds}; seeds {seeds}"]
    if facts.get("candidates", 0) > len(result.runs):
        each = "each method and fold the one of the best validation"
        if facts.get("select_for") == "all":
            each = "each method the one of the best mean over the folds of validation"
        sentences.append(
            f"{facts['candidates']} candidates; for {each} "
            f"{tables.heading(facts['select_by'])} was chosen "
            f"(seeds compared: {facts.get('selection_seeds', 1)})"
        )
    sentences.append(f"{facts['cells']} cells, {facts.get('failed', 0)} failed")
    found = facts.get("cached", 0)
    if "seconds" in facts:
        jobs = facts.get("jobs", 1)
        sentences[-1] += (
            f"; {_minutes(facts.get('cell_seconds', 0.0))} of training in all, {jobs} "
            "at a time"
        )
        if not found:  # Else the clock is of the last start alone.
            sentences[-1] += f", {_minutes(facts['seconds'])} by the clock"
    if facts.get("versions"):
        versions = (f"{name} {number}" for name, number in facts["versions"].items())
        sentences.append(", ".join(versions))
    return ". ".join(sentences) + "."


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
