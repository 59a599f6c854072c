"""The picture in docs/architecture.md: the folders and top modules that there are, and no others."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = ("gpudoctor", "checks", "tests")


def picture() -> dict[str, str]:
    """Paths in the first block of code, with what is said of them; a line stands below the last folder left of it."""
    block = PAGE.partition("```text\n")[2].partition("```")[0]
    shown: dict[str, str] = {}
    above: list[str] = []
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names, _, words = line.strip().partition("  ")
        del above[depth:]
        shown |= {"".join([*above, name]): words for name in names.split()}
        above.append(names.split()[-1] if names.endswith("/") else "")
    return shown


def test_every_folder_and_top_module_is_in_the_picture() -> None:
    folders = {
        f"{place.relative_to(ROOT)}/"
        for room in ROOMS
        for place in (ROOT / room, *(ROOT / room).rglob("*"))
        if place.is_dir() and "__pycache__" not in place.parts
    }
    modules = {f"gpudoctor/{place.name}" for place in (ROOT / "gpudoctor").glob("*.py") if place.name != "__init__.py"}
    lacking = sorted((folders | modules) - picture().keys())
    assert not lacking, "docs/architecture.md has a picture of the rooms: give each its line"


def test_whatever_the_picture_shows_is_there() -> None:
    shown = picture()
    assert len(shown) > 100
    assert not [path for path in shown if not (ROOT / path).exists()]
    for path, words in shown.items():
        place = ROOT / path if path.endswith("/") else (ROOT / path).parent
        for name in re.findall(r"[\w/]+\.py\b", words):
            assert list(place.rglob(name)), f"{name}, of which {path} speaks"


def test_every_file_that_the_page_names_is_there() -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE):
        assert any((ROOT / room / name).exists() for room in ("", "gpudoctor", "checks")), name
