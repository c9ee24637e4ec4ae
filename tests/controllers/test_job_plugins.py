"""What plugins of Jobs add to pods, and what they make."""

import json
from base64 import b64decode
from typing import Any

import msgspec
import pytest

from pumice.controllers.job.defaults import with_defaults
from pumice.controllers.job.plugins import job_plugins
from pumice.controllers.job.pods import pod_body
from pumice.controllers.job.types import Job, JobSpec
from tests.controllers.jobs import job, task


def read(body: dict[str, Any]) -> tuple[Job, JobSpec]:
    body["metadata"]["uid"] = "u"
    made = msgspec.json.decode(msgspec.json.encode(body), type=Job)
    return made, with_defaults(made.spec, "volcano")


def pod(body: dict[str, Any], task_name: str, index: int = 0) -> dict[str, Any]:
    made, spec = read(body)
    found = next(one for one in spec.tasks or () if one.name == task_name)
    return pod_body(made, spec, found, index, is_forwarded=False)


def env(body: dict[str, Any]) -> dict[str, str]:
    variables = body["spec"]["containers"][0].get("env", [])
    return {one["name"]: one.get("value", "") for one in variables}


def objects(body: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    made, spec = read(body)
    return {
        (one.resource.name, one.name): one.complete() if one.complete else one.body
        for _, plugin in job_plugins(spec)
        for one in plugin.objects(made, spec)
    }


def test_env_tells_the_index() -> None:
    found = env(pod(job(plugins={"env": []}), "work", 1))
    assert found == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


def test_svc_names_the_hosts() -> None:
    body = job("j", task("a-b", 2), task("c", 1), plugins={"svc": []})
    made = objects(body)
    assert set(made) == {("ConfigMap", "j-svc"), ("Service", "j"), ("NetworkPolicy", "j")}
    data = made["ConfigMap", "j-svc"]["data"]
    assert data["VC_A_B_HOSTS"] == "j-a-b-0.j,j-a-b-1.j"
    assert data["VC_A_B_NUM"] == "2"
    assert data["c.host"] == "j-c-0.j"
    assert made["Service", "j"]["spec"]["clusterIP"] == "None"
    found = pod(body, "a-b")
    assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == ("j-a-b-0", "j")
    assert set(env(found)) == {"VC_A_B_HOSTS", "VC_A_B_NUM", "VC_C_HOSTS", "VC_C_NUM"}
    mounts = found["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "j-svc", "mountPath": "/etc/volcano"}]


def test_svc_obeys_its_arguments() -> None:
    arguments = ["--disable-network-policy=true", "--inject-hosts-env=false",
                 "--publish-not-ready-addresses"]  # fmt: skip
    body = job("j", plugins={"svc": arguments})
    made = objects(body)
    assert ("NetworkPolicy", "j") not in made
    assert made["Service", "j"]["spec"]["publishNotReadyAddresses"] is True
    assert env(pod(body, "work")) == {}


def test_ssh_makes_keys_that_fit_each_other() -> None:
    from cryptography.hazmat.primitives import serialization as s

    made = objects(job("j", plugins={"ssh": ["--ssh-port=2222"]}))
    data = {k: b64decode(v) for k, v in made["Secret", "j-ssh"]["data"].items()}
    key = s.load_pem_private_key(data["id_rsa"], None)
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    assert data["id_rsa.pub"] == data["authorized_keys"] == public + b"\n"
    assert b"Host j-work-1\n  HostName j-work-1.j\n  Port 2222\n" in data["config"]
    volume = pod(job("j", plugins={"ssh": []}), "work")["spec"]["volumes"][0]
    assert volume["secret"]["defaultMode"] == 0o600


def test_ssh_takes_keys_that_are_given() -> None:
    arguments = ["--ssh-private-key=a", "--ssh-public-key=b", "--ssh-key-file-path=/home/x/.ssh"]
    body = job("j", plugins={"ssh": arguments})
    data = objects(body)["Secret", "j-ssh"]["data"]
    assert (b64decode(data["id_rsa"]), b64decode(data["authorized_keys"])) == (b"a", b"b")
    made = pod(body, "work")["spec"]
    assert made["volumes"][0]["secret"]["defaultMode"] == 0o644
    mount = made["containers"][0]["volumeMounts"][0]
    assert (mount["mountPath"], mount["subPath"]) == ("/home/x/.ssh", ".ssh")


def test_pytorch_sets_master_world_and_rank() -> None:
    body = job("j", task("master", 1), task("worker", 2), plugins={"pytorch": ["--port=1"]})
    common = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "1", "WORLD_SIZE": "3"}
    assert common.items() <= env(pod(body, "master")).items()
    assert env(pod(body, "master"))["RANK"] == "0"
    assert env(pod(body, "worker", 1))["RANK"] == "2"
    several = job("job", task("master", 2), task("worker", 2), plugins={"pytorch": []})
    ranks = [env(pod(several, name, n))["RANK"] for name in ("master", "worker") for n in (0, 1)]
    assert ranks == ["0", "1", "2", "3"]
    ports = pod(body, "worker")["spec"]["containers"][0]["ports"]
    assert ports == [{"name": "pytorchjob-port", "containerPort": 1}]
    assert "initContainers" not in pod(body, "worker")["spec"]


def test_pytorch_workers_can_wait_for_the_master() -> None:
    plugins = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout", "9"]}
    body = job("j", task("master", 1), task("worker", 1), plugins=plugins)
    wait = pod(body, "worker")["spec"]["initContainers"][0]
    assert (wait["name"], wait["image"]) == ("wait-for-master", "busybox:1.36.1")
    assert "nc -z j-master-0.j 23456" in wait["command"][2]
    assert "left=9" in wait["command"][2]
    # The API server refuses a container without a name, and says so.
    body["spec"]["tasks"][1]["template"]["spec"]["initContainers"] = [{"image": "nameless"}]
    assert len(pod(body, "worker")["spec"]["initContainers"]) == 2


def test_tensorflow_describes_the_cluster() -> None:
    body = job("j", task("ps", 1), task("worker", 2), plugins={"tensorflow": []})
    config = json.loads(env(pod(body, "worker", 1))["TF_CONFIG"])
    assert config == {
        "cluster": {"ps": ["j-ps-0.j:2222"], "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    alone = job("j", task("worker", 1), plugins={"tensorflow": []})
    assert "TF_CONFIG" not in env(pod(alone, "worker"))


def test_mpi_tells_masters_the_hosts_of_workers() -> None:
    body = job("j", task("master", 1), task("worker", 2), plugins={"mpi": []})
    assert env(pod(body, "master"))["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
    assert "MPI_HOST" not in env(pod(body, "worker"))
    assert ("Secret", "j-ssh") in objects(body)
    assert {"name": "mpijob-port", "containerPort": 22} in pod(body, "worker")["spec"][
        "containers"
    ][0]["ports"]


def test_ray_starts_head_and_workers() -> None:
    tasks = [task("head", 1), task("worker", 1)]
    for one in tasks:
        one["template"]["spec"]["containers"][0]["name"] = one["name"]
    body = job("j", *tasks, plugins={"ray": []})
    head = pod(body, "head")["spec"]["containers"][0]
    assert head["command"][2].startswith("ray start --head --block --dashboard-host=0.0.0.0")
    assert [port["name"] for port in head["ports"]] == ["gcs", "dashboard", "client-server"]
    worker = pod(body, "worker")["spec"]["containers"][0]
    assert worker["command"][2] == "ray start --block --address=j-head-0.j:6379"
    service = objects(body)["Service", "j-head-svc"]
    assert [port["port"] for port in service["spec"]["ports"]] == [6379, 8265, 10001]
    with pytest.raises(ValueError, match="no task 'head'"):
        pod(job("j", task("worker", 1), plugins={"ray": []}), "worker")


def test_hcclrank_reads_the_rank_of_pytorch() -> None:
    plugins: dict[str, list[str]] = {"hcclrank": [], "pytorch": []}
    body = job("j", task("master", 1), task("worker", 2), plugins=plugins)
    assert pod(body, "worker", 1)["metadata"]["annotations"]["hccl/rankIndex"] == "2"


def test_a_wrong_argument_has_a_problem_and_an_unknown_plugin_is_refused() -> None:
    _, spec = read(job(plugins={"svc": ["--no-such"], "mpi": ["--port=x"]}))
    problems = {name: plugin.problem for name, plugin in job_plugins(spec)}
    assert "unknown argument '--no-such'; allowed: --publish" in problems["svc"]
    assert problems["mpi"] == "--port=x is not a number"
    assert problems["ssh"] == ""
    with pytest.raises(ValueError, match="unknown plugin 'xyz'; allowed: env, svc"):
        list(job_plugins(read(job(plugins={"xyz": []}))[1]))


def test_a_pod_has_what_volcano_gives_it() -> None:
    body = job("j", task("t", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}),
               priorityClassName="high")  # fmt: skip
    body["metadata"]["annotations"] = {"volcano.sh/preemptable": "true", "mine": "x"}
    body["metadata"]["labels"] = {"volcano.sh/cooldown-time": "5s"}
    made = pod(body, "t", 3)
    assert made["metadata"]["labels"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/job-name": "j",
        "volcano.sh/task-spec": "t",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "default",
        "volcano.sh/cooldown-time": "5s",
        "volcano.sh/partition-id": "1",
    }
    assert made["metadata"]["annotations"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "t",
        "scheduling.k8s.io/group-name": "j-u",
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "j-t",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/preemptable": "true",
    }
    assert made["spec"]["priorityClassName"] == "high"
