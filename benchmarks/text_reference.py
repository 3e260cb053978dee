"""What Hugging Face makes of texts: ids of tokens, and vectors.

    PYTHON benchmarks/text_reference.py tests/text/reference.json
    PYTHON benchmarks/text_reference.py FILE --encoder DIR --texts CORPUS.jsonl.gz ...

PYTHON has transformers, sentence-transformers and PyTorch (5.24.0, 6.2.0 and 2.14.1
wrote the file of the tests). The first command takes the small encoder and the texts of
the tests; the second an encoder and collections in BEIR's form, and writes the digest
of all ids, and some vectors, for `text_parity.py`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import pathlib
import runpy
import tempfile
import types
from typing import Any

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer

# By its path, as the package of the tests needs TensorFlow.
ROOT = pathlib.Path(__file__).parents[1]
encoder_files = types.SimpleNamespace(
    **runpy.run_path(str(ROOT / "tests" / "text" / "encoder_files.py"))
)
VERSIONS = {
    "transformers": transformers.__version__,
    "torch": torch.__version__,
}


def tokenizer_of(folder: pathlib.Path) -> Any:
    """Returns the fast tokenizer of a directory."""
    return transformers.BertTokenizerFast.from_pretrained(folder)


def of_tests(folder: pathlib.Path) -> dict[str, Any]:
    """Returns ids and vectors of the texts of the tests."""
    found: dict[str, Any] = {"versions": VERSIONS}
    texts = [*encoder_files.TEXTS]
    for lowercase in (True, False):
        name = "uncased" if lowercase else "cased"
        directory = encoder_files.write(folder / name, lowercase=lowercase)
        # From vocab.txt: of a damaged tokenizer.json nothing would be seen.
        tokenizer = transformers.BertTokenizerFast(
            str(directory / "vocab.txt"), do_lower_case=lowercase
        )
        found[name] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    for pooling in ("mean", "cls"):
        directory = encoder_files.write(folder / pooling, pooling=pooling)
        tokenizer = transformers.BertTokenizerFast(str(directory / "vocab.txt"))
        model = transformers.BertModel.from_pretrained(
            directory, add_pooling_layer=False
        ).eval()
        vectors = []
        for text in texts:
            inputs = tokenizer(text, truncation=True, max_length=20)
            ids = {x: torch.tensor([inputs[x]]) for x in ("input_ids", _SEGMENTS)}
            with torch.no_grad():
                hidden = model(**ids).last_hidden_state[0]
            vector = hidden[0] if pooling == "cls" else hidden.mean(dim=0)
            if pooling == "mean":
                vector = torch.nn.functional.normalize(vector, dim=0)
            vectors.append(vector.tolist())
        found[pooling] = vectors
    pair = tokenizer("the run", "unable café.")
    inputs = {x: torch.tensor([pair[x]]) for x in ("input_ids", _SEGMENTS)}
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state[0]
    found["pair"] = {"ids": pair["input_ids"], "hidden": hidden.tolist()}
    return found


_SEGMENTS = "token_type_ids"


def of_corpus(encoder: pathlib.Path, paths: list[pathlib.Path]) -> dict[str, Any]:
    """Returns the digest of the ids of all texts, and the vectors of some."""
    texts = []
    for path in paths:
        with gzip.open(path, "rt") as file:
            texts += [json.loads(line)["text"] for line in file]
    tokenizer = tokenizer_of(encoder)
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    some = texts[::40]
    model = SentenceTransformer(str(encoder), device="cpu")
    return {
        "versions": VERSIONS,
        "texts": len(texts),
        "digest": hashlib.sha256(json.dumps(ids).encode()).hexdigest(),
        "vectors": np.asarray(model.encode(some)).tolist(),
    }


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--encoder", type=pathlib.Path)
    parser.add_argument("--texts", type=pathlib.Path, nargs="*", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        content = (
            of_corpus(given.encoder, given.texts)
            if given.encoder
            else of_tests(pathlib.Path(folder))
        )
    given.output.write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
