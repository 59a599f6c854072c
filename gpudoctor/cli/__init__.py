"""The commands: read arguments, call one function, print, set the exit status.

Importing this package must stay cheap: it is what every command begins with. A command's module and typer come when
that command runs, and what it needs when it is called.
"""

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from types import FrameType
from typing import NoReturn

from gpudoctor import __version__, bounded, cost, programs
from gpudoctor.cli.commands import help_text, in_words, troubles_text
from gpudoctor.errors import BadInput, Error
from gpudoctor.lacking import lacking

INTERRUPTED = 128 + signal.SIGINT
UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""What a disk, a quota, a limit or a terminal that is gone says to who prints."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit status. Never raises for anything a user can do."""
    try:
        try:
            with cost.command():
                status = _within_its_cost(arguments)
            _say_broken_plugins()
        finally:
            _end_children()
        if sys.stdout is not None:  # started with its output closed
            sys.stdout.flush()
    except Error as problem:
        return _refuse(str(problem), arguments, status=problem.status)
    except MemoryError:
        return _refuse("there is too little memory to look (ulimit -v, the cgroup's limit)", arguments, status=3)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer turns it into status 1, which here means problems
            return _without_reader()
        raise
    except OSError as error:
        if _asked_by:
            return _interrupted()
        if error.filename is not None or error.errno not in UNWRITTEN:
            here = programs.folder()
            why = lacking(error) if here else "the folder that it was started in is gone; cd to another"
            if here and isinstance(error, PermissionError) and _is_named(error.filename, arguments):
                return _refuse(why, arguments)
            return _refuse(f"could not look: {why}", arguments, status=3)
        _discard_output()
        return _complain(f"cannot write: {error.strerror or error}", status=3)
    except Exception as error:
        # A second signal may come in the middle of a lock's release, which then says that the lock was none.
        return _interrupted() if _asked_by else _explain(error, arguments)
    if status == INTERRUPTED:  # typer has caught it, and says nothing
        return _interrupted()
    return status if isinstance(status, int) else 0


def _is_named(file: object, arguments: Sequence[str]) -> bool:
    """Whether the user has named this file: as with any other that may not be read, something else must be given."""
    return any(file == word or (isinstance(file, str) and word.endswith(f"={file}")) for word in arguments)


def _within_its_cost(arguments: Sequence[str]) -> object:
    """What the command gives. Raises `BadInput` for a file that costs more than is spent on it."""
    completes = "_GPUDOCTOR_COMPLETE" in os.environ  # it gives no words either
    if not completes and list(arguments) in (
        [],
        ["-h"],
        ["--help"],
        ["--version"],
    ):  # typer alone takes a tenth of a second
        print(f"gpudoctor {__version__}" if "--version" in arguments else help_text() if arguments else troubles_text())
        return 0
    from gpudoctor.cli.group import app

    try:
        bounded.must_answer(_named(arguments))
    except bounded.Refused as refused:
        if arguments[0] == "run":
            from gpudoctor.cli.run_command import NothingRun

            raise NothingRun(str(refused)) from None
        raise BadInput(str(refused)) from None
    try:
        return app(list(arguments), prog_name="gpudoctor", standalone_mode=False)
    except cost.Beyond as met:
        raise BadInput(f"the file that was given is refused: {met}") from None
    except MemoryError:
        said = cost.memory_met()
        if not said:
            raise
        raise BadInput(f"the file that was given is refused: {said}") from None


def _named(arguments: Sequence[str]) -> Iterator[str]:
    """What may be a file's name; of the command that `run` runs nothing is asked."""
    for word in takewhile(lambda word: word != "--", arguments):
        yield word.partition("=")[2] if word.startswith("-") else word


def _say_broken_plugins() -> None:
    """What other distributions bring and could not be used, after an answer without it. A report has it in itself."""
    plugins = sys.modules.get("gpudoctor.plugins")  # not loaded: nothing was looked for
    for plugin in plugins.unsaid() if plugins is not None else ():
        _complain(f"plugin {plugin.name}: {plugin.reason}")


def _end_children() -> None:
    """However a command ends, it leaves no process behind."""
    active = sys.modules.get("gpudoctor.active")  # not loaded: nothing was started
    if active is not None:
        active.end_all()


def _without_reader() -> int:
    """The reader (head, a closed pager) has left."""
    _discard_output()
    return 128 + 13  # what a program that SIGPIPE ended reports; the number is the same on every POSIX system


def _discard_output(number: int = 1) -> None:
    """What is still buffered cannot be written; keep the interpreter from trying again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    """typer's own complaints in one line; anything else is a bug of ours, said without a traceback."""
    describe = getattr(error, "format_message", None)
    if describe is not None:
        context = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "gpudoctor")
        message = in_words(" ".join(describe().split()))
        if "'--framework'" in message:
            from gpudoctor.knowledge.tensorflow import of_tensorflow

            asked = message.partition(": '")[2].partition("'")[0]
            message = f"--framework {answer}" if (answer := of_tensorflow(asked)) else message
        file = next((word for word in arguments if word.startswith("-") and os.path.lexists(word)), "")
        hint = f"the file of that name is ./{ascii(file)[1:-1]}" if file else f"see '{command} --help'"
        return _refuse(f"{message} ({hint})" if message else hint, arguments)
    if type(error).__name__ == "Abort":
        return _interrupted()
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _refuse("could not look: no thread can be started (ulimit -u, -v, pids.max)", arguments, status=3)
    if os.environ.get("GPUDOCTOR_TRACEBACK"):
        raise error
    return _refuse(
        f"internal error: {type(error).__name__}: {' '.join(str(error).split())}; "
        "this is a bug in gpudoctor, GPUDOCTOR_TRACEBACK=1 shows where",
        arguments,
        status=3,
    )


def _refuse(message: str, arguments: Sequence[str], *, status: int = 2) -> int:
    """No answer. Nagios reads standard output, and would take status 2 for a broken machine."""
    if "--nagios" not in arguments:
        return _complain(message, status=status)
    from gpudoctor.render.nagios import unknown

    try:
        print(unknown(message), flush=True)
    except OSError:
        _discard_output()
    return 3


def _complain(message: str, *, status: int = 2) -> int:
    if not message.isprintable():
        from gpudoctor.render.words import safe  # here, for it loads much: also where a signal has just ended an import

        message = safe(message)
    try:
        print(f"gpudoctor: {message}", file=sys.stderr)
    except OSError:  # the terminal is gone
        _discard_output(2)
    return status


_asked_by: list[int] = []
"""The signals that asked the command to end, in their order."""


def _end(number: int, frame: FrameType | None) -> NoReturn:
    _asked_by.append(number)
    # Not SystemExit: a plugin's module may raise that when it is imported, and is then passed over.
    raise KeyboardInterrupt


def _again(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _swallowed(told: "sys.UnraisableHookArgs") -> None:
    """A signal that falls into a callback (of a weak reference, in the middle of an import): Python would print the
    exception and go on."""
    if told.exc_type is KeyboardInterrupt and _asked_by and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # raised here it would be swallowed once more
    else:
        sys.__unraisablehook__(told)


def _interrupted() -> int:
    """Ctrl-C, or a signal that asked the command to end."""
    if not _asked_by or _asked_by[0] == signal.SIGINT:
        return _complain("interrupted", status=INTERRUPTED)
    return _complain(f"ended by {signal.Signals(_asked_by[0]).name}", status=128 + _asked_by[0])


def main() -> NoReturn:
    """Entry point of the `gpudoctor` command."""
    os.environ.pop(programs.FOLDER, None)  # we are the first, and stand where the user does
    if sys.argv[1:]:  # a shell that completes gives none; with this set, a check would print a script and end with 0
        os.environ.pop("_GPUDOCTOR_COMPLETE", None)
    # An exception instead of sudden death: the children's process groups are killed on the way out.
    for number in _asking_to_end():
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or the background of a script
            signal.signal(number, _end)
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by who started us, no child of ours would tell its end
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _again)
    sys.unraisablehook = _swallowed
    _hold_the_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # A process or host name in another encoding must not end a report.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        status = run(sys.argv[1:])
        if status > 128:
            _leave(status)
        sys.exit(status)
    except KeyboardInterrupt:  # one more, while the first was answered
        _leave(INTERRUPTED)
    finally:  # all is said and ended: nothing is left that a signal could spare
        for number in _asking_to_end():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)


def _leave(status: int) -> NoReturn:
    """At once, and undisturbed: a second signal may have come between the first and the ending of the children. And a
    KeyboardInterrupt that has passed through an exec() of somebody's makes Python end itself by SIGINT in the end,
    whatever status it was given."""
    for number in _asking_to_end():
        signal.signal(number, signal.SIG_IGN)
    _end_children()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _asking_to_end() -> list[int]:
    return [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _hold_the_standard_streams() -> None:
    """A closed output or error would lend its number to the next file that is opened, which then is printed into."""
    with contextlib.suppress(OSError):  # no /dev/null
        while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(held)
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
