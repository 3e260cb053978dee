"""What a dataset holds is there as long as the dataset, and no longer."""

import gc
import subprocess
import sys
import textwrap
import threading
import types
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.data.batches import batch_datasets
from tfr_ext.data.elwc import writing


def in_memory(tmp_path):
    return data.BatchedLists(make_lists([3, 1, 4, 2]), 2, seed=1)


def streamed(tmp_path):
    path = str(tmp_path / "train.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in writing.encode(make_lists([3, 1, 4, 2])):
            writer.write(record)
    return data.StreamedBatches(data.StreamedLists([path]), 2, seed=1)


def labels_of(dataset):
    return [labels.numpy() for _, labels, *_ in dataset]


def distributed(dataset):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    return strategy.experimental_distribute_dataset(dataset)


def served(dataset):
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    target = dispatcher.target.rpartition("://")[2]
    worker = service.WorkerServer(service.WorkerConfig(target))
    from_service = dataset.apply(
        service.distribute("parallel_epochs", dispatcher.target)
    )
    from_service.server = dispatcher, worker, dataset
    return from_service


@pytest.mark.parametrize("batches", [in_memory, streamed])
def test_nothing_stays_after_a_dataset(tmp_path, batches):
    made = batches(tmp_path)
    lists = weakref.ref(made._lists)
    dataset = made.dataset().map(lambda *batch: batch)
    assert len(labels_of(dataset)) == made.num_batches
    del made, dataset
    gc.collect()
    assert lists() is None


def mapped(dataset):
    return dataset.map(lambda *batch: batch)


@pytest.mark.parametrize(
    ("batches", "change"),
    [
        (in_memory, distributed),
        (streamed, mapped),
        (streamed, served),
        pytest.param(in_memory, mapped, marks=pytest.mark.grid),
        pytest.param(in_memory, served, marks=pytest.mark.grid),
        pytest.param(streamed, distributed, marks=pytest.mark.grid),
    ],
)
def test_datasets_and_iterators_hold_what_they_need(tmp_path, batches, change):
    expected = labels_of(batches(tmp_path).dataset())
    iterator = iter(change(batches(tmp_path).dataset()))
    gc.collect()
    found = [batch[1].numpy() for batch in iterator]
    assert len(found) == len(expected) > 1
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def test_datasets_of_the_same_shapes_give_their_own_batches():
    """They share the graph that asks for a batch, also for epochs in turn."""

    def two():
        lists = [make_lists([3, 1, 4, 2], seed=seed) for seed in (1, 2)]
        return [data.BatchedLists(one, 2, seed=1).dataset() for one in lists]

    expected, datasets = [labels_of(dataset) for dataset in two()], two()
    assert datasets[0].element_spec == datasets[1].element_spec
    for number, pair in enumerate(zip(*datasets)):
        for batch, wanted in zip(pair, expected):
            np.testing.assert_array_equal(batch[1], wanted[number])
    assert number + 1 == len(expected[0]) == len(expected[1])


# A batch that waits for a thread of Python, which stops when the interpreter ends.
WAITING = textwrap.dedent(
    """
    import threading
    import time

    import numpy as np
    import tensorflow as tf

    from tfr_ext.data.batches.batch_datasets import dataset_of

    def batch(iteration, number):
        slow = threading.Event()
        run = lambda: (time.sleep(0.3), slow.set())
        threading.Thread(target=run, daemon=True).start()
        if number:
            slow.wait()
        return np.float32([number])

    iterator = iter(dataset_of(lambda: 0, batch, 9, tf.TensorSpec([1], tf.float32)))
    print(next(iterator).numpy())
    """
)


def test_a_process_ends_while_batches_are_made():
    done = subprocess.run(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "[0.]\n")


def test_the_end_waits_for_a_thread_that_has_just_left(monkeypatch):
    """It asks for the next batch in a moment, and must not be in Python by then."""
    monkeypatch.setattr(batch_datasets._Calls, "ending", False)
    begun, end, has_ended, begin_next = (threading.Event() for _ in range(4))

    def batch(iteration, number):
        begun.set()
        assert end.wait(60)
        return [iteration]

    monkeypatch.setitem(batch_datasets._FUNCTIONS, -1, batch)

    def ask():
        batch_datasets._call(-1, 0, 0)
        has_ended.set()
        assert begin_next.wait(60)
        with pytest.raises(StopIteration):
            batch_datasets._call(-1, 0, 1)

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(60)

    def sleep(seconds):
        if not has_ended.is_set():
            end.set()
            assert has_ended.wait(60)
        else:
            begin_next.set()
            thread.join(60)

    monkeypatch.setattr(batch_datasets, "time", types.SimpleNamespace(sleep=sleep))
    batch_datasets._end_calls()
    assert not thread.is_alive()
