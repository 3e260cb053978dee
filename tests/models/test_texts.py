"""What texts share, by loops over their words, in models and in rows for trees."""

import math

import numpy as np
import pandas
import pytest
import tensorflow as tf

from tfr_ext import data, models
from tfr_ext.models import keras_file, texts
from tfr_ext.models.trees.category_codes import Codes, rows

QUERIES = ["red shoe red", "Hat", "", "unknown word", "shoe hat blue of the"]
TITLES = [
    "Red running shoe", "the hat of the RED", "", "blue blue blue", "A shoe-box",
    "one two three four five six seven eight nine ten eleven twelve red shoe hat of",
]  # fmt: skip


@pytest.fixture(scope="module")
def lists():
    """Each query with each title; those of an item are its title and its notes."""
    size = len(TITLES)
    frame = pandas.DataFrame(
        {
            "q": np.repeat(np.arange(len(QUERIES)), size),
            "words": np.repeat(QUERIES, size),
            "title": TITLES * len(QUERIES),
            "notes": TITLES[::-1] * len(QUERIES),
            "y": 1,
        }
    )
    names = ["words", "title", "notes"]
    return data.RankingLists.from_dataframe(
        frame, "y", "q", features=[], texts=names, context=["words"], text_words=16
    )


def split(text):
    return text.lower().replace("-", " ").split()[:16]


def expected(titles):
    """The four numbers of each query and title, from words and their frequencies."""
    documents = [split(title) for title in titles] * len(QUERIES)
    total = len(documents)
    found = []
    for query in map(split, QUERIES):
        for title in map(split, titles):
            shared = weight = every = 0.0
            for word in query:
                df = sum(word in document for document in documents)
                idf = math.log(1 + (total - df + 0.5) / (df + 0.5))
                every += idf
                if word in title:
                    shared, weight = shared + 1, weight + idf
            parts = [shared, weight, shared, weight]
            over = [len(query), every, len(title), len(title)]
            found.append([a / b if b else 0.0 for a, b in zip(parts, over)])
    return np.array(found)


def cosines(table, keys, titles):
    """The cosines of mean vectors; an empty text has that of a missing value."""
    from tfr_ext.data.fingerprints import of_values

    def mean(text):
        if not split(text):
            return table[0]
        vectors = []
        for fingerprint in of_values([word.encode() for word in split(text)]).tolist():
            place = keys.index(fingerprint) + 2 if fingerprint in keys else 1
            vectors.append(table[place])
        return np.mean(vectors, axis=0)

    found = []
    for query in QUERIES:
        for title in titles:
            a, b = mean(query), mean(title)
            lengths = np.linalg.norm(a) * np.linalg.norm(b)
            found.append(a @ b / lengths if lengths else 0.0)
    return np.array(found)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_numbers_of_pairs_are_those_of_the_words(lists, jit_compile):
    known = models.vocabularies([lists])
    inputs, _, items = models.encoded_inputs(lists.spec, known)
    model = tf.keras.Model(inputs, items[texts.MATCH])
    layer = model.get_layer("texts")
    table = np.random.default_rng(0).normal(size=layer.words.table.shape)
    layer.words.table.assign(table.astype(np.float32))
    batch, _ = data.padded_batch(lists, np.arange(len(QUERIES)))
    batch = {key: tf.constant(x) for key, x in batch.items()}
    call = tf.function(lambda x: model(x), jit_compile=jit_compile, autograph=False)
    found = call(batch).numpy().reshape(len(QUERIES) * len(TITLES), 10)
    keys = np.asarray(layer.keys).tolist()
    for part, titles in ((found[:, :5], TITLES), (found[:, 5:], TITLES[::-1])):
        np.testing.assert_allclose(part[:, :4], expected(titles), rtol=1e-5, atol=1e-6)
        wanted = cosines(table, keys, titles)
        np.testing.assert_allclose(part[:, 4], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["words", "title"])
def test_there_need_be_no_pairs(name, tmp_path):
    """Of the context, one text says the same of all items: the numbers tell them."""
    frame = pandas.DataFrame({"q": [1, 1, 2, 2], "x": [1.0, 2, 3, 4], "y": 1})
    frame[name] = ["a b", "a b" if name == "words" else "a", "c", "c"]
    given = {"texts": [name], "context": [name] if name == "words" else []}
    lists = data.RankingLists.from_dataframe(frame, "y", "q", **given)
    known = models.vocabularies([lists], min_count=1)
    tf.keras.utils.set_random_seed(1)
    scorer = models.MLPScorer([16], activation="tanh")
    model = models.model_builder(1, scorer, None, lists.spec, known).build()
    assert texts.MATCH not in models.encoded_inputs(lists.spec, known)[2]
    scores = data.score_lists(model, lists, 2)
    assert np.isfinite(scores).all() and len({*scores.tolist()}) == 4
    model.save(str(tmp_path / "model.keras"))
    again = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(data.score_lists(again, lists, 2), scores)


def test_trees_get_all_but_the_cosine(lists):
    codes = Codes.learnt(lists)
    found = rows(lists, codes)
    assert found.shape[1] == codes.num_numbers == 8
    for part, titles in ((found[:, :4], TITLES), (found[:, 4:], TITLES[::-1])):
        np.testing.assert_allclose(part, expected(titles), rtol=1e-5, atol=1e-6)


def test_texts_share_one_vocabulary(lists):
    known = models.vocabularies([lists], min_count=6)
    every = models.vocabularies([lists], min_count=1)
    assert 0 < len(known["title"].keys) < len(every["title"].keys)
    assert known["title"].total == lists.num_items and known["words"].total == 5
    assert known["title"].keys is known["notes"].keys is known["words"].keys


def test_texts_share_a_table_and_all_words_train_it(lists):
    known = models.vocabularies([lists])
    model = models.model_builder(
        0, models.MLPScorer([4], compact=False), None, lists.spec, known
    ).build()
    batch, _ = data.padded_batch(lists, np.arange(len(QUERIES)))
    with tf.GradientTape() as tape:
        scores = model({key: tf.constant(x) for key, x in batch.items()}, training=True)
        loss = tf.reduce_sum(scores**2)
    table = model.get_layer("texts").words.table
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
    assert np.isfinite(gradient).all() and gradient.any(axis=1).all()
