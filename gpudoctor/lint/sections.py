"""A text with `#@` lines -> its parts: what belongs on which node, and the files that go with it.

Without them, comments that say the same are understood where that is safe: `# on node 0:` in front of each of several
commands. Numbers of such comments that begin at 1 are counted from 0.
"""

import re

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import TextSection

MARK = lazy_re(r"^[ \t]*#@[ \t]*([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)
NODE = lazy_re(
    r"(?:on[ \t]+)?(?:node|machine|host)[ \t]*(?:rank)?[ \t]*[:#=]?[ \t]*(\d{1,6})\b[ \t:,(]*([^)\r\n]*)\)?",
    re.IGNORECASE | re.ASCII,
)
NAMED = lazy_re(r"(?:on[ \t]+)?(?:node|machine|host)[ \t]+([\w.-]{1,80})", re.IGNORECASE | re.ASCII)
EVERY = lazy_re(r"(?:on[ \t]+)?(?:every|each|all|any)\b.*", re.IGNORECASE)
JOB = lazy_re(r"job[ \t]*[:#]?[ \t]*(\d{1,6})\b.*", re.IGNORECASE | re.ASCII)
FILE = lazy_re(r"file[ \t]*:?[ \t]+(\S.*)", re.IGNORECASE)
COMMENT = lazy_re(
    r"^#+[ \t]*(?:(?:run|start|execute|launch|command|commands|this)[ \t]+)*(?:on|for|in)?[ \t]*(?:the[ \t]+)?"
    r"(?:(?P<word>first|second|third|master|head|worker)[ \t]+)?"
    r"(?:(?:compute|worker|gpu)[ \t]+)?(?:node|machine|host|server|vm)(?:[ _]?rank)?[ \t]*"
    r"[#:=]?[ \t]*(?P<number>\d{1,3})?"
    r"[ \t]*(?:(?:[:(,.-]|\u2014|\u2013)[^\r\n]*)?\r?$",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
STARTS = lazy_re(
    r"^[^#\n]*\b(?:torchrun|python[\d.]*|accelerate|deepspeed|fabric|mpirun|horovodrun|torch\.distributed\S*)\s",
    re.MULTILINE,
)
CLOSES = lazy_re(r"^[ \t]*(?:(?:fi|done|esac|EOF)\b|\}|#[ \t]*SBATCH)", re.MULTILINE)
_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_OWN = rf"[A-Za-z](?![\w.-])|[A-Za-z][A-Za-z_-]*\d[\w.-]*|{_ADDRESS}"
"""What a host may be called in prose: a letter, a name with a number, an address."""
NAMED_COMMENT = lazy_re(
    r"^#+[ \t]*(?:(?:run|start|execute|launch|command|commands|this)[ \t]+)*(?:(?:on|for|in)[ \t]+)?(?:the[ \t]+)?"
    rf"(?:(?:compute|worker|gpu)[ \t]+)?(?:node|machine|host|server|vm)[ \t]*[:=]?[ \t]*(?P<name>{_OWN})"
    r"[ \t]*(?:[:(,.-][^\r\n]*)?\r?$"
    rf"|^#+[ \t]*(?:(?:run|start|execute|launch)[ \t]+)?on[ \t]+(?P<bare>[A-Za-z][A-Za-z_-]*\d[\w.-]*|{_ADDRESS})"
    r"[ \t]*(?:[:(,][^\r\n]*)?\r?$",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
PROMPTED = lazy_re(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?\[?[\w.-]+@(?P<host>[\w.-]+)[ :][^\s$#%\]]*\]?[ \t]?[$#%][ \t]+(?=\S)"
    r"|^[ \t]*(?P<node>(?:node|host|machine|gpu|worker|server)[-_]?\d[\w-]*)[ \t]*(?:>{1,3}|[$%#])[ \t]*(?=\S)",
    re.MULTILINE | re.ASCII,
)
"""The prompt of a shell that says its host: of a session that was pasted."""
FENCE = lazy_re(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```[ \t]*\r?$", re.MULTILINE | re.DOTALL)
IN_PROSE = lazy_re(
    r"\b(?P<word>first|second|third|master|head|worker)[ \t]+(?:node|machine|host|server|vm)\b(?![ \t]*\d)"
    rf"|\b(?:node|machine|host|server|vm)(?:[ _-]?rank)?[ \t]*[#:=]?[ \t]*(?P<number>\d{{1,3}}(?![\w.])|{_OWN})"
    rf"|\bon[ \t]+`?(?P<bare>[A-Za-z][A-Za-z_-]*\d[\w.-]*|{_ADDRESS})\b",
    re.IGNORECASE | re.ASCII,
)
WORDS = {"first": 0, "master": 0, "head": 0, "second": 1, "worker": 1, "third": 2}


def split(text: str) -> tuple[TextSection, ...]:
    """The sections in order; a text without such lines is one section for every node. Never raises."""
    matches = [match for match in MARK.finditer(text) if match[1]]
    if not matches:
        by_hosts = _by_comments(text) or _by_names(text) or _by_prompts(text) or _by_fences(text)
        return by_hosts or (TextSection("every", text=text),)
    sections = []
    if text[: matches[0].start()].strip():
        sections.append(TextSection("every", text=text[: matches[0].start()]))
    for index, mark in enumerate(matches):
        start = min(mark.end() + 1, len(text))
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        part, line = text[start:end], text.count("\n", 0, start) + 1
        sections.append(_section(mark[1], part, start, line))
    return _with_names(sections)


def _with_names(sections: list[TextSection]) -> tuple[TextSection, ...]:
    """`#@ node gpu-0` where no node has a number: nodes by name, counted in the order in which they come."""
    names = [match[1] if (match := NAMED.fullmatch(section.name)) else "" for section in sections]
    if any(section.kind == "node" for section in sections):
        return tuple(sections)
    places = list(dict.fromkeys(name for name in names if name))
    return tuple(
        structs.replace(section, kind="node", node=places.index(name), name=name) if name else section
        for section, name in zip(sections, names, strict=True)
    )


def _section(mark: str, text: str, start: int, line: int) -> TextSection:
    """What the words behind `#@` say; words that nobody knows are for every node."""
    node = NODE.fullmatch(mark)
    if node is not None:
        return TextSection("node", node=int(node[1]), name=node[2].strip(), text=text, start=start, line=line)
    job = JOB.fullmatch(mark)
    if job is not None:
        return TextSection("job", job=int(job[1]), name=mark, text=text, start=start, line=line)
    file = FILE.fullmatch(mark)
    if file is not None:
        return TextSection("file", name=file[1].strip().strip("\"'`"), text=text, start=start, line=line)
    return TextSection("every", name="" if EVERY.fullmatch(mark) else mark, text=text, start=start, line=line)


def _by_comments(text: str) -> tuple[TextSection, ...]:
    """Sections by comments like `# node 1:`; () where that would be a guess."""
    marks = [(match, _number(match)) for match in COMMENT.finditer(text)]
    marks = [(match, number) for match, number in marks if number is not None]
    numbers = [number for _, number in marks if number is not None]
    if len(marks) < 2 or len(set(numbers)) != len(numbers) or CLOSES.search(text):
        return ()
    least = min(numbers)
    if least not in (0, 1) or sorted(numbers) != list(range(least, least + len(numbers))):
        return ()
    sections = []
    first = marks[0][0].start()
    if text[:first].strip():
        if STARTS.search(text[:first]):
            return ()
        sections.append(TextSection("every", text=text[:first]))
    for index, (mark, number) in enumerate(marks):
        start = min(mark.end() + 1, len(text))
        end = marks[index + 1][0].start() if index + 1 < len(marks) else len(text)
        part = text[start:end]
        if number is None or not STARTS.search(part):
            return ()
        line = text.count("\n", 0, start) + 1
        sections.append(
            TextSection("node", node=number - least, name=mark[0].strip("# \t\r:"), text=part, start=start, line=line)
        )
    return tuple(sections)


def _number(match: re.Match[str]) -> int | None:
    if match["number"] is not None:
        return int(match["number"])
    return WORDS.get((match["word"] or "").lower())


def _by_names(text: str) -> tuple[TextSection, ...]:
    """Sections by comments that call the nodes by letters, names or addresses: `# machine A`, `# on gpu02:`."""
    marks = list(NAMED_COMMENT.finditer(text))
    names = [(match["name"] or match["bare"]).lower() for match in marks]
    if len(marks) < 2 or len(set(names)) != len(names) or CLOSES.search(text):
        return ()
    first = marks[0].start()
    if STARTS.search(text[:first]):
        return ()
    sections = [TextSection("every", text=text[:first])] if text[:first].strip() else []
    for index, mark in enumerate(marks):
        start = min(mark.end() + 1, len(text))
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        if not STARTS.search(text[start:end]):
            return ()
        sections.append(_of_node(text, index, names[index], start, end))
    return tuple(sections)


def _of_node(text: str, node: int, name: str, start: int, end: int) -> TextSection:
    part, line = text[start:end], text.count("\n", 0, start) + 1
    return TextSection("node", node=node, name=name, text=part, start=start, line=line)


def _by_prompts(text: str) -> tuple[TextSection, ...]:
    """Sections by the hosts in the prompts of a pasted session; the prompts become blanks."""
    marks = list(PROMPTED.finditer(text))
    names = [match["host"] or match["node"] for match in marks]
    hosts = list(dict.fromkeys(names))
    if len(hosts) < 2 or len(marks) > 64:
        return ()
    sections = [TextSection("every", text=text[: marks[0].start()])] if text[: marks[0].start()].strip() else []
    if sections and STARTS.search(sections[0].text):
        return ()
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        section = _of_node(text, hosts.index(names[index]), names[index], mark.start(), end)
        blanks = " " * (mark.end() - mark.start())
        sections.append(structs.replace(section, text=blanks + section.text[len(blanks) :]))
    return tuple(sections)


def _by_fences(text: str) -> tuple[TextSection, ...]:
    """Sections of a page: its blocks of commands, where the prose in front of each says on which node it is typed."""
    blocks = list(FENCE.finditer(text)) if "```" in text else []
    if len(blocks) < 2 or len(blocks) > 64:
        return ()
    sections: list[TextSection] = []
    hosts: list[str] = []
    behind = 0
    for block in blocks:
        prose, behind = text[behind : block.start()], block.end()
        start, end = block.span(1)
        said = list(IN_PROSE.finditer(prose[-400:]))
        if not STARTS.search(block[1]):
            if block[1].strip():
                line = text.count("\n", 0, start) + 1
                sections.append(TextSection("every", text=block[1], start=start, line=line))
            continue
        if not said:
            return ()
        word = said[-1]["word"]
        name = str(WORDS[word.lower()]) if word else (said[-1]["number"] or said[-1]["bare"]).lower()
        if name in hosts:
            return ()
        sections.append(_of_node(text, len(hosts), name, start, end))
        hosts.append(name)
    return tuple(sections) if len(hosts) > 1 else ()
