"""What bash refuses of a script, `refused` refuses, and nothing else: `bash -n` is the oracle."""

import random
import re
import subprocess

import pytest

from gpudoctor.lint.shell.syntax import refused
from tests.corpus.starts import starts

SPOTS = re.compile(r"[\"'`(){}]|\b(?:fi|done|do|then|esac|EOF|if|for)\b|;;|\$\(|<<|&&|;")
SEPARATOR = "\n#### next\n"
EACH = 2


def scripts() -> list[str]:
    found = [text.text for start in starts() if start.measured and start.half == "tune" for text in start.texts]
    return [text for text in found if re.match(r"#!\S*(?:/|env )(?:ba)?sh\b", text)]


def broken() -> list[str]:
    """Scripts from which one quote, bracket or word was taken out."""
    chosen = random.Random(17)
    texts = []
    for text in scripts():
        for spot in chosen.sample(list(SPOTS.finditer(text)), k=min(EACH, len(SPOTS.findall(text)))):
            texts.append(text[: spot.start()] + text[spot.end() :])
    return texts


def bash_refuses(texts: list[str]) -> list[bool]:
    """Each in a bash of its own, all of them started by one."""
    loop = 'while IFS= read -r -d "" text; do told=$(printf "%s" "$text" | bash -n 2>&1); echo ${#told}; done'
    told = subprocess.run(
        ["bash", "-c", loop], input="".join(text + "\0" for text in texts), capture_output=True, text=True, check=True
    )
    return [line.strip() != "0" for line in told.stdout.split()]


def test_bash_and_we_refuse_the_same_scripts() -> None:
    texts = [*scripts(), *broken()]
    assert len(texts) > 150
    theirs = bash_refuses(texts)
    assert sum(theirs) > 50
    unlike = [text for text, wrong in zip(texts, theirs, strict=True) if wrong != (refused(text) is not None)]
    # bash 5.2 reads `for ((i = 0; i < 2; i++); do` to the end of the script, runs nothing of it and says nothing
    assert not [text for text in unlike if getattr(refused(text), "what", "") != "(("]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('#!/bin/bash\nA="b\necho c\n', 2, '"'),
        ('#!/bin/bash\necho "one\nexport B="two"\necho three\n', 2, '"'),
        ("if true; then\n  echo a\n", 1, "if"),
        ("echo a\nwhile true; do\n  if true; then\n    echo b\n  fi\n", 2, "while"),
        ("cat <<EOF\na\n EOF\n", 1, "<<"),
        ("echo a\nfi\n", 2, "fi"),
        ("A=(1 2\necho b\n", 1, "("),
        ("A=$(hostname\necho b\n", 1, "$("),
        ("if true; then\n  # nothing yet\nfi\n", 3, "fi"),
    ],
)
def test_the_line_is_where_it_began(text: str, line: int, what: str) -> None:
    found = refused(text)
    assert found is not None and (text.count("\n", 0, found.at) + 1, found.what) == (line, what)


def test_a_megabyte_of_one_pattern_is_soon_read() -> None:
    for pattern in ("((", "$(", '"$(', "if ", "{ ", "a=(", "<<a\n", "case x in ", "`", "\\\n"):
        refused(pattern * 20_000)
