"""A small experiment: two folds, and the flags that compare two losses on them."""

import numpy as np


def write_folds(folder):
    """Three-feature lists in two folds, of which feature 1 tells the label."""
    rng = np.random.default_rng(0)
    for fold in (1, 2):
        for split in ("train", "vali", "test"):
            lines = []
            for query in range(12):
                for _ in range(5):
                    x = rng.normal(size=3)
                    label = int(x[0] > 0) + int(x[0] > 1)
                    values = " ".join(f"{i}:{v:.4f}" for i, v in enumerate(x, 1))
                    lines.append(f"{label} qid:{fold}{split}{query} {values}")
            path = folder / f"Fold{fold}" / f"{split}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines) + "\n")


def flags_of(folder, *more):
    return (
        "--dataset=text",
        f"--train_path={folder}/Fold{{fold}}/train.txt",
        f"--valid_path={folder}/Fold{{fold}}/vali.txt",
        f"--test_path={folder}/Fold{{fold}}/test.txt",
        "--model=mlp",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--batch_size=6",
        "--metrics=ndcg,arp,ndcg_10",
        "--folds=1,2",
        "--seeds=1,2",
        "--method=SmoothI: --loss=smoothi_loss --learning_rate={0.05|0.0000001}",
        "--method=ListNet: --loss=list_net_loss --learning_rate=0.05",
        *more,
    )
