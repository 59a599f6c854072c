"""Pages of --html in a real browser: nothing is fetched or complained of, on a phone and in the dark, by keyboard."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor.folder.read import answer_of
from gpudoctor.hang.conclude import conclude
from gpudoctor.render.html.check import check_page
from gpudoctor.render.html.fleet import survey_page
from gpudoctor.render.html.folder import folder_page
from gpudoctor.render.html.hang import hang_page
from gpudoctor.render.html.nccl_test import nccl_test_page
from gpudoctor.render.html.train import train_page
from gpudoctor.snapshot.evidence import Evidence
from tests import nccl_examples, train_examples
from tests.bench.html import one_elsewhere
from tests.browser import Tab, browser, program
from tests.hang_examples import EXAMPLES
from tests.machines.hand_built import broken_8xh100
from tests.machines.network_machines import many_bridges
from tests.machines.reports import judged
from tests.test_html import surveyed

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(program() is None, reason="no browser: apt-get install chromium"),
]


def _hang(evidence: Evidence) -> bytes:
    return hang_page(conclude(evidence))


PAGES: dict[str, Callable[[], bytes]] = {
    "check": lambda: check_page(judged(broken_8xh100()), broken_8xh100(), status=1),
    "bridges": lambda: check_page(judged(many_bridges()), many_bridges(), status=1),
    "hosts": lambda: survey_page(surveyed(tuple(f"gpu-node-{number:02}" for number in range(40))), status=1),
    "hang": lambda: _hang(EXAMPLES["hang-rank0-only"]()),
    "recorders": lambda: hang_page(one_elsewhere(64)),
    "curves": lambda: nccl_test_page(nccl_examples.gdr_off(), status=1),
    "pairs": lambda: nccl_test_page(nccl_examples.slow_node(), status=1),
    "compared": lambda: nccl_test_page(nccl_examples.compared(), status=0),
    "report": lambda: folder_page(*answer_of("docs/examples/run-out-of-memory")),
    "train": lambda: train_page(train_examples.one_gpu_differs()),
}

TOO_FAINT = """
(() => {
  const parts = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (colour.startsWith("rgb(")) return parts(colour);
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *:not(script)")) {
    if (element.closest("svg") || ![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [one, other] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
  }
  return faint;
})()
"""
"""Text whose contrast is below 4.5, what WCAG 2 wants for text of this size (level AA)."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    for name, made in PAGES.items():
        (place / f"{name}.html").write_bytes(made())
    return place


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_everywhere(tab: Tab, folder: Path, name: str) -> None:
    page = folder / f"{name}.html"
    tab.complaints.clear()
    for width, dark in ((390, False), (390, True), (1600, False), (1600, True)):
        tab.open(page, width=width, dark=dark, touch=width == 390)
        assert tab.ask("document.documentElement.scrollWidth") <= width
        assert tab.ask("getComputedStyle(document.body).backgroundColor") == (
            "rgb(20, 23, 27)" if dark else "rgb(245, 246, 248)"
        )
        tab.ask("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert tab.ask("document.documentElement.scrollWidth") <= width, "with all that is folded opened"
        assert tab.ask(TOO_FAINT) == []
        assert tab.requests == [page.as_uri()]
    assert not tab.complaints


def test_a_line_is_copied_by_keyboard(tab: Tab, folder: Path) -> None:
    tab.open(folder / "check.html")
    for _ in range(5):
        tab.press("Tab", 9)
        if tab.ask("document.activeElement.className") == "copy":
            break
    assert tab.ask("document.activeElement.matches('.first button.copy')"), "it is the first thing to reach"
    tab.press("Enter", 13)
    assert tab.ask("new Promise((done) => setTimeout(() => done(document.activeElement.textContent), 300))") == "Copied"
    assert tab.ask("navigator.clipboard.readText()") == "unset CUDA_VISIBLE_DEVICES"
    assert tab.ask("document.getElementById('said').textContent") == "Copied"


def test_what_is_folded_is_on_paper(tab: Tab, folder: Path) -> None:
    tab.open(folder / "check.html")
    folded = tab.ask("document.querySelectorAll('details:not([open])').length")
    assert folded > 5
    tab.ask("dispatchEvent(new Event('beforeprint'))")
    assert tab.ask("document.querySelectorAll('details:not([open])').length") == 0
    tab.ask("dispatchEvent(new Event('afterprint'))")
    assert tab.ask("document.querySelectorAll('details:not([open])').length") == folded


def test_what_gets_into_a_page_runs_nothing_and_fetches_nothing(tab: Tab, folder: Path) -> None:
    """Were a name ever written unescaped: the policy is the second wall."""
    tab.open(folder / "hang.html")
    told = tab.ask("""new Promise((done) => {
        const told = [];
        document.addEventListener("securitypolicyviolation", (event) => told.push(event.effectiveDirective));
        const place = document.createElement("div");
        place.innerHTML = "<img src='https://example.invalid/x.png' onerror='window.pwned = 1'><p style='color: red'>";
        document.body.append(place);
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        setTimeout(() => done([...told, String(window.pwned)]), 500);
    })""")
    assert {"img-src", "script-src-elem", "style-src-attr"} <= {*told}
    assert told[-1] == "undefined"
