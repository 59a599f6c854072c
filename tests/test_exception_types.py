"""Exceptions that packages define: judged as their sources mean them, and by no name that others share."""

from pathlib import Path

import pytest

from gpudoctor.explain.classes import OF_CLASS, cause_of, judged_exception
from gpudoctor.explain.package_types import FAMILIES, of_package

TABLE = Path(__file__).with_name("exception_types.txt")
NONE = "-"


def mined() -> dict[str, str]:
    lines = (line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: kind for kind, _, names in (line.partition(":") for line in lines) for name in names.split() if names}


@pytest.mark.parametrize("package", sorted({name.partition(".")[0] for name in mined()}))
def test_a_type_is_what_its_source_says(package: str) -> None:
    wrong = {
        name: judged.kind
        for name, kind in mined().items()
        if name.partition(".")[0] == package
        for judged in (judged_exception(name, ""),)
        if (judged.kind in OF_CLASS if kind == NONE else judged.kind != kind)
    }
    assert not wrong


def test_each_type_of_the_table_is_defined_in_its_package() -> None:
    known = {(name.partition(".")[0], name.rpartition(".")[2]) for name in mined()}
    assert {(family.package, name) for family in FAMILIES for name in family.names.split()} <= known


def test_a_bare_name_means_the_same_in_all_packages() -> None:
    apart = {
        name
        for name, kind in mined().items()
        if (family := of_package(name.rpartition(".")[2])) and kind != family.judged.kind
    }
    assert not apart


@pytest.mark.parametrize(
    ("type_name", "message", "cause", "kind"),
    [
        ("ray.exceptions.GetTimeoutError", "Get timed out: some object(s) not ready.", "program-error", "exception"),
        ("GetTimeoutError", "Get timed out: some object(s) not ready.", "program-error", "exception"),
        ("ray.exceptions.OutOfMemoryError", "the node is low", "host-out-of-memory", "host-memory"),
        ("torch.OutOfMemoryError", "CUDA out of memory.", "gpu-out-of-memory", "gpu-memory"),
        ("OutOfMemoryError", "CUDA out of memory.", "gpu-out-of-memory", "gpu-memory"),
        ("redis.exceptions.OutOfMemoryError", "command not allowed", "program-error", "exception"),
        ("filelock._error.Timeout", "it could not be had", "program-error", "deadlock"),
        ("requests.exceptions.Timeout", "read timed out", "download-failed", "download"),
        ("sky.exceptions.NetworkError", "no cloud answers", "program-error", "route"),
        ("networkx.exception.NetworkXError", "the graph is directed", "program-error", "exception"),
        ("mine.StageTimeoutError", "the stage did not answer", "program-error", "exception"),
        ("zmq.error.Again", "Resource temporarily unavailable", "program-error", "exception"),
    ],
)
def test_the_same_last_name_is_of_its_package(type_name: str, message: str, cause: str, kind: str) -> None:
    judged = judged_exception(type_name, message)
    assert (cause_of(judged), judged.kind) == (cause, kind)
