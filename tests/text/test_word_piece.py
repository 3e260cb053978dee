"""WordPiece, against ids that Hugging Face's tokenizer made."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.text import encoder_files
from tfr_ext.text import WordPiece

REFERENCE = json.loads(
    (pathlib.Path(__file__).parent / "reference.json").read_text(encoding="utf-8")
)


def tokenizer(lowercase=True):
    return WordPiece(encoder_files.WORDS, lowercase)


@pytest.mark.any_keras
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_ids_are_those_of_hugging_face(name):
    found = tokenizer(name == "uncased")(tf.constant(encoder_files.TEXTS))
    for text, ids, expected in zip(
        encoder_files.TEXTS, found.to_list(), REFERENCE[name], strict=True
    ):
        assert ids == expected, text


def test_a_text_has_the_same_ids_alone_as_among_others():
    layer, texts = tokenizer(), encoder_files.TEXTS
    together = layer(tf.constant(texts)).to_list()
    assert [layer(tf.constant([text])).to_list()[0] for text in texts] == together


def test_special_tokens_in_a_text_are_text():
    words = [encoder_files.WORDS[i] for i in tokenizer()(["[SEP] the"]).to_list()[0]]
    assert words == ["[", "sep", "]", "the"]


def test_bytes_that_are_not_utf8_are_dropped():
    texts = [b"th\xffe run", "the run".encode("utf-16-le"), b"\xff\xfe"]
    assert tokenizer()(tf.constant(texts)).to_list() == [[5, 14], [5, 14], []]


def test_no_texts_and_no_words():
    assert tokenizer()(tf.constant([], tf.string)).to_list() == []
    assert tokenizer()(tf.constant(["", " "])).to_list() == [[], []]


def test_the_longest_piece_wins_and_a_word_is_unknown_as_a_whole():
    layer = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "ab", "##c", "##cd"])
    assert layer(["ab abc abcd abcdc abx b"]).to_list() == [
        [5, 5, 6, 5, 7, 5, 7, 6, 1, 1]
    ]


def test_it_is_a_part_of_a_saved_model(tmp_path):
    layer = tokenizer()
    module = tf.Module()
    module.ids = tf.function(
        lambda texts: layer(texts).to_tensor(-1),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path))
    texts = tf.constant(encoder_files.TEXTS)
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.ids(texts), layer(texts).to_tensor(-1))


def test_files_round_trip(tmp_path):
    for lowercase in (True, False):
        tokenizer(lowercase).save(str(tmp_path))
        loaded = WordPiece.load(str(tmp_path))
        assert loaded.vocabulary == [*encoder_files.WORDS]
        assert loaded.lowercase is lowercase


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["[PAD]", "[UNK]", "a"], r"lacks \[CLS\], \[SEP\]"),
        ([*encoder_files.WORDS, "the"], "has 'the' twice"),
    ],
)
def test_other_vocabularies_are_refused(words, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        WordPiece(words)
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"vocab\.txt: .*{message}"):
        WordPiece.load(str(tmp_path))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"strip_accents": False}, "'strip_accents' to be True. Found: False"),
        ({"do_basic_tokenize": False}, "to be True. Found: False"),
        ({"sep_token": {"content": "</s>"}}, r"to be '\[SEP\]'. Found: '</s>'"),
        ({"tokenize_chinese_chars": False}, "to be True. Found: False"),
        ({"sep_token": "</s>"}, r"to be '\[SEP\]'. Found: '</s>'"),
    ],
)
def test_other_tokenizers_are_refused(settings, found, tmp_path):
    tokenizer().save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=rf"tokenizer_config\.json: .*{found}"):
        WordPiece.load(str(tmp_path))
