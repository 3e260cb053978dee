"""A name is the same inside and outside, and an error leaves the old model."""

import pickle
import types

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import tfr_ext
from tests.helpers import assert_same_scores, make_lists
from tfr_ext.data import RankingLists
from tfr_ext.serving.exporter import load_scorer

pd = pytest.importorskip("pandas")

# What is quickly built and traced.
TINY = {
    **{
        "loss": "list_net_loss",
        "model": "mlp",  # It scores items by themselves.
        "hidden_sizes": (2,),
        "batch_normalization": False,
    },
    "num_epochs": 1,
}
METRICS = {"monitor": "ndcg@5", "metrics": ["map", "ndcg@3"]}
LISTS = make_lists([3, 1, 4, 2, 5, 3, 2, 4], seed=1)
X, Y, GROUP = LISTS.features, LISTS.labels, LISTS.lengths
QID = np.repeat(np.arange(len(GROUP)), GROUP)
# A column of the queries, which is number 3, too.
WITH_QUERIES = np.column_stack([X, QID]).astype(np.float64)


class HasToPandas:
    """As a Polars frame, or another with that method."""

    def __init__(self, frame):
        self.to_pandas, self.shape = frame.copy, frame.shape


def named(*names, then=lambda frame: frame):
    """Makes frames whose columns have these names."""
    return lambda x: then(pd.DataFrame(x, columns=list(names)[: x.shape[1]]))


def arrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def test_a_lazy_frame_is_to_be_collected():
    with pytest.raises(ValueError, match="LazyFrame has no rows yet: pass its `coll"):
        tfr_ext.Ranker(query="q").fit(type("LazyFrame", (), {})(), Y)


FRAMES = {
    "integers": named(0, 1, 2, 3),
    "texts": named("0", "1", "2", "3"),
    "both": named(0, "1", 2, "3"),
    "of NumPy": named(*map(np.int64, range(4))),
    "floats": named(0.0, 1.0, 2.0, 3.0),
    "nullable": named("0", "1", 2, 3, then=pd.DataFrame.convert_dtypes),
    "arrow table": named("0", "1", "2", "3", then=arrow),
    "to_pandas": named(0, 1, 2, 3, then=HasToPandas),
}
CONTAINERS = {
    **FRAMES,
    "array": np.asarray,
    "lists": np.ndarray.tolist,
    "sparse": scipy.sparse.csr_matrix,
}
QUERIES = {"text": "3", "integer": 3, "of NumPy": np.int64(3), "float": 3.0}


@pytest.fixture(scope="module")
def fitted():
    """Fits once to each form of the features, and of the name of the queries."""
    rankers = {}

    def fit(form, query=None):
        key = form, query
        if key not in rankers:
            ranker = tfr_ext.Ranker(**TINY, **METRICS, query=QUERIES.get(query))
            given = {"group": GROUP} if query is None else {}
            data = X if query is None else WITH_QUERIES
            rankers[key] = ranker.fit(CONTAINERS[form](data), Y, **given)
        return rankers[key]

    return fit


def results(ranker, features, **queries):
    """What a fitted ranker says of the rows."""
    found = ranker.evaluate(features, Y, **queries)
    assert [*found.metrics] == ["map", "ndcg_3"]
    scores = ranker.predict(features, **queries)
    return [*scores, *found.metrics.values(), ranker.score(features, Y, **queries)]


def without_tuples(ranker):
    """The parameters of a ranker, as JSON can hold them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in ranker.get_params().items()
    }


@pytest.mark.two_graphs
@pytest.mark.first_case()
@pytest.mark.parametrize("form", CONTAINERS)
def test_what_fit_takes_all_methods_take(fitted, form, tmp_path):
    ranker = fitted(form)
    expected = results(fitted("array"), X, group=GROUP)
    assert {"ndcg_5", "val_ndcg_5"} <= ranker.history_.keys()
    if form in FRAMES:
        assert ranker.feature_names_in_.tolist() == ["0", "1", "2"]
    for other in CONTAINERS.values():
        assert_same_scores(results(ranker, other(X), qid=QID), expected)
        assert_same_scores(ranker.predict(other(X)), expected[: len(Y)])
    ranker.save(str(tmp_path))
    for again in (tfr_ext.Ranker.load(tmp_path), pickle.loads(pickle.dumps(ranker))):
        assert_same_scores(results(again, CONTAINERS[form](X), group=GROUP), expected)
        assert without_tuples(again) == without_tuples(ranker)


@pytest.mark.two_graphs
@pytest.mark.first_case()
@pytest.mark.parametrize(("form", "query"), zip([*FRAMES], [*QUERIES] * 2))
def test_the_column_of_queries_has_one_name(fitted, form, query, tmp_path):
    ranker = fitted(form, query)
    expected = results(fitted("array"), X, group=GROUP)
    ranker.save(str(tmp_path))
    for again in (ranker, tfr_ext.Ranker.load(tmp_path)):
        for other in FRAMES.values():
            assert_same_scores(results(again, other(WITH_QUERIES)), expected)
        assert_same_scores(results(again, X, group=GROUP), expected)
        assert again.query == QUERIES[query]
    assert ranker.query is QUERIES[query]


def test_lists_have_the_names_of_a_ranker(fitted):
    for make in FRAMES.values():
        of_arrays = RankingLists.from_arrays(make(X), Y, group=GROUP)
        assert of_arrays.feature_names == ("0", "1", "2")
        for query in QUERIES.values():
            given = make(WITH_QUERIES)
            before = list(getattr(given, "columns", []))
            for features in (None, ["0", 1, np.int64(2)], np.arange(3)):
                lists = RankingLists.from_dataframe(given, None, query, features)
                assert lists.feature_names == ("0", "1", "2")
                np.testing.assert_array_equal(lists.features, X)
            assert list(getattr(given, "columns", [])) == before


@pytest.mark.two_graphs
def test_clones_and_exports(fitted, tmp_path):
    ranker = fitted("integers")
    ranker.export(str(tmp_path))
    scorer = load_scorer(str(tmp_path))
    assert scorer.feature_names == ["0", "1", "2"]
    scores = ranker.predict(X, group=GROUP)
    assert_same_scores(
        scorer.scores(RankingLists.from_arrays(X, Y, group=GROUP), 8), scores
    )
    base = pytest.importorskip("sklearn.base")
    query = np.int64(3)
    given = {**METRICS, "query": query, "hidden_sizes": [2]}
    for name, value in base.clone(tfr_ext.Ranker(**given)).get_params().items():
        assert name not in given or value == given[name]


@pytest.mark.parametrize("name", ["ndcg_3", "ndcg@3", " ndcg@3 "])
@pytest.mark.parametrize("form", [str, lambda name: [name], lambda name: (name,)])
def test_a_metric_is_spelled_as_one_likes(fitted, name, form):
    ranker = pickle.loads(pickle.dumps(fitted("array")))
    ranker.set_params(monitor=name, metrics=form(name))
    found = ranker.evaluate(X, Y, group=GROUP).metrics
    assert dict(found) == {"ndcg_3": ranker.score(X, Y, group=GROUP)}


SAME_NAME = [
    ([1, "1", 2], "There are two columns '1' in `{}`: 1 and '1'."),
    ([1.0, "1", 2], "There are two columns '1' in `{}`: 1.0 and '1'."),
    (["a", "a", "b"], "There are two columns 'a' in `{}`."),
    ([7, 7, 8], "There are two columns '7' in `{}`: 7 and 7."),
    ([None, "a", "b"], "There is a column None in `{}`, expected a text or a"),
    ([("a", 1), ("a", 2), ("b", 1)], "There is a column ('a', 1) in `{}`, expected"),
]


@pytest.mark.parametrize(("names", "told"), SAME_NAME)
def test_two_columns_of_one_name_are_told(fitted, names, told):
    frame = pd.DataFrame(X, columns=pd.Index(names, dtype=object))
    if isinstance(names[0], tuple):
        frame.columns = pd.MultiIndex.from_tuples(names)
    ranker, new = fitted("array"), tfr_ext.Ranker(**TINY)
    calls = {
        "X": [
            lambda: new.fit(frame, Y, group=GROUP),
            lambda: ranker.predict(frame),
            lambda: ranker.predict(frame, group=GROUP),
            lambda: ranker.score(frame, Y, group=GROUP),
            lambda: ranker.evaluate(frame, Y, qid=QID),
            lambda: RankingLists.from_arrays(frame, Y, group=GROUP),
        ],
        "eval_set": [
            lambda: new.fit(X, Y, group=GROUP, eval_set=(frame, Y), eval_group=GROUP)
        ],
        "df": [lambda: RankingLists.from_dataframe(frame, None, "q")],
        "feature_names": [
            lambda: RankingLists.from_arrays(X, Y, group=GROUP, feature_names=names)
        ],
    }
    for argument, each in calls.items():
        for call in each:
            with pytest.raises(ValueError) as error:
                call()
            assert str(error.value).startswith(told.format(argument))


@pytest.mark.parametrize("form", ["integers", "texts"])
@pytest.mark.parametrize("query", [None, 3], ids=["group", "query"])
def test_what_is_wrong_is_told_by_the_names_of_the_user(form, query):
    data = WITH_QUERIES if query else X
    given = {} if query else {"qid": QID}
    gap, apart = data.copy(), data[::-1].copy()
    gap[4, 1] = np.inf
    apart[[0, -1]] = apart[[-1, 0]]
    ranker = tfr_ext.Ranker(**TINY, query=query, categories=())
    make = FRAMES[form]
    told = {
        "Row 4 (from 0): column '1' is inf": (make(gap), given),
        ("sort them by column '3'" if query else "sort them by `qid`"): (
            make(apart),
            {} if query else {"qid": np.r_[QID[1:], QID[:1]]},
        ),
        "leave a column of texts out, or name it as a category": (
            make(data).assign(colour="red"),
            given,
        ),
        "`sample_weight` must have one": (
            make(data),
            {**given, "sample_weight": Y[1:]},
        ),
    }
    for words, (features, arguments) in told.items():
        with pytest.raises(ValueError) as error:
            ranker.fit(features, Y, **arguments)
        assert words in str(error.value)


@pytest.mark.parametrize(
    ("params", "arguments", "told"),
    [
        ({"random_state": -1}, {}, "`random_state` must be"),
        ({"validation_fraction": 0.95}, {}, "`validation_fraction` must be"),
        ({"validation_fraction": 0}, {}, "`validation_fraction=0` .* give `eval_set`"),
        ({"loss_params": {"alpha": -1}}, {}, r"`loss_params\['alpha'\]=-1`"),
        ({}, {"eval_set": (X, Y)}, "`eval_set` are not given. Pass `eval_group`"),
        ({}, {"eval_set": (X, Y), "eval_group": [3]}, "`eval_group` sum to 3"),
        ({}, {"eval_set": (X, Y), "eval_qid": QID[::2]}, "`eval_qid` must have"),
        ({}, {"eval_set": (X, -Y), "eval_group": GROUP}, "`y` of `eval_set` is -"),
        ({}, {"eval_set": (X * np.inf, Y), "eval_group": GROUP}, "`eval_set` column 0"),
    ],
)
def test_messages_name_parameters_and_arguments(params, arguments, told):
    ranker = tfr_ext.Ranker(**{**TINY, **params})
    with pytest.raises(ValueError, match=told):
        ranker.fit(X, Y, group=GROUP, **arguments)


class Interrupted(tf.keras.callbacks.Callback):
    """Ctrl-C at the end of an epoch."""

    def on_epoch_end(self, epoch, logs=None):
        raise KeyboardInterrupt


REFUSED = {
    "labels": ({}, {"y": -Y - 1}, ValueError),
    "sizes": ({}, {"group": GROUP[1:]}, ValueError),
    "no labels": ({}, {"y": None}, ValueError),
    "names": ({}, {"X": pd.DataFrame(X, columns=list("aab"))}, ValueError),
    "width": ({"query": "q"}, {"X": pd.DataFrame(X[:, :2])}, ValueError),
    "eval_set": ({}, {"eval_set": (X[:, :2], Y), "eval_group": GROUP}, ValueError),
    "batch_size": ({"batch_size": 0}, {}, ValueError),
    "num_epochs": ({"num_epochs": 0}, {}, ValueError),
    "loss": ({"loss": "smothi_loss"}, {}, ValueError),
    "missing": ({"settings": {"missing": "mean", "num_epoch": 1}}, {}, ValueError),
    "no share": ({"validation_fraction": 0}, {}, ValueError),
    "transforms": ({"feature_transforms": "log2p"}, {}, ValueError),
    "rate": ({"learning_rate": 1e38, "num_epochs": 9}, {}, FloatingPointError),
    "Ctrl-C": (
        {"settings": {"callback": (f"{__name__}:Interrupted",)}},
        {},
        KeyboardInterrupt,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_error_in_fit_leaves_the_old_model(fitted, kind, tmp_path):
    params, arguments, error = REFUSED[kind]
    ranker = fitted("integers")
    expected = results(ranker, FRAMES["texts"](X), group=GROUP)
    before, old = dict(vars(ranker)), ranker.get_params()
    ranker.set_params(**params)
    with pytest.raises(error):
        ranker.fit(**{"X": X, "y": Y, "group": GROUP, **arguments})
    assert vars(ranker).keys() == before.keys()
    for name, value in vars(ranker).items():
        assert value is (params[name] if name in params else before[name]), name
    # The parameters are those of the next fit; what is fitted goes by its own.
    ranker.save(str(tmp_path))
    for again in (ranker, tfr_ext.Ranker.load(tmp_path)):
        found = results(again, FRAMES["integers"](X), group=GROUP)
        assert_same_scores(found, expected)
    ranker.set_params(**old)


def test_what_parameters_may_be_files_hold(tmp_path):
    params = {
        "hidden_sizes": np.array([2]),
        "metrics": np.array(["ndcg@3", "map"]),
        "random_state": np.random.RandomState(5),
        "loss": "smoothi_loss",
        "loss_params": types.MappingProxyType({"alpha": np.float32(2)}),
        "query": np.int64(3),
        "settings": {"missing": "mean", "feature_noise": np.float64(0)},
    }
    gaps = WITH_QUERIES.copy()
    gaps[::4, 1] = np.nan
    frame = FRAMES["integers"](gaps)
    ranker = tfr_ext.Ranker(**{**TINY, **params}).fit(frame, Y)
    state = params["random_state"].get_state()[2]
    ranker.save(str(tmp_path))
    again = tfr_ext.Ranker.load(tmp_path)
    assert again.random_state == ranker.params_["random_state"]
    for name, value in params.items():
        assert getattr(ranker, name) is value
    scores = ranker.predict(frame)
    # What `fit` was told counts until the next `fit` ends well.
    ranker.set_params(settings={"missing": 0}, query="q", random_state=7)
    for one in (again, ranker):
        assert_same_scores(one.predict(FRAMES["texts"](gaps)), scores)
    assert params["random_state"].get_state()[2] == state
    with pytest.raises(ValueError, match="`settings={'missing': 'mean'}` lets"):
        ranker.set_params(query=3).fit(frame, Y)
    assert_same_scores(ranker.predict(frame), scores)
