"""Settings of the data: where lists come from, and how they are split and cut."""

from __future__ import annotations

import dataclasses
import math

from tfr_ext.core.decimals import plain_number
from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.data.features import TEXT_WORDS
from tfr_ext.settings.data_checks import (
    AUTO,
    KEPT_MISSING,
    check_columns,
    check_kinds,
    check_missing,
)

# One default for all commands, so that `pipelines.prepare` holds out the same queries
# as training does. No flag file in configs/ sets another.
DEFAULT_SEED = 1


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Which lists are read, and how they are split, cut and labelled.

    Examples:
        >>> DataConfig(dataset="text", train_path="train*.txt").train_path
        ('train*.txt',)
    """

    GROUP = "data"

    dataset: str = setting(
        "synthetic",
        "Source of the lists: 'text' reads LETOR and SVMrank files, 'table' reads CSV, "
        "JSON lines and Parquet, and 'elwc' reads TFRecords of ExampleListWithContext "
        "(`train_path` and so on); 'synthetic' draws lists (`synthetic_*`); any other "
        "name is that of a data set of TensorFlow Datasets, such as "
        "letor4/mq2008_fold1 (`data_dir`, `manual_dir`).",
    )
    train_path: tuple[str, ...] = setting(
        (),
        "Files to train on: paths or globs, separated by commas. They may be packed: "
        "text and tables by gzip, bzip2 or xz, and ELWC by gzip.",
        kind="paths",
    )
    valid_path: tuple[str, ...] = setting(
        (),
        "Files to validate on after each epoch: paths or globs, separated by commas. "
        "If left out, a share of the queries of `train_path` is held out "
        "(`valid_fraction`).",
        kind="paths",
    )
    test_path: tuple[str, ...] = setting(
        (),
        "Files to test on at the end: paths or globs, separated by commas. If left "
        "out, a share of the queries of `train_path` is held out (`test_fraction`).",
        kind="paths",
    )
    data_dir: str | None = setting(
        None,
        "Directory of prepared data: that of TensorFlow Datasets (its own default if "
        "left out), or, for `dataset='elwc'`, that of the shards that `prepare` "
        "wrote.",
        kind="path",
    )
    manual_dir: str | None = setting(
        None,
        "Directory of the files that you downloaded, from which a data set of "
        "TensorFlow Datasets is prepared when it is first used.",
        kind="path",
    )
    valid_fraction: float = setting(
        0.2,
        "Share of the training queries held out for validation if `valid_path` is "
        "left out.",
        low=0.0,
        high=0.9,
    )
    test_fraction: float = setting(
        0.2,
        "Share of the training queries held out for testing if `test_path` is left "
        "out.",
        low=0.0,
        high=0.9,
    )
    num_features: int | None = setting(
        None,
        "Number of features. Inferred from the training data if left out.",
        kind="integer",
        low=1,
    )
    missing: str = setting(
        AUTO,
        "What becomes of missing features, such as NULL in text: 'mean' puts the "
        "mean of the training items that have the feature in their place, inside the "
        "model; 'indicator' does so too, and adds a feature that is 1 where the value "
        "is missing, for each feature that some training item lacks; a number takes "
        "their place when `dataset='text'` or `dataset='elwc'` is read. 'auto' is "
        "'mean' if a feature of some item is NaN, NULL or an empty cell; what ELWC "
        "examples leave out is then 0, as in TensorFlow Ranking.",
    )
    list_size: int | None = setting(
        None,
        "Maximum number of items of a training list. Of longer lists, the items with "
        "the highest `first_stage_feature` are kept, or else a random sample by "
        "`data_seed`.",
        kind="integer",
        low=1,
    )
    eval_list_size: int | None = setting(
        None,
        "Maximum number of items of a validation or test list. These lists are not "
        "cut if it is left out.",
        kind="integer",
        low=1,
    )
    first_stage_feature: int | None = setting(
        None,
        "Number of a feature, counted from 1 as in LETOR text. `list_size` and "
        "`eval_list_size` keep the items with its highest values.",
        kind="integer",
        low=1,
    )
    rerank_run: tuple[str, ...] = setting(
        (),
        "TREC runs (paths or globs) that rank all lists between them. Only the "
        "`rerank_depth` best items of each list are used, in every split.",
        kind="paths",
    )
    rerank_depth: int = setting(
        150, "Items of each list that `rerank_run` keeps.", low=1
    )
    label_weights: tuple[float, ...] = setting(
        (),
        "Weight of each grade, in increasing order, such as -1,0.5,1. Each label "
        "becomes the expected weight under its label distribution, rescaled to the "
        "range from 0 to 1.",
        kind="numbers",
    )
    binarize_labels: float | None = setting(
        None,
        "Lowest label that becomes 1; lower labels become 0. Applied after "
        "`label_weights`.",
        kind="number",
    )
    synthetic_num_queries: int = setting(
        1000, "Number of synthetic queries in all splits together.", low=3
    )
    synthetic_list_size: int = setting(
        40, "Number of items per synthetic query.", low=1
    )
    synthetic_document_features: int = setting(
        20, "Number of features of a synthetic item.", low=1
    )
    synthetic_query_features: int = setting(
        5,
        "Number of features of a synthetic query. They are the weights of as many "
        "item features.",
        low=1,
    )
    synthetic_max_label: float = setting(4.0, "Highest synthetic label.", low=1e-6)
    synthetic_integer_labels: bool = setting(True, "Round synthetic labels to grades.")
    synthetic_shared_columns: bool = setting(
        True,
        "Use the same item features in all queries, so that there is something to "
        "learn. `synthetic_shared_columns=False` chooses them anew for each query, as "
        "the PiRank paper's Appendix E does.",
    )
    seed: int = setting(
        DEFAULT_SEED,
        "Seed of all random numbers.",
        group="run",
        low=0,
        high=HIGHEST_SEED,
    )
    data_seed: int | None = setting(
        None,
        "Seed of the synthetic lists, of the queries that are held out and of the "
        "items that `list_size` keeps. Set it to keep them the same under another "
        "`seed`; if left out, `seed` is used.",
        kind="integer",
        low=0,
        high=HIGHEST_SEED,
    )
    elwc_features: tuple[str, ...] = setting(
        ("float_features",),
        "Names of features in the examples of `dataset='elwc'`, each with one number "
        "or several. Joined in this order, they are the features of an item.",
        kind="texts",
    )
    elwc_context_features: tuple[str, ...] = setting(
        (),
        "Names of features in the context of `dataset='elwc'`. They follow those of "
        "the examples, and are the same for all items of a list.",
        kind="texts",
    )
    elwc_label: str = setting(
        "label", ("Feature of the examples of `dataset='elwc'` that holds the label.")
    )
    elwc_query_id: str = setting(
        "query_id",
        "Feature of the context of `dataset='elwc'` that holds the query id. May be "
        "empty.",
    )
    elwc_doc_id: str = setting(
        "doc_id",
        "Feature of the examples of `dataset='elwc'` that holds the document id. May "
        "be empty.",
    )
    elwc_label_distribution: str = setting(
        "label_distribution",
        "Feature of the examples of `dataset='elwc'` that holds the label's "
        "distribution over grades. May be empty.",
    )
    label_column: str = setting(
        "label", "Column of `dataset='table'` that holds the labels."
    )
    query_column: str = setting(
        "query_id",
        "Column of `dataset='table'` that holds the query ids. The rows of a query "
        "must be next to each other.",
    )
    feature_columns: tuple[str, ...] = setting(
        (),
        "Columns of `dataset='table'` that hold the features, in this order. If left "
        "out, all other columns of numbers.",
        kind="texts",
    )
    weight_column: str = setting(
        "",
        "Column of `dataset='table'`, or feature of the examples of `dataset='elwc'`, "
        "that holds the weight of each item in the loss, such as 1 / the propensity "
        "of a click. If left out, all items have the same weight.",
    )
    doc_id_column: str = setting(
        "doc_id",
        "Column of `dataset='table'` that holds the document ids. The default column, "
        "doc_id, may be missing.",
    )
    category_columns: tuple[str, ...] | None = setting(
        None,
        "Columns of `dataset='table'`, or features of `dataset='elwc'`, whose values "
        "are names, such as brands: texts or whole numbers, one or several.",
        kind="texts",
    )
    text_columns: tuple[str, ...] | None = setting(
        None,
        "Columns of `dataset='table'`, or features of `dataset='elwc'`, that are "
        "texts, such as titles and queries: the model learns their words, and compares "
        "those of `context_columns` with those of items.",
        kind="texts",
    )
    text_words: int | None = setting(
        None,
        f"How many words of a text are used, the first ones; {TEXT_WORDS} by default.",
        kind="integer",
        low=1,
    )
    embedding_columns: tuple[str, ...] | None = setting(
        None,
        "Columns of `dataset='table'` in Parquet or JSON lines that are embeddings: "
        "lists of numbers that an encoder made of a text or an image. The model takes "
        "the cosine of each of `context_columns` with each of the items.",
        kind="texts",
    )
    embedding_inputs: bool | None = setting(
        None,
        "Whether the model takes the numbers of `embedding_columns` too.",
        kind="boolean",
    )
    context_columns: tuple[str, ...] | None = setting(
        None,
        "Features of `dataset='table'`, of any kind, with one value a list, such as a "
        "user's segment or the query's words; for `dataset='elwc'`, categories and "
        "texts in the context.",
        kind="texts",
    )
    stream: bool = setting(
        False,
        "Copy the training files of `dataset='elwc'` to a temporary file instead of "
        "holding them in memory. Lists are then shuffled within a buffer of 32 "
        "batches that is filled from four files at a time, and queries cannot be held "
        "out.",
    )

    def __post_init__(self) -> None:
        """Checks the settings, and that they fit each other."""
        object.__setattr__(self, "missing", plain_number(self.missing))
        super().__post_init__()
        check_missing(self.missing)
        weights = self.label_weights
        if weights and (len(weights) < 2 or list(weights) != sorted({*weights})):
            received = ",".join(f"{weight:g}" for weight in weights)
            raise ValueError(
                "`label_weights` must be at least two finite numbers, each above the "
                f"one before. Received: {received}."
            )
        threshold = self.binarize_labels
        if threshold is not None and threshold <= 0:
            raise ValueError(
                f"`binarize_labels` must be positive and finite. Received: "
                f"{threshold:g}."
            )
        if self.first_stage_feature is not None and not (
            self.list_size or self.eval_list_size
        ):
            raise ValueError(
                "`first_stage_feature` has no meaning without `list_size` or "
                "`eval_list_size`."
            )
        if self.rerank_depth != 150 and not self.rerank_run:
            raise ValueError("`rerank_depth` has no meaning without `rerank_run`.")
        if self.dataset == "table" and not self.label_column:
            raise ValueError("`label_column` must name a column.")
        check_columns(self, self.dataset)
        # `Ranker`, whose columns are its own, has 'synthetic'.
        if self.dataset != "synthetic":
            check_kinds(self, self.text_columns, self.embedding_columns)
        widths = self.synthetic_query_features, self.synthetic_document_features
        if self.dataset == "synthetic" and widths[0] > widths[1]:
            raise ValueError(
                f"{given('synthetic_query_features', widths[0])} must not be more than "
                f"{given('synthetic_document_features', widths[1])}."
            )

    @property
    def keeps_missing(self) -> bool:
        """Whether missing features are NaN in the lists, and the model fills them."""
        return self.missing in KEPT_MISSING

    @property
    def missing_value(self) -> float:
        """The value of missing features in the lists."""
        return math.nan if self.keeps_missing else float(self.missing)

    @property
    def absent_value(self) -> float:
        """The value of features that ELWC examples leave out."""
        return 0.0 if self.missing == AUTO else self.missing_value

    @property
    def random_seed(self) -> int:
        """The seed of random choices in the data: `data_seed`, or else `seed`."""
        return self.seed if self.data_seed is None else self.data_seed
