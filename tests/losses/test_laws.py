"""The laws that every loss keeps, and which test has `make test` hold each of them.

A law is held for each loss of this package by one test, and for each of TensorFlow
Ranking's by another: at least one case of each loss, whatever `make test-all` adds.
"""

import dataclasses
import fnmatch
import pathlib

import pytest

from tests import helpers
from tests.losses import cases, every_key
from tfr_ext.losses.tfr.names import LOSSES as TFR_LOSSES

helpers.need("tensorflow_ranking")

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
OWN, TFR = [case.key for case in cases.ONE_EACH], [*TFR_LOSSES]
# The value and the gradient, against loops over one list.
EQUAL = "test_value_and_gradient_equal_the_oracle"
ORACLES = {
    "smoothi_loss": f"test_smoothi.py::{EQUAL}",
    "pirank_ndcg_loss": f"test_pirank.py::{EQUAL}*ndcg",
    "pirank_arp_loss": f"test_pirank.py::{EQUAL}*arp",
    "neural_sort_cross_entropy_loss": "test_pirank.py::test_cross_entropy_equals_the",
    "wass_rank_loss": f"test_wass_rank.py::{EQUAL}",
    "pointwise_kl_binomial_loss": "kl/test_kl.py::test_itemwise_equal_the_oracle",
    "listwise_kl_gaussian_loss": "kl/test_kl.py::test_itemwise_equal_the_oracle",
    "pointwise_kl_multinomial_loss": "kl/test_multinomial.py::test_multinomial_eq",
    "pairwise_kl_binomial_loss": "kl/test_pairwise.py::test_pairwise_equal_the_oracle",
    "pairwise_kl_gaussian_loss": "kl/test_pairwise.py::test_pairwise_equal_the_oracle",
    "list_net_loss": f"test_baselines.py::{EQUAL}",
    "list_ap_loss": f"test_baselines.py::{EQUAL}",
    "approx_metric_loss": f"test_baselines.py::{EQUAL}",
    "soft_sort_loss": "test_soft_sort.py::test_indicators_equal_the_oracle",
    "fast_soft_rank_loss": "test_fast_soft_rank.py::test_loss_and_gradient_equal",
    "sinkhorn_sort_loss": f"test_sinkhorn_sort.py::{EQUAL}",
}


@dataclasses.dataclass(frozen=True)
class Law:
    """What every loss keeps, and where it is tested.

    Attributes:
        name: the law.
        own: the test of our own losses; its cases have the keys in their names.
        tfr: that of TensorFlow Ranking's losses.
        case: what the name of a case has, where only such cases are the law's.
        for_all: the test has one case, in which it tries every loss.
    """

    name: str
    own: str = ""
    tfr: str = ""
    case: str = ""
    for_all: bool = False


CONTRACT, INPUTS = "test_contract.py::test_", "test_contract_inputs.py::test_"
OF_TFR = "tfr/test_tfr_losses.py::test_"
LAWS = [
    Law("padding", f"{CONTRACT}padding_is_invisible", f"{OF_TFR}padding_is_invisible"),
    Law("permutation", f"{CONTRACT}permutation_changes_nothing"),
    Law(
        "ragged equals dense",
        f"{CONTRACT}ragged_equals_dense",
        f"{OF_TFR}ragged_equals_dense",
    ),
    Law(
        "finite value and gradient",
        f"{CONTRACT}value_and_gradient_are_finite",
        f"{OF_TFR}a_spread_of_thousands_is_finite",
    ),
    Law(
        "extremes amid padding",
        "test_extremes.py::test_lists_amid_padding_equal_themselves",
        "tfr/test_tfr_extremes.py::test_padding_is_invisible_to_lists_of_any_size",
    ),
    Law(
        "what is no number shows",
        f"{CONTRACT}what_is_no_number_shows",
        "tfr/test_tfr_extremes.py::test_what_is_not_finite_is_never_hidden",
    ),
    Law(
        "lists without a relevant item",
        f"{CONTRACT}empty_lists",
        f"{OF_TFR}empty_lists_and_lists_of_padding",
    ),
    Law(
        "lists of no items",
        f"{CONTRACT}lists_of_no_items_contribute_nothing",
        f"{OF_TFR}lists_of_no_items_contribute_nothing",
    ),
    Law(
        "TensorFlow Ranking's values",
        tfr=f"{OF_TFR}without_padding_it_is_tensorflow_rankings",
    ),
    Law(
        "weights",
        f"{INPUTS}item_weights_are_normalised_as_tfr_does",
        f"{OF_TFR}a_vector_of_weights_is_one_per_list_also_where_batch_equals_list",
    ),
    Law(
        "number types",
        f"{INPUTS}half_precision_is_computed_in_float32",
        f"{OF_TFR}number_types",
    ),
    Law(
        "config",
        f"{CONTRACT}config_round_trip",
        f"{OF_TFR}config_saved_model_and_training_step",
    ),
    Law("defaults from a config", *["test_round_trips.py::test_a_loss_with_its"] * 2),
    Law(
        "SavedModel and Keras files",
        *["test_round_trips.py::test_a_compiled_model_of_all_losses_comes_back"] * 2,
        for_all=True,
    ),
    Law(
        "tf.function without shapes",
        f"{CONTRACT}graphs_equal_eager",
        f"{OF_TFR}graphs",
        case="graph",
    ),
    Law(
        "graphs of TensorFlow 1",
        f"{CONTRACT}graphs_of_tensorflow_1_equal_eager",
        f"{OF_TFR}graphs_of_tensorflow_1",
    ),
    Law("XLA", f"{CONTRACT}graphs_equal_eager", f"{OF_TFR}graphs", case="xla"),
    Law(
        "two replicas",
        "test_replicas.py::test_two_replicas_equal_one",
        case="ONE_EACH",
        for_all=True,
    ),
]


@pytest.fixture(scope="module")
def names():
    """The names of the cases of these tests that `make test` runs."""

    class Collector:
        names = ()

        def pytest_collection_finish(self, session):
            self.names = [item.nodeid for item in session.items]

    collector = Collector()
    given = [law.own for law in LAWS] + [law.tfr for law in LAWS] + [*ORACLES.values()]
    files = sorted({str(HERE / name.partition("::")[0]) for name in given if name})
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main(
        [*options, "-m", "not grid", f"--rootdir={ROOT}", *files], [collector]
    )
    assert code == 0
    return collector.names


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_make_test_holds_the_law_for_every_loss(names, law):
    for test, keys in ((law.own, OWN), (law.tfr, TFR)):
        if not test:
            continue
        found = [name for name in names if test in name and law.case in name]
        missing = [key for key in keys if not any(key in name for name in found)]
        assert found and (law.for_all or not missing), missing


@pytest.mark.parametrize("key", OWN)
def test_make_test_compares_every_loss_with_an_oracle(names, key):
    assert fnmatch.filter(names, f"*{ORACLES[key]}*")


def test_all_losses_are_ours_or_tensorflow_rankings():
    assert sorted([*OWN, *TFR]) == sorted(every_key.KEYS)
