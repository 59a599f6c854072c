"""A real browser without a window, spoken to over two pipes: what a page looks like and does in it."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0


def program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Tab:
    """One tab: a page is opened in it and asked."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """What its console has said, and what its script has not caught."""
        self.requests: list[str] = []
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")
        self.tell("Emulation.setFocusEmulationEnabled", enabled=True)

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith(("Browser.", "Target.")):
            order["sessionId"] = self._session
        os.write(self._write, json.dumps(order).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return dict(said["result"])
        raise TimeoutError(method)

    def open(self, path: Path, *, width: int = 1200, dark: bool = False, touch: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.tell("Emulation.setEmulatedMedia", features=scheme)
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=touch)
        self.requests.clear()
        self.tell("Page.navigate", url=path.as_uri())
        end = time.monotonic() + PATIENCE
        while self.ask("document.readyState + location.protocol") != "completefile:" and time.monotonic() < end:
            time.sleep(0.02)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page; of a promise what it comes to."""
        result = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        words = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        self.tell("Input.dispatchKeyEvent", type="keyDown", **words, **text)
        self.tell("Input.dispatchKeyEvent", type="keyUp", **words)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        event, more = said.get("method"), said.get("params", {})
        if event in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(more)[:500])
        elif event == "Network.requestWillBeSent":
            self.requests.append(more["request"]["url"])
        return said


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with an empty profile in this folder, which ends with the block."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    options = (
        "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
        "--disable-component-update --remote-debugging-pipe"
    )
    line = f'exec "$0" {options} "--user-data-dir=$1" 3<&{to_browser} 4>&{from_browser}'
    child = subprocess.Popen(
        ["bash", "-c", line, str(program()), str(folder)],
        pass_fds=(to_browser, from_browser),
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        tab = Tab(write, read)
        tab.tell("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        yield tab
        tab.tell("Browser.close")
        child.wait(PATIENCE)
    finally:
        os.close(write)
        os.close(read)
        try:
            os.killpg(child.pid, 9)
        except ProcessLookupError:
            pass
        child.wait(PATIENCE)
