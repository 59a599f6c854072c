"""Which release of which package a message asks for, as pip takes it: what it states is the fix.

Sources: numba/__init__.py, pandas/compat/_optional.py, transformers/utils/versions.py, scipy/__init__.py, pip's
resolver (commands/install.py, req_install.py), peft/import_utils.py, onnx's and onnxruntime's checks of a model.
"""

import re
from collections.abc import Iterable, Mapping

from gpudoctor.explain.own_fixes import DISTRIBUTIONS
from gpudoctor.lazy import lazy_re

NAME, RELEASE = r"[A-Za-z](?:[\w.-]{0,40}[A-Za-z0-9])?", r"\d{1,4}(?:\.\d{1,4}){0,3}(?:\.?(?:post|rc|dev|a|b)\d{1,3})?"
SPEC = rf"(?:[<>=!~]=?=? ?v?{RELEASE}(?:\.\*)?)"
SPECS = rf"{SPEC}(?:(?:, ?| and ){SPEC}){{0,3}}"
OLDER, NEWER = "less|lower|older|earlier|below|before", "newer|later|greater|higher|above|up"
FORMS = tuple(
    lazy_re(text)
    for text in (
        rf"\b(?:[Nn]eeds|[Rr]equires|[Ss]upports|compatible with) (?:the )?(?P<name>{NAME}) (?:version )?v?"
        rf"(?P<release>{RELEASE}) (?:or|and) (?:(?P<older>{OLDER})|{NEWER})\b",
        rf"\brequires version '?(?P<release>{RELEASE})'? or newer of '?(?P<name>{NAME})\b",
        rf"\b(?:[Rr]equires|[Nn]eeds) `?(?P<name>{NAME}) ?(?:version )?(?P<specs>{SPECS})",
        rf"^`?(?P<name>{NAME}) ?(?:version )?(?P<specs>{SPECS})`? (?:is|are) (?:required|needed)\b",
        rf"\b[Aa]n? (?P<name>{NAME}) version (?P<specs>{SPECS}) is (?:required|needed)\b",
        rf"\bincompatible version of (?P<name>{NAME})\. Found version [\w.+]{{1,30}}, but only versions "
        rf"(?:(?P<older>below)|above|>=?|from) (?P<release>{RELEASE})",
    )
)
NO_PACKAGE = frozenset(
    {
        *("cuda", "cudnn", "nccl", "rocm", "hip", "driver", "drivers", "gcc", "g++", "glibc", "cmake", "ninja"),
        *("python", "ampere", "hopper", "volta", "turing", "compute", "capability", "version", "versions", "least"),
        *("gpu", "gpus", "kernel", "linux", "windows", "macos", "node", "java", "size", "batch", "rank", "ranks"),
        *("nvidia", "a", "opset", "value", "values", "world_size", "num_gpus", "dim", "sm", "arch", "mpi", "openmpi"),
        *("slurm", "libfabric", "ucx"),
    }
)
"""What has numbers, and is not had from pip."""
OF_ONE_NUMBER = frozenset(
    {"numpy", "torch", "pytorch", "tensorflow", "keras", "pydantic", "protobuf", "setuptools", "huggingface_hub"}
)
"""Packages of which a message may name the first number alone; else one without a dot is a setting's value."""
OF_PYTHON = lazy_re(rf"\ba different Python: (?P<has>{RELEASE}) not in '(?P<specs>[^'\n]{{2,60}})'")
OF_FORMAT = lazy_re(
    r"(?i)\bunsupported (?P<what>[\w ]{2,30}version): (?P<has>\d{1,4}), max(?:imum)? supported [\w ]{2,30}version: "
    r"(?P<most>\d{1,4})"
)
OF_PIP = lazy_re(
    rf"^(?P<by>{NAME}) (?P<its>{RELEASE}\S{{0,20}}) requires (?P<name>{NAME})(?:\[[\w,-]{{1,40}}\])?"
    rf"(?P<specs>(?:[<>=!~]=?=?{RELEASE}(?:\.\*)?,?){{1,6}})(?:;[^\n]{{1,80}})?, but you have (?P<same>{NAME}) "
    r"(?P<has>\S{1,40}) which is incompatible"
)
BY_DISTRIBUTION: Mapping[str, str] = {of.lower(): name.lower() for name, of in DISTRIBUTIONS.items()}
MOST = 1_200


def pinned(message: str) -> str:
    """Package and release as pip takes them (numpy<=2.0); empty where the message states none."""
    for form in FORMS:
        match = form.search(message[:MOST])
        if match is None or match["name"].lower() in NO_PACKAGE:
            continue
        name = DISTRIBUTIONS.get(match["name"], match["name"].lower()).replace("pytorch", "torch")
        groups = match.groupdict()
        is_a_release = "." in (groups.get("specs") or groups.get("release") or "") and "_" not in match["name"]
        if not is_a_release and match["name"].lower() not in OF_ONE_NUMBER:
            continue
        if specs := groups.get("specs"):
            return name + re.sub(r" and ", ",", specs).replace(" ", "").replace("v", "")
        if groups.get("older") == "below":
            return f"{name}<{match['release']}"
        return f"{name}<{_next(match['release'])}" if groups.get("older") else f"{name}>={match['release']}"
    return ""


def _next(release: str) -> str:
    """The first that "2.0 or less" does not mean: its patches are meant."""
    head, dot, last = release.rpartition(".")
    return f"{head}{dot}{int(last) + 1}" if last.isdecimal() and release.count(".") < 2 else f"{release}.post99"


def of_format(message: str, package: str) -> str:
    """Of a file that a newer release has written than the one that reads it."""
    match = OF_FORMAT.search(message[:MOST])
    if match is None or not package:
        return ""
    return (
        f"The file was written by a newer release ({match['what']} {match['has']}) than the {package} that reads it, "
        f"which takes {match['most']} at most: python -m pip install --upgrade '{package}', or write the file again in "
        f"version {match['most']}."
    )


def of_python(text: str) -> str:
    """Of a package that is for other Pythons."""
    match = OF_PYTHON.search(text)
    if match is None:
        return ""
    return (
        f"This is Python {match['has']}, and the package is for {match['specs']}: make an environment with such a "
        "Python (conda create -n NAME python=3.N, or python3.N -m venv), or take an older release of the package."
    )


def of_conflict(message: str, texts: Iterable[str]) -> str:
    """What pip said further up of a package of which the message speaks."""
    for text in texts:
        match = OF_PIP.search(text)
        if match is None:
            continue
        named = {match["by"].lower(), match["name"].lower()}
        named |= {BY_DISTRIBUTION.get(name, name) for name in named} | {name.replace("-", "_") for name in named}
        if any(re.search(rf"(?i)\b{re.escape(name)}\b", message) for name in named):
            wanted = f"{match['name']}{match['specs'].rstrip(',')}"
            return (
                f"pip said above that {match['by']} {match['its']} does not go with {match['name']} {match['has']}: "
                f"python -m pip install '{wanted}', or a release of {match['by']} that is for {match['has']}. "
                "In the environment of all nodes."
            )
    return ""


__all__ = ["of_conflict", "of_format", "of_python", "pinned"]
