"""Turns texts and the candidates of a search engine into a table with embeddings."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core.files import is_within, whole_file
from tfr_ext.core.messages import say
from tfr_ext.core.settings import Settings, setting
from tfr_ext.core.system import lock
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.evaluation import trec
from tfr_ext.text.encoder import Encoder

# Texts whose vectors are kept together, should the process be killed, and their
# characters: the tokenizer takes some hundred bytes for each.
_PART, _CHARACTERS = 2_048, 4_000_000
_PART_FILE = re.compile(r"[0-9a-f]{32}\.npy")
_ROWS = 50_000  # Rows that are written at a time.


@dataclasses.dataclass(frozen=True)
class EmbeddingConfig(Settings):
    """What is embedded, by which encoder, and where the table goes."""

    GROUP = "embedding"

    encoder: str | None = setting(
        None,
        "Directory of a BERT as Hugging Face or sentence-transformers save it, with "
        "config.json, vocab.txt and model.safetensors.",
        kind="path",
    )
    corpus: str | None = setting(
        None,
        "The documents: JSON lines with _id, text and perhaps title, as BEIR has them.",
        kind="path",
    )
    queries: str | None = setting(
        None, "The queries: JSON lines with _id and text.", kind="path"
    )
    run: str | None = setting(
        None,
        "TREC run with the candidates of each query, from any search engine. Without "
        "it, the table has all documents, and no queries.",
        kind="path",
    )
    qrels: str | None = setting(
        None,
        "Judgements, of TREC or BEIR, for the labels; only judged queries are in the "
        "table then. A candidate that is not judged is irrelevant.",
        kind="path",
    )
    depth: int | None = setting(
        None,
        "How many candidates of each query there are at most, the best of the run.",
        kind="integer",
        low=1,
    )
    output: str | None = setting(None, "The table, a Parquet file.", kind="path")
    overwrite: bool = setting(False, "Replace a table that is there.")

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        for name in ("encoder", "corpus", "output"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must be given.")
        if (self.queries is None) != (self.run is None):
            raise ValueError("`queries` and `run` need each other: give both or none.")
        for name in ("qrels", "depth"):
            if self.run is None and getattr(self, name) is not None:
                raise ValueError(f"`{name}` needs a `run`.")


def embed(config: EmbeddingConfig) -> None:
    """Writes a table: a row for each candidate of each query, best first.

    Its columns are 'query_id', 'doc_id', 'label' (with qrels), 'score' (of the run),
    'cosine', 'length' (of the document, in tokens), 'query_embedding',
    'document_embedding', 'query' and 'document'. If it is killed, the same call goes
    on.

    Args:
        config: what is embedded.

    Raises:
        ImportError: If PyArrow or safetensors is not installed.
        ValueError: If a file is not as expected, or the table is there already.
        OSError: If a file cannot be read or written.
    """
    output, corpus = config.output or "", config.corpus or ""
    inputs = (config.encoder, corpus, config.queries, config.run, config.qrels)
    for path in inputs:
        if path and is_within(output, path):
            raise ValueError(f"{output} is an input, or in one. Name another `output`.")
    if os.path.exists(output) and not config.overwrite:
        raise ValueError(
            f"{output} is there already. Name another `output`, or replace it "
            "with `overwrite=True`."
        )
    with lock.alone_with(output, "embedding"):
        _parquet()  # Before hours of work.
        encoder = Encoder.load(config.encoder or "")
        say(
            f"Encoder: {encoder.width} numbers, up to {encoder.max_length} tokens, "
            f"SHA-256 {encoder.digest}."
        )
        candidates = _candidates(config) if config.run else {}
        queries = dict(_texts(config.queries)) if config.queries else {}
        lacking = [x for x in candidates if x not in queries]
        if lacking:
            line = _line_of(config.run, 0, lacking[0])
            raise ValueError(
                f"{line}: query {lacking[0]!r} is not in {config.queries}."
            )
        if config.run and not config.qrels:
            without = len(queries) - len(candidates)
            say(f"{len(queries):,} queries, {without:,} without candidates.")
        queries = {query: queries[query] for query in candidates}
        wanted = {x for found in candidates.values() for x in found}
        documents = {
            name: text
            for name, text in _texts(corpus)
            if name in wanted or not config.run
        }
        lacking = sorted(wanted - documents.keys())
        if lacking:
            line = _line_of(config.run, 2, lacking[0])
            raise ValueError(f"{line}: document {lacking[0]!r} is not in {corpus}.")
        parts = f"{output}.parts"
        vectors = [
            _vectors(encoder, texts, parts, what)
            for texts, what in ((queries, "queries"), (documents, "documents"))
        ]
        rows = _rows(config, candidates, (queries, documents), vectors)
        count = _write(output, rows, encoder)
        with contextlib.suppress(OSError):  # There is none, or it has other files.
            for name in filter(_PART_FILE.fullmatch, os.listdir(parts)):
                os.remove(os.path.join(parts, name))
            os.rmdir(parts)
        say(f"Wrote {output}: {count:,} rows.")


def _texts(path: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each JSON line."""
    first: dict[str, int] = {}
    for number, line in text_files.read_lines(path):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            name, text = content["_id"], content["text"]
            title = content.get("title") or ""
            f"{name}{title}{text}".encode()  # Not half of a pair of surrogates.
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            name = None
        if type(name) not in (str, int) or not (
            isinstance(text, str) and isinstance(title, str)
        ):
            raise DataFormatError(
                "expected a JSON object with the texts '_id' and 'text'. Found: "
                f"{line[:60]!r}.",
                path,
                number,
            )
        name = text_files.encoded_name(str(name))
        if first.setdefault(name, number) != number:
            raise DataFormatError(
                f"{name!r} is there twice, first in line {first[name]}.", path, number
            )
        yield name, f"{title} {text}".strip()


def _line_of(path: str | None, place: int, name: str) -> str:
    """Returns where a run first has a name as a word of a line."""
    for number, line in text_files.read_lines(path or ""):
        cells = text_files.words(line)
        if len(cells) > place and text_files.encoded_name(cells[place]) == name:
            return f"{path}:{number}"
    return str(path)


def _candidates(
    config: EmbeddingConfig,
) -> dict[str, dict[str, tuple[float, int | None]]]:
    """Returns the score and the label of the candidates of each query, best first."""
    run = trec.read_run(config.run or "").encoded
    labels: dict[str, dict[str, int]] = {}
    if config.qrels:
        judged = trec.read_qrels(config.qrels)
        names = judged.doc_ids or []
        for query, start, end in zip(
            judged.query_ids, judged.row_splits, judged.row_splits[1:]
        ):
            grades = map(int, judged.labels[start:end])
            labels[query] = dict(zip(names[start:end], grades))
        without = len(labels.keys() - run.keys())
        unjudged = len(run.keys() - labels.keys())
        relevant = [(q, x) for q, of in labels.items() for x in of if of[x] > 0]
        found = sum(name in run.get(query, ()) for query, name in relevant)
        say(
            f"{len(labels):,} judged queries, {without:,} without candidates; "
            f"{unjudged:,} queries of the run are not judged and left out. The "
            f"candidates have {found:,} of {len(relevant):,} relevant documents."
        )
    candidates = {}
    for query, scores in run.items():
        if config.qrels and query not in labels:
            continue
        best = sorted(scores, key=lambda x: (scores[x], x), reverse=True)
        of_query = labels.get(query, {})
        candidates[query] = {
            name: (scores[name], of_query.get(name, 0) if config.qrels else None)
            for name in best[: config.depth]
        }
    if not candidates:
        raise ValueError(f"{config.run}: no query of the run is in {config.qrels}.")
    return candidates


def _vectors(
    encoder: Encoder, texts: Mapping[str, str], folder: str, what: str
) -> dict[str, np.ndarray]:
    """Returns the vector of each text, behind how many tokens it has.

    Parts that are in the folder already are read, and others written there: their names
    say what they are of.
    """
    names = sorted(texts, key=lambda name: len(texts[name]))
    found: dict[str, np.ndarray] = {}
    start, computed = time.monotonic(), 0
    while len(found) < len(names):
        part = names[len(found) : len(found) + _PART]
        sizes = np.cumsum([len(texts[name]) for name in part])
        part = part[: max(1, int(np.searchsorted(sizes, _CHARACTERS)))]
        content = json.dumps([encoder.digest, *(texts[name] for name in part)])
        digest = hashlib.sha256(content.encode()).hexdigest()
        path = os.path.join(folder, f"{digest[:32]}.npy")
        if os.path.exists(path):
            values = np.load(path)
        else:
            ids = encoder.tokenizer(tf.constant([texts[name] for name in part]))
            lengths = ids.row_lengths().numpy().astype(np.float32)
            values = np.column_stack([lengths, encoder.embed_ids(ids)])
            with whole_file(path) as file:
                np.save(file, values)
            computed += len(part)
        found.update(zip(part, values))
        seconds = max(time.monotonic() - start, 1e-9)
        speed = f", {computed / seconds:,.0f} a second" * bool(computed)
        say(f"{len(found):,} of {len(names):,} {what}{speed}")
    return found


def _rows(
    config: EmbeddingConfig,
    candidates: Mapping[str, Mapping[str, tuple[float, int | None]]],
    texts: Sequence[Mapping[str, str]],
    vectors: Sequence[Mapping[str, np.ndarray]],
) -> Iterator[dict[str, Any]]:
    """Yields the rows of the table, as what is in its columns."""
    (queries, documents), (of_queries, of_documents) = texts, vectors
    if not config.run:
        for name, text in documents.items():
            length, vector = of_documents[name][0], of_documents[name][1:]
            yield {
                "doc_id": name,
                "length": int(length),
                "document_embedding": vector,
                "document": text,
            }
    for query, found in candidates.items():
        asked = of_queries[query][1:]
        for name, (score, label) in found.items():
            length, vector = of_documents[name][0], of_documents[name][1:]
            norms = np.linalg.norm(asked) * np.linalg.norm(vector)
            yield {
                "query_id": query,
                "doc_id": name,
                **({} if label is None else {"label": label}),
                "score": score,
                "cosine": asked @ vector / norms if norms else 0.0,
                "length": int(length),
                "query_embedding": asked,
                "document_embedding": vector,
                "query": queries[query],
                "document": documents[name],
            }


def _write(path: str, rows: Iterator[dict[str, Any]], encoder: Encoder) -> int:
    """Writes the table, and returns how many rows it has."""
    parquet = _parquet()
    import pyarrow as pa

    vector = pa.list_(pa.float32(), encoder.width)
    kinds = {
        "label": pa.int32(),
        "score": pa.float32(),
        "cosine": pa.float32(),
        "length": pa.int32(),
        "query_embedding": vector,
        "document_embedding": vector,
    }
    count, writer = 0, None
    about = {"encoder": encoder.digest, "max_length": str(encoder.max_length)}
    with whole_file(path) as file:
        while part := [*itertools.islice(rows, _ROWS)]:
            schema = pa.schema(
                [(name, kinds.get(name, pa.string())) for name in part[0]],
                metadata=about,
            )
            writer = writer or parquet.ParquetWriter(file, schema)
            writer.write_table(pa.Table.from_pylist(part, schema))
            count += len(part)
        if writer is None:
            raise ValueError(f"There are no documents to write to {path}.")
        writer.close()
    return count


def table_digest(path: str) -> str | None:
    """Returns the digest of the encoder that made a table, if its file says so."""
    if not path.endswith(".parquet"):
        return None
    found = _parquet().read_schema(path).metadata or {}
    return found[b"encoder"].decode() if b"encoder" in found else None


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"Parquet files need PyArrow ({error}). Install it: "
            "pip install tfr-ext[text]"
        ) from error
