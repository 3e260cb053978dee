"""The experiments of the pages of docs/reproduction, and what is shown of each."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment, and what its fragment shows besides how it was run.

    Attributes:
        name: name of its file in configs/experiments, and of its fragment.
        published: PAPER/TABLE of `published.json`.
        order_by: metric by which our order of the methods is compared with theirs.
        table: 'both' for our figures beside those published, if any are; 'ours' for
            ours alone; 'published' for theirs alone, in NAME_published.md; or ''.
        shown: what else is shown: 'convention' of the metrics, 'chosen' candidates.
        figure: kind of the figure, as in `figures.KINDS`, its caption and its metrics.
        study: kind of the study, as in `studies.KINDS`, and its methods; it goes into
            NAME_KIND.md.
        sweep: a flag and its values, such as 'size=10,20', for a run with each value.
        collection: the data it needs, if they could not be had here.
    """

    name: str
    published: str = ""
    order_by: str = ""
    table: str = "both"
    shown: Sequence[str] = ()
    figure: Sequence[str] = ()
    study: Sequence[str] = ()
    sweep: str = ""
    collection: str = ""

    @property
    def runs(self) -> dict[str, str]:
        """The further flag of each run, by the name of its directory."""
        flag, _, values = self.sweep.partition("=")
        if not flag:
            return {self.name: ""}
        return {f"{self.name}_{v}": f"--{flag}={v}" for v in values.split(",")}

    def flags(self, run: str) -> str:
        """Returns the flags of a run, but for where things are."""
        flagfile = f"--flagfile=configs/experiments/{self.name}.cfg"
        return f"{flagfile} {self.runs[run]}".strip()


def pages() -> dict[str, list[Experiment]]:
    """Returns the experiments of each page, which `experiments.json` has."""
    path = pathlib.Path(__file__).with_suffix(".json")
    content = json.loads(path.read_text(encoding="utf-8"))
    return {
        page: [Experiment(**e) for e in entries] for page, entries in content.items()
    }
