"""What whole logs of public repositories showed: words that are no trouble, records of loggers that are no end, where
in the user's program a library failed, and what several ranks write at once. Every log here is our own."""

import io
from itertools import zip_longest

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.sure import POSSIBLE

STEPS = "".join(f"epoch 3 step {step} loss 2.{step}\n" for step in range(100, 900, 100))


def said(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


@pytest.mark.parametrize(
    "line",
    [
        "(timeout: 45s) sample 7 was judged",
        "request_timeout=30 retries=0",
        "rm: cannot remove 'kept/*': No such file or directory",
        "ls: cannot access 'kept/net.2*': No such file or directory",
        "Stopping... : [Wall 2.5 CPU 9.1] seconds.",
        "│ Rate Limiter           │    12 │ open      │",
        "async-timeout             4.0.3                    pypi_0    pypi",
        "(raylet) [2026-03-01 10:00:01,1 E 12 14] file_system_monitor.cc:111: /tmp/ray/s is over 95% full",
        "(EngineCore_DP0 pid=7) ERROR 07-01 10:00:01 [fa_utils.py:57] Cannot use FA version 2 is not supported",
        "fatal: not a git repository (or any of the parent directories): .git",
        "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)",
    ],
)
def test_what_is_no_trouble(line: str) -> None:
    assert not said(f"the loader is built\n{line}\nthe loader is read\n").trouble
    assert said(f"{STEPS}{line}\n").well


GIT = """\
ERROR:2026-03-01 10:00:01,332:git root error: Cmd('git') failed due to: exit code(128)
  cmdline: git rev-parse --show-toplevel
  stderr: 'fatal: detected dubious ownership in repository at '/srv/train'
To add an exception for this directory, call:

	git config --global --add safe.directory /srv/train'
"""


def test_wandb_does_without_git() -> None:
    assert said(f"{GIT}wandb: Syncing run blue-7\n").exit_status == 3
    assert said(GIT.partition("git root error: ")[2]).exit_status == 1


def test_an_interface_without_a_cable_beside_one_with_is_no_fault() -> None:
    down = "3: eno2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN group default qlen 1000\n"
    up = "2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000\n"
    assert said(down).exit_status == 1
    assert said(up + down).exit_status == 3


def test_the_source_of_a_frame_is_no_advice() -> None:
    log = """Traceback (most recent call last):
  File "/opt/venv/bin/vllm", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/vllm/entrypoints/openai/api_server.py", line 1775, in signal_handler
    raise KeyboardInterrupt("terminated")
KeyboardInterrupt: terminated
"""
    answer = said(log)
    assert answer.unknown and "told to end by SIGTERM" in answer.unknown and not answer.advice


def test_the_place_of_what_a_library_raised_and_raised_again_is_the_users() -> None:
    log = """Traceback (most recent call last):
  File "/usr/lib/python3.10/urllib/request.py", line 1348, in do_open
    h.request(req.get_method(), req.selector, req.data, headers,
OSError: [Errno 101] Network is unreachable

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/train/main.py", line 20, in <module>
    weights = fetch("vit")
  File "/srv/train/weights.py", line 56, in fetch
    with urllib.request.urlopen(url) as source:
  File "/usr/lib/python3.10/urllib/request.py", line 1351, in do_open
    raise URLError(err)
urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>
"""
    assert "/srv/train/weights.py:56" in said(log).causes[0].summary


def test_an_exception_that_announces_another_ones_traceback_is_its_wrapper() -> None:
    log = """Traceback (most recent call last):
  File "python/ray/_raylet.pyx", line 2135, in ray._raylet.execute
  File "/opt/venv/lib/python3.9/site-packages/ray/_private/function_manager.py", line 608, in method
    raise RuntimeError(
RuntimeError: The actor with name Worker failed to import on the worker:

Traceback (most recent call last):
  File "/srv/train/worker.py", line 9, in <module>
    import fastops
ImportError: /opt/venv/fastops.so: undefined symbol: _ZNK3c1011StorageImpl4dataEv
"""
    answer = said(log)
    assert answer.causes[0].cause == "version-mismatch" and "_ZNK3c10" in answer.causes[0].evidence[0].text


TASK = """\
ERROR:asyncio:Task exception was never retrieved
future: <Task finished name='Task-{n}' coro=<ask() done, defined at /srv/ask.py:4>>
Traceback (most recent call last):
  File "/srv/ask.py", line 9, in ask
    reply = await answer(question)
{error}
"""


def test_what_ended_a_task_of_which_nobody_asked_is_no_end_where_others_come_later() -> None:
    earlier = TASK.format(n=1, error="NameError: name 'answer' is not defined")
    later = TASK.format(n=2, error="openai.APIStatusError: Error code: 402 - balance is used up")
    answer = said(earlier + later)
    assert "402" in answer.causes[0].summary and "402" in answer.causes[0].evidence[0].text
    assert "answer" not in answer.causes[0].fix.text.partition("402")[0]


def test_what_ranks_write_at_once_is_read_as_one_wrote_it() -> None:
    log = """\
  File "train.py", line 232
  File "train.py", line 232
    optim="adamw"
    ^
SyntaxErrorSyntaxError: : invalid syntaxinvalid syntax
"""
    answer = said(log)
    assert answer.causes and "SyntaxError: invalid syntax" in answer.causes[0].summary
    assert "SyntaxErrorSyntaxError" not in answer.causes[0].summary


def test_a_message_ends_where_wandb_speaks() -> None:
    log = """Traceback (most recent call last):
  File "/srv/train/main.py", line 20, in <module>
    measure(a, b)
ValueError: the images differ.
wandb: View run blue-7 at: https://wandb.ai/x
"""
    assert not any("wandb" in line.text for line in said(log).causes[0].evidence)


def test_a_logger_that_announces_a_traceback_is_no_trouble_of_its_own() -> None:
    log = """\
ERROR 07-01 10:00:01 [core.py:708] EngineCore failed to start.
ERROR 07-01 10:00:01 [core.py:708] Traceback (most recent call last):
ERROR 07-01 10:00:01 [core.py:708]   File "/opt/x/lib/python3.10/site-packages/vllm/v1/core.py", line 6, in run
ERROR 07-01 10:00:01 [core.py:708]     kernel.run()
ERROR 07-01 10:00:01 [core.py:708] RuntimeError: Triton Error [CUDA]: device kernel image is invalid
"""
    assert said(log).causes[0].confidence > 0.5


def test_a_time_limit_is_told_before_what_came_of_it() -> None:
    log = """\
srun: Job step aborted: Waiting up to 62 seconds for job step to finish.
slurmstepd: error: *** STEP 77.0 ON n4 CANCELLED AT 2026-03-01T10:00:01 DUE TO TIME LIMIT ***
Main process received SIGTERM, exiting
"""
    assert "time limit" in (said(log).unknown or "")


def test_wandb_that_is_not_reached_is_no_download() -> None:
    line = "HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded with url: /graphql"
    answer = said(f"requests.exceptions.ConnectTimeout: {line}\n")
    assert "WANDB_MODE=offline" in answer.causes[0].fix.text


def test_lsf_tells_how_many_jobs_a_log_holds() -> None:
    failing = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 1, in <module>\n    f()\nKeyError: 'x'\n"
    start = "[2026-03-01 10:00:01] [INFO] [runner.py:80:main] cmd = python -u a.py\n"
    report = (
        "Sender: LSF System <lsf@g1>\nExited with exit code 1.\n\nThe output (if any) is above this job summary.\n\n"
    )
    job = f"# LSBATCH: User input\n{start}{failing}{start}{failing}{report}"
    assert "3 runs" in said(job * 3 + "PS:\n\n").starts


@pytest.mark.parametrize(
    "line",
    [
        "Monitoring completed successfully. Script exiting.",
        "All tests completed!",
        "Exiting LEaP: Errors = 0; Warnings = 2; Notes = 1.",
        "            --------- Calculation Completed ----------",
        "(TaskRunner pid=7) Final validation metrics: {'acc': 0.5}",
        "2026-03-01 10:00:01 - INFO - Finished evaluation for the-model",
    ],
)
def test_a_good_end(line: str) -> None:
    assert said(f"the loader is built\n{line}\n").course == "ended well"


def test_hydra_refuses_its_configuration_before_anything_of_the_program() -> None:
    failing = (
        'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in <module>\n    f()\nTypeError: got None\n'
    )
    answer = said(
        f"{STEPS}{failing}Cannot find primary config 'walk.out'. Check that it's in your config search path.\n"
    )
    assert "primary config" in answer.causes[0].summary and "2 runs" in answer.starts


def test_hydras_words_are_no_part_of_a_message() -> None:
    log = """Error executing job with overrides: []
Traceback (most recent call last):
  File "/srv/a.py", line 8, in run
    raise ValueError("few")
ValueError: few

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""
    assert [line.line for line in said(log).causes[0].evidence] == [5]


def test_what_broke_off_by_ctrl_c() -> None:
    log = """Exception in thread Thread-1 (_pin_memory_loop):
Traceback (most recent call last):
  File "/usr/lib/python3.10/threading.py", line 1016, in _bootstrap_inner
    self.run()
ConnectionResetError: [Errno 104] Connection reset by peer
2026-03-14 07:04:38 - LOGS    - Keyboard interruption. Exiting from early training
"""
    assert "Ctrl-C" in (said(log).unknown or "")


def test_a_full_disk_in_the_words_of_rust() -> None:
    words = 'Os { code: 122, kind: FilesystemQuotaExceeded, message: "Disk quota exceeded" }'
    log = f"""Traceback (most recent call last):
  File "/srv/a.py", line 8, in <module>
    save_file(weights, path)
safetensors_rust.SafetensorError: Error while serializing: IoError({words})
"""
    assert said(log).causes[0].cause == "disk-full"


def test_a_level_in_json_counts() -> None:
    line = '{"time":"2026-03-01T10:00:01Z","level":"INFO","msg":"Stopping system monitor"}\n'
    assert not said(line * 3).trouble


def test_a_program_that_leaves_one_thing_out_and_goes_on() -> None:
    skipped = "".join(f"Skipping {number}: its spectrogram is there\n" for number in range(100, 115))
    error = "Error: Could not find the annotation of 140\n"
    assert said(f"{skipped}{error}{skipped.replace('Skipping 1', 'Skipping 2')}").exit_status == 3
    assert said(f"{skipped}{error}").exit_status == 1
    assert said(f"{error}{skipped}").exit_status == 1 or said(f"{error}{skipped}").trouble


def test_a_worker_that_was_told_to_end() -> None:
    log = """Traceback (most recent call last):
  File "/srv/a.py", line 87, in <module>
    kept = track[mask]
  File "/opt/x/lib/python3.8/site-packages/torch/utils/data/_utils/signal_handling.py", line 66, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 4020) is killed by signal: Terminated.
"""
    assert "told to end by SIGTERM" in (said(log).unknown or "")
    assert said(log.replace("Terminated", "Killed")).causes[0].cause == "host-out-of-memory"


def test_an_exception_by_its_repr() -> None:
    log = """Error executing job with overrides: ['mode=train']
Error in call to target 'cases.encoder.Encoder':
AttributeError("'NoneType' object has no attribute 'values'")
full_key: encoder
"""
    answer = said(log)
    assert answer.causes and "'NoneType' object has no attribute 'values'" in answer.causes[0].summary


API, ENGINE = "(APIServer pid=41) ", "(EngineCore pid=42) "
ORDER = f"{API}INFO 03-01 10:00:07 [launcher.py:90] [shutdown] API server: shutdown triggered\n"
DEAD = f"""\
{API}ERROR 03-01 10:00:07 [async_llm.py:70] AsyncLLM output_handler failed.
{API}ERROR 03-01 10:00:07 [async_llm.py:70] Traceback (most recent call last):
{API}ERROR 03-01 10:00:07 [async_llm.py:70]   File "/opt/vllm/v1/engine/async_llm.py", line 65, in output_handler
{API}ERROR 03-01 10:00:07 [async_llm.py:70]     outputs = await engine_core.get_output_async()
{API}ERROR 03-01 10:00:07 [async_llm.py:70] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
"""
STOPPED = f"{API}INFO:     Shutting down\n{API}INFO:     Application shutdown complete.\n"
ANSWERED = "".join(f'{API}INFO:     10.0.0.7:4{n} - "POST /v1/completions HTTP/1.1" 200 OK\n' for n in range(12, 20))


def test_what_breaks_off_when_a_server_is_told_to_stop_is_no_fault() -> None:
    assert said(ANSWERED + ORDER + DEAD + STOPPED).well
    assert said(ANSWERED + STOPPED).well
    assert said(ANSWERED + DEAD + STOPPED).exit_status == 1


REFUSED = """\
[W 2026-03-01 10:00:01.101 ServerApp] wrote error: 'Forbidden'
    Traceback (most recent call last):
      File "/opt/env/lib/python3.11/site-packages/tornado/web.py", line 170, in _execute
        result = await result
      File "/opt/env/lib/python3.11/site-packages/jupyter_server/base/handlers.py", line 78, in get
        raise web.HTTPError(403)
    tornado.web.HTTPError: HTTP 403: Forbidden
"""


def test_a_request_that_a_notebook_server_refused_ended_nothing() -> None:
    log = f"{REFUSED}[W 2026-03-01 10:00:01.102 ServerApp] 403 GET /api/kernels (@10.0.0.7) 0.5ms\n"
    assert said(log).exit_status == 3
    stop = "[C 2026-03-01 11:00:01.102 ServerApp] received signal 15, stopping\n"
    assert said(f"{log}{stop}[I 2026-03-01 11:00:02.102 ServerApp] Shutting down 2 kernels\n").well
    assert said(REFUSED).exit_status == 1


def test_trouble_with_which_the_job_got_on_before_ended_nothing() -> None:
    failed = "Failed to send the spans: status 403, Forbidden\n"
    assert said((ANSWERED + failed) * 5).well
    assert said(ANSWERED * 5 + failed).exit_status != 0
    assert said((ANSWERED + "worker 3 was killed\n") * 5).exit_status != 0
    refused = "`rope`'s fast field must be a float, got 32\n"
    assert said(f"{STEPS}{refused}").exit_status == 1
    assert said(f"{refused}{STEPS}{refused}").well


def test_a_script_went_on_behind_a_command_that_failed() -> None:
    failed = "mkdir: cannot create directory '/srv/spool': Permission denied\n"
    told = "".join(f"pool {'abcdefgh'[n % 8] * 4} holds {n} blocks, merge took {n}s\n" for n in range(40))
    assert said(failed + told).exit_status == 3
    assert said(told + failed).exit_status == 1


def test_a_program_that_is_gone_does_not_get_on() -> None:
    left = "resource_tracker.py:279: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects\n"
    assert said(STEPS).well
    assert said(STEPS + left).exit_status == 3
    assert said(f"{STEPS}Training finished\n{left}").well


@pytest.mark.parametrize(
    "line",
    [
        "Total wall time: 0:02:17",
        "Finished mdrun on rank 0 Sun Mar  1 10:00:01 2026",
        "+++ exited with 0 +++",
        "Command exiting with ret '0'",
        "All results saved",
        "Preprocessing done",
    ],
)
def test_ends_of_jobs(line: str) -> None:
    assert said(f"the input is read\n{line}\n").course == "ended well"


def test_steps_in_a_programs_own_words() -> None:
    assert said("".join(f"part number {n} finished\n" for n in range(3, 9))).course == "gets on"
    assert said("".join(f" step n=   {n}000  t= 0.{n}\n" for n in range(3, 9))).course == "gets on"
    assert said("".join(f"worker {n} finished\n" for n in range(3, 9))).course != "gets on"


def test_a_log_whose_first_line_is_a_warning_holds_several_runs() -> None:
    head = "/opt/env/lib/python3.9/site-packages/plot/utils.py:26: DeprecationWarning: `np.int` is an alias\n"
    died = 'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    main()\n'
    log = head + "reads the table\n" + died + "AssertionError: only one table\n"
    log += head + "reads the table\n" + died + "AssertionError: only one table\n"
    log += head + "reads the table\n" + died + "KeyError: 'weights'\n"
    assert "KeyError" in said(log).causes[0].summary


def test_what_a_test_logged_is_not_its_end() -> None:
    logged = 'Traceback (most recent call last):\n  File "/srv/app/ask.py", line 28, in _ask\n    raise Refused(key)\n'
    log = f"""\
============================= test session starts ==============================
tests/test_ask.py F                                                     [100%]
=================================== FAILURES ===================================
__________________________________ test_names __________________________________
>       assert found == wanted
E       AssertionError: wanted Lima, got Quito
tests/test_ask.py:14: AssertionError
------------------------------ Captured log call -------------------------------
ERROR    app.ask:ask.py:31 the service refused; the local table is taken
{logged}app.errors.Refused: 400 no key
=========================== short test summary info ============================
FAILED tests/test_ask.py::test_names - Assert...
========================= 1 failed, 1 warning in 1.95s =========================
"""
    assert "wanted Lima" in said(log).causes[0].summary
    assert "no key" not in said(log).causes[0].summary


def test_a_main_program_that_died_twice_was_started_twice() -> None:
    died = 'Traceback (most recent call last):\n  File "fit.py", line 230, in <module>\n    main()\n'
    start = "reads 640 images of the first folder\nreads 320 images of the second folder\n"
    log = f"{start}{died}KeyError: 'first'\n{start}{died}KeyError: 'second'\n"
    assert [cause.evidence[0].text for cause in said(log).causes] == ["KeyError: 'second'"]


PADDLE = """\
--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
No stack trace in paddle, may be caused by external reasons.

----------------------
Error Message Summary:
----------------------
FatalError: `{words}` is detected by the operating system.
  [TimeInfo: *** Aborted at 1770000000 (unix time) try "date -d @1770000000" if you are using GNU date ***]
  [SignalInfo: *** {name} (@0x2d) received by PID 4514 (TID 0x7f2fae8a75c0) from PID 4437 ***]
"""


def test_paddle_tells_a_signal() -> None:
    told = said(PADDLE.format(words="Termination signal", name="SIGTERM"))
    assert (told.unknown or "").startswith("told to end by SIGTERM") and not told.causes
    told = said(PADDLE.format(words="Segmentation fault", name="SIGSEGV"))
    assert told.causes[0].cause == "native-crash"


def test_the_footer_of_a_pbs_job() -> None:
    footer = "Resource Usage on 2026-03-01 10:00:01:\n   Exit Status:        {}\n   NCPUs Used: 20\n"
    assert said(footer.format(0)).course == "ended well"
    assert said(footer.format(1)).exit_status == 1


@pytest.mark.parametrize(
    "line",
    [
        "Socket errors: connect 0, read 0, write 7, timeout 1600",
        '*** Aborted at 1770000000 (unix time) try "date -d @1770000000" if you are using GNU date ***',
    ],
)
def test_counts_and_clocks_are_no_advice(line: str) -> None:
    assert not said(f"the bench begins\n{line}\n").advice


def of_a_node(*raised: str) -> str:
    """One node's output of a torchrun that reads its ranks' (--tee 3) and writes into a file: what they raised, its own
    end and table, and what was left of their steps in its buffer."""
    stack = ('  File "/w/train.py", line 44, in <module>', "    main()", '  File "/w/train.py", line 34, in main')
    lines = [
        f"[default{local}]:[rank{40 + local}]: {line}"
        for local, error in enumerate(raised)
        for line in ("Traceback (most recent call last):", *stack, "    loss.backward()", error)
    ]
    own = '  File "/v/lib/python3.11/site-packages/torch/distributed/{}", line {}, in {}'
    elastic = "torch/distributed/elastic/multiprocessing/api.py"
    lines += [
        f"W1128 02:56:26.728000 31395 {elastic}:1028] Sending process 31445 closing signal SIGTERM",
        f"E1128 02:56:27.054000 31395 {elastic}:1002] failed (exitcode: 1) local_rank: 0 (pid: 31426) of binary: "
        "/v/bin/python",
        "Traceback (most recent call last):",
        '  File "<frozen runpy>", line 198, in _run_module_as_main',
        own.format("run.py", 1032, "<module>"),
        "    main()",
        own.format("launcher/api.py", 383, "launch_agent"),
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "/w/train.py FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-28_02:56:26",
        "  host      : n6",
        "  rank      : 40 (local_rank: 0)",
        "  exitcode  : 1 (pid: 31426)",
        "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        "=" * 60,
    ]
    return "\n".join((*lines, *(f"[default0]:step {step} of rank 40" for step in range(8)))) + "\n"


CLOSED = (
    "RuntimeError: [/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[10.0.0.5]:17799. This is typically caused by a remote worker crashing."
)


def test_steps_that_torchrun_writes_behind_its_own_end_do_not_go_on() -> None:
    """Of 64 ranks on eight nodes: of seven nodes' outputs it was said that nothing is wrong and the job gets on."""
    beside = said(of_a_node(CLOSED, CLOSED))
    assert not beside.well and not beside.causes and beside.kind == "dead-rank"
    assert beside.unknown is not None and "10.0.0.5 was closed from the other end" in beside.unknown
    assert beside.starts == ""  # the second rank's stack is no second run
    first = said(of_a_node("KeyError: 'tokens'", CLOSED))
    assert first.causes[0].ranks == (40,) and "KeyError: 'tokens' at /w/train.py:34" in first.causes[0].summary


def test_one_output_of_several_nodes_names_the_rank_that_raised_first() -> None:
    """Two nodes' torchruns write into srun's file, line by line in turn; the steps behind the ends were taken for the
    survival of what each lost connection tells, and of the rest the first was named, at 0.96."""
    other, first = of_a_node(CLOSED).replace("40", "24"), of_a_node("KeyError: 'tokens'", CLOSED)
    for log in (
        other + first,
        "".join(f"{a}\n{b}\n" for a, b in zip_longest(other.splitlines(), first.splitlines(), fillvalue="")),
    ):
        cause = said(log).causes[0]
        assert cause.ranks == (40,) and "KeyError: 'tokens' at /w/train.py:34" in cause.summary


@pytest.mark.parametrize("again", [False, True])
def test_tables_of_two_nodes_woven_line_by_line(again: bool) -> None:
    """`Failures:` of one torchrun was read as what the other's stack raised (0.85), and a signal of one table given to
    the rank of the other (0.96)."""
    killed = of_a_node(CLOSED).replace("exitcode  : 1 (pid: 31426)", "exitcode  : -9 (pid: 31427)")
    other = of_a_node(CLOSED).replace("40", "24").replace("31426", "977").replace("host      : n6", "host      : n4")
    parts = (killed, other) if again else (other, killed)
    rows = zip_longest(*(part.splitlines() for part in parts), fillvalue="")
    causes = said("".join(f"{one}\n{two}\n" for one, two in rows)).causes
    assert [(cause.cause, cause.ranks) for cause in causes if cause.confidence > POSSIBLE] == [("rank-died", ())]
    assert "31427" in causes[0].summary and "SIGKILL" in causes[0].summary
    torn = of_a_node(CLOSED).replace("    raise ChildFailedError(\n", "    raise ChildFailedError(\nFailures:\n")
    assert all("Failures" not in cause.summary for cause in said(torn).causes)


def test_a_traceback_in_the_journal_is_of_several_seconds() -> None:
    """Of a journal with two ranks' exceptions it was said that no line says why the first ended."""
    node = of_a_node(CLOSED, CLOSED).splitlines()
    journal = "".join(f"Nov 28 03:12:{at // 2:02} n6 python[812]: {line}\n" for at, line in enumerate(node))
    beside = said(journal)
    assert not beside.well and not beside.causes and beside.starts == ""
    assert beside.unknown is not None and "10.0.0.5 was closed from the other end" in beside.unknown


def test_a_process_of_spawn_is_no_rank() -> None:
    """On the second node process 1 is another rank than 1."""
    cause = said(
        'Traceback (most recent call last):\n  File "/w/train.py", line 55, in <module>\n    mp.spawn(work, nprocs=2)\n'
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL\n"
    ).causes[0]
    assert cause.ranks == () and "process 1 of torch.multiprocessing.spawn" in cause.summary


def test_steps_of_another_worker_do_not_save_the_one_that_died() -> None:
    """Outputs of Ray's workers behind each other: the steps of one that was killed stood last: "gets on"."""
    stack = ("Traceback (most recent call last):", '  File "/w/train.py", line 59, in <module>', "    main()", CLOSED)
    lines = [f"(TrainWorker pid=12, ip=10.0.0.1) {line}" for line in (*STEPS.splitlines(), *stack)]
    lines += [f"(TrainWorker pid=15, ip=10.0.0.2) {line}" for line in STEPS.splitlines()]
    assert not said("\n".join(lines) + "\n").well


def test_steps_that_a_rank_had_kept_in_its_buffer_do_not_save_it() -> None:
    """torchrun without --tee: what a rank printed comes when it dies, behind its exception and without a mark; the last
    such rank was told as one of which no line says why it ended."""
    steps = "".join(f"step {step}/30 loss 0.{step}\n" for step in range(5))
    one, two = (f"[rank{rank}]: " for rank in (40, 41))
    log = of_a_node(CLOSED, CLOSED).replace("[default0]:[rank", "[rank").replace("[default1]:[rank", "[rank")
    log = log[: log.index("[default0]:step")].replace(f"{CLOSED}\n", f"{CLOSED}\n{steps}")
    log = log.replace("  <NO_OTHER_FAILURES>", "[1]:\n  rank      : 41 (local_rank: 1)\n  exitcode  : 1 (pid: 31427)")
    assert one in log and two in log
    beside = said(log)
    assert not beside.well and not beside.causes
