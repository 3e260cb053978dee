"""The job for Kubernetes: fields that Kubeflow's operator reads, flags that exist."""

import shlex

import yaml

from pipelines.start import failures
from tests.docs import commands, pages
from tfr_ext.settings.training_config import TrainingConfig


def test_the_job_file():
    job = yaml.safe_load((pages.ROOT / "configs" / "tfjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["restartPolicy"] == "ExitCode" and worker["replicas"] > 1
    assert failures.STATUS_TO_TRY_AGAIN >= 128
    pod = worker["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 25  # interruption._TO_SAVE
    (container,) = pod["containers"]
    assert container["name"] == "tensorflow"
    line = shlex.join([*container["command"], *container["args"]])
    assert not any(commands.wrong_flags([("", line)]).values())
    flags = dict(x[2:].split("=") for x in container["args"])
    assert flags["strategy"] in ("multi_worker", "parameter_server")
    (mount,) = container["volumeMounts"]
    assert flags["model_dir"].startswith(mount["mountPath"])
    assert mount["name"] in [volume["name"] for volume in pod["volumes"]]
    assert {*flags} - {"flagfile"} <= {*TrainingConfig.__dataclass_fields__}
