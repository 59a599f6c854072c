"""What a command or a compiler's line above an error shows; what is read out of a message as refused; plain fixes."""

import io

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.explain.above import undecided_fix
from gpudoctor.explain.advised import advice
from gpudoctor.explain.conclude import Conclusion
from gpudoctor.explain.explain import explain
from gpudoctor.explain.lines_to_paste import lines_for
from gpudoctor.explain.own_words import refused_path, said
from gpudoctor.explain.plain_fixes import plain_fix
from gpudoctor.explain.report import LogCause
from gpudoctor.explain.shown_commands import by_commands
from gpudoctor.explain.to_change import sets_it
from gpudoctor.explain.tracebacks import Raised
from gpudoctor.fault_classes import Class


def ends(*lines: str) -> dict[str, list[tuple[int, str]]]:
    return {"a.log": list(enumerate(lines, 1))}


HUB = "URL https://registry-1.docker.io/v2/reg.acme.io/ml/train/manifests/v1 returned error code: 401"


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (
            ("$ srun --container-image a.sqsh true", "slurmstepd: error: pyxis: failed to import docker image"),
            "./a.sqsh",
        ),
        (("$ srun --container-image ./a.sqsh true", "slurmstepd: error: pyxis: failed to import docker image"), ""),
        (("+ srun --container-image=reg.acme.io/ml/train:v1 true", f"error: pyxis: {HUB}"), "reg.acme.io#ml/train:v1"),
        (("+ srun --container-image=reg.acme.io#ml/train:v1 true", f"error: pyxis: {HUB}"), ""),
        (("$ horovodrun -np 2 -H a:1 b:1 python t.py", "There are not enough slots available"), "-H a:1,b:1"),
        (("$ horovodrun -np 2 -H a:1,b:1 python t.py", "There are not enough slots available"), ""),
        (("#SBATCH --account=$proj", "sbatch: error: Batch job submission failed: Invalid account"), "--account=$proj"),
        (("#SBATCH --account=$proj", "loss 0.3"), ""),
        (("$ apptainer exec a.sif --nv python t.py", "RuntimeError: Found no NVIDIA driver"), "exec --nv a.sif"),
        (("$ apptainer exec a.sif python t.py", "RuntimeError: Found no NVIDIA driver"), "exec --nv IMAGE"),
        (("$ apptainer exec --nv a.sif python t.py", "RuntimeError: Found no NVIDIA driver"), ""),
        (("$ docker run --rm a python t.py", "RuntimeError: No CUDA GPUs are available"), "--gpus all"),
        (("$ docker run --gpus all --rm a python t.py", "RuntimeError: No CUDA GPUs are available"), ""),
    ],
)
def test_a_command_that_shows_it(lines: tuple[str, ...], shown: str) -> None:
    told = by_commands(ends(*lines))
    assert shown in told if shown else not told


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("[Errno 2] No such file or directory: '/data/a.json'", "/data/a.json"),
        ("Give it in the form 'namespace/repo_name': '/models/a' does not exist", "/models/a"),
        ("See /opt/doc/README for /path/to/data: '/data/b' not found", "/data/b"),
        ("it is not there", ""),
    ],
)
def test_the_path_that_was_refused(message: str, path: str) -> None:
    assert refused_path(message) == path


@pytest.mark.parametrize(
    ("kind", "message", "file", "function", "variant"),
    [
        ("data", "list index out of range", "/v/site-packages/unsloth/models/rl.py", "patch", "in-package"),
        ("data", "list index out of range", "/w/train.py", "split", "own-line"),
        ("data", "sample 7 has no label", "/w/data.py", "__getitem__", "data"),
        ("shape", "sizes 3 and 4 do not fit", "/w/train.py", "f", "shape"),
        ("shape", "it is no matrix", "/w/train.py", "f", "own-line"),
        ("permission", "401 Client Error", "/w/train.py", "f", "permission-key"),
        ("download", "404 Client Error: Not Found", "/w/train.py", "f", "download-name"),
        ("checkpoint", "unexpected EOF, file might be corrupt", "/w/train.py", "f", "checkpoint-file"),
    ],
)
def test_the_sentence_of_a_class_only_where_it_holds(
    kind: Class, message: str, file: str, function: str, variant: str
) -> None:
    known = frozenset({"data", "shape", "permission", "permission-key", "download-name", "checkpoint-file"})
    assert plain_fix(kind, known, "ValueError", message, file, function, alone=True)[0] == variant


def test_a_header_announces_only() -> None:
    message = "1 validation error for Settings\ntrain.steps\n  Input should be a valid integer [type=int_type, "
    assert said(f"{message}input_value='many', input_type=str]") == (
        "train.steps: Input should be a valid integer (it is 'many')"
    )


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("It is refused, set the env var A_B=1 to allow it.", "set the env var A_B=1"),
        ("No room. Try increasing `a` or decreasing `b`. If you really want it, you can set <x>.", "you can set <x>"),
        ("It died. Please check the print statements above.", ""),
        ("Call to ibv_create_qp failed", ""),
        ("Use a.b.ClassName or c. Then go on.", "a.b.ClassName or c"),
    ],
)
def test_advice_of_any_message(message: str, shown: str) -> None:
    assert shown in advice(message) if shown else not advice(message)


def test_the_compiler_before_the_exception() -> None:
    log = """main.c:5:12: fatal error: Python.h: No such file or directory
compilation terminated.
Traceback (most recent call last):
  File "/w/t.py", line 9, in <module>
    run()
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
CalledProcessError: Command '['/usr/bin/gcc', 'main.c']' returned non-zero exit status 1.
"""
    assert "python3-dev" in explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].fix.text


@pytest.mark.parametrize(("variant", "told"), [("at", False), ("alone", False), ("advised", True)])
def test_of_an_undecided_end_no_fix_is_handed_over_that_says_nothing(variant: str, told: bool) -> None:
    fix = CAUSES["program-error"].remedy(variant, place="", who="rank 1", told="", advice="set x to 2")
    first = LogCause(cause="program-error", confidence=0.4, summary="rank 1 died of OddError: 7", fix=fix)
    concluded = Conclusion(causes=(first,), unknown=f"{first.summary}; why is not decided", consequences=(), story=())
    assert bool(undecided_fix(concluded, (), {})) is told


@pytest.mark.parametrize(
    ("file", "source", "message", "variant", "expected"),
    [
        ("/w/train.py", "model = Net(num_heads=3)", "`num_heads` must be even", "refused", True),
        ("/w/train.py", "trainer.fit(model)", "`num_heads` must be even", "refused", False),
        ("/w/train.py", "raise ValueError('`num_heads` must be even')", "`num_heads` must be even", "refused", False),
        ("/v/site-packages/peft/x.py", "num_heads = 3", "`num_heads` must be even", "refused", False),
        ("/w/train.py", "a @ b", "sizes 3 and 4", "shape", True),
    ],
)
def test_a_place_is_named_where_it_is_the_one_to_change(
    file: str, source: str, message: str, variant: str, expected: bool
) -> None:
    raised = Raised("ValueError", message, 9, file=file, at=4, innermost=file, source=source)
    assert sets_it(raised, variant) is expected


@pytest.mark.parametrize(
    ("cause", "variant", "values", "expected"),
    [
        ("library-missing", "package", {"package": "flash-attn"}, ("python -m pip install flash-attn",)),
        ("library-missing", "package", {"package": "no package"}, ("",)),
        ("program-error", "path", {"path": "/data/a b.pt"}, ("ls -ld '/data/a b.pt' /data",)),
        ("program-error", "path", {"path": "a.pt"}, ()),
        ("disk-full", "path", {"path": "/scratch/x"}, ("df -h /scratch", "df -i /scratch")),
    ],
)
def test_lines_to_paste_have_the_log_s_values(
    cause: str, variant: str, values: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert lines_for(cause, variant, values) == expected


def test_warnings_at_the_raising_line_say_why_and_dynamo_says_where() -> None:
    """As an H100 with torch 2.11 has written them: attention's kernels are left one after the other; dynamo's exception
    comes from where the compiled function was called, and the line that it refuses stands below."""
    at = "/w/net.py:41: UserWarning:"
    attention = (
        f"{at} Flash attention kernel not used because: (Triggered internally at /pytorch/aten/sdp_utils.cpp:988.)",
        f"{at} Expected query, key and value to all be of dtype: {{Half, BFloat16}}. Got Query dtype: float instead. "
        "(Triggered internally at /pytorch/aten/sdp_utils_cpp.h:91.)",
        "/w/other.py:41: UserWarning: Expected a tensor of 4 dimensions.",
        "Traceback (most recent call last):",
        '  File "/w/net.py", line 41, in attend',
        "    scaled_dot_product_attention(query, key, value)",
        "RuntimeError: No available kernel. Aborting execution.",
    )
    (cause, *_) = explain(["-"], stdin=io.BytesIO("\n".join(attention).encode())).causes
    assert "Expected query, key and value to all be of dtype: {Half, BFloat16}" in cause.fix.text
    assert "4 dimensions" not in cause.fix.text and "Triggered" not in cause.fix.text
    compiled = (
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 84, in <module>',
        "    step(batch)",
        '  File "/venv/lib/python3.12/site-packages/torch/_dynamo/eval_frame.py", line 1034, in compile_wrapper',
        "    raise e.with_traceback(None) from e.__cause__",
        "torch._dynamo.exc.UserError: Could not guard on data-dependent expression u0 > 0.0",
        "",
        "from user code:",
        '   File "/w/net.py", line 12, in forward',
        "    return x * 2 if x.sum().item() > 0 else x",
        "",
        "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace",
    )
    (cause, *_) = explain(["-"], stdin=io.BytesIO("\n".join(compiled).encode())).causes
    assert "/w/net.py:12 in forward" in cause.summary
