"""The peer of `torch_epoch.py`: SmoothI's network and loss in PyTorch.

    PYTHON benchmarks/torch_peer.py BATCHES.npz

It needs PyTorch and NumPy, and nothing of this package. It is written from the formulas
of the SmoothI paper (Thonet et al., AAAI 2022): inputs normalised over the batch,
rectified linear units, normalised too, a linear score; one softmax and one update of
the product per rank, differentiated by autograd. Only real items go through the
network.

The file has the batches, the first weights and the number of threads. Each line on the
standard input has a number of epochs to train, and is answered with a line of JSON: the
seconds that they took, those of the processor, and the mean loss of the last of them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch


class Network(torch.nn.Module):
    """The paper's network, for real items."""

    def __init__(self, first: dict[str, np.ndarray], epsilon: float, momentum: float):
        """Initialises the network.

        Args:
            first: the weights to begin with.
            epsilon: added to variances.
            momentum: share of a batch in the moving statistics.
        """
        super().__init__()
        inputs, units = first["hidden_kernel"].shape
        options = {"eps": epsilon, "momentum": momentum}
        self.layers = torch.nn.Sequential(
            torch.nn.BatchNorm1d(inputs, **options),
            torch.nn.Linear(inputs, units),
            torch.nn.ReLU(),
            torch.nn.BatchNorm1d(units, **options),
            torch.nn.Linear(units, 1),
        )
        with torch.no_grad():
            for number, name in ((1, "hidden"), (4, "score")):
                layer = self.layers[number]
                layer.weight.copy_(torch.tensor(first[f"{name}_kernel"].T))
                layer.bias.copy_(torch.tensor(first[f"{name}_bias"]))

    def forward(self, features: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Returns scores `[batch, list]`, 0 at padding."""
        scores = features.new_zeros(mask.shape)
        scores[mask] = self.layers(features[mask])[:, 0]
        return scores


def smoothi_loss(
    scores: torch.Tensor,
    labels: torch.Tensor,
    mask: torch.Tensor,
    topn: int | None,
    alpha: float = 1.0,
    delta: float = 0.1,
) -> torch.Tensor:
    """Returns the mean of one minus NDCG under SmoothI's indicators."""
    size = labels.shape[1]
    rows = size if topn is None else min(topn, size)
    gains = torch.where(mask, labels, 0.0)
    discounts = 1 / torch.log2(torch.arange(rows, device=labels.device) + 2.0)
    ideal = torch.sort(gains, dim=1, descending=True)[0][:, :rows]
    ideal_dcg = ((2**ideal - 1) * discounts).sum(dim=1)
    lowest = torch.where(mask, scores, torch.inf).amin(dim=1, keepdim=True)
    shifted = alpha * torch.where(mask, scores - lowest, 0.0)
    padding = torch.where(mask, 0.0, -torch.inf)
    lengths = mask.sum(dim=1, keepdim=True)
    product = torch.ones_like(scores)
    expected = []
    for _ in range(rows):
        indicator = torch.softmax(shifted * product.detach() + padding, dim=1)
        expected.append((indicator * gains).sum(dim=1))
        product = product * (1 - indicator - delta)
    is_rank = torch.arange(rows, device=labels.device) < lengths
    dcg = ((2 ** torch.stack(expected, dim=1) - 1) * discounts * is_rank).sum(dim=1)
    some = ideal_dcg > 0
    return torch.where(some, 1 - dcg / torch.where(some, ideal_dcg, 1.0), 0.0).mean()


def epoch(
    batches: list[tuple[torch.Tensor, ...]],
    network: Network,
    optimizer: torch.optim.Optimizer,
    topn: int | None,
) -> float:
    """Trains an epoch; returns its mean loss."""
    total = torch.zeros([])
    count = 0
    for features, mask, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = smoothi_loss(network(features, mask), labels, mask, topn)
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(labels)
        count += len(labels)
    return float(total) / count


def main() -> None:
    """Trains as many epochs as it is told to."""
    arrays: Any = np.load(sys.argv[1])
    torch.set_num_threads(int(arrays["threads"]))
    network = Network(
        {name[6:]: arrays[name] for name in arrays if name.startswith("first_")},
        float(arrays["epsilon"]),
        float(arrays["momentum"]),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    topn = int(arrays["topn"]) or None
    batches = [
        tuple(
            torch.tensor(arrays[f"{kind}_{i}"])
            for kind in ("features", "mask", "labels")
        )
        for i in range(int(arrays["batches"]))
    ]
    for line in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            loss = epoch(batches, network, optimizer, topn)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(json.dumps({"seconds": seconds, "cpu": cpu, "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
