"""The emitters for DeepSpeed, Horovod, Kubernetes, Ray, SkyPilot, torchx and TPUs.

The texts in tests/launch_golden were tried with the tools themselves: docs/launch-frameworks.md says how.
`python -m tests.test_launch_emitters_elsewhere` writes them anew; read the diff.
"""

import ast
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from gpudoctor.launch import parts
from gpudoctor.launch.parts import job_name
from gpudoctor.launch.plan import CannotEmit, Emission, EnvVariable, LaunchPlan, NodePlan
from gpudoctor.launch.text import place
from gpudoctor.launch.words import Unquotable
from gpudoctor.launch.write import emission
from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule
from tests.lab.requirements import require

GOLDEN = Path(__file__).parent / "launch_golden"
FRAMEWORKS = sorted(path.stem for path in GOLDEN.iterdir())
IN_SHELL = ("deepspeed", "horovod", "torchx")
"""Whose blocks hold the program's words."""

printable = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=12)


def planned(**changes: Any) -> LaunchPlan:
    nodes = tuple(
        NodePlan(rank=rank, name=f"n{rank + 1}", address=f"10.0.0.{rank + 1}", processes=4) for rank in range(3)
    )
    plan = LaunchPlan(
        framework="torchrun",
        nodes=nodes,
        master_address="10.0.0.1",
        master_name="n1",
        master_port=61234,
        program=("train.py", "--lr", "0.1"),
        environment=(
            EnvVariable("OMP_NUM_THREADS", "4", "16 CPUs for 4 processes"),
            EnvVariable("NCCL_SOCKET_IFNAME", "=eth0", "the interface with the default route"),
        ),
        cpus_per_process=4,
    )
    return msgspec.structs.replace(plan, **changes)


def emitted(framework: str, plan: LaunchPlan) -> Emission:
    return emission(msgspec.structs.replace(plan, framework=framework))


def shown(found: Emission) -> str:
    """All of an emission as one text."""
    lines = [f"[{block.title}]\n{block.text}" for block in found.blocks]
    lines += [f"[file {file.name}{', alternative' if file.alternative else ''}]\n{file.text}" for file in found.files]
    lines += [f"[code]\n{found.code}"] if found.code else []
    return "\n".join([*lines, "[notes]", *found.notes]) + "\n"


def word_lists(text: str) -> list[list[str]]:
    """The words of each line that is no comment."""
    return [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]


def scripts(found: Emission) -> list[str]:
    """Everything that a shell reads."""
    return [*(block.text for block in found.blocks), *(file.text for file in found.files if file.name.endswith(".sh"))]


def documents(found: Emission, ending: str) -> list[Any]:
    (text,) = [file.text for file in found.files if file.name.endswith(ending)]
    return list(yaml.safe_load_all(text))


def write_golden() -> None:
    """The texts as they are now."""
    GOLDEN.mkdir(exist_ok=True)
    for framework in FRAMEWORKS:
        (GOLDEN / f"{framework}.txt").write_text(shown(emitted(framework, planned())), encoding="utf-8")


# --- all of them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_text_is_that_which_was_tried(framework: str) -> None:
    assert shown(emitted(framework, planned())) == (GOLDEN / f"{framework}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("count", [1, 2])
def test_blocks_are_shell(framework: str, count: int) -> None:
    bash = shutil.which("bash")
    require(bash, "no bash")
    found = emitted(framework, planned(nodes=planned().nodes[:count], program=("my train.py", "a b", "$HOME", "it's")))
    for text in scripts(found):
        done = subprocess.run([str(bash), "-n"], input=text, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, ""), text


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_code_and_python_files_parse(framework: str) -> None:
    found = emitted(framework, planned())
    for text in (found.code, *(file.text for file in found.files if file.name.endswith(".py"))):
        ast.parse(text)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_line_break_is_refused_with_a_reason(framework: str) -> None:
    with pytest.raises((Unquotable, CannotEmit), match=r"line break|pdsh"):
        emitted(framework, planned(program=("train.py", "a\nb"), versions={"deepspeed": "0.14.0"}))


@pytest.mark.parametrize("framework", ["kubernetes", "ray", "skypilot", "torchx"])
def test_nodes_with_different_gpus_are_refused(framework: str) -> None:
    first, *rest = planned().nodes
    uneven = (msgspec.structs.replace(first, processes=2), *rest)
    with pytest.raises(CannotEmit, match=r"n1 2, n2 4, n3 4.*--gpus-per-node 2"):
        emitted(framework, planned(nodes=uneven))


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "torchx"])
def test_elastic_is_refused_where_it_is_not_emitted(framework: str) -> None:
    with pytest.raises(CannotEmit, match="--elastic"):
        emitted(framework, planned(elastic=(2, 3)))


@pytest.mark.parametrize("framework", ["kubernetes", "skypilot"])
def test_names_of_these_machines_interfaces_stay_here(framework: str) -> None:
    found = emitted(framework, planned())
    assert not any("NCCL_SOCKET_IFNAME" in file.text for file in found.files)
    assert any("NCCL_SOCKET_IFNAME left out" in note for note in found.notes)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_preset_of_ranks(framework: str) -> None:
    """LOCAL_RANK, RANK and WORLD_SIZE are the launcher's to set."""
    found = emitted(framework, planned())
    texts = [*(block.text for block in found.blocks), *(file.text for file in found.files)]
    assert not any(re.search(r"\b(LOCAL_RANK|RANK|WORLD_SIZE)=", text) for text in texts)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_lint_finds_no_error_in_any_of_it(framework: str, count: int) -> None:
    """What is printed as one text, and each other file by itself."""
    found = emitted(framework, planned(nodes=planned().nodes[:count]))
    facts = LintFacts(nodes=count, gpus_per_node=4, versions={"torch": "2.13.0"})
    printed = [f"#@ file {file.name}\n{file.text}" for file in found.files if not file.alternative]
    printed += [block.text if block.node is None else f"#@ node {block.node}\n{block.text}" for block in found.blocks]
    others = [file.text for file in found.files if file.name.endswith((".yaml", ".sh"))]
    for text in ("".join(printed), *others):
        report = lint(read_job(text, facts), every_rule())
        assert report.verdict == "ok", (text, report.problems)


# --- quoting ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(printable, max_size=4), st.sampled_from(IN_SHELL))
def test_shell_reads_back_the_planned_words(arguments: list[str], framework: str) -> None:
    plan = planned(program=("train.py", *arguments))
    try:
        found = emitted(framework, plan)
    except (CannotEmit, Unquotable):
        return
    wanted = [each.replace("$", "$$") for each in arguments] if framework == "torchx" else arguments
    for text in scripts(found):
        (words,) = word_lists(text)
        assert words[len(words) - len(wanted) :] == wanted
        if framework != "torchx":
            assert words[len(words) - len(wanted) - 1] == "train.py"


@settings(max_examples=40, deadline=None)
@given(st.lists(printable, max_size=4))
def test_a_tpus_workers_read_back_the_planned_words(arguments: list[str]) -> None:
    """Two shells read them: this one, and that of each worker."""
    try:
        found = emitted("xla", planned(program=("train.py", *arguments)))
    except Unquotable:
        return
    start = word_lists(found.blocks[0].text)[-1]
    remote = shlex.split(start[-1].removeprefix("--command="))
    assert remote == ["PJRT_DEVICE=TPU", "python", "train.py", *arguments]


@settings(max_examples=60, deadline=None)
@given(st.lists(printable, max_size=4))
def test_manifests_and_tasks_hold_the_planned_words(arguments: list[str]) -> None:
    plan = planned(program=("train.py", *arguments))
    try:
        found = emitted("kubernetes", plan)
    except Unquotable:
        return
    doubled = [each.replace("$", "$$") for each in arguments]
    for command in commands(found):
        assert command[len(command) - len(doubled) - 1 :] == ["train.py", *doubled]
    (task,) = documents(emitted("skypilot", plan), ".sky.yaml")
    words = shlex.split(task["run"].splitlines()[-1])
    assert words[len(words) - len(arguments) - 1 :] == ["train.py", *arguments]


@settings(max_examples=60, deadline=None)
@given(st.lists(printable, max_size=4))
def test_rays_program_gets_the_planned_words(arguments: list[str]) -> None:
    try:
        found = emitted("ray", planned(program=("train.py", *arguments)))
    except Unquotable:
        return
    tree = ast.parse(found.files[0].text)
    lists = [
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
    ]
    assert lists == [["train.py", *arguments]]


@settings(max_examples=40, deadline=None)
@given(printable, printable)
def test_values_of_variables_come_through(value: str, reason: str) -> None:
    plan = planned(environment=(EnvVariable("TORCH_NCCL_NOTE", value, reason),))
    for framework in ("horovod", "kubernetes", "skypilot", "ray"):
        try:
            found = emitted(framework, plan)
        except Unquotable:
            continue
        if framework == "horovod":
            assert f"TORCH_NCCL_NOTE={value}" in word_lists(found.blocks[0].text)[0]
        elif framework == "kubernetes":
            (container,) = pods(found)[0]["containers"]
            assert container["env"] == [{"name": "TORCH_NCCL_NOTE", "value": value.replace("$", "$$")}]
        elif framework == "skypilot":
            assert documents(found, ".sky.yaml")[0]["envs"] == {"TORCH_NCCL_NOTE": value}
        else:
            assert repr(value) in ast.unparse(ast.parse(found.files[0].text))


@given(st.text(max_size=80))
def test_names_of_jobs_are_names_to_kubernetes(script: str) -> None:
    for program in ((script or "x",), ("-m", script or "x")):
        name = job_name(planned(program=program))
        assert re.fullmatch(r"[a-z](?:[a-z0-9-]{0,44}[a-z0-9])?", name), name


# --- DeepSpeed ----------------------------------------------------------------------------------------------------


def test_deepspeed_hostfile_and_environment_file_are_read_by_its_rules() -> None:
    """The patterns are those of launcher/runner.py: another line in either file ends it with an exception."""
    hostfile, environment, *_ = emitted("deepspeed", planned()).files
    lines = [line for line in hostfile.text.splitlines() if not line.startswith("#")]
    assert [re.fullmatch(r"(\S+)\s+slots=(\d+)", line) is not None for line in lines] == [True] * 3
    assert [line.split("=", maxsplit=1) for line in environment.text.splitlines()] == [
        ["OMP_NUM_THREADS", "4"],
        ["NCCL_SOCKET_IFNAME", "=eth0"],
    ]


def test_deepspeed_gives_arguments_that_pdsh_would_change_without_ssh_only() -> None:
    found = emitted("deepspeed", planned(program=("train.py", "--note", "$HOME")))
    assert len(found.blocks) == 3 and all("--no_ssh" in block.text for block in found.blocks)
    assert any("remote shell" in note for note in found.notes)
    with pytest.raises(CannotEmit, match=r"0\.14\.5"):
        emitted("deepspeed", planned(program=("train.py", "--note", "$HOME"), versions={"deepspeed": "0.14.4"}))


def test_an_old_deepspeed_has_no_form_without_ssh() -> None:
    found = emitted("deepspeed", planned(versions={"deepspeed": "0.14.4"}))
    assert "--no_ssh" not in shown(found)


def test_addresses_with_colons_are_never_given_to_pdsh_nor_to_horovodrun() -> None:
    nodes = tuple(msgspec.structs.replace(node, name=f"2001:db8::{node.rank + 1}") for node in planned().nodes)
    found = emitted("deepspeed", planned(nodes=nodes))
    assert all("--no_ssh" in block.text for block in found.blocks)
    assert any("IPv6" in note for note in found.notes)
    with pytest.raises(CannotEmit, match="IPv6"):
        emitted("deepspeed", planned(nodes=nodes, versions={"deepspeed": "0.14.0"}))
    with pytest.raises(CannotEmit, match="by a colon"):
        emitted("horovod", planned(nodes=nodes))


@pytest.mark.parametrize("framework", ["horovod", "kubernetes", "skypilot", "torchx", "xla"])
def test_what_is_pasted_once_is_not_said_to_every_node(framework: str) -> None:
    (block,) = emitted(framework, planned()).blocks
    assert place(block) == "node 0"


def test_each_node_has_its_rank_without_ssh() -> None:
    found = emitted("deepspeed", planned())
    scripts = [file for file in found.files if file.alternative]
    assert [file.name for file in scripts] == [f"without_ssh_node{rank}.sh" for rank in range(3)]
    assert [f"--node_rank={rank}" in file.text for rank, file in enumerate(scripts)] == [True] * 3
    assert [block.node for block in found.blocks] == [0] and "--no_ssh" not in found.blocks[0].text


def test_deepspeed_on_one_node_leaves_visible_devices_alone() -> None:
    """A filter such as --num_gpus would override CUDA_VISIBLE_DEVICES."""
    (node,) = planned().nodes[:1]
    plain = emitted("deepspeed", planned(nodes=(node,)))
    assert "--num_gpus=4" in plain.blocks[0].text and "hostfile" not in plain.blocks[0].text
    own = msgspec.structs.replace(node, environment=(EnvVariable("CUDA_VISIBLE_DEVICES", "4,5,6,7"),))
    text = emitted("deepspeed", planned(nodes=(own,))).blocks[0].text
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7 deepspeed" in text and "--num_gpus" not in text


def test_a_module_is_a_module() -> None:
    assert (
        "--module pkg.train --lr" in emitted("deepspeed", planned(program=("-m", "pkg.train", "--lr"))).blocks[0].text
    )
    assert "-m pkg.train -- --lr" in emitted("torchx", planned(program=("-m", "pkg.train", "--lr"))).blocks[0].text
    assert 'run_module("pkg.train"' in emitted("ray", planned(program=("-m", "pkg.train"))).files[0].text


# --- Horovod, torchx, TPU, Ray, SkyPilot --------------------------------------------------------------------------


def test_horovod_counts_and_hosts() -> None:
    first, second, _ = planned().nodes
    uneven = (first, msgspec.structs.replace(second, processes=2))
    (words,) = word_lists(emitted("horovod", planned(nodes=uneven)).blocks[0].text)
    assert words[words.index("-np") + 1] == "6"
    assert words[words.index("-H") + 1] == "n1:4,n2:2"
    assert words[words.index("--network-interfaces") + 1] == "eth0"


def test_commands_stand_beside_the_interpreter() -> None:
    for framework in ("deepspeed", "horovod", "torchx", "ray"):
        text = emitted(framework, planned(python="/opt/venv/bin/python")).blocks[0].text
        assert "/opt/venv/bin/" + {"horovod": "horovodrun"}.get(framework, framework) in text


def test_torchx_elastic_and_resources() -> None:
    text = emitted("torchx", planned(elastic=(2, 3))).blocks[0].text
    assert "-j 2:3x4 --gpu 4 --cpu 16 --memMB -1" in text
    on_cpu = emitted("torchx", planned(accelerator="cpu")).blocks[0].text
    assert "--gpu 0" in on_cpu


def test_torchx_leaves_out_what_its_list_cannot_hold() -> None:
    found = emitted(
        "torchx", planned(environment=(EnvVariable("NCCL_IB_HCA", "mlx5_0,mlx5_1"), EnvVariable("A", "1=2")))
    )
    assert "--env A=1=2" in found.blocks[0].text and "mlx5_0" not in found.blocks[0].text
    assert any(note.startswith("NCCL_IB_HCA cannot be given") for note in found.notes)
    with pytest.raises(CannotEmit, match="torchx replaces"):
        emitted("torchx", planned(program=("train.py", "${app_id}")))


def test_a_tpu_gets_no_master_and_no_nccl() -> None:
    found = emitted("xla", planned())
    copy, start = word_lists(found.blocks[0].text)
    assert copy[-1] == start[-2] == "--worker=all"
    assert start[-1] == "--command=PJRT_DEVICE=TPU python train.py --lr 0.1"
    assert "MASTER" not in found.blocks[0].text and "NCCL" not in found.blocks[0].text
    assert "xmp.spawn" in emitted("xla", planned(versions={"torch_xla": "2.3.0"})).code
    assert "torch_xla.launch" in found.code


def test_rays_scaling() -> None:
    calls = {
        name: keyword.value
        for node in ast.walk(ast.parse(emitted("ray", planned()).files[0].text))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if (name := keyword.arg)
    }
    assert ast.literal_eval(calls["num_workers"]) == 12
    assert ast.literal_eval(calls["resources_per_worker"]) == {"CPU": 4, "GPU": 1}
    on_cpu = emitted("ray", planned(accelerator="cpu", cpus_per_process=0))
    assert "use_gpu=False" in on_cpu.files[0].text and "--num-gpus" not in shown(on_cpu)


def test_rays_head_address_is_bracketed_where_it_must_be() -> None:
    found = emitted("ray", planned(master_address="fd00::1"))
    assert "--node-ip-address=fd00::1" in found.blocks[0].text
    assert word_lists(found.blocks[1].text)[0][2] == "--address=[fd00::1]:6379"


def test_skypilots_task() -> None:
    (task,) = documents(emitted("skypilot", planned()), ".sky.yaml")
    assert (task["num_nodes"], task["resources"], task["workdir"]) == (3, {"accelerators": "GPU_NAME:4"}, ".")
    bash = shutil.which("bash")
    require(bash, "no bash")
    script = 'torchrun() { printf "%s\\n" "$@"; }; ' + task["run"]
    known = {"NODE_IPS": "10.1.0.7\n10.1.0.8", "NODE_RANK": "1", "NUM_NODES": "2", "NUM_GPUS_PER_NODE": "4"}
    environment = {f"SKYPILOT_{name}": value for name, value in known.items()} | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(bash), "-c", script], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == [
        "--nnodes=2", "--nproc-per-node=4", "--node-rank=1", "--master-addr=10.1.0.7", "--master-port=61234",
        "train.py", "--lr", "0.1",
    ]  # fmt: skip


# --- Kubernetes ---------------------------------------------------------------------------------------------------


def pods(found: Emission) -> list[Any]:
    """The pod specifications of all three manifests."""
    replicas = documents(found, ".pytorchjob.yaml")[0]["spec"]["pytorchReplicaSpecs"]
    runtime, _ = documents(found, ".trainjob.yaml")
    (jobset,) = documents(found, ".jobset.yaml")
    return [
        *(each["template"]["spec"] for each in replicas.values()),
        runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"],
        jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"],
    ]


def commands(found: Emission) -> Iterator[list[str]]:
    yield from (pod["containers"][0]["command"] for pod in pods(found))
    yield documents(found, ".trainjob.yaml")[1]["spec"]["trainer"]["command"]


def test_every_pod_has_shared_memory_and_its_gpus() -> None:
    for pod in pods(emitted("kubernetes", planned())):
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
        assert pod["volumes"] == [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
        assert container["resources"] == {"limits": {"nvidia.com/gpu": 4}}
    assert all(
        "resources" not in pod["containers"][0] for pod in pods(emitted("kubernetes", planned(accelerator="cpu")))
    )


def test_the_pytorchjob_is_as_its_operator_wants_it() -> None:
    (job,) = documents(emitted("kubernetes", planned()), ".pytorchjob.yaml")
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert job["spec"]["nprocPerNode"] == "4"  # a string in its schema
    assert {role: each["replicas"] for role, each in replicas.items()} == {"Master": 1, "Worker": 2}
    assert {each["template"]["spec"]["containers"][0]["name"] for each in replicas.values()} == {"pytorch"}
    (single,) = documents(emitted("kubernetes", planned(nodes=planned().nodes[:1])), ".pytorchjob.yaml")
    assert list(single["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_the_trainjob_starts_torchrun_on_its_own_runtime() -> None:
    runtime, job = documents(emitted("kubernetes", planned()), ".trainjob.yaml")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] == "train"
    assert (job["spec"]["trainer"]["numNodes"], job["spec"]["trainer"]["numProcPerNode"]) == (3, 4)
    assert job["spec"]["trainer"]["command"][0] == "torchrun"


def test_the_jobset_gives_torchrun_its_options() -> None:
    command = list(commands(emitted("kubernetes", planned(program=("train.py", "a b", "$(HOME)")))))[3]
    assert command == [
        "torchrun", "--nnodes=3", "--nproc-per-node=4", "--node-rank=$(JOB_COMPLETION_INDEX)",
        "--master-addr=train-node-0-0.train", "--master-port=61234", "train.py", "a b", "$$(HOME)",
    ]  # fmt: skip


def test_only_one_manifest_is_printed() -> None:
    found = emitted("kubernetes", planned())
    assert [file.alternative for file in found.files] == [False, True, True]
    assert all(file.name in found.notes[0] for file in found.files)


def test_variables_of_a_machine_are_known_by_name() -> None:
    names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_FILE", "CUDA_VISIBLE_DEVICES")
    kept = parts.portable(EnvVariable(name, "x") for name in (*names, "OMP_NUM_THREADS", "NCCL_DEBUG"))
    assert [each.name for each in kept] == ["OMP_NUM_THREADS", "NCCL_DEBUG"]


if __name__ == "__main__":
    write_golden()
