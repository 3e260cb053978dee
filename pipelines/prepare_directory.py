"""The directory of prepared shards: whose they are, and how far they have come."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipelines import prepare_units
from tfr_ext import json_files
from tfr_ext.data import manifest

_PLAN_FILE = "plan.json"
_KINDS = {"tfr_ext": (str,), "flags": (dict,), "files": (dict,)}
_SHARD = re.compile(r"(train|valid|test)-\d{5}-of-\d{5}\.tfrecord")


def is_finished(directory: str, plan: Mapping[str, Any], overwrite: bool) -> bool:
    """Tells whether a directory has all shards of a plan, and else begins them there.

    Args:
        directory: where the shards go.
        plan: all that makes the shards what they are, as JSON has it: the version
            'tfr_ext', 'flags' and 'files' by name.
        overwrite: whether to remove what is there.

    Raises:
        ValueError: if it has shards of another plan.
    """
    work = os.path.join(directory, prepare_units.WORK_DIRECTORY)
    path = os.path.join(work, _PLAN_FILE)
    manifest_path = os.path.join(directory, manifest.FILE_NAME)
    if overwrite:
        if tf.io.gfile.exists(manifest_path):
            tf.io.gfile.remove(manifest_path)  # First: without it nothing is finished.
        _clear(directory, _SHARD.fullmatch)
        _clear(work, lambda name: True)
    finished = tf.io.gfile.exists(manifest_path)
    if tf.io.gfile.exists(path):
        then = json_files.read_object(path, "`pipelines.prepare`", _KINDS)
        differences = _differences(then, plan)
        if differences:
            raise ValueError(
                f"--output_dir={directory} has shards of something else:\n  "
                + "\n  ".join(differences)
                + "\nName another directory, or start anew with --overwrite."
            )
        if finished:
            print(f"The shards in {directory} are finished: there is nothing to do.")
            return True
        print(f"Going on with the shards in {directory}.")
        _clear(work, lambda name: name.endswith(".writing") or name == "error.json")
        return False
    if finished or any(map(_SHARD.fullmatch, _names(directory))):
        raise ValueError(
            f"--output_dir={directory} has shards, and no {_PLAN_FILE} that tells of "
            "what. Name another directory, or start anew with --overwrite."
        )
    _clear(work, lambda name: True)  # An --overwrite may have been killed.
    tf.io.gfile.makedirs(work)
    prepare_units.write_text(path, json.dumps(plan, indent=1))
    return False


def check_source(directory: str, files: Iterable[str]) -> None:
    """Checks that the source is not where its shards would take its place.

    Args:
        directory: where the shards go.
        files: the files of the source.

    Raises:
        ValueError: if a file is one that the shards, or --overwrite, would replace.
    """
    target = os.path.realpath(directory)
    for path in files:
        there, name = os.path.split(os.path.realpath(path))
        if there == target and _SHARD.fullmatch(name):
            raise ValueError(
                f"--output_dir={directory} is where the source is: {path}. Name "
                "another directory."
            )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line for each flag and file that is another now."""
    lines = []
    if then["tfr_ext"] != now["tfr_ext"]:
        lines.append(f"tfr_ext {then['tfr_ext']} then, {now['tfr_ext']} now")
    for kind, mark in (("flags", "--"), ("files", "")):
        for name in dict.fromkeys([*then[kind], *now[kind]]):
            old, new = (x[kind].get(name, "(not there)") for x in (then, now))
            if old == new:
                continue
            if mark:
                lines.append(f"--{name}={old} then, {new} now")
            else:
                lines.append(f"{name}: [bytes, time of change] {old} then, {new} now")
    return lines


def finish(directory: str, content: manifest.Manifest) -> None:
    """Writes the manifest, without which nothing is finished, and tidies up.

    Args:
        directory: where the shards are.
        content: what they hold.
    """
    path = os.path.join(directory, manifest.FILE_NAME)
    prepare_units.write_text(path, content.as_json())
    work = os.path.join(directory, prepare_units.WORK_DIRECTORY)
    _clear(work, lambda name: name != _PLAN_FILE)


def _clear(directory: str, is_ours: Callable[[str], Any]) -> None:
    """Removes files of a directory."""
    for name in _names(directory):
        if is_ours(name):
            tf.io.gfile.remove(os.path.join(directory, name))


def _names(directory: str) -> list[str]:
    """Returns what is in a directory, if it is there."""
    return tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
