"""Training with parameter servers: chief, workers and ps, a process each."""

import json
import os
import re
import signal
import socket
import time

import pytest
import tensorflow as tf

from tests.commands import SMALL, bad, free_ports, train
from tests.pipelines.task_processes import FLAGS, ended, history, started
from tfr_ext.core import which_keras
from tfr_ext.core.system import clusters
from tfr_ext.training import parameter_servers, served_fitter

# Gradients and their measures stay with the workers.
MORE = ("--noloss_diagnostics", "--early_stopping_patience=0", "--learning_rate=0.01")
CHIEF, WORKERS, PS = 0, (1, 2), 3

only_keras_2 = pytest.mark.skipif(
    not which_keras.IS_KERAS_2, reason="Keras 3 has no parameter servers"
)


def start(model, *flags, chief=("pipelines.train",)):
    """Starts a chief, two workers and a ps."""
    ports = [f"localhost:{port}" for port in free_ports(4)]
    cluster = {"chief": ports[:1], "worker": ports[1:3], "ps": ports[3:]}
    return [
        process
        for command, *tasks in (
            [chief, ("chief", 0)],
            [("pipelines.train",), ("worker", 0), ("worker", 1), ("ps", 0)],
        )
        for process in started(
            *(model, tasks, cluster, *command, *MORE, *flags),
            strategy="parameter_server",
        )
    ]


def wait_for(process, line):
    """Reads what a process prints, up to a line."""
    for text in process.stdout:
        if text.startswith(line):
            return
    pytest.fail(process.stderr.read()[-3000:])


def last_line(output):
    return output[1].strip().splitlines()[-1]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    directory = tmp_path_factory.mktemp("alone")
    train(*FLAGS, *MORE, "--num_epochs=12", f"--model_dir={directory}")
    return directory


def assert_as_good(directory, alone):
    """A validation metric near that of one process, after as many epochs."""
    (own, best), (expected, expected_best) = history(directory), history(alone)
    assert len(own["loss"]) == len(expected["loss"])
    metric = "val_ndcg_10"
    assert abs(own[metric][best - 1] - expected[metric][expected_best - 1]) < 0.06
    report = json.loads((directory / "metrics.json").read_text())
    # The metric that picked the best epoch is that of the model which is kept.
    assert report["valid"]["ndcg_10"] == pytest.approx(own[metric][best - 1], 1e-4)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--loss_schedule=alpha:linear:5", "--steps_per_execution=4"),
        ("--num_models=2", "--num_epochs=2"),
    ],
    ids=" ".join,
)
@pytest.mark.grid
@only_keras_2
def test_it_is_as_good_as_one_process_and_the_chief_writes(alone, tmp_path, flags):
    model = tmp_path / "model"
    outputs = ended(start(model, "--num_epochs=12", *flags))
    assert "Exported for serving" in outputs[CHIEF][0]
    for out, _ in outputs[1:]:
        assert re.fullmatch(r"Serving as (worker|ps) \d of TF_CONFIG, .*\n", out)
    if "--num_models=2" in flags:
        assert (model / "models" / "2" / "metrics.json").exists()
        return
    assert sorted(os.listdir(model)) == sorted(os.listdir(alone))
    assert_as_good(model, alone)


@pytest.mark.grid
@only_keras_2
def test_a_worker_is_killed_and_the_others_finish_or_name_it(alone, tmp_path):
    model = tmp_path / "model"
    processes = start(model, "--num_epochs=12")
    wait_for(processes[CHIEF], "Epoch 3/")
    processes[WORKERS[1]].kill()
    begin = time.monotonic()
    (output, errors) = processes[CHIEF].communicate(timeout=300)
    if processes[CHIEF].returncode:
        # Where the chief itself waits for that worker, such as for its first batch.
        assert processes[CHIEF].returncode == 138 and time.monotonic() - begin < 60
        assert "Error: Worker 1 of TF_CONFIG is gone" in errors
        ended([processes[i] for i in (WORKERS[0], PS)], 138)
        return
    ended([processes[i] for i in (WORKERS[0], PS)])
    assert "Warning: Worker 1 of TF_CONFIG is gone." in output
    assert_as_good(model, alone)


@pytest.mark.parametrize(
    ("victims", "name"), [([PS], "Ps 0"), (WORKERS, "Worker 0")], ids=["ps", "workers"]
)
@pytest.mark.grid
@only_keras_2
def test_without_a_ps_or_any_worker_all_end_and_go_on(tmp_path, victims, name):
    model = tmp_path / "model"
    processes = start(model, "--num_epochs=400")
    wait_for(processes[CHIEF], "Epoch 3/")
    for victim in victims:
        processes[victim].kill()
    begin = time.monotonic()
    outputs = ended([x for i, x in enumerate(processes) if i not in victims], 138)
    assert time.monotonic() - begin < 60
    assert last_line(outputs[0]).startswith(f"Error: {name} of TF_CONFIG is gone")
    for _, errors in outputs[1:]:
        assert "Error: Chief 0 of TF_CONFIG is gone" in errors
    processes = start(model, "--num_epochs=400")
    wait_for(processes[CHIEF], "Going on after epoch")
    for process in processes:
        process.kill()


@pytest.mark.grid
@only_keras_2
def test_sigterm_saves_in_the_middle_of_an_epoch(tmp_path):
    """A worker that gets it ends with 143, the chief saves, and all go on there."""
    model, flags = tmp_path / "model", ("--batch_size=1", "--num_epochs=4")
    on = "tfr_ext.training.checkpoints.ResumableTraining.on_train_batch_end"
    strike = ("tests.pipelines.interrupted", "SIGTERM", "on", on, "pipelines.train")
    chief, *servers = start(model, *flags, chief=strike)
    (output,) = ended([chief], 143)
    assert last_line(output) == "Stopped; the same command goes on."
    ended(servers, 138)
    processes = start(model, *flags)
    lines = []
    for text in processes[CHIEF].stdout:
        lines.append(text)
        if text.startswith("Epoch 2/"):
            break
    assert re.search(r"Going on after batch \d+ of epoch 1\.", "".join(lines))
    processes[PS].send_signal(signal.SIGTERM)
    ended(processes[PS:], 143)
    ended(processes[:PS], 138)


def tf_config(job="chief", index=0, **jobs):
    task = {"type": job, "index": index}
    return json.dumps({"cluster": jobs, "task": task})


ALL = {"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]}


@only_keras_2
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("", "It has: not set."),
        ("{", "TF_CONFIG must be JSON such as"),
        ("[]", "TF_CONFIG must be JSON such as"),
        (tf_config(chief=["localhost"]), "TF_CONFIG must be JSON such as"),
        (tf_config(chief=["localhost:70000"]), "TF_CONFIG must be JSON such as"),
        (tf_config("worker", 3, **ALL), "this process is worker 3, but lists only"),
        (tf_config(**{**ALL, "ps": []}), "It has: 1 chief, 1 worker."),
        (tf_config("worker", worker=["localhost:1"]), "It has: 1 worker."),
        (tf_config(**ALL, evaluator=["localhost:4"]), "1 evaluator."),
    ],
)
def test_a_cluster_for_something_else_is_refused(tmp_path, monkeypatch, config, told):
    monkeypatch.setenv(clusters.VARIABLE, config)
    message = bad(tmp_path, *SMALL, "--strategy=parameter_server")
    assert told in message and "TF_CONFIG" in message
    if "It has" in told:
        assert "--strategy=parameter_server needs a cluster of one chief" in message


@only_keras_2
@pytest.mark.parametrize("job", ["chief", "worker", "ps"])
def test_an_address_in_use_is_told(tmp_path, monkeypatch, job):
    with socket.create_server(("localhost", 0)) as other:
        address = f"localhost:{other.getsockname()[1]}"
        monkeypatch.setenv(clusters.VARIABLE, tf_config(job, **{**ALL, job: [address]}))
        message = bad(tmp_path, *SMALL, "--strategy=parameter_server")
    assert f"listens already at {address}, which TF_CONFIG gives {job} 0" in message


@pytest.mark.skipif(which_keras.IS_KERAS_2, reason="Keras 2 can")
def test_keras_3_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(clusters.VARIABLE, tf_config(**ALL))
    message = bad(tmp_path, *SMALL, "--strategy=parameter_server")
    assert "--strategy=parameter_server needs Keras 2" in message


@pytest.mark.parametrize(
    "flag",
    [
        "--loss_diagnostics",
        "--mixed_precision=float16",
        "--jit_compile",
        "--jit_compile_loss",
    ],
)
def test_what_does_not_go_with_servers_is_refused(tmp_path, flag):
    message = bad(tmp_path, *SMALL, "--strategy=parameter_server", flag)
    assert f"--strategy=parameter_server does not go with {flag}" in message


class EachBatch(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass


@only_keras_2
def test_a_callback_for_each_batch_is_refused():
    served_fitter.check_callbacks([tf.keras.callbacks.TerminateOnNaN()])
    with pytest.raises(ValueError, match="EachBatch of `callbacks` has one"):
        served_fitter.check_callbacks([EachBatch()])


def test_a_feed_that_cannot_start_says_why(monkeypatch):
    def fail(*_):
        raise RuntimeError("no port is left")

    monkeypatch.setattr(tf.data.experimental.service, "WorkerServer", fail)
    with pytest.raises(RuntimeError, match="no port is left"):
        parameter_servers.Feed(tf.data.Dataset.range(3), "localhost")
