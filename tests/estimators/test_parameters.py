"""What is almost a right value of a parameter: the error shows the right one."""

import inspect

import numpy as np
import pytest

import tfr_ext
from tfr_ext import evaluation, models
from tfr_ext.core.settings import places
from tfr_ext.data import RankingLists
from tfr_ext.estimators import as_settings
from tfr_ext.evaluation import queries
from tfr_ext.models.network import NetworkScorer
from tfr_ext.settings.training_config import TrainingConfig

X = np.random.default_rng(0).normal(size=[40, 3])
Y, GROUP = (X[:, 0] > 0).astype(int), [5] * 8
LISTS = RankingLists.from_arrays(X, Y, group=GROUP)
TINY = {"loss": "list_net_loss", "hidden_sizes": (2,), "num_epochs": 1}
PARAMETERS = inspect.signature(tfr_ext.Ranker).parameters
# Texts that are right as sequences, and these.
SEQUENCES = {
    "hidden_sizes": ("64, 32", (64, 32)),
    "feature_transforms": ("log1p,standard", ("log1p", "standard")),
    "metrics": ("ndcg_5, map", ("ndcg_5", "map")),
    "categories": ("brand, size", ("brand", "size")),
    "texts": ("title, words", ("title", "words")),
    "embeddings": ("image, query", ("image", "query")),
    "context": ("query, user", ("query", "user")),
}
MAPPINGS = ("loss_params", "settings")
SCORERS = [
    (scorer, name)
    for scorer in vars(models).values()
    if isinstance(scorer, type) and issubclass(scorer, NetworkScorer)
    for name, about in inspect.signature(scorer).parameters.items()
    if "Sequence" in str(about.annotation)
]


def said(**params):
    """What `fit` says of parameters."""
    with pytest.raises(ValueError) as error:
        tfr_ext.Ranker(**{**TINY, **params}).fit(X, Y, group=GROUP)
    return str(error.value)


def config(**params):
    return as_settings.training_config(tfr_ext.Ranker(**params).get_params())


def test_all_parameters_that_hold_several_values_are_tried():
    kinds = {name: str(about.annotation) for name, about in PARAMETERS.items()}
    assert {x for x, kind in kinds.items() if "Sequence" in kind} == {*SEQUENCES}
    assert {x for x, kind in kinds.items() if "Mapping" in kind} == {*MAPPINGS}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_text_for_a_sequence_is_shown_as_one(name):
    text, meant = SEQUENCES[name]
    message = said(**{name: text})
    assert f"`{name}" in message and repr(text) in message
    assert f", as {meant!r}." in message
    assert f"`{name}` must be a sequence of" in said(**{name: 64})


def test_one_number_is_shown_as_a_sequence():
    for wrong in ("64", 64):
        assert said(hidden_sizes=wrong) == (
            "`hidden_sizes` must be a sequence of integers, as (64,). "
            f"Received: {wrong!r}."
        )
    # Nothing is made of what is no size.
    for wrong in ("0", "big", "[64, [32]]", {64}, b"64", "(" * 999, "1.5"):
        assert said(hidden_sizes=wrong) == (
            f"`hidden_sizes` must be a sequence of integers. Received: {wrong!r}."
        )
    sizes = config(hidden_sizes=np.array([64, 32])).model.hidden_sizes
    assert sizes == config(hidden_sizes=[64, 32]).model.hidden_sizes == (64, 32)


def test_one_text_is_one_metric_or_transform():
    found = config(metrics="ndcg@5", feature_transforms="log1p")
    assert found.evaluation.metrics == ("ndcg_5",)
    assert found.model.feature_transforms == ("log1p",)


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("value", ["num_epochs=3", ["num_epochs"], 3])
def test_what_is_no_mapping_is_told(name, value):
    message = said(**{name: value})
    assert message.startswith(f"`{name}` must be a mapping")
    assert message.endswith(f"Received: {value!r}.")


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_in_settings_is_told(name):
    renamed = as_settings._RENAMED.get(name, name)
    for key in {name, renamed}:
        assert said(settings={key: 3}) == (
            f"`settings` has {key!r}, which is the parameter `{name}` of Ranker: give "
            f"it there, as Ranker({name}=...)."
        )


def test_a_misspelt_setting_is_told():
    guess = "which is not a setting of training; did you mean 'num_epochs'"
    assert guess in said(settings={"num_epoch": 3})
    assert "has 3, which is not a setting of training." in said(settings={3: 4})


def test_settings_of_numbers_show_a_text_as_a_sequence():
    tried = 0
    for place in places(TrainingConfig):
        if place.about.kind in ("integers", "numbers") and place.key not in PARAMETERS:
            message = said(settings={place.key: "1, 2"})
            assert f"`{place.key}` must be a sequence of" in message
            assert ", as (1, 2). Received: '1, 2'." in message
            tried += 1
    assert tried >= 2


def test_scorers_show_a_text_as_a_sequence():
    assert len(SCORERS) >= 4
    for scorer, name in SCORERS:
        for wrong in ("64", 64):
            with pytest.raises(ValueError, match=r"integers, as \(64,\)\. Received"):
                scorer(**{name: wrong})


@pytest.mark.parametrize(
    ("argument", "measure"),
    [
        ("metrics", queries.parse_names),
        ("metrics", lambda names: evaluation.per_query(LISTS, X[:, 0], names)),
        ("names", queries.need_max_label),
        ("names", queries.binary_names),
    ],
    ids=["parse_names", "per_query", "need_max_label", "binary_names"],
)
def test_functions_of_several_metrics_refuse_one_text(argument, measure):
    with pytest.raises(ValueError) as error:
        measure("ndcg_10")
    assert str(error.value) == (
        f"`{argument}` must be a sequence of names of metrics, as ('ndcg_10',). "
        "Received: 'ndcg_10'."
    )
    with pytest.raises(ValueError, match=f"in `{argument}`; did you mean 'ndcg_10'"):
        measure(["map", "ndgc_10"])


@pytest.mark.parametrize("name", ["monitor", "metrics"])
def test_misspelt_metrics_of_a_ranker_are_told(name):
    message = said(**{name: "NDGC@10"})
    assert f"in `{name}`; did you mean 'ndcg_10'? Expected one of" in message
