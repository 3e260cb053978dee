"""How near do our figures come to the papers', and where do they differ?

    python benchmarks/reproduction.py --experiments DIR [--page PAGE ...]
    python benchmarks/reproduction.py --list [--page PAGE ...]

Writes the tables that the pages of docs/reproduction include, and their figures, from
what `pipelines.experiment` left in DIR/NAME for each experiment NAME. What has not been
run is said there, with its command. --list writes nothing, but prints the experiments
of the pages whose data are at hand: on each line a name, and the flags that make it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pictures  # noqa: E402
from papers import experiments, figures, results, studies, tables  # noqa: E402

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def fragments(
    experiment: experiments.Experiment, directory: pathlib.Path, docs: pathlib.Path
) -> dict[str, str]:
    """Returns what a page includes of an experiment, by the name of the file.

    Args:
        experiment: the experiment. Its figure is drawn.
        directory: directory of the experiments' directories.
        docs: directory of the documentation.
    """
    name, runs = experiment.name, experiment.runs
    found = {run: results.load(directory / run) for run in runs}
    table = results.published(experiment.published) if experiment.published else None
    commands = [
        f"python -m pipelines.experiment {experiment.flags(run)} \\\n"
        f"    --output_dir=models/experiments/{run}"
        for run in runs
    ]
    parts = [f"Experiment file: `configs/experiments/{name}.cfg`."]
    parts.append("\n".join(["```sh", *commands, "```"]))
    why = f": {experiment.collection} could not be had here. The file is ready for it"
    for run, result in found.items():
        text = f"Not run{why if experiment.collection else ''}."
        text = tables.protocol(result) if result else text
        parts.append(f"`{runs[run]}`: {text}" if runs[run] else text)
    finished = {runs[run]: result for run, result in found.items() if result}
    result = finished[runs[next(iter(runs))]] if len(finished) == len(found) else None
    if result and "convention" in experiment.shown:
        parts.append(tables.convention(result))
    if result and experiment.figure:
        kind, caption, *metrics = experiment.figure
        path = f"figures/reproduction/{name}_{kind}.png"
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        pictures.save(figures.KINDS[kind](finished, metrics), docs / path)
        parts.append(f"![{caption}](../{path})")
    if table and experiment.table == "both":
        parts.append(tables.beside(result, table) if result else tables.theirs(table))
    elif result and experiment.table in ("both", "ours"):
        parts.append(tables.ours(result))
    if result and table and experiment.order_by:
        parts.append(tables.order(result, table, experiment.order_by))
    if result and "chosen" in experiment.shown:
        parts.append(tables.chosen(result))
    texts = {name: parts}
    if table and experiment.table == "published":
        texts[f"{name}_published"] = [tables.theirs(table)]
    if table and experiment.study:
        kind, *methods = experiment.study
        study = studies.KINDS[kind]
        shown = [study(result, method, table) for method in methods] if result else []
        texts[f"{name}_{kind}"] = shown
    return {key: "\n\n".join(value) + "\n" for key, value in texts.items()}


def summary(directory: pathlib.Path) -> str:
    """Returns a table of all experiments of all pages."""
    rows = []
    for page, of_page in experiments.pages().items():
        for name in (run for experiment in of_page for run in experiment.runs):
            result = results.load(directory / name)
            state = ["not run", "", ""]
            if result:
                minutes = f"{result.experiment['cell_seconds'] / 60:.0f}"
                state = ["run", str(result.experiment["cells"]), minutes]
            rows.append([f"[{page}]({page}.md)", f"`{name}`", *state])
    header = ["page", "experiment", "state", "cells", "minutes of training"]
    return tables.markdown(header, rows) + "\n"


def main() -> None:
    """Writes the tables and figures of the pages that are asked for."""
    pages = experiments.pages()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--experiments", default="models/experiments", help="where experiments are")
    add("--page", action="append", choices=[*pages], help="a page; all by default")
    add("--docs", type=pathlib.Path, default=DOCS, help="directory of the docs")
    add("--list", action="store_true", help="print the experiments and their flags")
    arguments = parser.parse_args()
    directory = pathlib.Path(arguments.experiments)
    wanted = [e for page in arguments.page or pages for e in pages[page]]
    if arguments.list:
        for experiment in wanted:
            for run in () if experiment.collection else experiment.runs:
                print(run, experiment.flags(run))
        return
    out = arguments.docs / "reproduction" / "tables"
    out.mkdir(parents=True, exist_ok=True)
    wrong = []
    for experiment in wanted:
        try:
            texts = fragments(experiment, directory, arguments.docs)
        except (KeyError, OSError, ValueError) as error:  # The others may be right.
            wrong.append(f"{experiment.name}: {type(error).__name__}: {error}")
            continue
        for name, text in texts.items():
            (out / f"{name}.md").write_text(text, encoding="utf-8")
            print(out / f"{name}.md")
    if wrong:
        sys.exit("\n".join(wrong))
    (out / "summary.md").write_text(summary(directory), encoding="utf-8")


if __name__ == "__main__":
    main()
