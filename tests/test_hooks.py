"""Where people look besides a terminal: the hook of pre-commit, the action of GitHub, the problem matcher."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
BAD = "#!/bin/bash\ntorchrun --nproc-per-nodes=4 train.py\n"
LINE = "run.sh:2:10: error: --nproc-per-nodes is no option of torchrun; --nproc-per-node is [V03]"


def test_the_problem_matcher_reads_the_short_form() -> None:
    (matcher,) = json.loads((ROOT / ".github" / "gpudoctor-matcher.json").read_text())["problemMatcher"]
    (pattern,) = matcher["pattern"]
    found = re.match(pattern["regexp"], LINE)
    assert found is not None
    fields = {name: found[number] for name, number in pattern.items() if name != "regexp"}
    assert fields == {
        "file": "run.sh",
        "line": "2",
        "column": "10",
        "severity": "error",
        "message": "--nproc-per-nodes is no option of torchrun; --nproc-per-node is",
        "code": "V03",
    }
    shown = re.search(r'"regexp": (".+")', (ROOT / "docs" / "lsp.md").read_text())
    assert shown is not None and json.loads(shown[1]) == pattern["regexp"]


def test_the_action_runs_lint_of_this_repository_and_nothing_foreign(tmp_path: Path) -> None:
    """Its step is run as it stands, with a Python that makes an environment of the gpudoctor that is tested."""
    folder = ROOT / ".github" / "actions" / "lint"
    action = yaml.safe_load((folder / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite" and "uses" not in step
    (tmp_path / "run.sh").write_text(BAD)
    python = tmp_path / "python"  # -m venv FOLDER
    python.write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\n'
        'printf \'#!/bin/sh\\necho "$@" >> installed\\n\' > "$3/bin/python"\n'
        f'printf \'#!/bin/sh\\nexec {sys.executable} -m gpudoctor "$@"\\n\' > "$3/bin/gpudoctor"\n'
        'chmod +x "$3/bin/python" "$3/bin/gpudoctor"\n'
    )
    python.chmod(0o755)
    environment = {
        **os.environ,
        "PATHS": "run.sh $(touch\u00a0pwned) *",
        "ARGUMENTS": "",
        "PYTHON": str(python),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "TMPDIR": str(tmp_path / "made"),
        "GITHUB_ACTION_PATH": str(folder),
    }
    (tmp_path / "made").mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert "::error file=run.sh,line=2,col=10,endColumn=29,title=unknown-option V03::" in done.stdout
    assert not list(tmp_path.glob("pwned*"))
    assert not list((tmp_path / "made").iterdir()), "its environment stays behind"
    assert (tmp_path / "installed").read_text() == f"-m pip install --quiet {folder}/../../..\n"
    assert Path(f"{folder}/../../..").resolve() == ROOT


def test_pre_commit_runs_the_hook(tmp_path: Path) -> None:
    """As its own `try-repo` does: the repository is cloned and installed, what it needs comes from the index."""
    pytest.importorskip("pre_commit")
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git repository of gpudoctor here")
    project = tmp_path / "project"
    project.mkdir()
    (project / "run.sh").write_text(BAD)
    (project / "util.sh").write_text("#!/bin/bash\nls\n")
    (project / "values.yaml").write_text("a: 1\n")
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    subprocess.run(["git", "add", "."], cwd=project, check=True)
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "gpudoctor-lint", "--all-files"]
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=environment, cwd=project, capture_output=True, text=True, timeout=280)
    if "Could not find a version" in done.stdout + done.stderr:
        pytest.skip("the package index is not reached")
    assert [line for line in done.stdout.splitlines() if line.startswith(("run.sh", "util.sh", "values"))] == [LINE]
    assert done.returncode == 1
