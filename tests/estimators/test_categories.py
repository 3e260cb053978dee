"""A frame with brands, tags and users, from `Ranker.fit` to an export."""

import pickle
import warnings

import numpy as np
import pandas
import pytest
import tensorflow as tf

import tfr_ext
from tests.helpers import need
from tfr_ext.core.system import lock
from tfr_ext.data import RankingLists
from tfr_ext.data.elwc.message import ExampleListWithContext
from tfr_ext.estimators import saved
from tfr_ext.models.layers import all_layers
from tfr_ext.serving import exporter, parity

TINY = {"loss": "list_net_loss", "model": "mlp", "hidden_sizes": (4,), "num_epochs": 2}
NAMES = ["brand", "shop", "arrow", "size", "tags", "user"]
TEXTS = ["title", "words"]
EMBEDDINGS = ["face", "wish"]
NUMBERS_ONLY = {"categories": (), "texts": (), "embeddings": (), "context": ()}
SIZE = 5


def frame(queries=30, seed=0):
    """Nine kinds of columns, and labels that brands and users decide."""
    rng = np.random.default_rng(seed)
    n = queries * SIZE
    brand, user = rng.integers(0, 8, n), np.repeat(rng.integers(0, 3, queries), SIZE)
    shops = [None if x == 4 else f"s{x}" for x in rng.integers(0, 5, n)]
    df = pandas.DataFrame(
        {
            "price": rng.normal(size=n),
            "brand": pandas.Categorical([f"b{x}" for x in brand]),
            "query": np.repeat(np.arange(queries), SIZE),
            "shop": shops,
            "arrow": pandas.array(shops, "string[pyarrow]"),
            "size": rng.integers(36, 47, n),
            "tags": [[f"t{x}" for x in rng.integers(0, 6, k % 4)] for k in range(n)],
            "user": [f"u{x}" for x in user],
            "title": [f"A {x} of brand{y}" for x, y in zip(shops, brand)],
            "words": [f"some BRAND{x}, S{x}" for x in user],
            "face": [*rng.normal(size=[n, 3])],
            "wish": [*np.repeat(rng.normal(size=[queries, 3]), SIZE, axis=0).tolist()],
        }
    )
    df.at[1, "face"] = None
    return df, (brand % 3 == user).astype(int) + (df.price > 1)


def ranker(**params):
    return tfr_ext.Ranker(
        **{
            **TINY,
            **{"query": "query", "categories": NAMES, "texts": TEXTS},
            **{"embeddings": EMBEDDINGS, "context": ["user", "words", "wish"]},
            **params,
        }
    )


@pytest.fixture(scope="module")
def fitted():
    df, y = frame()
    return ranker().fit(df, y), df, y


@pytest.fixture(scope="module")
def version(fitted, tmp_path_factory):
    """The directory of the exported version."""
    return fitted[0].export(str(tmp_path_factory.mktemp("export")))


def vocabulary_of(model):
    """The keys of the categories of a model."""
    found = [np.asarray(x.keys) for x in all_layers(model) if hasattr(x, "keys")]
    return {i: keys.tolist() for i, keys in enumerate(found)}


def test_what_was_learnt_is_saved_loaded_and_pickled(fitted, tmp_path):
    first, df, _ = fitted
    scores = first.predict(df)
    assert [*first.feature_names_in_] == ["price", *NAMES, *TEXTS, *EMBEDDINGS]
    assert first.n_features_in_ == 11
    first.save(str(tmp_path))
    loaded = tfr_ext.Ranker.load(str(tmp_path))
    pickled = pickle.loads(pickle.dumps(first))
    for again in (loaded, pickled):
        assert again.spec_ == first.spec_
        assert vocabulary_of(again.model_) == vocabulary_of(first.model_)
        np.testing.assert_array_equal(again.predict(df), scores)
    mixed = df[[*df.columns[::-1]]].assign(other="not a feature")
    np.testing.assert_array_equal(loaded.predict(mixed), scores)


def test_a_kill_while_saving_leaves_no_mixture(fitted, tmp_path, monkeypatch):
    first, df, y = fitted
    other = ranker(random_state=7).fit(df, y)
    for place, name in ((saved.os, "replace"), (saved, "write_atomically")):
        first.save(str(tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                other.save(str(tmp_path))
        with pytest.raises(ValueError, match="there is no such file"):
            tfr_ext.Ranker.load(str(tmp_path))
    other.save(str(tmp_path))
    with lock.alone_with(str(tmp_path / "ranker.json"), "save"):
        with pytest.raises(ValueError, match="another process is writing"):
            first.save(str(tmp_path))
    again = tfr_ext.Ranker.load(str(tmp_path))
    np.testing.assert_array_equal(again.predict(df), other.predict(df))
    assert sorted(x.name for x in tmp_path.iterdir()) == ["model.keras", "ranker.json"]


def test_a_column_may_have_any_name(tmp_path):
    """A keyword of Python, what TensorFlow renames, and what it has itself."""
    df, y = frame()
    names = ["class", "_brand", "größe", "a b", "self", "mask", "feature_1", "None"]
    brands, df = df["brand"], df[["query", "price"]].copy()
    df[names] = np.column_stack([brands] * len(names))
    made = ranker(categories=names, texts=(), embeddings=(), context=()).fit(df, y)
    served = tf.saved_model.load(made.export(str(tmp_path))).signatures
    scored = served["serving_default"]
    shape = [30, SIZE]
    brands = tf.constant(brands.astype(str).to_numpy(object).reshape(shape))
    prices = df["price"].to_numpy(np.float32).reshape([*shape, 1])
    inputs = {key: brands for _, key in made.spec_.inputs}
    scores = scored(**inputs, float_features=tf.constant(prices))["scores"]
    expected = made.predict(df).reshape(shape)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_printed_if_that_is_wished(fitted, capsys):
    _, df, y = fitted
    df = df.assign(title="many words " * 20)
    with pytest.warns(UserWarning, match="Column 'title': 150 of 150 texts have more"):
        ranker(verbose=0).fit(df, y).predict(df)
    assert capsys.readouterr().out == ""


def test_a_ranker_of_numbers_saves_no_kinds(tmp_path):
    df, y = frame()
    plain = ranker(**NUMBERS_ONLY).fit(df[["query", "price"]], y)
    plain.save(str(tmp_path))
    assert "spec_" not in (tmp_path / "ranker.json").read_text()
    assert not hasattr(plain, "spec_") and plain.n_features_in_ == 1
    assert not hasattr(tfr_ext.Ranker.load(str(tmp_path)), "spec_")


@pytest.mark.any_keras
def test_brands_help_where_they_decide():
    (df, y), (new, wanted) = frame(120), frame(60, seed=1)
    params = {"num_epochs": 30, "learning_rate": 0.02, "hidden_sizes": (16,)}
    with_brands = ranker(**params).fit(df, y).score(new, wanted)
    columns = ["query", "price"]
    without = ranker(**params, **NUMBERS_ONLY)
    without = without.fit(df[columns], y).score(new[columns], wanted)
    assert with_brands > without + 0.05


def test_columns_may_be_numbers():
    """The column 0 of the queries is a text, too."""
    texts = pandas.Series(["red hat", "shoe", "coat", "bag"] * 5).repeat(2)
    df = pandas.DataFrame({0: texts.tolist(), 1: ["Hat", "Shoe"] * 20})
    df[0] = df[0] + np.repeat(np.arange(20), 2).astype(str)
    given = {"query": 0, "texts": [0, 1], "context": [0]}
    found = tfr_ext.Ranker(**TINY, **given).fit(df, [0, 1] * 20)
    assert [x.name for x in found.spec_.encoded()] == ["1", "0"]
    assert np.isfinite(found.predict(df)).all()


def test_auto_finds_them(fitted):
    df, y = frame()
    found = ranker(categories="auto").fit(df, y)
    kinds = {x.name: x.kind for x in found.spec_.encoded()}
    assert kinds == dict.fromkeys({*NAMES} - {"size"}, "category") | dict.fromkeys(
        TEXTS, "text"
    )
    assert [x.name for x in found.spec_.encoded(True)] == ["user", "words"]
    with pytest.raises(ValueError, match="'brand' is 'b6', expected a number"):
        ranker(**NUMBERS_ONLY).fit(df[["query", "brand"]], y)
    for cell in (df["face"].iloc[0], [1, 0], np.array([1, 0])):
        df["face"] = [cell] * len(df)
        told = (
            "'face' has lists of numbers: name it in `embeddings` if it is one, in `cat"
        )
        with pytest.raises(ValueError, match=told):
            ranker(categories="auto", embeddings=()).fit(df, y)


def test_no_rows_have_no_scores(fitted):
    first, df, _ = fitted
    assert first.spec_.encoded(True)
    assert first.predict(df.iloc[:0]).shape == (0,)


def test_new_and_missing_values_share_a_score_each(fitted):
    first, df, _ = fitted
    one = df.iloc[[0] * SIZE].assign(shop=["new", "newer", None, np.nan, "s1"])
    scores = first.predict(one)
    assert scores[0] == scores[1] and scores[2] == scores[3] and len({*scores}) == 3


def test_items_by_themselves_have_a_context_each(fitted):
    df, y = frame()
    alone = ranker(model="mlp", feature_transforms=()).fit(df, y)
    scores = alone.predict(df)
    each = alone.set_params(query=None).fit(
        df.drop(columns="query"), y, group=[SIZE] * 30
    )
    rows = each.predict(df.drop(columns="query"))
    np.testing.assert_allclose(rows, scores, rtol=1e-4, atol=1e-6)


def request(df):
    """Lists of a frame as inputs of the signatures."""
    shape = [-1, SIZE]
    texts = {
        name: df[name].astype(object).where(df[name].notna(), "").astype(str)
        for name in (*NAMES, *TEXTS)
        if name != "tags"
    }
    inputs = {
        name: tf.constant(np.array(x, object).reshape(shape), tf.string)
        for name, x in texts.items()
    }
    inputs |= {name: inputs[name][:, 0] for name in ("user", "words")}
    tags = [[*tags, *[""] * 5][:5] for tags in df["tags"]]
    inputs["tags"] = tf.reshape(tf.constant(tags), [*shape, 5])
    zero = [0.0] * 3  # A missing one.
    faces = np.float32([zero if x is None else x for x in df["face"]])
    wishes = np.float32(df["wish"].tolist())[::SIZE]
    prices = df["price"].to_numpy(np.float32).reshape([*shape, 1])
    numbers = {"face": faces.reshape([*shape, 3]), "wish": wishes}
    return {**inputs, **numbers, "float_features": tf.constant(prices)}


def protos(df):
    """The same as protos; an absent feature is a missing one."""
    found = []
    for _, rows in df.groupby("query", sort=False):
        elwc = ExampleListWithContext()
        for name in ("user", "words"):
            feature = elwc.context.features.feature[name]
            values = (
                [rows[name].iloc[0]] if name == "user" else rows[name].iloc[0].split()
            )
            feature.bytes_list.value.extend(x.encode() for x in values)
        wish = elwc.context.features.feature["wish"]
        wish.float_list.value.extend(rows["wish"].iloc[0])
        for _, row in rows.iterrows():
            features = elwc.examples.add().features.feature
            features["price"].float_list.value.append(row["price"])
            if row["face"] is not None:
                features["face"].float_list.value.extend(row["face"])
            features["size"].int64_list.value.append(row["size"])
            features["tags"].bytes_list.value.extend(x.encode() for x in row["tags"])
            for name in ("brand", "shop", "arrow", "title"):
                if isinstance(row[name], str):
                    features[name].bytes_list.value.append(row[name].encode())
        found.append(elwc.SerializeToString())
    return tf.constant(found)


def test_an_export_scores_texts_ids_and_protos_alike(fitted, version):
    first, df, y = fitted
    lists = first._lists(df, y, None, None)
    expected = parity.around(first.predict(df), lists, parity.TOLERANCE)
    scorer = exporter.load_scorer(version)
    assert scorer.spec == first.spec_ and scorer.feature_names == [
        *("price", "face[0]", "face[1]", "face[2]", "wish[0]", "wish[1]", "wish[2]")
    ]
    parity.check(lists, scorer.scores(lists, 7), expected, "training")
    served = tf.saved_model.load(version).signatures
    texts, whole = request(df), tf.ones([30, SIZE], tf.bool)
    topn = tf.fill([30], 2)
    found = [
        served["serving_default"](**texts),
        served["masked"](**texts, mask=whole),
        served["rank"](**texts, mask=whole, topn=topn),
        served["elwc"](examples=protos(df)),
    ]
    for each in found:
        scores = each["scores"].numpy().ravel()
        parity.check(lists, scores, expected, "training")
    best = expected.scores.reshape(30, SIZE).argmax(axis=1)
    np.testing.assert_array_equal(found[2]["order"][:, 0], best)
    # Bytes that are no text, and numbers as texts with and without a point.
    texts["size"] = tf.strings.join([texts["size"], ".0"])
    texts["brand"] = tf.where(texts["brand"] == "b1", b"\xff\xfe", texts["brand"])
    scores = served["masked"](**texts, mask=whole)["scores"].numpy().ravel()
    unseen = df.assign(brand=df["brand"].astype(object).replace("b1", "unseen"))
    np.testing.assert_allclose(scores, first.predict(unseen), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"brand": lambda x: x[:, :2]},
        {"user": lambda x: x[:3]},
        {"float_features": lambda x: x * np.nan},
        {"face": lambda x: x + np.inf},
        {"wish": lambda x: x[:3]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_request_of_another_shape_is_refused(fitted, change, version):
    _, df, _ = fitted
    served = tf.saved_model.load(version).signatures
    inputs = request(df)
    for name, function in change.items():
        inputs[name] = function(inputs[name])
    with pytest.raises(tf.errors.InvalidArgumentError):
        served["serving_default"](**inputs)
    mask = tf.ones([30, SIZE], tf.bool)
    with pytest.raises(tf.errors.InvalidArgumentError):
        served["masked"](**inputs, mask=mask)


@pytest.mark.grid
@pytest.mark.parametrize("of", [np.array, pandas.Index, pandas.Series])
def test_columns_are_named_by_any_row_of_names(of, fitted, tmp_path):
    first, df, y = fitted
    named = {"categories": of(NAMES), "texts": of(TEXTS), "embeddings": of(EMBEDDINGS)}
    found = ranker(**named, context=of(["user", "words", "wish"])).fit(df, y)
    np.testing.assert_array_equal(found.predict(df), first.predict(df))
    found.save(tmp_path / "saved")
    again = tfr_ext.Ranker.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict(df), first.predict(df))
    lists = RankingLists.from_dataframe(
        df.assign(y=y), "y", "query", categories=of(NAMES)
    )
    assert [x.name for x in lists.spec.encoded()] == NAMES


def test_rows_in_another_order_are_told():
    df, y = frame()
    plain = ranker(categories=(), texts=(), embeddings=(), context=())
    df = df[["query", "price"]]
    mixed = df.sort_values(["query", "price"])
    with pytest.warns(UserWarning, match="index of `y` has the rows of `X` in another"):
        plain.fit(mixed, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The index of")
        plain.fit(mixed, y[mixed.index]).fit(df, y).fit(df, y.to_numpy())
        assert len(plain.predict(df[["price"]], group=[SIZE] * 30)) == len(df)


def test_it_works_in_a_grid_search():
    need("sklearn")
    from sklearn.model_selection import GridSearchCV, GroupKFold

    df, y = frame()
    search = GridSearchCV(ranker(), {"hidden_sizes": [(2,), (4,)]}, cv=GroupKFold(2))
    search.fit(df, y, groups=df["query"])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "settings",
    [
        {
            **{"mixed_precision": "bfloat16", "text_words": 3},
            **{"vocabulary_size": 3, "min_count": 5, "embedding_inputs": True},
        },
        pytest.param({"jit_compile": True}, marks=pytest.mark.grid),
        pytest.param({"ensemble": "rank"}, marks=pytest.mark.grid),
    ],
    ids=lambda x: next(iter(x)),
)
def test_settings_of_training(settings, tmp_path):
    df, y = frame()
    several = {"num_models": 2} if "ensemble" in settings else {}
    found = ranker(settings=settings, **several).fit(df, y)
    version = found.export(str(tmp_path))
    lists = found._lists(df, y, None, None)
    tolerance = (
        parity.HALF_TOLERANCE if "mixed_precision" in settings else parity.TOLERANCE
    )
    expected = parity.of_model(found.model_, lists, 32, tolerance)
    scores = exporter.load_scorer(version).scores(lists, 7)
    parity.check(lists, scores, expected, "training")
    if "vocabulary_size" in settings:
        assert {x.width for x in found.spec_.encoded() if x.kind == "text"} == {3}
        sizes = sorted(map(len, vocabulary_of(found.model_).values()))
        assert max(sizes[:-1]) == 3 and sizes[-1] <= 6  # Of two texts.


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"categories": ["colour"]}, "no column 'colour'"),
        ({"context": ["brand", "wish"]}, "query '0', expected one value a list"),
        ({"context": ["query"]}, "'query' is that of `query`, .* only as a text"),
        ({"categories": ["query", *NAMES]}, "'query' is that of `query`, .* as a text"),
        (
            {"categories": [*NAMES, "price"]},
            "'price' is .*, expected a text",
        ),
        (
            {"embeddings": ["face"], "context": ()},
            "'face' says nothing: .* of the cont",
        ),
        ({"embeddings": ["price"]}, "'price' is no embedding: its first value is -0.5"),
        ({"texts": EMBEDDINGS}, "Column 'face' has two uses"),
        (
            {"embeddings": (), "settings": {"embedding_inputs": True}},
            "`embedding_inputs=True` has no meaning without columns of embeddings",
        ),
        (
            {"texts": (), "settings": {"text_words": 3}},
            "`text_words=3` has no meaning without columns of texts",
        ),
        ({"embeddings": "face"}, "`embeddings` must be .* Received: 'face'"),
    ],
)
def test_what_is_wrong_is_told(params, told):
    df, y = frame()
    with pytest.raises(ValueError, match=told):
        ranker(**params).fit(df, y)


def test_a_column_that_is_gone_is_told(fitted):
    first, df, _ = fitted
    with pytest.raises(ValueError, match="`X` lacks columns that `fit` had: brand"):
        first.predict(df.drop(columns="brand"))
    with pytest.raises(ValueError, match="`X` must be a data frame"):
        first.predict(df[["price"]].to_numpy(), group=[SIZE] * 30)
    with pytest.raises(ValueError, match="'size' is 40.5, expected a text or a whole"):
        first.predict(df.assign(size=40.5))
    wrong = df.assign(face=[*df["face"][:-1], [1.0, np.nan, 2.0]])
    with pytest.raises(
        ValueError, match=r"149 .* is \[1.0, nan, 2.0\], expected a list"
    ):
        first.predict(wrong)
    with pytest.raises(
        ValueError, match="'wish' is .* of query '0', expected one value"
    ):
        first.predict(df.assign(wish=df["face"].where(df.index != 1, df["wish"])))
