"""What a library has not, by its name: since which release it came or went, and what to write or install."""

from typing import NamedTuple

from gpudoctor.knowledge.library_names import Availability, argument, attribute, imported, newest_argument, submodule
from gpudoctor.lazy import lazy_re

NOT_IMPORTED = lazy_re(
    r"cannot import name '(?P<name>\w{1,100})' from '(?P<module>[\w.]{1,200})'(?: \((?P<file>[^)\n]{1,400})\))?"
)
NO_MEMBER = lazy_re(r"module '(?P<module>[\w.]{1,200})' has no attribute '(?P<name>\w{1,100})'")
NO_MODULE = lazy_re(r"No module named '(?P<module>\w{1,60}(?:\.\w{1,60}){1,6})'")
NO_ARGUMENT = lazy_re(r"(?P<call>(?:\w{1,80}\.)?\w{1,80})\(\) got an unexpected keyword argument '(?P<name>\w{1,100})'")
NO_ATTRIBUTE = lazy_re(
    r"(?:type object )?'(?P<owner>[A-Z]\w{1,80})'(?: object)? has no attribute '(?P<name>\w{1,100})'"
)
TOO_MANY = lazy_re(
    r"(?P<call>(?:\w{1,80}\.)?\w{1,80})\(\) takes (?:from \d{1,2} to )?\d{1,2} positional arguments? but \d{1,2} were "
    r"given"
)
OF_TRAINER = lazy_re(r"[/\\]transformers[/\\]trainer(?:_seq2seq)?\.py$")
OF_PACKAGES = lazy_re(r"(?:site|dist)-packages|unknown location")


class OfRelease(NamedTuple):
    package: str
    how: str
    """What to write, or to install."""


def of_releases(type_name: str, message: str, raised_in: str = "") -> OfRelease | None:
    """None where no table knows the name. `raised_in`: the file of the innermost frame."""
    name, first = type_name.rpartition(".")[2], message.partition("\n")[0]
    if name == "TypeError" and OF_TRAINER.search(raised_in) and (hook := _of_hook(first)):
        return hook
    if name in ("ImportError", "ModuleNotFoundError") and (match := NOT_IMPORTED.search(first)):
        if match["file"] and not OF_PACKAGES.search(match["file"]):
            return None  # a file of the program's own that has the library's name
        return _told(imported(match["module"], match["name"]), f"{match['module']}.{match['name']}", "from {} import")
    if name == "ModuleNotFoundError" and (match := NO_MODULE.search(first)):
        return of_module(match["module"])
    if name == "AttributeError" and (match := NO_MEMBER.search(first)):
        return _told(imported(match["module"], match["name"]), f"{match['module']}.{match['name']}", "from {} import")
    if name == "AttributeError" and (match := NO_ATTRIBUTE.search(first)):
        return _told(attribute(match["owner"], match["name"]), f"{match['owner']}.{match['name']}", "")
    if name == "TypeError" and (match := NO_ARGUMENT.search(first)):
        call = match["call"].removesuffix(".__init__")
        return _told(argument(call, match["name"]), f"the argument {match['name']} of {call}", "{}=")
    return None


def _of_hook(first: str) -> OfRelease | None:
    """Of a method by which a class of somebody's replaces Trainer's, and which is called with more than it takes."""
    match = NO_ARGUMENT.search(first) or TOO_MANY.search(first)
    if match is None:
        return None
    call = f"Trainer.{match['call'].rpartition('.')[2]}"
    span = argument(call, match["name"]) if "name" in match.groupdict() else newest_argument("transformers", call)
    if span is None or not span.first:
        return None
    return OfRelease(
        span.package,
        f"transformers {span.first} hands {span.name} to {call}, and {span.before} did not yet; the class that "
        f"replaces that method has the signature of before: give it {span.name}=None at its end (or **kwargs), take a "
        f"newer release of the package whose class it is, or python -m pip install 'transformers<={span.before}'",
    )


def of_module(module: str) -> OfRelease | None:
    """Of a module that is not found, in a package that is."""
    return _told(submodule(module), module, "") if "." in module else None


def _told(span: Availability | None, what: str, form: str) -> OfRelease | None:
    """`form`: how what came in its place is written."""
    if span is None:
        return None
    if not span.gone:
        return OfRelease(
            span.package,
            f"{what} came with {span.package} {span.first}, or shortly before ({span.before} has it not). Install a "
            f"newer one (python -m pip install --upgrade '{span.package}>={span.first}'), or what calls it in the "
            "release that was made for the older one",
        )
    short = f" {what.rpartition('.')[2]}" if form.endswith("import") else ""
    written = span.today if "(" in span.today else f"{form.format(span.today)}{short}"
    today = f"in the program's own code write {written}; " if span.today and form else ""
    came = f", which came with {span.first}" if span.first else ""
    return OfRelease(
        span.package,
        f"{span.package} {span.gone} has {what} no more{came}, and {span.last} still had it: {today}where the line is "
        f"a package's, or a project's that is only run, install the newer release of that, or "
        f"python -m pip install '{span.package}<={span.last}'",
    )


__all__ = ["of_module", "of_releases"]
