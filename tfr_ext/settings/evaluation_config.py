"""Settings of an evaluation."""

from __future__ import annotations

import dataclasses

from tfr_ext.core.settings import Settings, given, nested, places, setting
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.settings.training_config import MetricsConfig


@dataclasses.dataclass(frozen=True)
class EvaluationConfig(Settings):
    """Settings of an evaluation: of what, on which lists, by which convention."""

    GROUP = "evaluation"

    data: DataConfig = nested(DataConfig)
    metrics: MetricsConfig = nested(MetricsConfig)
    export: str | None = setting(
        None,
        "A SavedModel that `train` exported, or a directory of its versions, of which "
        "the latest is used; or the directory of a run of trees (`train_gbm`).",
        kind="path",
    )
    run: str | None = setting(
        None, "A TREC run file to evaluate instead of a model.", kind="path"
    )
    qrels: str | None = setting(
        None,
        "Judgements, of TREC or BEIR, of the queries of `run`, instead of the lists of "
        "a data set. Of the settings of the data, only `binarize_labels` applies to "
        "them.",
        kind="path",
    )
    scores: str | None = setting(
        None,
        "A file of scores to evaluate instead of a model, with one score for each "
        "item of the test lists, in their order: a number on each line, or an array "
        "in a file named *.npy.",
        kind="path",
    )
    output_dir: str | None = setting(
        None, "Directory to which the files are written.", group="run", kind="path"
    )
    print_per_query: bool = setting(
        False, "Print the metrics of each query before the means.", group="run"
    )
    batch_size: int = setting(
        128, "Number of lists that the model scores at a time.", group="run", low=1
    )

    def __post_init__(self) -> None:
        """Checks the settings, and that they name exactly one thing to evaluate."""
        super().__post_init__()
        if self.qrels is not None:
            self._check_without_data()
        sources = ("export", "run", "scores")
        named = [f"`{name}`" for name in sources if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(
                "Give exactly one of `export`, `run` and `scores`. Received: "
                f"{' and '.join(named) or 'none'}."
            )
        if self.data.rerank_run and self.scores is not None:
            raise ValueError(
                "`rerank_run` needs an `export` or a `run`: `scores` has a number for "
                "each item, and it leaves items out."
            )
        if self.data.eval_list_size is not None and self.export is None:
            raise ValueError(
                "`eval_list_size` needs an `export`: it cuts lists before they are "
                "scored."
            )

    def _check_without_data(self) -> None:
        """Checks that nothing is set that judgements alone do not need."""
        if self.run is None:
            raise ValueError(
                "`qrels` needs a `run`: an `export` and `scores` are evaluated on the "
                "lists of a data set, which have its features and order."
            )
        for place in places(DataConfig):
            value = place.value(self.data)
            if value != place.default and place.name != "binarize_labels":
                raise ValueError(
                    f"{given(place.name, value)} has no meaning with `qrels`, which "
                    "takes the place of a data set."
                )
