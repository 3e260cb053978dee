"""Every field of a manifest is compared with the shards, or is information only."""

import copy
import json
import shutil

import pytest

from tests.elwc_files import write_manifest, write_shards
from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.sources import elwc_source
from tfr_ext.training import DataConfig


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prepared")
    lists = make_lists([3, 4, 2, 5])
    split = write_shards(directory, "train", lists, 2)
    split.labels.update({f"{g:g}": c for g, c in lists.label_counts.items()})
    write_manifest(directory, 3, {"train": split}, source={"seed": 1})
    return directory


def read(directory):
    config = DataConfig(dataset="elwc", data_dir=directory)
    return elwc_source.ElwcSource(config).read("train", None)


def stream(directory):
    config = DataConfig(dataset="elwc", data_dir=directory)
    return elwc_source.ElwcSource(config).stream("train", None, None)


def leaves(content, path=()):
    """The path of each value in JSON."""
    if isinstance(content, dict):
        return [
            leaf
            for key, value in content.items()
            for leaf in leaves(value, (*path, key))
        ]
    if isinstance(content, list):
        return [
            leaf
            for k, value in enumerate(content)
            for leaf in leaves(value, (*path, k))
        ]
    return [path]


def replaced(content, path, change):
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    change(place, path[-1])
    return content


def set_to(make):
    return lambda place, key: place.__setitem__(key, make(place[key]))


def another(value):
    if isinstance(value, str):
        return value[:-1] + ("1" if value.endswith("0") else "0")
    return 2 if value is None else value + 1


CHANGES = {
    "another value": set_to(another),
    "another type": set_to(lambda value: [value]),
    "true": set_to(lambda value: True),
    "nan": set_to(lambda value: float("nan")),
    "negative": set_to(lambda value: -1),
    "missing": lambda place, key: place.pop(key),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", [read, stream])
def test_each_field_is_compared(how, change, prepared, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(prepared, directory)
    file = directory / "manifest.json"
    content = json.loads(file.read_text())
    assert how(directory).num_lists == 4
    found = leaves(content)
    assert (
        len(found)
        == 2 + 1 + 1 + 2 + 2 * 5 + len(content["splits"]["train"]["labels"]) + 2
    )
    for path in found:
        file.write_text(json.dumps(replaced(content, path, CHANGES[change])))
        if path[0] == "source":
            assert how(directory).num_lists == 4
            continue
        with pytest.raises(ValueError, match=str(file)) as error:
            how(directory)
        assert "Traceback" not in str(error.value), path


def test_the_number_of_features_is_told_with_its_shard(prepared, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(prepared, directory)
    file = directory / "manifest.json"
    file.write_text(file.read_text().replace('"num_features": 3', '"num_features": 7'))
    told = (
        r"manifest.json: shard train-00000-of-00002.tfrecord: expected num_features 7"
    )
    config = DataConfig(dataset="elwc", data_dir=directory)
    source = elwc_source.ElwcSource(config)
    (first, _) = source.divide(1).pieces["train"]
    for how in (
        lambda: read(directory),
        lambda: stream(directory),
        lambda: list(first.read(None)),
    ):
        with pytest.raises(data.DataFormatError, match=f"{told}. Found: 3"):
            how()


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", ".", "", "a\\b", "a\0b"])
def test_a_shard_is_a_file_beside_the_manifest(name, prepared, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(prepared, directory)
    file = directory / "manifest.json"
    content = json.loads(file.read_text())
    path = ("splits", "train", "shards", 0, "name")
    file.write_text(json.dumps(replaced(content, path, set_to(lambda _: name))))
    with pytest.raises(ValueError) as error:
        read(directory)
    told = f"the shard name is {name!r}, expected the name of a file beside"
    assert str(file) in str(error.value) and told in str(error.value)


def test_a_shard_is_in_one_split(prepared, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(prepared, directory)
    file = directory / "manifest.json"
    content = json.loads(file.read_text())
    content["splits"]["test"] = content["splits"]["train"]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="a shard of 'test' is 'train-00000-of-00002"):
        read(directory)


@pytest.mark.parametrize("how", ["read", "stream"])
def test_the_names_of_the_features_are_known_after_training_data(how, prepared):
    config = DataConfig(dataset="elwc", data_dir=prepared)
    source = elwc_source.ElwcSource(config)
    getattr(source, how)("train", None, *([None] if how == "stream" else []))
    (feature,) = source.elwc_features.examples
    assert (feature.name, feature.width, feature.is_integer) == (
        "float_features",
        3,
        False,
    )
    assert source.elwc_features.context == ()
