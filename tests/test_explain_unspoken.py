"""What is said of ranks, NCCL, torch and CUDA only where the log names them; fixes that say less where a form does not
fit."""

import io

import pytest

from gpudoctor.explain.explain import explain


def told(text: str) -> tuple[str, str, str, str]:
    first = explain((), stdin=io.BytesIO(), texts=(text,)).causes[0]
    return first.summary, first.meaning, first.fix.text, first.confirm


@pytest.mark.quick
def test_of_what_no_log_names_nothing_is_said() -> None:
    julia = "ERROR: LoadError: CUDA error: out of memory (code 2, ERROR_OUT_OF_MEMORY)\nStacktrace:\n [1] main()\n"
    whole = " ".join(told(julia))
    assert "process ran out of GPU memory" in whole
    assert not any(word in whole for word in ("rank", "torch", "NCCL", "DataLoader"))
    assert "a rank ran out" in told("rank 3 of 8 begins\n" + julia)[0]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("log", "there", "never"),
    [
        ("c++: fatal error: Killed signal terminated program cc1plus\nninja: build stopped: subcommand failed.\n",
         "MAX_JOBS", "do not fit"),
        ("/usr/bin/ld: cannot find -lcuda\ncollect2: error: ld returned 1 exit status\n", "libcuda", "do not fit"),
        ("collect2: error: ld returned 1 exit status\n", "No remedy", "do not fit"),
        ("job starts\nBus error (core dumped)\n", "file was cut", "NCCL"),
        ("OSError: [Errno 28] inotify watch limit reached\n", "max_user_watches|No disk", "Make room"),
        ("botocore.exceptions.ClientError: An error occurred (InvalidArgument) when calling PutObject: x\n",
         "words of a service", "Print"),
    ],
)  # fmt: skip
def test_a_fix_says_less_where_its_form_does_not_fit(log: str, there: str, never: str) -> None:
    fix = told(log)[2]
    assert any(word in fix for word in there.split("|")) and never not in fix, fix
