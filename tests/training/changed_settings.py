"""Settings of a training, of which many are not the defaults."""

from tfr_ext.training import (
    DataConfig,
    LossConfig,
    MetricsConfig,
    ModelConfig,
    TrainingConfig,
)

OTHER = TrainingConfig(
    data=DataConfig(synthetic_num_queries=24, synthetic_list_size=6),
    model=ModelConfig(
        hidden_sizes=(8, 4),
        head="expected_grade",
        grade_values=(0, 0.25, 0.5, 0.75, 1),
        batch_normalization=False,
    ),
    loss=LossConfig(
        params={"alpha": 1.0, "metric": "ndcg", "topn": None},
        schedules={"alpha": "linear:5"},
    ),
    evaluation=MetricsConfig(metrics=("ndcg_10", "map"), max_label=4),
    learning_rate=0.01,
    monitor="ndcg_5",
    batch_size=8,
    num_epochs=2,
)
