"""Encoders: their vectors, and their files."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from tests.text import encoder_files
from tfr_ext.text import Encoder

REFERENCE = json.loads(
    (pathlib.Path(__file__).parent / "reference.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_hugging_face(pooling, tmp_path):
    encoder = Encoder.load(str(encoder_files.write(tmp_path, pooling)))
    assert (encoder.max_length, encoder.normalized) == (20, pooling == "mean")
    found = encoder.embed(encoder_files.TEXTS, batch_size=5)
    np.testing.assert_allclose(found, REFERENCE[pooling], atol=2e-6)
    in_graph = tf.function(encoder)(tf.constant(encoder_files.TEXTS))
    np.testing.assert_allclose(in_graph, found, atol=2e-6)
    assert encoder(tf.constant([], tf.string)).shape == (0, 8)
    assert encoder.embed([]).shape == (0, 8)


def test_saved_files_are_those_of_before(tmp_path):
    encoder = Encoder.load(str(encoder_files.write(tmp_path / "one", "cls")))
    encoder.save(str(tmp_path / "two"))
    again = Encoder.load(str(tmp_path / "two"))
    texts = encoder_files.TEXTS
    np.testing.assert_array_equal(again.embed(texts), encoder.embed(texts))
    written = load_file(tmp_path / "two" / "model.safetensors")
    for name, weight in encoder_files.weights().items():
        np.testing.assert_array_equal(written[name], weight)


def test_other_names_and_types_of_weights(tmp_path):
    def others(config):
        found = {}
        for name, weight in encoder_files.weights(config).items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
            found[f"bert.{name}"] = weight.astype(np.float16)
        return {**found, "cls.predictions.bias": np.zeros(3, np.float32)}

    plain = Encoder.load(str(encoder_files.write(tmp_path / "one")))
    other = Encoder.load(str(encoder_files.write(tmp_path / "two", of=others)))
    texts = encoder_files.TEXTS
    np.testing.assert_allclose(other.embed(texts), plain.embed(texts), atol=2e-2)


def test_the_digest_is_of_every_file_that_matters(tmp_path):
    path = encoder_files.write(tmp_path)
    digests = [Encoder.load(str(path)).digest]
    weights = load_file(path / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, path / "model.safetensors")
    digests.append(Encoder.load(str(path)).digest)
    (path / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    digests.append(Encoder.load(str(path)).digest)
    encoder_files.write(tmp_path, "cls")
    digests.append(Encoder.load(str(path)).digest)
    encoder_files.write(tmp_path, "cls", lowercase=False)
    digests.append(Encoder.load(str(path)).digest)
    assert len(set(digests)) == 5


def _without(name):
    def change(path):
        (path / name).unlink()

    return change


def _json(name, **content):
    def change(path):
        before = json.loads((path / name).read_text()) if (path / name).exists() else {}
        (path / name).write_text(json.dumps({**before, **content}))

    return change


def _weights(name, weight):
    def change(path):
        weights = load_file(path / "model.safetensors")
        weights.pop(name)
        if weight is not None:
            weights[name] = weight
        save_file(weights, path / "model.safetensors")

    return change


def _bytes(name, content):
    def change(path):
        (path / name).write_bytes(content)

    return change


QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("vocab.txt"), r"Missing: vocab\.txt\."),
        (_without("model.safetensors"), r"Missing: model\.safetensors\."),
        (_json("config.json", model_type="roberta"), "to be 'bert'. Found: 'roberta'"),
        (_bytes("config.json", b'{"model_type": "mpnet"}'), "Found: 'mpnet'"),
        (_json("tokenizer_config.json", tokenizer_class="X"), "Fast'. Found: 'X'"),
        (_json("config.json", hidden_act="relu"), "to be 'gelu'. Found: 'relu'"),
        (_json("config.json", hidden_size="8"), "'hidden_size' must be an integer"),
        (_json("config.json", hidden_size=9), "'num_attention_heads' divides"),
        (_json("config.json", hidden_size=16), r"\[45, 16\].* Found: \[45, 8\]"),
        (_json("config.json", vocab_size=44), "45 pieces, but 'vocab_size' is 44"),
        (_bytes("config.json", b"{"), "expected a JSON object"),
        (_bytes("model.safetensors", b"x" * 99), r"model\.safetensors: "),
        (_weights(QUERY, None), f"expected the weights '{QUERY}'. Found: none"),
        (_weights(QUERY, np.zeros([8, 9], "f")), r"\[8, 8\].* Found: \[9, 8\]"),
        (_bytes("modules.json", b'[{"type": "a.Dense"}]'), "Found: Dense"),
        (_bytes("modules.json", b"{"), r"modules\.json: expected"),
        (_json("1_Pooling/config.json", pooling_mode_max_tokens=True), "Found: .*max"),
        (_json("sentence_bert_config.json", max_seq_length=2), "at least 3"),
        (_bytes("vocab.txt", b"\xff"), r"vocab\.txt"),
    ],
)
def test_other_directories_are_refused(change, message, tmp_path):
    path = encoder_files.write(tmp_path)
    change(path)
    with pytest.raises(ValueError, match=message) as error:
        Encoder.load(str(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)
