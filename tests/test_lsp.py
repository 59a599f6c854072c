"""`gpudoctor lsp`, asked by a client that speaks JSON-RPC over its standard input and output, as an editor does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("forks")
PYGLS = "pygls.lsp.server"
START = (
    "# \U0001f600\ntorchrun --nnodes=2 \\\n"
    "  --nproc-per-nodes=4 --master-addr=n1 --node-rank=$R train.py  # \U0001f600\n"
)


class Editor:
    """A client with one server."""

    def __init__(self, folder: Path, encodings: list[str]) -> None:
        command = [sys.executable, "-m", "gpudoctor", "lsp", "--stdio"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        self.number = 0
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.messages: list[str] = []
        self.folder = folder
        general = {"positionEncodings": encodings}
        capabilities = {"general": general, "textDocument": {"publishDiagnostics": {}}}
        self.server = self.ask(
            "initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities}
        )
        self.say("initialized", {})

    def _send(self, message: dict[str, Any]) -> None:
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif message.get("method") == "window/showMessage":
            self.messages.append(message["params"]["message"])
        return message

    def say(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while (message := self._receive()).get("id") != self.number or "method" in message:
            pass
        assert "error" not in message, message
        return message["result"]

    def open(self, name: str, text: str, language: str = "shellscript") -> str:
        uri = (self.folder / name).as_uri()
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.say("textDocument/didOpen", {"textDocument": document})
        self.settle(uri)
        return uri

    def settle(self, uri: str) -> None:
        """All that was said is answered: diagnostics come before the answer to what was asked after it."""
        self.actions(uri, 0)

    def actions(self, uri: str, line: int) -> list[dict[str, Any]]:
        place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
        asked = {"textDocument": {"uri": uri}, "range": place, "context": {"diagnostics": []}}
        found: list[dict[str, Any]] = self.ask("textDocument/codeAction", asked) or []
        return found

    def codes(self, uri: str) -> list[str]:
        return [each["code"] for each in self.diagnostics.get(uri, [])]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> int:
        self.ask("shutdown", None)
        self.say("exit", None)
        return self.process.wait(20)


@pytest.fixture(params=["utf-16", "utf-32"])
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Editor]:
    pytest.importorskip(PYGLS)
    (tmp_path / ".git").mkdir()
    made = Editor(tmp_path, [request.param])
    try:
        yield made
        assert made.end() == 0
    finally:
        made.close()


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """As an editor makes them; of texts in which all before them on the line is one unit a character."""
    lines = text.split("\n")
    for each in sorted(edits, key=lambda each: -each["range"]["start"]["line"]):
        first, last = each["range"]["start"], each["range"]["end"]
        assert first["line"] == last["line"]
        line = lines[first["line"]]
        lines[first["line"]] = line[: first["character"]] + each["newText"] + line[last["character"] :]
    return "\n".join(lines)


def test_problems_stand_at_their_places_and_a_quick_fix_takes_them_away(editor: Editor) -> None:
    uri = editor.open("run.sh", START)
    (problem,) = [each for each in editor.diagnostics[uri] if each["code"] == "V03"]
    assert problem["severity"] == 1 and problem["source"] == "gpudoctor" and "Fix: Write" in problem["message"]
    assert problem["range"] == {"start": {"line": 2, "character": 2}, "end": {"line": 2, "character": 21}}
    fix, ignore = [each for each in editor.actions(uri, 2) if each["diagnostics"][0]["code"] == "V03"]
    assert fix["isPreferred"] and fix["kind"] == "quickfix"
    after = edited(START, fix["edit"]["changes"][uri])
    assert after == START.replace("--nproc-per-nodes", "--nproc-per-node")
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": after}]}
    editor.say("textDocument/didChange", change)
    editor.settle(uri)
    assert "V03" not in editor.codes(uri)
    silenced = edited(START, ignore["edit"]["changes"][uri])
    assert silenced.split("\n")[1] == "# gpudoctor: ignore[V03]"  # above the command: inside it no comment can stand
    change = {"textDocument": {"uri": uri, "version": 3}, "contentChanges": [{"text": silenced}]}
    editor.say("textDocument/didChange", change)
    editor.settle(uri)
    assert "V03" not in editor.codes(uri) and "I02" not in editor.codes(uri)
    editor.say("textDocument/didClose", {"textDocument": {"uri": uri}})
    editor.settle(uri)
    assert editor.codes(uri) == []


def test_positions_behind_a_wide_character_are_in_the_units_of_the_editor(editor: Editor) -> None:
    encoding = editor.server["capabilities"].get("positionEncoding", "utf-16")
    uri = editor.open("run.sh", "NAME='\U0001f600\U0001f600' torchrun --nproc-per-nodes=4 train.py\n")
    (problem,) = [each for each in editor.diagnostics[uri] if each["code"] == "V03"]
    assert problem["range"]["start"]["character"] == {"utf-16": 21, "utf-32": 19}[encoding]


def test_open_documents_that_name_each_other_are_one_start_and_no_other_file_is_read(editor: Editor) -> None:
    worker = "torchrun --nnodes=2 --nproc-per-nodes=4 train.py\n"
    (editor.folder / "worker.sh").write_text(worker)  # lies there, and is not open
    job = editor.open("job.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun bash worker.sh\n")
    assert "V03" not in editor.codes(job)
    other = editor.open("worker.sh", worker)
    assert "V03" in editor.codes(other) and "V03" not in editor.codes(job)
    plain = editor.open("values.yaml", "name: x\nreplicas: 3\n", "yaml")
    assert editor.codes(plain) == []
    library = editor.open("model.py", "import torch\n\ndef f():\n    torch.nn.DataParallel(m)\n", "python")
    assert editor.codes(library) == []
    pod = editor.open(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n"
        "    command: [torchrun, --nproc-per-nodes=4, t.py]\n",
        "yaml",
    )
    assert "V03" in editor.codes(pod)


def test_what_is_wrong_in_a_module_stands_at_the_import_or_in_it_when_it_is_open(editor: Editor) -> None:
    head = "import torch\nimport torch.distributed as dist\n"
    module = head + "def look():\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    (editor.folder / "engine.py").write_text(module)
    program = head + "from engine import look\ndist.init_process_group('nccl')\nlook()\n"
    uri = editor.open("train.py", program, "python")
    editor.open("run.sh", "torchrun --standalone --nproc-per-node=2 train.py\n")
    (told,) = (each for each in editor.diagnostics[uri] if each["code"] == "T01")
    assert told["range"]["start"] == {"line": 2, "character": 0}
    assert told["message"].startswith("in engine.py, line 5: dist.barrier() stands below")
    (related,) = told["relatedInformation"]
    assert related["location"]["uri"] == (editor.folder / "engine.py").resolve().as_uri()
    assert related["location"]["range"]["start"] == {"line": 4, "character": 8}
    assert not any("gnore T01" in each["title"] for each in editor.actions(uri, 2))
    inside = editor.open("engine.py", module, "python")
    assert [each["range"]["start"]["line"] for each in editor.diagnostics[inside] if each["code"] == "T01"] == [4]
    assert not [each for each in editor.diagnostics[uri] if each["code"] == "T01"]
    editor.open("engine.py", module.replace("== 0", ">= 0"), "python")


def test_the_config_holds_and_a_bad_one_is_a_message(editor: Editor) -> None:
    (editor.folder / "gpudoctor.toml").write_text('[lint]\noff = ["V03"]\n')
    assert "V03" not in editor.codes(editor.open("run.sh", START))
    other = editor.folder / "other"
    other.mkdir()
    (other / "gpudoctor.toml").write_text('[lint]\noff = ["Q99"]\n')
    assert editor.codes(editor.open("other/run.sh", START)) == []
    assert len(editor.messages) == 1 and "Q99" in editor.messages[0]
    (other / "gpudoctor.toml").unlink()
    editor.say("textDocument/didSave", {"textDocument": {"uri": (other / "run.sh").as_uri()}})
    editor.settle((other / "run.sh").as_uri())
    assert "V03" not in editor.codes((other / "run.sh").as_uri())  # the config of the repository holds again
    assert "R05" not in editor.codes(editor.open("hostfile", "n1 slots=8\nn1 slots=8\n", "plaintext"))
    assert editor.codes((editor.folder / "hostfile").as_uri()) == ["D01"]


def test_without_pygls_it_is_one_clear_line() -> None:
    hidden = (
        "import sys\nsys.modules['pygls'] = None\nsys.argv = ['gpudoctor', 'lsp']\n"
        "from gpudoctor.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "pip install 'gpudoctor[lsp]'" in done.stderr
