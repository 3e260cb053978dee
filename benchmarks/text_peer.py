"""The peer of `text_speed.py`: sentence-transformers, in a process of its own.

    PYTHON benchmarks/text_peer.py DIR TEXTS.json

It answers each line of standard input, 'embed' or 'train', with how long it took.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer


def main() -> None:
    """Answers until the input ends."""
    directory, path = sys.argv[1:]
    torch.set_num_threads(2)
    with open(path) as file:
        given = json.load(file)
    encoder = SentenceTransformer(directory, device="cpu")
    pairs = CrossEncoder(directory, num_labels=1, max_length=given["length"])
    optimizer = torch.optim.Adam(pairs.model.parameters(), 2e-5)
    labels = torch.tensor(given["labels"])
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        if line.strip() == "embed":
            encoder.encode(given["texts"], batch_size=32, show_progress_bar=False)
        else:
            pairs.model.train()
            for batch in given["batches"]:
                tokens = pairs.tokenizer(
                    *([list(x) for x in zip(*batch)]),
                    padding=True,
                    truncation="only_second",
                    max_length=given["length"],
                    return_tensors="pt",
                )
                scores = pairs.model(**tokens).logits.reshape(len(labels), -1)
                loss = torch.nn.functional.cross_entropy(scores, labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
