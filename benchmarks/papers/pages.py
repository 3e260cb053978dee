"""Pages with placeholders, each of which stands for something computed.

A placeholder is `{{ NAME ARGUMENT ... }}` on one line; an argument with spaces is
quoted, as in a shell. EXPERIMENT is the name of a file in configs/experiments, PAPER
and TABLE name a table of `published.json`.

    run EXPERIMENT [SERIES]     how it was run, or the command if it was not
    ready EXPERIMENT DATA       the same, for data that need not be at hand
    series EXPERIMENT SERIES METRIC,METRIC... CAPTION   a figure of all of a series
    convention EXPERIMENT       what the metrics mean
    table EXPERIMENT [PAPER TABLE]          our figures beside the published ones
    published_table PAPER TABLE             theirs alone
    order EXPERIMENT PAPER TABLE METRIC     whether the methods stand in the same order
    chosen EXPERIMENT           which candidates were chosen, how often
    ways EXPERIMENT METHOD [PAPER TABLE]    what other ways of choosing would give
    figure KIND EXPERIMENT METRIC,METRIC... CAPTION     KIND: line, curves, grid
                                or matrix
    rules EXPERIMENT METHOD METRIC,METRIC... [PAPER TABLE]      other conventions
    value EXPERIMENT METHOD METRIC [DIGITS]     our figure
    published PAPER TABLE METHOD METRIC     theirs
    difference EXPERIMENT METHOD METRIC PAPER TABLE     ours minus theirs
    source PAPER                authors, title and venue
    summary                     all experiments of all pages
    command PAGE                what wrote the page

A SERIES, such as 'eval_list_size=10,20', is a flag and values: the experiment is run
once for each, and leaves EXPERIMENT_VALUE. Without the experiment's result, `table` has
the published figures alone, `value` and `difference` say 'not run', and what else needs
it is left out.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import shlex
from collections.abc import Callable, Iterator

import matplotlib.figure
import pictures

from papers import choices, conventions, figures, protocol, published, results, tables

TEMPLATES = pathlib.Path(__file__).parent
PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}")
NOT_RUN = "not run"


def names() -> list[str]:
    """Returns the names of the pages."""
    return sorted(p.name[: -len(".md.in")] for p in TEMPLATES.glob("*.md.in"))


def template(page: str) -> pathlib.Path:
    """Returns the file of a page's text.

    Raises:
        ValueError: if there is no such page.
    """
    if page not in names():
        raise ValueError(f"Unknown page {page!r}. Expected one of {names()}.")
    return TEMPLATES / f"{page}.md.in"


def placeholders(path: pathlib.Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yields line, name and arguments of each placeholder of a page."""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for found in PLACEHOLDER.finditer(text):
            name, *arguments = shlex.split(found[1]) or [""]
            yield number, name, arguments


def jobs(page: str, all_of_them: bool = False) -> list[protocol.Job]:
    """Returns the experiments of a page, in its order.

    Args:
        page: name of the page.
        all_of_them: whether those are among them whose data need not be at hand.
    """
    found: list[protocol.Job] = []
    for _, name, arguments in placeholders(template(page)):
        if name == "run":
            found += protocol.jobs(*arguments).values()
        elif name == "ready" and all_of_them:
            found += protocol.jobs(arguments[0]).values()
    return found


class Writer:
    """Writes pages from templates and the results of experiments."""

    def __init__(
        self,
        directory: pathlib.Path,
        picture_directory: pathlib.Path,
        page_directory: pathlib.Path,
    ) -> None:
        """Takes where things are.

        Args:
            directory: where the directories of the experiments are.
            picture_directory: directory of the figures.
            page_directory: directory of the pages, from which figures are linked.
        """
        self._directory = directory
        self._pictures = picture_directory
        self._pages = page_directory
        self._results: dict[str, results.Result | None] = {}

    def page(self, path: pathlib.Path) -> str:
        """Returns the text of a page.

        Args:
            path: the template.

        Raises:
            ValueError: for a placeholder that is wrong, with file and line.
        """
        lines = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                lines.append(PLACEHOLDER.sub(lambda found: self._value(found[1]), line))
                rest = PLACEHOLDER.sub("", line)
                if "{{" in rest or "}}" in rest:
                    raise ValueError("A placeholder does not end on its line.")
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
        # A placeholder that gives nothing leaves no gap behind.
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"

    def _value(self, text: str) -> str:
        name, *arguments = shlex.split(text) or [""]
        known: dict[str, Callable[..., str]] = {
            key[len("place_") :]: getattr(self, key)
            for key in dir(self)
            if key.startswith("place_")
        }
        if name not in known:
            raise ValueError(
                f"Unknown placeholder {name!r}. Expected one of {list(known)}."
            )
        try:
            inspect.signature(known[name]).bind(*arguments)
        except TypeError as error:
            raise ValueError(f"{{{{{text}}}}}: {error}.") from error
        return known[name](*arguments)

    def _result(self, name: str) -> results.Result | None:
        if name not in self._results:
            self._results[name] = results.load(self._directory, name)
        return self._results[name]

    def place_run(self, name: str, series: str = "") -> str:
        """How an experiment was run."""
        jobs = protocol.jobs(name, series)
        commands = "\n".join(job.command for job in jobs.values())
        lines = [
            f"Experiment file: `configs/experiments/{name}.cfg`.",
            f"```sh\n{commands}\n```",
        ]
        for job in jobs.values():
            result = self._result(job.name)
            text = "Not run." if result is None else protocol.told(result)
            lines.append(f"`{job.setting}`: {text}" if job.setting else text)
        return "\n\n".join(lines)

    def place_ready(self, name: str, data: str) -> str:
        """The same, of data that need not be at hand."""
        text = self.place_run(name)
        missing = f"Not run: {data} could not be had here. The file is ready for it."
        return text.replace("Not run.", missing) if not self._result(name) else text

    def place_convention(self, name: str) -> str:
        """What the metrics of an experiment mean."""
        result = self._result(name)
        if result is None:
            return ""
        return conventions.describe(result.comparison.get("convention"))

    def place_table(
        self, name: str, paper: str | None = None, table: str | None = None
    ) -> str:
        """Our figures beside the published ones."""
        if (paper is None) != (table is None):
            raise ValueError(
                "'table' takes an experiment, or that, a paper and a table."
            )
        theirs = published.table(paper, table) if paper and table else None
        return tables.beside(self._result(name), theirs)

    def place_published_table(self, paper: str, table: str) -> str:
        """The published figures alone."""
        return tables.beside(None, published.table(paper, table))

    def place_order(self, name: str, paper: str, table: str, metric: str) -> str:
        """Whether the methods stand in the same order."""
        return tables.order(self._result(name), published.table(paper, table), metric)

    def place_chosen(self, name: str) -> str:
        """Which candidates were chosen."""
        return tables.chosen(self._result(name))

    def place_ways(
        self,
        name: str,
        method: str,
        paper: str | None = None,
        table: str | None = None,
    ) -> str:
        """What other ways of choosing would give."""
        result = self._result(name)
        theirs = published.table(paper, table) if paper and table else None
        return "" if result is None else choices.ways(result, method, theirs)

    def place_figure(self, kind: str, name: str, metrics: str, caption: str) -> str:
        """A figure of a study."""
        if kind not in figures.KINDS:
            raise ValueError(
                f"Unknown figure {kind!r}. Expected one of {list(figures.KINDS)}."
            )
        result = self._result(name)
        if result is None:
            return ""
        names = metrics.split(",")
        path = self._pictures / f"{name}_{kind}.png"
        return self._picture(figures.KINDS[kind](result, names), path, caption)

    def place_series(self, name: str, series: str, metrics: str, caption: str) -> str:
        """A figure of the experiments of a series."""
        jobs = protocol.jobs(name, series)
        found = {value: self._result(job.name) for value, job in jobs.items()}
        there = {value: result for value, result in found.items() if result}
        if len(there) < len(found):
            return ""
        figure = figures.series(there, series.partition("=")[0], metrics.split(","))
        return self._picture(figure, self._pictures / f"{name}_series.png", caption)

    def _picture(
        self, figure: matplotlib.figure.Figure, path: pathlib.Path, caption: str
    ) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures.save(figure, path)
        link = pathlib.PurePath(os.path.relpath(path, self._pages)).as_posix()
        return f"![{caption}]({link})"

    def place_rules(
        self,
        name: str,
        method: str,
        metrics: str,
        paper: str | None = None,
        table: str | None = None,
    ) -> str:
        """What the scores of a method give by other conventions."""
        result = self._result(name)
        theirs = published.table(paper, table) if paper and table else None
        if result is None:
            return ""
        return conventions.rules(result, method, metrics.split(","), theirs)

    def place_value(
        self, name: str, method: str, metric: str, digits: str = "3"
    ) -> str:
        """Our figure."""
        result = self._result(name)
        if result is None:
            return NOT_RUN
        return f"{result.figures(method, metric)['mean']:.{int(digits)}f}"

    def place_published(self, paper: str, table: str, method: str, metric: str) -> str:
        """A published figure."""
        theirs = published.table(paper, table)
        return f"{theirs.value(method, metric):.{theirs.digits}f}"

    def place_difference(
        self, name: str, method: str, metric: str, paper: str, table: str
    ) -> str:
        """Our figure minus the published one."""
        result = self._result(name)
        theirs = published.table(paper, table)
        theirs.value(method, metric)
        if result is None:
            return NOT_RUN
        return tables.difference(result, method, metric, theirs)

    def place_source(self, paper: str) -> str:
        """Authors, title and venue of a paper."""
        return published.table(paper, published.tables(paper)[0]).paper

    def place_command(self, page: str) -> str:
        """What wrote the page."""
        return f"python benchmarks/reproduction.py --page {page}"

    def place_summary(self) -> str:
        """All experiments of all pages."""
        rows = []
        for page in names():
            for job in jobs(page, all_of_them=True):
                result = self._result(job.name)
                state = [NOT_RUN, "", ""]
                if result is not None:
                    of_it = result.experiment
                    minutes = f"{of_it.get('cell_seconds', 0.0) / 60:.0f}"
                    state = ["run", str(of_it["cells"]), minutes]
                rows.append([f"[{page}]({page}.md)", f"`{job.name}`", *state])
        header = ["page", "experiment", "state", "cells", "minutes of training"]
        return tables.markdown(header, rows)
