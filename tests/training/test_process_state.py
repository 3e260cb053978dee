"""What training does to its process: random numbers, graphs, and what it warns of."""

import collections
import dataclasses
import gc
import random
import threading
import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfr_ext
from tests.commands import run_command
from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext.core import which_keras
from tfr_ext.core.system import process_state
from tfr_ext.serving.exporter import load_scorer
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import (
    EvaluationConfig,
    LossConfig,
    ModelConfig,
    RankConfig,
    TrainingConfig,
    evaluate,
    rank,
    train,
)

SPLITS = Splits(*(make_lists([4] * 8, seed=seed) for seed in range(3)))
# A loss and a network whose graphs are built soon.
LOSS = "list_net_loss"
SMALL = TrainingConfig(
    model=ModelConfig("mlp", hidden_sizes=(4,), batch_normalization=False),
    loss=LossConfig(LOSS),
    num_epochs=1,
    draw_curves=False,
    export_model=False,
    verbose="silent",
)
# Their gain vanishes beside that of the highest.
TOO_HIGH = dataclasses.replace(
    SPLITS.train, labels=np.linspace(1, 499, 32).astype(np.float32)
)


def fitted(lists=SPLITS.train, **params):
    small = {
        "model": "mlp",
        "hidden_sizes": (4,),
        "batch_normalization": False,
        "loss": LOSS,
    }
    params = {"num_epochs": 1, **small, **params}
    return tfr_ext.Ranker(**params).fit(
        lists.features, lists.labels, group=lists.lengths
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A finished run, with the test lists as text."""
    folder = tmp_path_factory.mktemp("state")
    with_export = dataclasses.replace(SMALL, export_model=True)
    train(dataclasses.replace(with_export, model_dir=str(folder / "run")), SPLITS)
    fitted(model_dir=str(folder / "fit"))
    write_letor(folder / "test.txt", SPLITS.test)
    return folder


def found(files, directory):
    config = dataclasses.replace(SMALL, export_model=True)
    return train(dataclasses.replace(config, model_dir=str(files / "run")), SPLITS)


def failing(files, directory):
    loss = LossConfig("smoothi_loss", {"alpha": -1.0})
    with pytest.raises(ValueError, match="alpha"):
        train(dataclasses.replace(SMALL, loss=loss, model_dir=directory), SPLITS)


# What is public in Python and builds, trains or reads models.
WORK = {
    "train": lambda files, directory: train(
        dataclasses.replace(SMALL, model_dir=directory), SPLITS
    ),
    "train, failing": failing,
    "train, found": lambda files, directory: found(files, directory).model,
    "train, ensemble": lambda files, directory: train(
        dataclasses.replace(SMALL, num_models=2, model_dir=directory), SPLITS
    ),
    "fit": lambda files, directory: fitted(random_state=5),
    "fit, found": lambda files, directory: fitted(model_dir=str(files / "fit")),
    "evaluate": lambda files, directory: evaluate(
        EvaluationConfig(
            data=DataConfig(dataset="text", test_path=(str(files / "test.txt"),)),
            export=str(files / "run/export"),
        )
    ),
    "rank": lambda files, directory: rank(
        RankConfig(
            input=(str(files / "test.txt"),),
            export=str(files / "run/export"),
            output=f"{directory}.trec",
        )
    ),
    "synthetic lists": lambda files, directory: tfr_ext.data.synthetic_lists(3, 4),
}


@pytest.mark.parametrize(
    "work",
    [
        # An ensemble and `fit` train too.
        pytest.param(work, marks=[pytest.mark.grid] * (work == "train"))
        for work in WORK
    ],
)
def test_global_random_numbers_are_as_before(work, files, tmp_path):
    np.random.seed(7)
    random.seed(7)
    np.random.random()
    before = str((np.random.get_state(), random.getstate()))
    WORK[work](files, str(tmp_path / "new"))
    assert str((np.random.get_state(), random.getstate())) == before


def test_the_last_of_several_threads_restores_random_numbers():
    np.random.seed(7)
    random.seed(7)
    before = str((np.random.get_state(), random.getstate()))
    first, second = process_state.as_before(), process_state.as_before()
    first.__enter__()
    tf.keras.utils.set_random_seed(1)
    second.__enter__()
    tf.keras.utils.set_random_seed(2)
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert str((np.random.get_state(), random.getstate())) == before


def test_tensorflows_seed_is_set():
    drawn = []
    for seed in (1, 1, 2):
        fitted(random_state=seed)
        drawn.append(float(tf.random.uniform([])))
    assert drawn[0] == drawn[1] != drawn[2]


LOSSES = ("smoothi_loss", "pirank_ndcg_loss", "wass_rank_loss", "approx_ndcg_loss")


def graphs():
    """The number of graphs of functions in memory, by name without number."""
    gc.collect()
    return collections.Counter(
        one.name.rstrip("_0123456789")
        for one in gc.get_objects()
        if isinstance(one, tf.Graph) and one.building_function
    )


@pytest.mark.first_case
@pytest.mark.parametrize(
    "params",
    [
        *({"loss": loss} for loss in LOSSES[: 4 if which_keras.IS_KERAS_2 else 3]),
        {
            "loss": "smoothi_loss",
            "num_models": 2,
            "settings": {"jit_compile_loss": True},
        },
        {"batch_normalization": True, "feature_transforms": ("quantile",)},
        {"model": "transformer", "settings": {"loss_diagnostics": True}},
    ],
    ids=lambda params: "-".join(map(str, params.values())),
)
def test_fits_leave_no_graph_behind(params):
    """None more than the first fit does, which may fill a cache."""
    fitted(**params)
    before = graphs()
    fitted(**params)
    assert graphs() - before == {}


@pytest.mark.parametrize("work", ["evaluate", "rank"])
def test_exports_that_were_loaded_leave_no_graph_behind(work, files, tmp_path):
    before = graphs()
    WORK[work](files, str(tmp_path / "new"))
    assert graphs() - before == {}


def test_a_loaded_export_has_its_gradients(files):
    scorer = load_scorer(str(files / "run/export"))
    features, mask = tf.ones([1, 2, SPLITS.test.num_features]), tf.ones([1, 2], bool)
    with tf.GradientTape() as tape:
        tape.watch(features)
        scores = scorer._scored(float_features=features, mask=mask)["scores"]
    assert np.abs(tape.gradient(scores, features)).max() > 0


def of_function():
    """A function with a custom gradient, in a loop, in a function and by itself."""

    @tf.custom_gradient
    def squared(x):
        return x * x, lambda upstream: upstream * 3 * x

    nested = tf.function(squared)

    @tf.function
    def function(x, n):
        for _ in tf.range(n):
            x = squared(x)
        return squared(nested(x))

    return function


def test_gradients_are_tensorflows_also_after_it():
    """Of functions that were traced inside, by this thread or by another."""
    x, n = tf.constant(2.0), tf.constant(1)
    inside = [of_function() for _ in range(2)]
    with process_state.as_before():
        with process_state.as_before():
            inside[0](x, n)
        thread = threading.Thread(target=inside[1], args=(x, n))
        thread.start()
        thread.join()
    gc.collect()
    for function in (*inside, of_function()):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, n)
        assert (y.numpy(), tape.gradient(y, x).numpy()) == (256, 27 * 16 * 4 * 2)
    assert tf.RegisterGradient.__call__ is process_state._register


# Each call, silent and not, and each way to print.
CALLS = [("fit", 1, 1, 0), ("fit", 1, 1, 2), ("train", 1, 1, 0), ("train", 1, 1, 1)]
MORE_CALLS = [
    (*models, verbose)
    for models in [
        *(("fit", 1, 1), ("fit", 2, 1)),
        *(("train", 1, 1), ("train", 2, 1), ("train", 2, 2)),
    ]
    for verbose in (0, 2, 1)
    if (*models, verbose) not in CALLS
]


@pytest.mark.parametrize(
    ("call", "num_models", "parallel_models", "verbose"),
    [*CALLS, *(pytest.param(*more, marks=pytest.mark.grid) for more in MORE_CALLS)],
)
def test_a_warning_is_told_once(
    call, num_models, parallel_models, verbose, tmp_path, capfd
):
    """It is printed where lines are, and else it is Python's, of the caller's line."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        if call == "fit":
            fitted(TOO_HIGH, verbose=verbose, num_models=num_models)
        else:
            config = dataclasses.replace(
                SMALL,
                verbose=("silent", "bar", "line")[verbose],
                num_models=num_models,
                parallel_models=parallel_models,
                model_dir=str(tmp_path),
            )
            train(config, dataclasses.replace(SPLITS, train=TOO_HIGH))
    issued = [one for one in issued if one.category is UserWarning]
    told = [str(one.message) for one in issued]
    printed = "".join(capfd.readouterr())
    assert (len(told), printed.count("The highest label is 499")) == (
        (0, 1) if verbose else (1, 0)
    )
    assert all(one.filename == __file__ for one in issued)


@pytest.mark.skipif(not which_keras.IS_KERAS_2, reason="TFR's losses need Keras 2")
def test_an_ensemble_tells_the_caveats_of_its_loss_once():
    with pytest.warns(UserWarning, match="^list_mle_loss ") as issued:
        fitted(loss="list_mle_loss", num_models=2)
    told = [str(one.message) for one in issued]
    caveats = tfr_ext.losses.get("list_mle_loss").caveats()
    assert [line for line in told if "list_mle_loss" in line] == [
        f"list_mle_loss {caveat}." for caveat in caveats
    ]


def test_a_command_prints_its_warnings(tmp_path):
    for split, lists in (("train", TOO_HIGH), ("valid", SPLITS.valid)):
        write_letor(tmp_path / f"{split}.txt", lists)
    done = run_command(
        "pipelines.train",
        "--dataset=text",
        *(f"--{x}_path={tmp_path}/{x}.txt" for x in ("train", "valid")),
        *("--hidden_sizes=4", "--num_epochs=1", "--verbose=silent", f"--loss={LOSS}"),
        *(f"--model_dir={tmp_path}/run", "--noexport_model", "--nodraw_curves"),
    )
    lines = [line for line in done.stdout.splitlines() if "highest label is" in line]
    assert len(lines) == 1 and lines[0].startswith("Warning: ")
    assert "--loss_param=gain=linear" in lines[0] or "--gain=linear" in lines[0]
    assert "arning" not in done.stderr
