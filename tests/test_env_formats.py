"""What each format of `gpudoctor env` promises: whoever reads the file gets exactly the suggested names and values."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import get_args

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.cli.env import Format
from gpudoctor.emit import EMITTERS
from gpudoctor.emit.comments import CannotExpress
from gpudoctor.knowledge.suggest.advice import Advice, Present, Suggestion, Unjudged

ENCODABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
AWKWARD = st.sampled_from(
    (
        *("", "a b", '"', "\\", "\\'", "x #y", "a\nb", "export X=1", "\t"),
        *"""
        =eth0 =mlx5_0:1,mlx5_1 ^docker0,lo ' '' $HOME $(date) `id` ~ !! #x %h.%p é -n * [a] {a,b} & ; $$ $$$(A) no 1
        /tmp/a <b> a=b
        """.split(),  # noqa: SIM905 - as a text it can be read and changed
    )
)
VALUES = st.lists(st.one_of(AWKWARD, ENCODABLE), max_size=8)
SAYABLE = st.lists(
    st.one_of(
        AWKWARD.filter(str.isprintable),
        st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), max_size=30),
    ),
    max_size=8,
)
"""What a line to paste can hold."""
SHELLS = [name for name in ("bash", "sh", "dash", "zsh", "ksh") if shutil.which(name)]


def advice(values: list[str], reason: str = "eth0 was seen.") -> Advice:
    return Advice(
        tuple(
            Suggestion(f"V{n}", value, reason, "NCCL 2.4", "look", replaces=reason) for n, value in enumerate(values)
        ),
        silent=reason,
        scope=reason,
        present=(Present("NCCL_DEBUG", reason, reason, "INFO"),),
        unjudged=(Unjudged("NCCL_IB_HCA", reason),),
    )


def wanted(values: list[str]) -> dict[str, str]:
    return {f"V{n}": value for n, value in enumerate(values)}


def read_by(shell: list[str], text: str, names: Mapping[str, str]) -> dict[str, str]:
    """What a program started by this shell finds in its environment."""
    done = subprocess.run(
        [*shell, f"{text}\nenv -0"], capture_output=True, check=True, timeout=60, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stderr == b""
    entries = (entry.partition("=") for entry in done.stdout.decode().split("\0") if entry)
    return {name: value for name, _, value in entries if name in names}


def test_every_format_that_the_command_offers_has_its_emitter() -> None:
    assert set(get_args(Format)) == set(EMITTERS)


@pytest.mark.parametrize("form", ["shell", "slurm"])
@pytest.mark.parametrize("name", SHELLS)
@settings(max_examples=25, deadline=None)
@given(values=SAYABLE, reason=ENCODABLE)
def test_real_shells_read_back_the_values(name: str, form: str, values: list[str], reason: str) -> None:
    assert read_by([name, "-c"], EMITTERS[form](advice(values, reason)), wanted(values)) == wanted(values)


@settings(max_examples=15, deadline=None)
@given(values=SAYABLE, reason=ENCODABLE)
def test_eval_in_bash_reads_back_the_values(values: list[str], reason: str) -> None:
    text = EMITTERS["shell"](advice(values, reason))
    assert read_by(["bash", "-c"], f'eval "$(printf %s {shlex.quote(text)})"', wanted(values)) == wanted(values)


@given(values=SAYABLE, reason=ENCODABLE)
def test_shlex_reads_back_the_values(values: list[str], reason: str) -> None:
    words = shlex.split(EMITTERS["shell"](advice(values, reason)), comments=True)
    assert words == [word for name, value in wanted(values).items() for word in ("export", f"{name}={value}")]


@pytest.mark.parametrize("form", ["shell", "slurm", "fish", "dotenv", "docker"])
@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\t", "\x1b[2J", "a\u202eb", "a\u2028b", "\ud800", "a\0b"])
def test_what_shows_as_something_else_is_refused(form: str, value: str) -> None:
    with pytest.raises(CannotExpress, match=r"V0=.* holds"):
        EMITTERS[form](advice([value]))


def test_a_leading_equals_sign_is_quoted_for_zsh() -> None:
    assert "export V0='=eth0'" in EMITTERS["shell"](advice(["=eth0"]))


@settings(deadline=None)
@given(values=SAYABLE, reason=ENCODABLE)
def test_fish_reads_back_the_values(values: list[str], reason: str) -> None:
    text = EMITTERS["fish"](advice(values, reason))
    if shutil.which("fish"):
        assert read_by(["fish", "--no-config", "-c"], text, wanted(values)) == wanted(values)
    # fish's rule: between single quotes, only \\ and \' are escapes
    found = re.findall(r"^set -gx (\w+) '((?:[^'\\]|\\[\\'])*)'$", text, re.MULTILINE)
    assert {name: re.sub(r"\\([\\'])", r"\1", value) for name, value in found} == wanted(values)


@given(values=VALUES, reason=ENCODABLE)
def test_docker_reads_back_the_values(values: list[str], reason: str) -> None:
    try:
        text = EMITTERS["docker"](advice(values, reason))
    except CannotExpress:
        assert not all(value.isprintable() for value in values)
        return
    found = {}
    for line in text.split("\n"):  # as docker/cli's kvfile does
        line = line.lstrip(" \t").removesuffix("\r")
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name] = value
    assert found == wanted(values)


@settings(max_examples=50, deadline=None)
@given(values=VALUES, reason=ENCODABLE)
def test_dotenv_is_read_alike_by_a_shell(values: list[str], reason: str) -> None:
    try:
        text = EMITTERS["dotenv"](advice(values, reason))
    except CannotExpress:
        assert any(set(value) & set("'\\$") or not value.isprintable() for value in values)
        return
    assert read_by(["sh", "-ac"], text, wanted(values)) == wanted(values)
    # the rule that python-dotenv and docker compose share: bare, or all between single quotes
    found = dict(re.findall(r"^(V\d+)='?([^'\n\\]*?)'?$", text, re.MULTILINE))
    assert found == wanted(values)


@given(values=VALUES, reason=ENCODABLE)
def test_kubernetes_reads_back_the_values(values: list[str], reason: str) -> None:
    text = EMITTERS["kubernetes"](advice(values, reason))
    lines = [line for line in text.split("\n") if line and not line.lstrip().startswith("#")]
    assert lines.pop(0) == ("env:" if values else "env: []")
    found = {}
    for name, value in zip(lines[::2], lines[1::2], strict=True):
        assert re.fullmatch(r'    value: ".*"', value) and re.fullmatch(r"  - name: \w+", name)
        found[name.removeprefix("  - name: ")] = expanded(yaml_scalar(value.removeprefix("    value: ")[1:-1]))
    assert found == wanted(values)


def yaml_scalar(text: str) -> str:
    """YAML 1.2, 5.7: the escapes of a double-quoted scalar."""
    single = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}

    def unescaped(match: re.Match[str]) -> str:
        return single.get(match[1]) or chr(int(match[1][1:], 16))

    assert text.isprintable()
    return re.sub(r'\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt"\\])', unescaped, text)


def expanded(value: str) -> str:
    """As the kubelet does it: $$ is a dollar sign, $(NAME) a variable."""
    assert "$(" not in value.replace("$$", "")
    return value.replace("$$", "$")


@settings(deadline=None)
@given(values=VALUES, reason=ENCODABLE)
def test_json_holds_everything(values: list[str], reason: str) -> None:
    found = json.loads(EMITTERS["json"](advice(values, reason)))
    jsonschema.validate(found, msgspec.json.schema(Advice))
    assert {each["name"]: each["value"] for each in found["suggestions"]} == wanted(values)
    assert found["silent"] == reason


@pytest.mark.parametrize("form", sorted(set(EMITTERS) - {"json"}))
def test_nothing_in_a_comment_becomes_a_line_of_its_own(form: str) -> None:
    for line in EMITTERS[form](advice([], "one\nrm -rf /\r\nV9=1 \x85 \u2028 x\x1b[31m")).split("\n"):
        assert line in ("", "env: []") or line.startswith("# ")
        assert line.isprintable()


@pytest.mark.parametrize("form", sorted(set(EMITTERS) - {"json"}))
def test_each_variable_stands_below_its_reason(form: str) -> None:
    text = EMITTERS[form](advice(["1"], "mlx5_8 is a storage port."))
    assert text.index("mlx5_8 is a storage port.") < text.index("NCCL 2.4") < text.index("V0")
