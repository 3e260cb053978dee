"""Vocabularies and embeddings of categories, by loops, and the models that use them."""

import collections
import dataclasses

import numpy as np
import pandas
import pytest
import tensorflow as tf

from tfr_ext import data, losses, models
from tfr_ext.data.fingerprints import FILL, MISSING
from tfr_ext.models import categories, keras_file
from tfr_ext.models.attention_scorers import TransformerScorer


def people(num_queries=12, size=5, seed=0, numbers=True):
    """Lists with a number, a category, several values, texts and a context."""
    rng = np.random.default_rng(seed)
    n = num_queries * size
    brand = rng.integers(0, 6, n)
    df = pandas.DataFrame(
        {
            "query": np.repeat(np.arange(num_queries), size),
            "y": brand % 3,
            "brand": [f"b{x}" if x else None for x in brand],
            "tags": [[f"t{x}" for x in rng.integers(0, 4, k % 4)] for k in range(n)],
            "user": np.repeat([f"u{x}" for x in rng.integers(0, 3, num_queries)], size),
            "title": [words(rng, k % 6) for k in range(n)],
            "words": np.repeat([words(rng, k % 4) for k in range(num_queries)], size),
        }
    )
    if numbers:
        df["price"] = rng.normal(size=n)
    names = {"categories": ["brand", "tags", "user"], "texts": ["title", "words"]}
    return data.RankingLists.from_dataframe(
        df, "y", "query", **names, context=["user", "words"]
    )


def words(rng, count):
    return " ".join(f"W{x}" for x in rng.integers(0, 9, count))


def built(lists, scorer=None, seed=1, transforms=None):
    tf.keras.utils.set_random_seed(seed)
    known = models.vocabularies([lists])
    scorer = scorer or models.MLPScorer([8])
    return models.model_builder(
        lists.num_features, scorer, transforms, lists.spec, known
    ).build()


def vectors(layer, ids):
    """The vectors of ids `[rows, width]`, by loops."""
    keys, table = np.asarray(layer.keys).tolist(), np.asarray(layer.table)
    found = []
    for row in ids.tolist():
        each = []
        for one in row:
            if one == MISSING:
                each.append(table[0])
            elif one in keys:
                each.append(table[2 + keys.index(one)])
            elif one != FILL or len(row) == 1:
                each.append(table[1])
        found.append(np.mean(each, axis=0) if each else np.zeros(table.shape[1]))
    return np.array(found)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 65, 1000])
@pytest.mark.parametrize("width", [1, 3])
def test_vectors_are_those_of_the_values(size, width):
    rng = np.random.default_rng(size)
    keys = np.sort(rng.choice(2**62, size, replace=False)) * 2
    layer = models.Category(1, width, size, keys)
    ids = rng.choice(np.r_[keys, keys + 1, 0, 2**63 - 1, MISSING], [90, width])
    ids[:5, 0], ids[:30, 1:] = MISSING, FILL
    around = np.concatenate([ids[:, :1] * 0, ids, ids[:, :1] * 0], axis=1)
    layer(tf.constant(around))
    table = rng.normal(size=layer.table.shape).astype(np.float32)
    layer.table.assign(table)
    found = [layer(tf.constant(around)).numpy()]
    compiled = tf.function(lambda x: layer(x), jit_compile=True, autograph=False)
    found.append(compiled(tf.constant(around)).numpy())
    for each in found:
        np.testing.assert_allclose(each, vectors(layer, ids), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [None, 3, 1])
@pytest.mark.parametrize("min_count", [None, 1, 9])
def test_vocabularies_are_the_frequent_values(most, min_count):
    lists = people(40)
    pieces = [lists.select(range(0, 13)), lists.select(range(13, 40))]
    found = models.vocabularies(pieces, most, min_count)
    columns = {"brand": lists.ids[:, :1], "tags": lists.ids[:, 1:9]}
    columns["user"] = lists.context_ids[:, :1]
    for name, ids in columns.items():
        counts = collections.Counter(x for x in ids.ravel().tolist() if x >= 0)
        floor = sorted(counts.values(), reverse=True)[: most or 100_000][-1]
        kept = found[name].keys.tolist()
        assert found[name].counts.tolist() == [counts[x] for x in kept]
        assert found[name].total == len(ids)
        assert kept == sorted(kept)
        assert all(counts[x] >= max(min_count or 2, floor) for x in kept)
        more = [x for x, n in counts.items() if n > floor and n >= (min_count or 2)]
        assert {*more} <= {*kept}
        assert len(kept) == min(
            most or 100_000, sum(n >= (min_count or 2) for n in counts.values())
        )


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    "value, told",
    [
        (lambda query, item: query, "'x' is the same in all items of a list, and an"),
        (lambda query, item: 2 * query + item % 2, None),
        (lambda query, item: query // 2, None),
        (lambda query, item: 5 * query + item, "'x': 100% of its values in training"),
    ],
)
def test_a_category_that_is_an_id_is_told(value, told, pieces, capsys):
    query, item = np.divmod(np.arange(600), 5)
    df = pandas.DataFrame({"query": query, "y": item, "x": value(query, item)})
    lists = data.RankingLists.from_dataframe(df, "y", "query", categories=["x"])
    ends = np.linspace(0, 120, pieces + 1).astype(int)
    models.vocabularies(lists.select(range(*each)) for each in zip(ends, ends[1:]))
    printed = capsys.readouterr()
    printed = printed.out + printed.err
    assert f"Category {told}" in printed if told else not printed


def test_lists_may_be_empty():
    lists = people(40)
    splits = np.insert(lists.row_splits, [0, 20, 41], [0, lists.row_splits[20], 200])
    context = np.insert(lists.context_ids, [0, 20, 40], FILL, axis=0)
    names = [str(number) for number in range(43)]
    more = dataclasses.replace(
        lists, row_splits=splits, query_ids=names, context_ids=context
    )
    found, expected = models.vocabularies(more), models.vocabularies(lists)
    for name in expected:
        np.testing.assert_array_equal(found[name].keys, expected[name].keys)
    assert models.vocabularies(lists.select([]))["brand"].keys.tolist() == []


def test_more_values_than_can_be_counted_are_refused(monkeypatch):
    monkeypatch.setattr(categories, "_MOST_DISTINCT", 4)
    with pytest.raises(ValueError, match="'brand' has more than 4 different values"):
        models.vocabularies([people(40)])


def test_what_is_never_in_training_has_the_zero_vector_and_what_is_rare_trains_it():
    layer = models.Category(0, 1, 3, np.int64([2, 4, 6]))
    ids = tf.constant([[[2], [5], [MISSING]]], tf.int64)
    assert not layer(ids).numpy()[0, 1:].any() and layer(ids).numpy()[0, 0].any()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(ids[:, :2]) * 3)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.table)).numpy()
    assert gradient.tolist() == [[x] * layer.dim for x in (0, 3, 3, 0, 0)]


def test_the_width_of_an_embedding_grows_with_its_values():
    sizes = [(1, 4), (2, 6), (100, 17), (100_000, 37), (2**40, 64)]
    assert [models.Category(0, 1, n).dim for n, _ in sizes] == [x for _, x in sizes]


SCORERS = {
    "mlp": lambda compact: models.MLPScorer([8], compact=compact),
    "linear": lambda compact: models.MLPScorer([], False, compact=compact),
    "transformer": lambda compact: TransformerScorer(
        [8], num_layers=1, num_heads=2, compact=compact
    ),
    "kl_transformer": lambda compact: models.KLTransformerScorer([8], compact=compact),
    "dasalc": lambda compact: models.DASALCScorer(
        [8], num_layers=1, attention_size=4, compact=compact
    ),
}


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("name", SCORERS)
def test_padding_is_invisible_and_items_move_with_their_categories(name, compact):
    lists = people(8).with_items(np.arange(14), np.array([5, 5, 4]), ["0", "1", "2"])
    model = built(lists, SCORERS[name](compact))
    scores = data.score_lists(model, lists, 3)
    assert np.std(scores) > 1e-4
    alone = np.concatenate(
        [data.score_lists(model, lists.select([q]), 1) for q in range(3)]
    )
    np.testing.assert_allclose(alone, scores, rtol=1e-4, atol=1e-5)
    inputs, _ = data.padded_batch(lists, np.arange(3))
    wild = {key: np.array(x) for key, x in inputs.items()}
    wild["ids"][2, 4] = lists.ids[4]
    wild["float_features"][2, 4] = 1e9
    for padded in (inputs, wild):
        found = np.asarray(model({k: tf.constant(x) for k, x in padded.items()}))
        np.testing.assert_allclose(found[2, :4], scores[10:], rtol=1e-4, atol=1e-5)
    turned = {k: x[:, ::-1] if k != "context_ids" else x for k, x in inputs.items()}
    found = np.asarray(model({k: tf.constant(x) for k, x in turned.items()}))
    np.testing.assert_allclose(found[0, ::-1], scores[:5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", ["brand", "tags", "title", "user", "words", "price"])
def test_each_feature_reaches_the_score(part):
    lists = people(30)
    model = built(lists)
    before = data.score_lists(model, lists, 8)
    features, ids, of_lists = lists.features, lists.ids.copy(), lists.context_ids.copy()
    columns = {
        **{"brand": slice(0, 1), "tags": slice(1, 9), "title": slice(9, 25)},
        **{"user": slice(0, 1), "words": slice(1, 17)},
    }
    if part == "price":
        features = -features
    else:
        changed = of_lists if part in ("user", "words") else ids
        changed[:, columns[part]] = changed[::-1, columns[part]]
    changed = data.RankingLists(
        features, lists.labels, lists.row_splits, lists.query_ids,
        ids=ids, context_ids=of_lists, spec=lists.spec,
    )  # fmt: skip
    assert np.abs(data.score_lists(model, changed, 8) - before).max() > 1e-4


@pytest.mark.parametrize("numbers", [True, False])
def test_a_saved_model_and_one_of_several_score_the_same(numbers, tmp_path):
    lists = people(numbers=numbers)
    model = built(lists)
    assert ("float_features" in model.input) == numbers
    scores = data.score_lists(model, lists, 4)
    path = str(tmp_path / "model.keras")
    model.save(path)
    again = keras_file.load(path)
    np.testing.assert_array_equal(data.score_lists(again, lists, 4), scores)
    # Without another vocabulary's values, a model has another.
    other = built(lists.select(range(4)), seed=2)
    both = models.combined_model([model, other])
    mean = (scores + data.score_lists(other, lists, 4)) / 2
    np.testing.assert_allclose(data.score_lists(both, lists, 4), mean, atol=1e-5)
    with pytest.raises(ValueError, match="must take the same features"):
        models.combined_model(
            [model, models.model_builder(1, models.MLPScorer()).build()]
        )


def trained(lists, **compiled):
    """A model, its scores after three epochs, and the losses."""
    model = built(lists, models.MLPScorer([8], compact=not compiled))
    adam = tf.keras.optimizers.Adam(0.01)
    model.compile(optimizer=adam, loss=losses.SmoothILoss(), **compiled)
    batches = data.BatchedLists(lists, 4, seed=1)
    history = model.fit(batches.dataset(), epochs=3, verbose=0).history["loss"]
    return model, data.score_lists(model, lists, 4), history


def test_xla_trains_as_without():
    lists = people()
    _, plain, losses_plain = trained(lists)
    _, compiled, losses_compiled = trained(lists, jit_compile=True)
    np.testing.assert_allclose(losses_compiled, losses_plain, rtol=1e-3)
    np.testing.assert_allclose(compiled, plain, rtol=1e-2, atol=1e-3)


def test_training_moves_the_embeddings_of_values_that_occur_and_no_others():
    lists = people(30)
    before = built(lists)
    model, _, history = trained(lists)
    assert history[-1] < history[0]
    for one, other in zip(before.layers, model.layers):
        if isinstance(one, models.Category):
            np.testing.assert_array_equal(one.keys, other.keys)
            moved = np.any(np.asarray(one.table) != np.asarray(other.table), axis=1)
            assert moved[2:].all() and not moved[1]
    of_brands = next(x for x in model.layers if x.name == "category_1")
    assert np.asarray(of_brands.table)[0].any()  # Brands were missing.


def test_transforms_and_noise_take_numbers_only():
    lists = people()
    transforms = models.feature_transforms(["standard+query_rank"], lists)
    model = built(lists, transforms=transforms)
    features = [x.name for x in model.layers if "transform" in x.name]
    assert features == ["float_features_transform_1"]
    assert np.isfinite(data.score_lists(model, lists, 3)).all()


def test_one_s_own_model_gets_encoded_features():
    lists = people()
    known = models.vocabularies([lists])
    inputs, context, items = models.encoded_inputs(lists.spec, known)
    assert sorted(inputs) == ["context_ids", "float_features", "ids", "mask"]
    assert [len(x.shape) for x in context.values()] == [2, 2]
    assert items["match"].shape[-1] == 5
    x = tf.keras.layers.Concatenate()([*items.values()])
    scores = tf.keras.layers.Dense(1)(x)
    model = tf.keras.Model(inputs, tf.keras.layers.Reshape([-1])(scores))
    model.compile(optimizer="adam", loss=losses.SmoothILoss())
    model.fit(data.BatchedLists(lists, 4).dataset(), verbose=0)
    assert np.isfinite(data.score_lists(model, lists, 4)).all()


def test_a_split_without_any_value_is_named():
    lists = people()
    place = [x.name for x in lists.spec.encoded(False)].index("brand")
    ids = lists.ids.copy()
    ids[:, place] = MISSING
    bare = dataclasses.replace(lists, ids=ids)
    known = models.vocabularies([lists])
    for splits, told in (
        ((lists, lists), ""),
        ((lists, bare), " There is no value in test."),
        ((bare, bare), " There is no value in valid and test."),
    ):
        (line,) = (
            x
            for x in categories.describe(known, lists.spec, *splits)
            if x.startswith("brand ")
        )
        assert line.endswith(f"0% in test are not.{told}")
