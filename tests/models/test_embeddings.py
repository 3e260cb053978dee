"""Embeddings made elsewhere: cosines by loops, and what sees their numbers."""

import math

import numpy as np
import pandas
import pytest
import tensorflow as tf

from tfr_ext import data, models
from tfr_ext.models import keras_file, texts
from tfr_ext.models.scorers import EMBEDDED

LENGTHS = [3, 1, 4]
CONTEXT = ["age", "wish", "mood"]


def frame():
    """Two embeddings of items and two of lists; some are missing, huge or tiny."""
    rng = np.random.default_rng(0)
    query, count = np.repeat(np.arange(3), LENGTHS), sum(LENGTHS)
    vectors = rng.normal(size=[count, 3])
    vectors[0], vectors[1], vectors[2] = 0, vectors[1] * 1e38, vectors[2] * 1e-36
    wishes = rng.normal(size=[3, 3]) * [[1], [1e30], [1]]
    moods = rng.normal(size=[3, 2])
    found = pandas.DataFrame({"q": query, "price": 10.0, "age": query + 20.0, "y": 1})
    found["vector"], found["wish"] = [*vectors], [*wishes[query].tolist()]
    found["face"], found["mood"] = [*rng.normal(size=[count, 2])], [*moods[query]]
    found.at[4, "vector"] = None
    return found


def lists_of(df, **given):
    names = ["face", "wish", "vector", "mood"]
    return data.RankingLists.from_dataframe(
        df, "y", "q", embeddings=names, context=CONTEXT, **given
    )


def expected(df):
    """The cosine of each pair of one width, a context's and an item's, in order."""
    found = []
    for _, row in df.iterrows():
        found.append([])
        for query, item in (("wish", "vector"), ("mood", "face")):
            x, y = row[query], row[item]
            if y is None or not any(y):
                found[-1].append(0.0)
                continue
            lengths = math.hypot(*x) * math.hypot(*y)
            found[-1].append(sum(a / lengths * b for a, b in zip(x, y)))
    return np.array(found)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_cosines_are_those_of_each_pair_of_one_width(jit_compile):
    df = frame()
    lists = lists_of(df)
    assert lists.features.shape == (8, 2 + 3 + 2 + 3 + 2)
    assert lists.feature_names[:4] == ("price", "age", "face[0]", "face[1]")
    inputs, _, items = models.encoded_inputs(lists.spec)
    assert set(items) == {"float_features", texts.COSINES}
    model = tf.keras.Model(inputs, items[texts.COSINES])
    batch, _ = data.padded_batch(lists, np.arange(3))
    batch = {key: tf.constant(x) for key, x in batch.items()}
    call = tf.function(lambda x: model(x), jit_compile=jit_compile, autograph=False)
    found = call(batch).numpy()[batch["mask"].numpy()]
    np.testing.assert_allclose(found, expected(df), rtol=1e-5, atol=1e-6)
    assert (call(batch).numpy()[~batch["mask"].numpy()] == 0).all()


def test_transforms_and_missing_see_numbers_only(tmp_path):
    """The mean of a number is that of the numbers, and embeddings stay as they are."""
    df = frame()
    df.loc[2, "price"] = np.nan
    lists = lists_of(df, missing=True, embedding_inputs=True)
    forms = ["log1p", "standard+query_rank"]
    transforms = models.feature_transforms(forms, lists, "indicator")
    assert transforms.layers[0].get_config()["mean"][0] == 10.0
    seen = {}

    def scorer(context, examples, mask):
        seen.update(examples)
        return models.MLPScorer([4])(context, examples, mask)

    model = models.model_builder(12, scorer, transforms, lists.spec).build()
    wide = {key: x.shape[-1] for key, x in seen.items()}
    names = [f"{EMBEDDED}embedding_{number}" for number in range(1, 5)]
    assert wide == {"float_features": 6, texts.COSINES: 2} | dict(
        zip(names, (2, 3, 3, 2))
    )
    batch, _ = data.padded_batch(lists, np.arange(3))
    batch = {key: tf.constant(x) for key, x in batch.items()}
    values = dict(
        zip(names, tf.keras.Model(model.input, [seen[x] for x in names])(batch))
    )
    real = batch["mask"].numpy()
    faces = values[names[0]].numpy()[real]
    np.testing.assert_array_equal(faces, np.float32(df["face"].tolist()))
    model.save(str(tmp_path / "model.keras"))
    again = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(again(batch), model(batch))


@pytest.mark.parametrize("as_input", [False, True])
def test_scores_and_training_are_finite(as_input):
    df = frame()
    if as_input:  # As they are, so that huge ones would overflow.
        df = df.assign(vector=[[*x, 0.5] for x in df["face"]], wish=[[1.0, 2, 3]] * 8)
    lists, scorer = lists_of(df, embedding_inputs=as_input), models.MLPScorer([4])
    model = models.model_builder(12, scorer, None, lists.spec).build()
    model.compile("adam", "mse")
    batches = data.BatchedLists(lists, batch_size=2)
    history = model.fit(batches.dataset(), epochs=3, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    assert np.isfinite(data.score_lists(model, lists, 2)).all()


def test_a_spec_says_where_they_are():
    spec = lists_of(frame()).spec
    places = [(x.name, place.start, place.stop) for x, place in spec.slices()]
    assert places == [
        ("face", 2, 4), ("vector", 4, 7), ("wish", 7, 10), ("mood", 10, 12),
    ]  # fmt: skip
    assert (spec.num_numbers, spec.num_features, spec.is_numeric) == (2, 12, False)
    assert data.FeatureSpec.from_json(spec.to_json()) == spec
    assert [name for _, name in spec.inputs] == ["face", "vector", "wish", "mood"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"face": [[1.0, 2.0]] * 7 + [[1.0]]}, r"Row 7 .*is \[1.0\], expected a"),
        ({"face": [[1.0, 2.0]] * 7 + ["1,2"]}, "'face' is '1,2', expected a list of 2"),
        ({"face": [[1.0, 2.0]] * 7 + [[1.0, 1e39]]}, "expected a list of 2 finite"),
        ({"face": [[1.0, 2.0]] * 7 + [["1", "2"]]}, "expected a list of 2 finite"),
        ({"face": [[1.0, 2.0]] * 7 + [[1.0, "2"]]}, "expected a list of 2 finite"),
        ({"face": [[1.0, 2.0]] * 7 + [np.array([1, "2"], object)]}, "list of 2 finite"),
        ({"face": [[1.0, 2.0]] * 7 + [np.array([1, 2], "M8[D]")]}, "list of 2 finite"),
        ({"face": [[1.0, 2.0]] * 7 + [[1j, 2.0]]}, "list of 2 finite"),
        ({"face": None}, "'face' is no embedding: its first value is None"),
        ({"face": "[1, 2]"}, r"no embedding: its first value is '\[1, 2\]'"),
        ({"face": [[1.0, 2.0, 3.0]] * 8}, "'mood' says nothing: there is none"),
        ({"wish": [[float(i)] * 3 for i in range(8)]}, "'wish' is .* of query '0'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(change, told):
    with pytest.raises(ValueError, match=told):
        lists_of(frame().assign(**change))
