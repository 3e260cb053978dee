"""What merging requests does to scores, as serving/batching.config says.

The merging is that of TensorFlow Serving's batching_session.cc and batching_util.cc.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.elwc_files import elwc
from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext.training import DataConfig, LossConfig, ModelConfig, TrainingConfig, train

pytestmark = pytest.mark.any_keras

WIDTH = 4
LOWEST = np.finfo(np.float32).min


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """Asks a session, as the server does, for the scores of a signature.

    The model scales each feature by its extremes in the list.
    """
    directory = tmp_path_factory.mktemp("model")
    lists = make_lists([5, 8, 3] * 4, num_features=WIDTH)
    write_letor(directory / "judged.txt", lists)
    result = train(
        TrainingConfig(
            data=DataConfig(dataset="text", train_path=str(directory / "judged.txt")),
            model=ModelConfig(hidden_sizes=(8,), feature_transforms=("query_minmax",)),
            loss=LossConfig("list_net_loss"),
            num_epochs=1,
            model_dir=directory / "model",
            verbose="silent",
            draw_curves=False,
        )
    )
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        path = f"{result.paths['export']}/1"
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], path)

    def scores(name, inputs):
        signature = loaded.signature_def[name]
        feed = {signature.inputs[key].name: value for key, value in inputs.items()}
        return session.run(signature.outputs["scores"].name, feed)

    return scores


def padded(array, shape):
    """The server's padding: in all dimensions but the first, with the first value."""
    wider = [(0, 0), *((0, b - a) for a, b in zip(array.shape[1:], shape[1:]))]
    return np.pad(array, wider, constant_values=array.flat[0])


def merged(requests, pad, size):
    """The batch that the server makes of requests, filled up to a size.

    Without padding, the server refuses what NumPy cannot join.
    """
    batch = {}
    for key in requests[0]:
        arrays = [request[key] for request in requests]
        if pad:
            shape = np.max([array.shape for array in arrays], axis=0)
            arrays = [padded(array, shape) for array in arrays]
        missing = size - sum(len(array) for array in arrays)
        arrays += [arrays[-1][:1]] * missing
        batch[key] = np.concatenate(arrays)
    return batch


def split(scores, requests):
    """The scores of each request: the server cuts the first dimension only."""
    sizes = [len(next(iter(request.values()))) for request in requests]
    return np.split(scores[: sum(sizes)], np.cumsum(sizes)[:-1])


def raw(batch, size, seed, width=WIDTH):
    """A request with lists of one size, whose first value is not like the others."""
    features = np.random.default_rng(seed).normal(size=[batch, size, width])
    features[0, 0, 0] = 50
    mask = np.ones([batch, size], bool)
    return {"float_features": features.astype(np.float32), "mask": mask}


def in_protos(features):
    """A request with ELWC of lists of any sizes."""
    texts = [
        elwc([{"float_features": item.tolist()} for item in items]).SerializeToString()
        for items in features
    ]
    return {"examples": np.array(texts, object)}


def test_padding_of_the_server_changes_scores(answer):
    short, long = raw(2, 3, seed=1), raw(1, 6, seed=2)
    alone = answer("masked", short)
    batch = merged([short, long], pad=True, size=8)
    assert batch["mask"].all()  # The padding counts as items.
    ours, theirs = split(answer("masked", batch), [short, long])
    # The longer list is as it was; the shorter ones have other scores, and more.
    np.testing.assert_allclose(theirs, answer("masked", long), rtol=1e-5)
    assert ours.shape == (2, 6) and (ours[:, 3:] > LOWEST).all()
    assert (np.abs(ours[:, :3] - alone) > 1e-3).any()
    right = {key: np.copy(value) for key, value in batch.items()}
    right["mask"][:2, 3:] = False
    ours, _ = split(answer("masked", right), [short, long])
    np.testing.assert_allclose(ours[:, :3], alone, rtol=1e-5)


def test_padding_of_the_server_scores_a_list_without_a_feature(answer):
    narrow, good = raw(1, 3, seed=1, width=WIDTH - 1), raw(1, 3, seed=2)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        answer("masked", narrow)
    batch = merged([narrow, good], pad=True, size=2)
    assert np.isfinite(answer("masked", batch)).all()


def test_lists_that_clients_padded_to_one_size_keep_their_scores(answer):
    requests = [raw(2, 6, seed=1), raw(1, 6, seed=2)]
    requests[0]["mask"][0, 4:] = requests[1]["mask"][0, 1:] = False
    batch = merged(requests, pad=False, size=8)
    for found, request in zip(split(answer("masked", batch), requests), requests):
        np.testing.assert_allclose(found, answer("masked", request), rtol=1e-5)


def test_protos_keep_their_scores_in_wider_rows(answer):
    rng = np.random.default_rng(0)
    sizes = [[3, 1], [6], [2, 5]]
    lists = [[rng.normal(size=[n, WIDTH]) for n in row] for row in sizes]
    requests = [in_protos(features) for features in lists]
    batch = merged(requests, pad=False, size=8)
    parts = split(answer("elwc", batch), requests)
    for found, request, row in zip(parts, requests, sizes):
        alone = answer("elwc", request)
        assert found.shape == (len(row), 6) and alone.shape == (len(row), max(row))
        for i, size in enumerate(row):
            np.testing.assert_allclose(found[i, :size], alone[i, :size], rtol=1e-5)
            assert (found[i, size:] == LOWEST).all()


def test_an_error_in_one_request_is_one_of_its_batch(answer):
    good = in_protos([np.ones([2, WIDTH])])
    bad = in_protos([np.ones([2, WIDTH - 1])])
    with pytest.raises(tf.errors.InvalidArgumentError, match="float_features"):
        answer("elwc", merged([good, bad], pad=False, size=8))
    assert np.isfinite(answer("elwc", good)).all()
