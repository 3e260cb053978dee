"""The export, loaded by a process that knows TensorFlow only."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tests import elwc_files
from tests.commands import run_command
from tests.files import content
from tests.helpers import make_lists
from tfr_ext import data, losses, models
from tfr_ext.data.elwc.message import ExampleListWithContext
from tfr_ext.serving import exporter

pytestmark = pytest.mark.stack_b

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
            (output,) = signature.outputs.keys() - {"order"}
            results[name] = session.run(signature.outputs[output].name, feed)
    np.savez(out, **results)
    print(json.dumps(sorted(m for m in sys.modules if "." not in m)))
    """
)


def elwc(lists):
    """Lists as serialised ExampleListWithContext protos."""
    protos = []
    for q in range(lists.num_lists):
        proto = ExampleListWithContext()
        for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
            feature = proto.examples.add().features.feature["float_features"]
            feature.float_list.value.extend(lists.features[i].tolist())
        protos.append(proto.SerializeToString())
    return np.array(protos, object)


def examples_of(serialized):
    """The items of a serialised list, each serialised."""
    found = ExampleListWithContext.FromString(serialized)
    return [example.SerializeToString() for example in found.examples]


def inputs_of(name):
    """Names of the inputs of a signature."""
    if name.startswith("tensorflow/"):
        return ["inputs"]
    more = {"masked": ["mask"], "rank": ["mask", "topn"]}.get(name, [])
    return ["examples"] if name == "elwc" else ["float_features", *more]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("export")
    tf.keras.utils.set_random_seed(0)
    model = models.model_builder(3, models.MLPScorer([8])).build()
    model.compile("adam", losses.ListNetLoss())
    train = make_lists([5, 3, 4, 2] * 4, seed=1)
    model.fit(data.BatchedLists(train, 4, seed=0).dataset(), epochs=2, verbose=0)
    return model, directory, exporter.export_ranker(model, str(directory))


def test_a_bare_process_gets_the_same_scores(exported, tmp_path):
    model, _, version = exported
    lists = make_lists([5, 2, 9], seed=2)
    features, _ = data.padded_batch(lists, np.arange(3))
    full, _ = data.padded_batch(make_lists([6, 6], seed=3), np.arange(2))
    inputs = {
        "serving_default/float_features": full["float_features"],
        "masked/float_features": features["float_features"],
        "masked/mask": features["mask"],
        "rank/float_features": features["float_features"],
        "rank/mask": features["mask"],
        "rank/topn": np.array([2, 2, 2], np.int32),
        "elwc/examples": elwc(lists),
        "tensorflow/serving/predict/inputs": elwc(lists),
        "tensorflow/serving/regress/inputs": np.array(
            [x for list_ in elwc(lists) for x in examples_of(list_)], object
        ),
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
    assert {f"{name}/{key}" for name in results for key in inputs_of(name)} == {*inputs}
    np.testing.assert_allclose(
        results["serving_default"], model.predict(full, verbose=0), rtol=1e-5
    )
    expected = model.predict(features, verbose=0)
    real = features["mask"]
    np.testing.assert_allclose(
        results["tensorflow/serving/regress"], expected[real], rtol=1e-5
    )
    for name in ("masked", "rank", "elwc", "tensorflow/serving/predict"):
        np.testing.assert_allclose(results[name][real], expected[real], rtol=1e-5)
        assert (results[name][~real] == np.finfo(np.float32).min).all()


def test_exports_at_once_are_versions_of_their_own(exported, tmp_path):
    """The second one begins and ends while the first is being checked."""
    model, _, version = exported
    made = []

    def meanwhile(scorer):
        made.append(exporter.export_ranker(model, str(tmp_path)))

    made.append(exporter.export_ranker(model, str(tmp_path), check=meanwhile))
    assert made == [str(tmp_path / "1"), str(tmp_path / "2")]
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]
    for one in made:
        assert (
            content(pathlib.Path(one)).keys() == content(pathlib.Path(version)).keys()
        )


def load_again(version):
    """The signatures as TensorFlow 1 loads them: what they give, or the error."""
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], version)

    def answer(name, **inputs):
        signature = loaded.signature_def[name]
        feed = {signature.inputs[k].name: v for k, v in inputs.items()}
        return session.run(signature.outputs["scores"].name, feed)

    return answer


def load_as_function(version):
    loaded = tf.saved_model.load(version)

    def answer(name, **inputs):
        tensors = {k: tf.constant(v) for k, v in inputs.items()}
        return loaded.signatures[name](**tensors)["scores"].numpy()

    return answer


LOADERS = [load_again, load_as_function]


def request(name, features, mask):
    """The inputs by which a signature gets some lists."""
    if name == "elwc":
        lists = [
            elwc_files.elwc(
                [{"float_features": x.tolist()} for x in row[real]]
            ).SerializeToString()
            for row, real in zip(features, mask)
        ]
        return {"examples": np.array(lists, object)}
    if name == "masked":
        return {"float_features": features, "mask": mask}
    return {"float_features": features}


@pytest.fixture(scope="module", params=["none", "transforms", "not compact"])
def any_export(request, tmp_path_factory):
    """Exports that may each hide a NaN in their own way."""
    transforms = None
    if request.param == "transforms":
        forms = ["query_minmax", "clip:-1:1", "standard"]
        transforms = models.feature_transforms(forms, make_lists([6]))
    scorer = models.MLPScorer([8], compact=request.param != "not compact")
    model = models.model_builder(3, scorer, transforms).build()
    return exporter.export_ranker(model, str(tmp_path_factory.mktemp("export")))


@pytest.mark.first_case("name")
@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", ["serving_default", "masked", "elwc"])
def test_a_nan_of_a_real_item_is_an_error(name, load, any_export):
    answer = load(any_export)
    rng = np.random.default_rng(1)
    features = rng.normal(size=[4, 5, 3]).astype(np.float32)
    mask = np.ones([4, 5], bool)
    if name != "serving_default":
        mask[1, 2:] = mask[2, 4:] = False
        features[~mask] = np.nan  # What is at padding is nobody's concern.
    clean = answer(name, **request(name, features, mask))
    lowest = np.finfo(np.float32).min
    assert np.isfinite(clean).all() and ((clean == lowest) == ~mask).all()
    for item, column in ((0, 0), (1, 2)):
        dirty = features.copy()
        dirty[1, item, column] = np.nan
        where = rf"(?s)NaN feature.*\[\[?1 {item} {column}\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=where):
            answer(name, **request(name, dirty, mask))
        again = answer(name, **request(name, features, mask))
        np.testing.assert_array_equal(again, clean)


@pytest.mark.first_case("name")
@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", ["serving_default", "masked", "elwc"])
def test_a_request_of_another_width_is_refused(name, load, any_export):
    answer = load(any_export)
    for width in (1, 2, 4):
        inputs = request(name, np.ones([2, 3, width], "f"), np.ones([2, 3], bool))
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            answer(name, **inputs)
    for shape in ((1, 3), (2, 1), (2, 2)) if name == "masked" else ():
        inputs = request(name, np.ones([2, 3, 3], "f"), np.ones(shape, bool))
        with pytest.raises(tf.errors.InvalidArgumentError):
            answer(name, **inputs)


NAMED = data.ElwcFeatures(
    (data.Feature("2"), data.Feature("1", width=2)),
    (data.Feature("count", is_integer=True),),
)


@pytest.fixture(scope="module")
def named_export(tmp_path_factory):
    model = models.model_builder(4, models.MLPScorer([8])).build()
    directory = str(tmp_path_factory.mktemp("named"))
    return model, exporter.export_ranker(model, directory, elwc_features=NAMED)


def example(one=(0.5, 0.25), two=(2.0,)):
    found = {"1": one, "2": two, "other": [7.0]}
    return {name: list(values) for name, values in found.items() if values is not None}


@pytest.mark.parametrize("load", LOADERS)
def test_elwc_takes_the_names_of_the_training_data(load, named_export):
    model, version = named_export
    answer = load(version)
    protos = [
        elwc_files.elwc([example(), example([3.0, 4.0])], count=[5], more=[1]),
        elwc_files.elwc([example(two=[-1.0])], count=[6]),
        elwc_files.elwc([], count=[6]),
        elwc_files.elwc([example(one=None), example(two=None)]),
    ]
    features = np.zeros([4, 2, 4], np.float32)
    features[0] = [[2, 0.5, 0.25, 5], [2, 3, 4, 5]]
    features[1, 0] = [-1, 0.5, 0.25, 6]
    features[3] = [[2, 0, 0, 0], [0, 0.5, 0.25, 0]]
    mask = np.array([[True, True], [True, False], [False, False], [True, True]])
    expected = model({"float_features": features, "mask": mask}).numpy()
    texts = np.array([proto.SerializeToString() for proto in protos], object)
    scores = answer("elwc", examples=texts)
    np.testing.assert_allclose(scores[mask], expected[mask], rtol=1e-6)
    assert (scores[~mask] == np.finfo(np.float32).min).all()


@pytest.mark.first_case
@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (([example(one=[1.0])], {"count": [5]}), "Key: 1.*values size: 1"),
        (([example(one=[1.0] * 3)], {"count": [5]}), "Key: 1.*values size: 3"),
        (([example()], {"count": [5, 6]}), "Key: count.*values size: 2"),
        (([example()], {"count": [0.5]}), "Key: count.*types don't match"),
        (([example(two=[1])], {"count": [5]}), "Key: 2.*types don't match"),
    ],
)
def test_elwc_refuses_other_widths_and_kinds(load, wrong, told, named_export):
    answer = load(named_export[1])
    good = elwc_files.elwc([example()], count=[5]).SerializeToString()
    bad = elwc_files.elwc(wrong[0], **wrong[1]).SerializeToString()
    for protos in ([bad], [good, bad], [bad, good]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?is){told}"):
            answer("elwc", examples=np.array(protos, object))
    assert np.isfinite(answer("elwc", examples=np.array([good], object))).all()


def test_elwc_features_must_be_those_of_the_model(named_export):
    with pytest.raises(ValueError, match="must have 4 numbers, .* Received: 1"):
        exporter.signatures(named_export[0], data.ElwcFeatures((data.Feature("1"),)))


def test_training_exports_the_names_that_it_read(tmp_path):
    rng = np.random.default_rng(0)
    for split in ("train", "valid", "test"):
        protos = [
            elwc_files.elwc(
                [
                    {"1": [float(x)], "2": [int(9 * x)], "label": [int(3 * x)]}
                    for x in rng.random(4)
                ],
                query_id=[f"{split}{q}".encode()],
                length=[4.0],
            )
            for q in range(6)
        ]
        elwc_files.write(tmp_path / f"{split}.tfrecord", protos)
    run_command(
        "pipelines.train",
        "--dataset=elwc",
        *(f"--{s}_path={tmp_path}/{s}.tfrecord" for s in ("train", "valid", "test")),
        "--elwc_features=1,2",
        "--elwc_context_features=length",
        "--num_epochs=1",
        "--loss=list_net_loss",
        "--model=mlp",
        "--hidden_sizes=4",
        "--nodraw_curves",
        "--verbose=silent",
        f"--model_dir={tmp_path}/model",
    )
    answer = load_again(f"{tmp_path}/model/export/1")
    examples = [{"1": [0.5], "2": [4]}, {"1": [0.1], "2": [0]}]
    good = elwc_files.elwc(examples, length=[2.0]).SerializeToString()
    scores = answer("elwc", examples=np.array([good], object))
    assert scores.shape == (1, 2) and np.isfinite(scores).all()
    examples[1]["2"] = [0.5]
    bad = elwc_files.elwc(examples, length=[2.0]).SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Key: 2"):
        answer("elwc", examples=np.array([bad], object))


def test_versions_go_up_and_nothing_half_written_stays(exported):
    model, directory, version = exported
    assert os.path.basename(version) == "1"
    os.makedirs(directory / "41")
    later = exporter.export_ranker(model, str(directory))
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
        exporter.export_ranker(model, str(directory))
    assert sorted(os.listdir(directory)) == before
