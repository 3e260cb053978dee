"""Small encoders of random weights in Hugging Face's files; without TensorFlow."""

import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##able", "##a"),
    *("##ble", "cafe", "Cafe", "caf", "##e", "run", "##ning", ",", ".", "-", "[", "]"),
    *("sep", "##s", "東", "京", "ᄒ", "##ᅡ", "##ᆫ", "한", "i", "##st", "σ", "##ισ", "$"),
    *("1", "##2", "x", "##x", "हि", "##न", "ha", "##n", "strasse", "stra", "##ß"),
)
TEXTS = (
    *("the running, unable café.", "CAFÉ Cafe\u0301 cafe", "東京-東 한 한국", "한한"),
    *("Σισ σισσ", "İst ist ISTANBUL", "a\u00adb\u200b the\u00a0run\u3000x", "", "   "),
    *(
        "x" * 100,
        "x" * 101,
        "xxxxxxxxxx 12 1222 $1.2",
        "हिन हिन्दी",
        "\t\n\r\x00\x0bthe",
    ),
    *("Straße straße", "ha\ufffdn hann", "unablex unablexz the", "😀the😀", "the" * 3),
)
CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
POOLING = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens"}


def weights(config=None):
    """Random weights, by Hugging Face's names, `[outputs, inputs]`."""
    config = config or CONFIG
    rng = np.random.default_rng(3)
    width, inner = config["hidden_size"], config["intermediate_size"]
    found = {}

    def add(name, *shape):
        found[name] = rng.normal(0, 0.5, shape).astype(np.float32)

    def dense(name, inputs, outputs):
        add(f"{name}.weight", outputs, inputs)
        add(f"{name}.bias", outputs)

    def norm(name):
        add(f"{name}.weight", width)
        add(f"{name}.bias", width)

    add("embeddings.word_embeddings.weight", config["vocab_size"], width)
    add("embeddings.position_embeddings.weight", config[_POSITIONS], width)
    add("embeddings.token_type_embeddings.weight", config["type_vocab_size"], width)
    norm("embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            dense(f"{name}.attention.self.{part}", width, width)
        dense(f"{name}.attention.output.dense", width, width)
        norm(f"{name}.attention.output.LayerNorm")
        dense(f"{name}.intermediate.dense", width, inner)
        dense(f"{name}.output.dense", inner, width)
        norm(f"{name}.output.LayerNorm")
    return found


_POSITIONS = "max_position_embeddings"


def write(
    directory,
    pooling="mean",
    lowercase=True,
    of=weights,
    words=WORDS,
    limit=20,
    **config,
):
    """Writes the directory of an encoder, and returns its path."""
    directory = pathlib.Path(directory)
    config = {**CONFIG, "vocab_size": len(words), **config}
    contents = {
        "config.json": config,
        "tokenizer_config.json": {"do_lower_case": lowercase},
        "sentence_bert_config.json": {"max_seq_length": limit, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": config["hidden_size"],
            **{name: pooling == mode for mode, name in POOLING.items()},
        },
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{kind}"}
            for i, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling")]
                + [("2_Normalize", "Normalize")] * (pooling == "mean")
            )
        ],
    }
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    lines = "".join(f"{word}\n" for word in words)
    (directory / "vocab.txt").write_text(lines, encoding="utf-8")
    path = directory / "model.safetensors"
    save_file(of(config), path, metadata={"format": "pt"})
    return directory


_MODULES = "sentence_transformers.models"
