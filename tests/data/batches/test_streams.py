"""Streamed lists: what an epoch has, its order, and what is in memory meanwhile."""

import dataclasses
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from tests.commands import ROOT
from tests.elwc_files import protos, write
from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.data.batches import streamed_batches, streams
from tfr_ext.training import lists_datasets


@pytest.fixture
def small_runs(monkeypatch):
    """Pieces of 3 lists and runs of 2 batches, so that few lists make many."""
    monkeypatch.setattr(streams, "_LISTS_PER_PIECE", 3)
    monkeypatch.setattr(streamed_batches, "_RUN_BATCHES", 2)


def spread(tmp_path, lists, count, kind=""):
    """Writes lists to some files, one after the other."""
    parts = np.array_split(np.arange(lists.num_lists), count)
    return [
        write(tmp_path / f"s-{k}", protos(lists.select(part)), kind)
        for k, part in enumerate(parts)
    ]


def lists_of(dataset):
    """The labels and first features of each list, batch by batch."""
    batches = []
    for features, labels in dataset:
        x, mask = features["float_features"].numpy(), features["mask"].numpy()
        y = labels.numpy()
        assert (y[~mask] == -1).all() and not x[~mask].any()
        batches.append(
            [
                tuple(zip(row_x[m][:, 0].tolist(), row_y[m].tolist()))
                for row_x, row_y, m in zip(x, y, mask)
            ]
        )
    return batches


def expected_lists(lists):
    splits = lists.row_splits
    return sorted(
        tuple(zip(lists.features[a:b, 0].tolist(), lists.labels[a:b].tolist()))
        for a, b in zip(splits, splits[1:])
    )


LENGTHS = np.random.default_rng(0).integers(1, 9, 53)


@pytest.mark.parametrize("num_files", [1, 2, 7])
@pytest.mark.parametrize("max_padding", [None, 1.05])
def test_an_epoch_has_every_list_once(tmp_path, small_runs, num_files, max_padding):
    lists = make_lists(LENGTHS)
    streamed = data.StreamedLists(spread(tmp_path, lists, num_files))
    batched = data.StreamedBatches(streamed, 4, seed=3, max_padding=max_padding)
    # Passes may have other numbers of batches: an epoch is then not a pass.
    dataset = batched.dataset()
    stream = itertools.chain.from_iterable(lists_of(dataset) for _ in range(3))
    flat = list(itertools.chain.from_iterable(stream))
    for number in range(2):
        part = flat[number * 53 : (number + 1) * 53]
        assert sorted(part) == expected_lists(lists)
    assert flat[:53] != flat[53:106]
    assert dataset.cardinality() == batched.num_batches >= 14
    if max_padding is None:
        assert batched.num_batches == 14  # ceil(53 / 4): only the last is not full.


@pytest.mark.grid
def test_the_order_depends_on_seed_and_epoch_only(tmp_path, small_runs):
    files = spread(tmp_path, make_lists(LENGTHS), 5)

    def epochs(seed, start, count, **options):
        streamed = data.StreamedLists(files)
        batched = data.StreamedBatches(streamed, 4, seed=seed, **options)
        batched.epoch = start
        dataset = batched.dataset()
        return [lists_of(dataset) for _ in range(count)]

    for options in ({}, {"max_padding": 1.02}):
        whole = epochs(1, 0, 4, **options)
        assert epochs(1, 2, 2, **options) == whole[2:]
        assert epochs(2, 0, 1, **options) != whole[:1]
        assert whole[0] != whole[1]


def test_files_are_mixed_and_runs_bounded(tmp_path, small_runs, monkeypatch):
    lists = make_lists([1] * 60)
    lists = dataclasses.replace(lists, labels=np.repeat(np.float32(range(6)), 10))
    streamed = data.StreamedLists(spread(tmp_path, lists, 6))
    runs = []
    whole = streamed_batches._Run.whole
    monkeypatch.setattr(
        streamed_batches._Run, "whole", lambda x: runs.append(whole(x)) or runs[-1]
    )
    batched = data.StreamedBatches(streamed, 6, seed=0)
    runs.clear()
    assert sum(map(len, lists_of(batched.dataset()))) == 60
    assert [run.num_lists for run in runs] == [12] * 5
    assert len(set(runs[0].labels.tolist())) == 4  # Four files at a time.


def test_one_run_of_one_file_is_what_lists_in_memory_give(tmp_path):
    lists = make_lists(LENGTHS)
    files = spread(tmp_path, lists, 1)
    sampled = data.BinomialLabels(max_label=3.0, seed=5, per_epoch=True)
    for options in (
        {},
        {"max_padding": 1.1},
        {"num_grades": 4},
    ):
        streamed = data.StreamedBatches(data.StreamedLists(files), 8, 5, **options)
        memory = data.BatchedLists(lists, 8, 5, **options)
        assert streamed.num_batches == memory.num_batches
        assert streamed.padding_waste() == memory.padding_waste()
        for _ in range(2):
            for mine, theirs in zip(streamed.dataset(), memory.dataset()):
                np.testing.assert_array_equal(mine[1], theirs[1])
                for name in theirs[0]:
                    np.testing.assert_array_equal(mine[0][name], theirs[0][name])
    assert sampled.of_piece(0) == sampled != sampled.of_piece(1)


def test_what_the_first_pass_learns(tmp_path, small_runs):
    lists = make_lists(LENGTHS, num_features=5)
    streamed = data.StreamedLists(spread(tmp_path, lists, 3, "GZIP"))
    for name in (
        "num_lists",
        "num_items",
        "num_features",
        "num_grades",
        "max_label",
        "num_empty",
        "label_counts",
    ):
        assert getattr(streamed, name) == getattr(lists, name), name
    np.testing.assert_array_equal(streamed.lengths, lists.lengths)
    assert lists.num_empty > 0


def test_many_different_labels(tmp_path):
    lists = make_lists([1500], labels=np.random.default_rng(0).uniform(0, 9, 1500))
    counts = data.StreamedLists(spread(tmp_path, lists, 1)).label_counts
    assert 1000 <= len(counts) <= 1002
    assert max(counts) == lists.labels.max() and min(counts) == lists.labels.min()


def test_sampled_labels(tmp_path, small_runs):
    """Items keep their draws with per_epoch=False, whatever the order."""
    lists = make_lists([2] * 40, labels=[1.0] * 80)
    streamed = data.StreamedLists(spread(tmp_path, lists, 3))
    sampled = data.BinomialLabels(num_trials=8, max_label=2.0, seed=1)
    seen = []
    for per_epoch in (False, True):
        transform = dataclasses.replace(sampled, per_epoch=per_epoch)
        batched = data.StreamedBatches(streamed, 4, 7, label_transform=transform)
        dataset = batched.dataset()
        seen += [sorted(sum(lists_of(dataset), [])) for _ in range(2)]
    assert seen[0] == seen[1] and seen[2] != seen[3]
    labels = [y for row in seen[0] for _, y in row]
    assert len(set(labels)) > 4 and abs(np.mean(labels) - 1) < 0.15
    # Pieces do not share their draws.
    pieces = [piece.labels.tolist() for piece in streamed.pieces(0, sampled)]
    assert pieces[0] != pieces[1]
    low = data.BinomialLabels(max_label=0.5)
    with pytest.raises(ValueError, match="from 0 to `max_label`"):
        data.StreamedBatches(streamed, 4, 7, label_transform=low)


def test_label_distributions(tmp_path, small_runs):
    lists = make_lists([2, 3, 4], labels=[0, 1, 2, 0, 0, 1, 2, 2, 1])
    streamed = data.StreamedLists(spread(tmp_path, lists, 2))
    batched = data.StreamedBatches(streamed, 4, 0, num_grades=3)
    for features, labels in batched.dataset():
        assert labels.shape[2] == 3
        one = labels.numpy()[features["mask"].numpy()]
        assert (one.sum(axis=1) == 1).all()
    with pytest.raises(ValueError, match="integers from 0 to 1"):
        data.StreamedBatches(streamed, 4, 0, num_grades=2)
    with pytest.raises(ValueError, match="not grades"):
        data.StreamedBatches(
            streamed, 4, 0, num_grades=3, label_transform=data.BinomialLabels()
        )
    shares = np.full([9, 2], 0.5, np.float32)
    lists = dataclasses.replace(lists, label_distributions=shares)
    streamed = data.StreamedLists(spread(tmp_path, lists, 2))
    assert streamed.num_grades == 2
    with pytest.raises(ValueError, match="3 grades.*over 2"):
        data.StreamedBatches(streamed, 4, 0, num_grades=3)


def test_lists_are_cut_alike_in_each_pass(tmp_path, small_runs):
    lists = make_lists(LENGTHS)

    def cut(piece, number):
        return data.truncate(piece, 3, seed=number)[0]

    streamed = data.StreamedLists(spread(tmp_path, lists, 3), transform=cut)
    assert streamed.num_items == np.minimum(LENGTHS, 3).sum()
    dataset = data.StreamedBatches(streamed, 4, seed=0).dataset()
    one, other = (sorted(sum(lists_of(dataset), [])) for _ in range(2))
    assert one == other and max(map(len, one)) == 3


def test_errors_come_before_training(tmp_path, small_runs):
    files = spread(tmp_path, make_lists(LENGTHS), 3)
    content = pathlib.Path(files[2]).read_bytes()
    pathlib.Path(files[2]).write_bytes(content[:-3])
    with pytest.raises(data.DataFormatError, match="record 17: .*whole TFRecord"):
        data.StreamedLists(files)
    with pytest.raises(ValueError, match="`batch_size`"):
        data.StreamedBatches(data.StreamedLists(files[:2]), 0, 0)


def test_training_takes_a_stream(tmp_path):
    lists = make_lists(LENGTHS)
    streamed = data.StreamedLists(spread(tmp_path, lists, 2))
    datasets = lists_datasets.ListsDatasets(streamed, lists, 16, seed=1)
    assert isinstance(datasets.train, data.StreamedBatches)
    assert sum(len(y) for _, y in datasets.batches_of([0])) == 53


PEAK = """
import re, sys
from tfr_ext import data
files = sys.argv[1].split(",")
lists = data.StreamedLists(files)
for _ in data.StreamedBatches(lists, 16, seed=0).dataset():
    pass
# Not getrusage's peak, which may be that of the process that started this one.
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


@pytest.mark.grid
def test_memory_does_not_grow_with_the_number_of_files(tmp_path):
    """Of lists in memory, four more files would add 120 MB."""
    records = protos(make_lists([50] * 512, num_features=300))
    for record in records:
        record.ClearField("context")  # Names after file and record.
    files = [write(tmp_path / "s-0", records)]
    for k in range(1, 8):
        files.append(str(shutil.copy(files[0], tmp_path / f"s-{k}")))
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", PEAK, ",".join(files[:count])],
                check=True,
                capture_output=True,
                cwd=ROOT,
            ).stdout
        )
        >> 10
        for count in (4, 8)
    ]
    assert peaks[1] - peaks[0] < 80, peaks


def test_later_passes_need_no_file(tmp_path, small_runs):
    lists = make_lists(LENGTHS)
    files = spread(tmp_path, lists, 2)
    streamed = data.StreamedLists(files)
    for file in files:
        os.remove(file)
    dataset = data.StreamedBatches(streamed, 4, seed=0).dataset()
    for _ in range(2):
        assert sorted(sum(lists_of(dataset), [])) == expected_lists(lists)


def test_a_full_disk_is_told(tmp_path):
    """In a process of its own, which can write no file of more than 4 KB."""
    files = spread(tmp_path, make_lists([50] * 8, num_features=10), 1)
    code = (
        "import resource, signal, sys\n"
        "from tfr_ext import data\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "data.StreamedLists(sys.argv[1:])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *files],
        capture_output=True,
        cwd=ROOT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert "OSError" in last and "TMPDIR" in last and str(tmp_path) in last
    assert sorted(map(str, tmp_path.iterdir())) == files


def test_a_label_that_is_no_grade_is_found_among_many(tmp_path, small_runs):
    labels = [*range(1100), 0.5, 1500]
    lists = make_lists([len(labels)], labels=labels, num_features=1)
    streamed = data.StreamedLists(spread(tmp_path, lists, 1))
    with pytest.raises(ValueError, match="integers from 0 to 1500.*a label 0.5"):
        data.StreamedBatches(streamed, 4, 0, num_grades=1501)


def test_memory_is_at_most_that_of_four_runs(tmp_path, monkeypatch):
    lists = make_lists([50] * 256, num_features=200)
    streamed = data.StreamedLists(spread(tmp_path, lists, 2))
    monkeypatch.setattr(streamed_batches, "_RUN_BATCHES", 16)
    run = 4 * 16 * 50 * 200 * 4  # bytes of features
    batches = data.StreamedBatches(streamed, 4, seed=0).dataset()
    consumed = iter(batches)
    next(consumed)
    tracemalloc.start()
    for _ in consumed:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * run
