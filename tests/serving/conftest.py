"""An export, and a server of it, for all tests of serving."""

import dataclasses

import pytest

from tests.files import write_letor
from tests.helpers import make_lists
from tests.serving.model_server import serving
from tfr_ext import data
from tfr_ext.training import DataConfig, LossConfig, ModelConfig, TrainingConfig, train

WIDTH = 4


@dataclasses.dataclass(frozen=True)
class Exported:
    """Two versions of a model, and lists with document ids that they rank.

    Attributes:
        base_path: the directory of versions.
        lists: the lists.
        judged: LETOR text of the lists.
    """

    base_path: str
    lists: data.RankingLists
    judged: object


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("exported")
    lists = make_lists([5, 1, 8, 3, 40] * 8, num_features=WIDTH, seed=3)
    lists.features[::3] = 0.5
    judged = directory / "judged.txt"
    write_letor(judged, lists)
    for seed in (1, 2):
        result = train(
            TrainingConfig(
                data=DataConfig(dataset="text", train_path=str(judged), seed=seed),
                model=ModelConfig("mlp", hidden_sizes=(4,)),
                loss=LossConfig("list_net_loss"),
                num_epochs=1,
                model_dir=directory / "model",
                overwrite=True,
                verbose="silent",
                draw_curves=False,
            )
        )
    lists = data.read_letor(judged, WIDTH)
    return Exported(result.paths["export"], lists, judged)


@pytest.fixture(scope="session")
def server(exported):
    """Serves both versions; 'stable' is 1 and 'canary' is 2."""
    labels = {"stable": 1, "canary": 2}
    with serving(exported.base_path, labels=labels, policy="all") as running:
        yield running
