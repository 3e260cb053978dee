"""Arguments that each loss must refuse, with the name that is told of each."""

SMOOTHI = (
    ({"gain": "cubic"}, "gain"),
    ({"metric": "map", "gain": "linear"}, "gain"),
    ({"alpha": 0.0}, "alpha"),
    ({"alpha": -1}, "alpha"),
    ({"alpha": float("nan")}, "alpha"),
    ({"alpha": "1"}, "alpha"),
    ({"alpha": 1e30}, "alpha"),
    ({"alpha": {"class_name": "Nonsense", "config": {}}}, "alpha"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 0.5}, "delta"),
    ({"topn": 0}, "topn"),
    ({"topn": 2.5}, "topn"),
    ({"metric": "dcg"}, "metric"),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
    ({"relevance_threshold": "high"}, "relevance_threshold"),
    ({"max_label": "4"}, "max_label"),
    ({"metric": "err"}, "max_label"),
    ({"metric": "err", "max_label": -1.0}, "max_label"),
    ({"stop_gradient": 1}, "stop_gradient"),
    ({"ragged": "yes"}, "ragged"),
)

PIRANK = (
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": "warm"}, "temperature"),
    ({"topn": 0}, "topn"),
    ({"straight_through": 1}, "straight_through"),
    ({"depth": 0}, "depth"),
    ({"depth": 1.5}, "depth"),
    ({"depth": 2, "branching": [3]}, "branching"),
    ({"depth": 2, "branching": [3, 0]}, "branching"),
    ({"depth": 2, "branching": 3}, "branching"),
    ({"depth": 2, "merge_topn": [3, 4], "topn": 5}, "merge_topn"),
    ({"depth": 2, "merge_topn": [3, 5], "topn": None}, "merge_topn"),
    ({"depth": 2, "branching": [4, 4], "merge_topn": [1, 2], "topn": 2}, "merge_topn"),
    ({"depth": 2, "branching": [4, 4], "merge_topn": [5, 2], "topn": 2}, "merge_topn"),
    ({"depth": 2, "merge_temperatures": [5.0]}, "merge_temperatures"),
    ({"depth": 2, "merge_temperatures": [6.0, 5.0]}, "merge_temperatures"),
    ({"depth": 2, "merge_temperatures": [1.0, 2.0]}, "merge_temperatures"),
    ({"depth": 2, "merge_temperatures": [-1.0, 5.0]}, "merge_temperatures"),
)

WASSRANK = (
    ({"regularization": 0.0}, "regularization"),
    ({"regularization": 1e-7}, "regularization"),
    ({"relevance_gap": 1e31}, "relevance_gap"),
    ({"num_iterations": 0}, "num_iterations"),
    ({"num_iterations": 2.5}, "num_iterations"),
    ({"variance_penalty": 0.0}, "variance_penalty"),
    ({"relevance_gap": -1.0}, "relevance_gap"),
    ({"gain_base": 1.0}, "gain_base"),
    ({"score_scale": 0.0}, "score_scale"),
    ({"score_scale": float("inf")}, "score_scale"),
)

COMMON = (({"from_logits": 1}, "from_logits"), ({"ragged": 1}, "ragged"))

CLASS = (
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
    ({"relevance_threshold": None}, "relevance_threshold"),
    ({"class_balance": "epoch"}, "class_balance"),
    ({"class_balance": True}, "class_balance"),
    *COMMON,
)

TRIALS = tuple(
    ({"num_trials": wrong}, "num_trials") for wrong in (0, -3, 2.5, "2", True, None)
)

SIGMA = tuple(
    ({"sigma": wrong}, "sigma") for wrong in (0.0, -1.0, float("inf"), "wide", None)
)

MAX_LABEL = tuple(
    ({"max_label": wrong}, "max_label") for wrong in (0.0, -1.0, float("inf"), None)
)

PAIRWISE = (
    ({"margin": -0.1}, "margin"),
    ({"margin": float("inf")}, "margin"),
    ({"margin": float("nan")}, "margin"),
    ({"margin": "wide"}, "margin"),
    ({"symmetric": 1}, "symmetric"),
    *COMMON,
)

GRADES = tuple(
    ({"grade_values": wrong}, "grade_values")
    for wrong in (
        [],
        [1.0],
        [0.0, 0.0],
        [1.0, 0.0],
        [0, float("inf")],
        [None, 1],
        "01",
        3,
    )
)

LIST_AP = (
    *(({"num_bins": wrong}, "num_bins") for wrong in (1, 2.5, True, None)),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
)

APPROX = (
    ({"gain": "cubic"}, "gain"),
    ({"metric": "map", "gain": "linear"}, "gain"),
    ({"metric": "err"}, "metric"),
    ({"metric": "precision"}, "topn"),
    ({"topn": 0}, "topn"),
    ({"alpha": 0.0}, "alpha"),
    ({"beta": -1.0}, "beta"),
    ({"beta": 1e31}, "beta"),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
)

SOFT_RANK = (
    ({"gain": "cubic"}, "gain"),
    ({"metric": "map", "gain": "linear"}, "gain"),
    ({"metric": "mrr"}, "metric"),
    ({"metric": "precision"}, "topn"),
    ({"topn": 1.5}, "topn"),
    ({"regularization": 0.0}, "regularization"),
    ({"regularization": 1e30}, "regularization"),
    ({"regularization": "low"}, "regularization"),
    ({"beta": 0.0}, "beta"),
    ({"relevance_threshold": -1.0}, "relevance_threshold"),
)

SOFT_SORT = (
    ({"gain": "cubic"}, "gain"),
    ({"metric": "map", "gain": "linear"}, "gain"),
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": "warm"}, "temperature"),
    ({"temperature": 1e31}, "temperature"),
    ({"temperature": {"class_name": "Nonsense", "config": {}}}, "temperature"),
    ({"metric": "dcg"}, "metric"),
    ({"metric": "arp", "form": "position"}, "metric"),
    ({"metric": "precision", "form": "position"}, "topn"),
    ({"metric": "err"}, "max_label"),
    ({"max_label": "4"}, "max_label"),
    ({"topn": 0}, "topn"),
    ({"topn": 2.5}, "topn"),
    ({"form": "ranks"}, "form"),
    ({"form": None}, "form"),
    ({"beta": 0.0}, "beta"),
    ({"beta": 1e31}, "beta"),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
    ({"ragged": 1}, "ragged"),
)

SINKHORN = (
    ({"gain": "cubic"}, "gain"),
    ({"metric": "map", "gain": "linear"}, "gain"),
    ({"metric": "err"}, "metric"),
    ({"metric": "precision"}, "topn"),
    ({"topn": 0}, "topn"),
    ({"regularization": 0.0}, "regularization"),
    ({"regularization": 1e-4}, "regularization"),
    ({"regularization": "low"}, "regularization"),
    ({"num_iterations": 0}, "num_iterations"),
    ({"num_iterations": 2.5}, "num_iterations"),
    ({"beta": -1.0}, "beta"),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
)
