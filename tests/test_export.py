"""The export, loaded by a process that knows TensorFlow only."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import input_pb2

from tests.conftest import make_lists
from tfr_ext import data, export, losses, models

BARE = textwrap.dedent(
    """
    import json, sys
    import numpy as np
    import tensorflow as tf
    directory, inputs, out = sys.argv[1:]
    given = np.load(inputs, allow_pickle=True)
    results = {}
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], directory)
        for name, signature in graph.signature_def.items():
            if name.startswith("__"):
                continue
            feed = {}
            for key, info in signature.inputs.items():
                feed[info.name] = given[f"{name}/{key}"]
            results[name] = session.run(signature.outputs["scores"].name, feed)
    np.savez(out, **results)
    print(json.dumps(sorted(m for m in sys.modules if "." not in m)))
    """
)


def elwc(lists):
    """Lists as serialised ExampleListWithContext protos."""
    protos = []
    for q in range(lists.num_lists):
        proto = input_pb2.ExampleListWithContext()
        for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
            feature = proto.examples.add().features.feature["float_features"]
            feature.float_list.value.extend(lists.features[i].tolist())
        protos.append(proto.SerializeToString())
    return np.array(protos, object)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("export")
    tf.keras.utils.set_random_seed(0)
    model = models.model_builder(3, models.MLPScorer([8])).build()
    model.compile("adam", losses.SmoothILoss())
    train = make_lists([5, 3, 4, 2] * 4, seed=1)
    model.fit(data.BatchedLists(train, 4, seed=0).dataset(), epochs=2, verbose=0)
    return model, directory, export.export_ranker(model, str(directory))


def test_a_bare_process_gets_the_same_scores(exported, tmp_path):
    model, _, version = exported
    lists = make_lists([5, 2, 9], seed=2)
    features, _ = data.padded_batch(lists, np.arange(3))
    full, _ = data.padded_batch(make_lists([6, 6], seed=3), np.arange(2))
    inputs = {
        "serving_default/float_features": full["float_features"],
        "masked/float_features": features["float_features"],
        "masked/mask": features["mask"],
        "elwc/examples": elwc(lists),
    }
    np.savez(tmp_path / "in.npz", **inputs)
    # Without the checkout on the path, a stray import of it would fail.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            BARE,
            version,
            tmp_path / "in.npz",
            tmp_path / "out.npz",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "tensorflow" in modules
    assert not {"tfr_ext", "tensorflow_ranking", "pipelines"} & set(modules)
    results = np.load(tmp_path / "out.npz")
    assert sorted(results) == ["elwc", "masked", "serving_default"]
    np.testing.assert_allclose(
        results["serving_default"], model.predict(full, verbose=0), rtol=1e-5
    )
    expected = model.predict(features, verbose=0)
    for name in ("masked", "elwc"):
        real = features["mask"]
        np.testing.assert_allclose(results[name][real], expected[real], rtol=1e-5)
        assert (results[name][~real] == np.finfo(np.float32).min).all()


def test_versions_go_up_and_nothing_half_written_stays(exported):
    model, directory, version = exported
    assert os.path.basename(version) == "1"
    os.makedirs(directory / "41")
    later = export.export_ranker(model, str(directory))
    assert os.path.basename(later) == "42"
    assert sorted(os.listdir(directory)) == ["1", "41", "42"]
    assert os.stat(later).st_mode & 0o555 == 0o555


def test_a_failed_export_leaves_nothing(exported, monkeypatch):
    model, directory, _ = exported
    before = sorted(os.listdir(directory))

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        export.export_ranker(model, str(directory))
    assert sorted(os.listdir(directory)) == before
