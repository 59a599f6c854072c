"""Manifests: their values with places, and the commands inside."""

import json
import time

import pytest
from hypothesis import given, strategies as st

from gpudoctor.launcher.understand import understand
from gpudoctor.lint import pods
from gpudoctor.lint.containers import origins
from gpudoctor.lint.hostfiles import looks_like_hostfile, read_hostfile
from gpudoctor.lint.lint import lint
from gpudoctor.lint.manifests import invocations_of, looks_like_manifest, read_manifests
from gpudoctor.lint.model import Invocation, LintFacts, ManifestValue
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule
from gpudoctor.lint.trainers import calls

PYTORCHJOB = """\
# a job
apiVersion: "kubeflow.org/v1"
kind: PyTorchJob
metadata: {name: simple}
spec:
  nprocPerNode: '4'
  pytorchReplicaSpecs:
    Master: &master
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              env:
                - name: NCCL_DEBUG
                  value: INFO
                - {name: SECRET, valueFrom: {secretKeyRef: {name: s}}}
              command: [torchrun, "--nnodes=2", --node-rank=$(RANK), '--role=$(NCCL_DEBUG)']
              args:
                - train.py
                - --epochs=1
    Worker:
      <<: *master
      replicas: 3
"""


def invocations(text: str) -> tuple[Invocation, ...]:
    return tuple(each for manifest in read_manifests(text) for each in invocations_of(text, manifest, LintFacts())[0])


def test_values_have_paths_and_places() -> None:
    (manifest,) = read_manifests(PYTORCHJOB)
    assert (manifest.kind, manifest.api_version, manifest.fault) == ("PyTorchJob", "kubeflow.org/v1", "")
    values = {value.path: value for value in manifest.values}
    nproc = values["spec", "nprocPerNode"]
    assert (nproc.value, PYTORCHJOB[nproc.span.start : nproc.span.end], nproc.span.line) == ("4", "'4'", 6)
    workers = [value.value for value in manifest.values if value.path[-2:] == ("Worker", "replicas")]
    assert sorted(workers) == ["1", "3"]
    for value in manifest.values:
        assert PYTORCHJOB[value.span.start : value.span.end].strip("\"'") == value.value
        assert PYTORCHJOB.count("\n", 0, value.span.start) + 1 == value.span.line


def test_a_part_of_a_larger_text_keeps_its_place() -> None:
    whole = "#@ file job.yaml\n" + PYTORCHJOB
    (manifest,) = read_manifests(PYTORCHJOB, start=17, line=2)
    for value in manifest.values:
        assert whole[value.span.start : value.span.end].strip("\"'") == value.value
        assert whole.count("\n", 0, value.span.start) + 1 == value.span.line


def test_commands_of_containers() -> None:
    first, second = invocations(PYTORCHJOB)
    assert first.program == "torchrun"
    assert [word.shown for word in first.words] == [
        "torchrun", "--nnodes=2", "--node-rank=$(RANK)", "--role=INFO", "train.py", "--epochs=1",
    ]  # fmt: skip
    assert first.words[2].text is None and first.words[2].expansions[0].name == "RANK"
    assert first.manifest_path[:4] == ("spec", "pytorchReplicaSpecs", "Master", "template")
    assert second.manifest_path[2] == "Worker"
    assert first.settings["NCCL_DEBUG"].word.text == "INFO" and first.settings["SECRET"].word.text is None
    launch = understand(first)
    assert launch is not None and launch.script is not None and launch.script.shown == "train.py"
    value = launch.options["nnodes"].value
    assert value is not None and PYTORCHJOB[value.span.start : value.span.end] == "2"


SCRIPT = """\
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
      - name: main
        env:
        - name: NODES
          value: "2"
        command: ["bash", "-lc"]
        args:
        - %s
"""


@pytest.mark.parametrize(
    "style",
    [
        "torchrun --nnodes=$NODES train.py",
        '"torchrun --nnodes=$NODES train.py"',
        "'torchrun --nnodes=$NODES train.py'",
        "|\n          echo hello\n          torchrun --nnodes=$NODES \\\n            train.py",
        ">-\n          torchrun\n          --nnodes=$NODES\n          train.py",
        "|2\n            torchrun --nnodes=$NODES train.py",
    ],
)
def test_shell_scripts_in_manifests_have_exact_places(style: str) -> None:
    text = SCRIPT % style
    (torchrun,) = [each for each in invocations(text) if each.program == "torchrun"]
    assert [each.program for each in torchrun.within] == ["bash"]
    launch = understand(torchrun)
    assert launch is not None and launch.text("nnodes") == "2"
    option = launch.options["nnodes"]
    assert text[option.span.start : option.span.end] == "--nnodes=$NODES" and option.span.exact
    assert launch.script is not None and text[launch.script.span.start : launch.script.span.end] == "train.py"
    assert text.splitlines()[launch.script.span.line - 1].rstrip("'\"").endswith("train.py")


def test_where_yaml_changed_the_characters_no_edit_may_go() -> None:
    text = SCRIPT % r'"torchrun \x2d-nnodes=2 train.py"'
    (torchrun,) = [each for each in invocations(text) if each.program == "torchrun"]
    assert not torchrun.words[1].span.exact and torchrun.words[1].shown == "--nnodes=2"


def test_mpirun_in_a_list_starts_what_follows_it() -> None:
    text = json.dumps(
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": [
                {"name": "m", "command": ["mpirun", "-np", "8", "-bind-to", "none", "python", "train.py"]}
            ]}}}}},
        },
        indent=1,
    )  # fmt: skip
    assert looks_like_manifest(text)
    outer, inner = invocations(text)
    assert (outer.program, inner.program, [each.program for each in inner.within]) == ("mpirun", "python", ["mpirun"])
    launch = understand(inner)
    assert launch is not None and launch.launcher == "mpirun" and launch.text("np") == "8"


@pytest.mark.parametrize(
    "text",
    [
        "num_nodes: 2\nenvs: {A: 1}\nrun: |\n  torchrun --nnodes=2 train.py\n",
        "type: task\nnodes: 2\ncommands:\n  - torchrun --nnodes=2 train.py\n",
        "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: torchrun --nnodes=2 train.py\n",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {trainer: {command: [torchrun, a.py]}}",
    ],
)
def test_other_tasks(text: str) -> None:
    assert looks_like_manifest(text)
    (manifest,) = read_manifests(text)
    assert manifest.kind in ("SkyPilot", "dstack", "RayJob", "TrainJob")
    assert [each.program for each in invocations(text)] == ["torchrun"]


@pytest.mark.parametrize(
    "text", ["torchrun train.py", "run: x\n", "#!/bin/bash\nexport kind=1\n", "h1 slots=4", "{}", ""]
)
def test_what_is_no_manifest(text: str) -> None:
    assert not looks_like_manifest(text)


def test_a_fault_keeps_what_stood_before_it() -> None:
    one, two = read_manifests("kind: A\napiVersion: v1\n---\nkind: B\nspec: [1,\n")
    assert (one.kind, one.fault) == ("A", "")
    assert two.kind == "B" and "line" in two.fault
    assert two.fault in invocations_of("", two, LintFacts())[1][0]


@pytest.mark.thorough
@pytest.mark.parametrize("piece", ["\n", " {", "{\n", "\n ", "kind ", "run: \n", "h slots=1\n", ":", "Trainer(", "a."])
def test_long_texts_cost_no_more_than_their_length(piece: str) -> None:
    text = (piece * 400_000)[:400_000]
    started = time.process_time()
    looks_like_manifest(text)
    looks_like_hostfile(text)
    read_hostfile(text)
    calls(text)
    assert time.process_time() - started < 20  # seconds of work: what grows with the square takes minutes


def test_json_in_one_line_is_a_manifest() -> None:
    assert looks_like_manifest('{"kind": "Pod", "apiVersion": "v1"}') and looks_like_manifest(
        '{"apiVersion":"v1","kind":"Pod"}'
    )


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", [BOMB, "[" * 100_000, "- a: b\n" * 150_000, "a: &a [*a]\n", "{? [x] : 1}", "\x00", "%YAML x"]
)
def test_bombs_are_bounded(text: str) -> None:
    started = time.process_time()
    for manifest in read_manifests(text):
        assert len(manifest.values) <= 20_000
        invocations_of(text, manifest, LintFacts())
    assert time.process_time() - started < 10  # seconds of work, not of waiting: an unbounded one takes hours


@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"\\#,\n \t%<é\U0001f600\ufeff\x85\r"), max_size=40)
    | st.text(max_size=40)
)
def test_any_text_is_read(text: str) -> None:
    for whole in (
        text,
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - command: [sh, -c]\n    args:\n    - " + text,
    ):
        looks_like_manifest(whole)
        for manifest in read_manifests(whole):
            for value in manifest.values:
                assert 0 <= value.span.start <= value.span.end <= len(whole)
            for each in invocations_of(whole, manifest, LintFacts())[0]:
                understand(each)


PLAIN = st.text(alphabet="abcXYZ019./=$é\U0001f600", min_size=1, max_size=8)


@given(st.dictionaries(st.text(alphabet="abcd", min_size=1, max_size=4), PLAIN, min_size=1, max_size=5), st.booleans())
def test_plain_values_stand_where_they_are_said_to(values: dict[str, str], quoted: bool) -> None:
    quote = '"' if quoted else ""
    text = "é: 1\n" + "".join(f"k{name}: {quote}{value}{quote}\n" for name, value in values.items())
    (manifest,) = read_manifests(text)
    found = {value.path[0]: text[value.span.start : value.span.end].strip('"') for value in manifest.values[1:]}
    assert found == {f"k{name}": value for name, value in values.items()}


@given(st.lists(st.text(alphabet="ab -$é", max_size=8).map(str.rstrip), min_size=1, max_size=5))
def test_every_character_of_a_block_has_its_place(lines: list[str]) -> None:
    value = "x\n" + "".join(line + "\n" for line in lines)
    raw = "|\n  x\n" + "".join(f"  {line}\n" if line else "\n" for line in lines)
    places = origins(raw, value)
    assert places is not None
    assert all(raw[place] == letter for place, letter in zip(places, value, strict=True) if not letter.isspace())


def test_the_containers_of_a_workflow_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by each rule for each start in it: eight hundred steps took half a minute."""
    made: list[object] = []

    class Counted(pods.Container):
        def __init__(self, path: tuple[str, ...], values: dict[tuple[str, ...], ManifestValue]) -> None:
            made.append(path)
            super().__init__(path, values)

    monkeypatch.setattr(pods, "Container", Counted)
    head = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: t-}\nspec:\n  templates:\n"
    step = "  - name: t{}\n    container:\n      image: i\n      command: [torchrun, --standalone, train.py]\n"
    job = read_job(head + "".join(map(step.format, range(40))), LintFacts())
    assert len(job.launches) == 40
    lint(job, every_rule())
    assert len(made) == 40
