"""Settings: checked by their fields, frozen, and the same however they are given."""

import dataclasses
import pickle

import numpy as np
import pytest

from tfr_ext.core import setting_kinds, settings
from tfr_ext.core.settings import places
from tfr_ext.models import presets
from tfr_ext.training import (
    DataConfig,
    EvaluationConfig,
    LossConfig,
    MetricsConfig,
    ModelConfig,
    TrainingConfig,
)

CONFIGS = (DataConfig, MetricsConfig, ModelConfig, LossConfig, TrainingConfig)
GROUPS = ("data", "model", "loss", "training", "evaluation", "run")


@pytest.mark.parametrize("kind", [*CONFIGS, EvaluationConfig], ids=lambda k: k.__name__)
def test_each_field_has_help_and_a_group_and_its_default_is_fine(kind):
    for place in settings.places(kind):
        about = place.about
        assert about.help.endswith(".") and about.group in GROUPS, place
        if place.default is not None:
            check = setting_kinds.KINDS[about.kind].check
            assert check(place.name, place.default, about) == place.default


@pytest.mark.parametrize("kind", [*CONFIGS, EvaluationConfig], ids=lambda k: k.__name__)
def test_an_integer_that_no_float_holds_is_refused_with_its_name(kind):
    values = {"number": 10**400, "integer": 10**400}
    values |= {f"{one}s": (value,) for one, value in values.items()}
    for place in settings.places(kind):
        if place.about.kind in values or place.name == "missing":
            value = values.get(place.about.kind, 10**400)
            if len(place.path) == 1:  # The others are in a class of their own.
                with pytest.raises(ValueError, match=f"`{place.name}` must be"):
                    kind(**{place.name: value})


def test_names_and_keys_are_of_one_setting_each():
    for kind in (TrainingConfig, EvaluationConfig):
        for of in (lambda place: place.name, lambda place: place.key):
            names = [of(place) for place in settings.places(kind)]
            assert len(names) == len(set(names)) > 30


WRONG = [
    (TrainingConfig, "batch_size", 0, "an integer >= 1. Received: 0."),
    (TrainingConfig, "batch_size", True, "an integer >= 1. Received: True."),
    (TrainingConfig, "num_epochs", 2.5, "an integer >= 1. Received: 2.5."),
    (TrainingConfig, "num_epochs", 2**40, "an integer from 1 to 2147483647."),
    (TrainingConfig, "learning_rate", float("nan"), "a finite number >= 0."),
    (TrainingConfig, "learning_rate", "0.1", "a finite number >= 0."),
    (TrainingConfig, "learning_rate", 1e39, "a finite number >= 0."),
    (TrainingConfig, "strategy", "mirror", "one of ['none', 'mirrored',"),
    (TrainingConfig, "overwrite", 1, "True or False. Received: 1."),
    (TrainingConfig, "max_padding", 0.5, "0 or at least 1. Received: 0.5."),
    (TrainingConfig, "model_dir", "", "a path. Received: ''."),
    (TrainingConfig, "data", {}, "a DataConfig. Received: {}."),
    (DataConfig, "valid_fraction", 0.95, "a number from 0 to 0.9. Received: 0.95."),
    (DataConfig, "seed", -1, "an integer >= 0. Received: -1."),
    (DataConfig, "train_path", [""], "a path. Received: ''."),
    (DataConfig, "label_weights", (1, 0), "each above the one before. Received: 1,0."),
    (DataConfig, "binarize_labels", 0, "positive and finite. Received: 0."),
    (ModelConfig, "hidden_sizes", 8, "integers, as (8,). Received: 8."),
    (ModelConfig, "hidden_sizes", [8, 0], "an integer >= 1. Received: 0."),
    (ModelConfig, "grade_values", "01", "numbers. Received: '01'."),
    (LossConfig, "params", ["alpha=1"], "a mapping. Received: ['alpha=1']."),
    (LossConfig, "params", {"a b": 1}, "keys. Received: 'a b'."),
    (MetricsConfig, "metrics", (), "at least one metric."),
]


@pytest.mark.parametrize(("kind", "name", "value", "told"), WRONG)
def test_a_wrong_value_is_told_with_its_name(kind, name, value, told):
    with pytest.raises(ValueError) as error:
        kind(**{name: value})
    assert f"`{name}`" in str(error.value) and told in str(error.value)


@pytest.mark.parametrize("dataset", ["table", "elwc", "text"])
@pytest.mark.parametrize("name", ["text_words", "embedding_inputs"])
def test_settings_of_columns_need_such_columns(name, dataset):
    kind = {"text_words": "texts", "embedding_inputs": "embeddings"}[name]
    with pytest.raises(ValueError) as error:
        DataConfig(
            dataset=dataset,
            train_path=["a"],
            **{name: True if kind == "embeddings" else 3},
        )
    assert f"`{name}=" in str(error.value)
    assert str(error.value).endswith(f" has no meaning without columns of {kind}.")


@pytest.mark.parametrize(
    ("low", "high", "wrong", "told"),
    [
        (None, None, np.inf, "a finite number"),
        (0.5, None, 0.25, "a finite number >= 0.5"),
        (None, 1.5, 2.0, "a finite number <= 1.5"),
        (0.5, 1.5, 2.0, "a number from 0.5 to 1.5"),
    ],
)
def test_a_number_is_told_its_limits_in_python_and_as_text(low, high, wrong, told):
    about = setting_kinds.Setting("", "", "number", low, high)
    with pytest.raises(ValueError) as error:
        setting_kinds.KINDS["number"].check("share", wrong, about)
    assert str(error.value) == f"`share` must be {told}. Received: {wrong!r}."
    with pytest.raises(ValueError, match=f"is not {told}$"):
        setting_kinds.parse(about, [str(wrong)])


@pytest.mark.parametrize("value", [float("nan"), np.inf, object(), {1: open}])
def test_parameters_are_plain_values(value):
    with pytest.raises(ValueError, match=r"`params\['alpha'\]` must be a finite numb"):
        LossConfig(params={"alpha": value})


def test_values_are_kept_as_tuples_and_nobody_can_change_them():
    given = {"alpha": 2.0, "merge_temperatures": [1.0, 2.0]}
    config = TrainingConfig(
        data=DataConfig(train_path="a.txt", label_weights=[-1, 0.5, 1]),
        model=ModelConfig(hidden_sizes=[8, 4]),
        loss=LossConfig(params=given),
        evaluation=MetricsConfig(metrics=["ndcg@10", "map"]),
    )
    assert config.data.train_path == ("a.txt",)
    assert config.data.label_weights == (-1.0, 0.5, 1.0)
    assert config.model.hidden_sizes == (8, 4)
    assert repr(LossConfig(params={"a": np.float64(1)}).params) == "{'a': 1.0}"
    assert config.evaluation.metrics == ("ndcg_10", "map")
    before = repr(config)
    given["alpha"] = 3.0
    config.loss.params["merge_temperatures"].append(3.0)
    config.loss.arguments()["alpha"] = 4.0
    with pytest.raises(TypeError):
        config.loss.params["alpha"] = 5.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.batch_size = 1
    assert repr(config) == before and "'alpha': 2.0" in before


def test_equal_settings_are_one_also_after_a_pickle_or_a_replacement():
    own = {"model": ModelConfig("mlp"), "model_dir": "x"}
    config = TrainingConfig(loss=LossConfig(params={"alpha": 2}), **own)
    for other in (
        pickle.loads(pickle.dumps(config)),
        dataclasses.replace(dataclasses.replace(config, batch_size=1), batch_size=128),
        TrainingConfig(loss=LossConfig(params={"alpha": 2.0}), **own),
    ):
        assert other == config and hash(other) == hash(config)
    assert dataclasses.replace(config, num_epochs=3) != config
    with pytest.raises(ValueError, match="`num_epochs`"):
        dataclasses.replace(config, num_epochs=0)


@pytest.mark.parametrize(
    ("model", "queries", "expected"),
    [
        *[("auto", 0, (32, 100, 20)), ("auto", 799, (32, 100, 20))],
        *[("auto", 800, (128, 30, 10)), ("mlp", 1, (128, 50, 0))],
        ("transformer", 10**6, (128, 50, 0)),
    ],
)
def test_only_auto_trains_by_the_number_of_queries(model, queries, expected):
    names = ("batch_size", "num_epochs", "early_stopping_patience")
    config = TrainingConfig(model=ModelConfig(model))
    for one in (config.sized(queries), config.sized(queries).sized(5)):
        assert tuple(getattr(one, name) for name in names) == expected
    for name in names:
        given = dataclasses.replace(config, **{name: 7}).sized(queries)
        others = {x: v for x, v in zip(names, expected) if x != name}
        assert getattr(given, name) == 7
        assert {x: getattr(given, x) for x in others} == others


@pytest.mark.parametrize("field", presets.training("mlp", 0))
def test_help_texts_have_the_sizes_of_the_defaults(field):
    (place,) = (x for x in places(TrainingConfig) if x.name == field)
    few, many, always = (
        presets.training(*case)[field]
        for case in [("auto", 0), ("auto", 800), ("mlp", 0)]
    )
    assert place.about.help.endswith(
        f"By default {few} for 'auto' with fewer than {presets.MANY_QUERIES} training "
        f"queries and {many} with more, and {always} for the other scorers."
    )


def test_one_thing_is_evaluated():
    assert EvaluationConfig(scores="x.npy").batch_size == 128
    for given in ({}, {"run": "a", "scores": "b"}):
        with pytest.raises(ValueError, match="exactly one of `export`, `run` and"):
            EvaluationConfig(**given)


@pytest.mark.parametrize(
    "value",
    ["map", "2", " a", "None", "a\nb", 1, 1e-30, None, True, [0, 0.5], {"a": 1}],
)
def test_texts_of_parameters_read_back(value):
    text = setting_kinds.as_text(value)
    assert setting_kinds.literal(text) == value and "\n" not in text
