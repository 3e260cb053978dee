"""How an experiment is run, and was run, in words."""

from __future__ import annotations

from papers import tables
from papers.results import Result


def command(name: str) -> str:
    """Returns the command that runs an experiment."""
    return (
        f"python -m pipelines.experiment --flagfile=configs/experiments/{name}.cfg \\\n"
        f"    --output_dir=models/experiments/{name}"
    )


def told(result: Result) -> str:
    """Returns how an experiment was run, in words."""
    facts = result.experiment
    folds, seeds = (_listed(facts[key]) for key in ("folds", "seeds"))
    sentences = [f"Folds {folds}; seeds {seeds}"]
    if facts.get("candidates"):
        sentences[0] += (
            f"; {facts['candidates']} candidates, of which the best validation "
            f"{tables.heading(facts['select_by'])} chose for each method and fold"
            f" (seeds of the choice: {facts.get('selection_seeds', 1)})"
        )
    cells = f"{facts['cells']} cells, {facts.get('failed', 0)} failed"
    if "cell_seconds" in facts:
        cells += f"; {_minutes(facts['cell_seconds'])} of computing"
    if "seconds" in facts:
        cells += f"; {_minutes(facts['seconds'])} with {facts.get('jobs', 1)} processes"
        if facts.get("cached"):
            cells += (
                f" for the last start, which found {facts['cached']} cells finished"
            )
    sentences.append(cells)
    if facts.get("versions"):
        versions = (f"{name} {number}" for name, number in facts["versions"].items())
        sentences.append(", ".join(versions))
    return ". ".join(sentences) + "."


def _listed(values: list) -> str:
    return ", ".join(map(str, values))


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
