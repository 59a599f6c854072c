"""What stands above an error and tells more of what to do than the error itself: the command, a compiler's first error;
and where no cause is decided, what the quoted lines say themselves or a remedy knows of them."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import structs

from gpudoctor.cause import Fix, Judged
from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.explain.advised import advice
from gpudoctor.explain.beside import COMMAND
from gpudoctor.explain.classes import cause_of, variant_of
from gpudoctor.explain.conclude import FAILED_BEFORE, Conclusion
from gpudoctor.explain.course import MILD, TROUBLE
from gpudoctor.explain.crashed_in import fix_of_crash
from gpudoctor.explain.end_lines import is_over, tells_an_end
from gpudoctor.explain.last_words import BUILDING, OF_NO_TABLE
from gpudoctor.explain.line_words import judged_line
from gpudoctor.explain.measured import measured
from gpudoctor.explain.own_fixes import by_line
from gpudoctor.explain.own_words import UNKNOWN_WORDS
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.shown_by import advised_by, shown_by
from gpudoctor.explain.shown_commands import by_commands
from gpudoctor.explain.sizes_of_states import of_sizes
from gpudoctor.explain.state_tables import IN_ITS_LOG
from gpudoctor.explain.stated import stated
from gpudoctor.explain.things import own_module
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.explain.what_ran import OF_ANY_PROGRAM, OF_TRAINING
from gpudoctor.explain.writers import unprefixed
from gpudoctor.fault_classes import MEANS, Class
from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_for, remedy_of_line
from gpudoctor.symptom import UNSAID

OF_A_BUILD = lazy_re(
    r"BackendCompilerFailed|Error (?:building|compiling)|(?:gcc|g\+\+|c\+\+|/cc|nvcc|"
    r"ninja)'?[^\n]{0,600}(?:non-zero exit|exit "
    r"(?:code|status))|InductorError|CppCompileError|collect2: |make(?:\[\d+\])?: \*\*\* |ninja: build stopped"
)
"""It tells only that a compiler or a build failed."""
SET_TO = lazy_re(r"NCCL_SOCKET_IFNAME set (?:by environment )?to (?P<value>\S{1,80})")
INTERFACE = (
    "NCCL_SOCKET_IFNAME is {value} there, and no interface of that node fits it: write the name of one that leads to "
    "the other nodes (^ before names excludes these, = means exactly that name, any other sign is part of the name), "
    "or take it out; an exclusion list excludes lo too."
)
OF_PIP = lazy_re(
    r"metadata-generation-failed|Getting requirements to build|error originates from a subprocess, and is likely|"
    r"error: subprocess-exited-with-error|Failed building wheel|\bsetup\.py (?:bdist_wheel|egg_info|install)\b"
)
OF_A_HUB = lazy_re(
    r"(?i)hugg|\bhub\b|download|https?:|\burl\b|dataset|model|fetch|retriev|cache|\.co\b|\.org\b|\.com\b"
)
OF_ANY_LIBRARY = (
    CAUSES["library-missing"].fix.text,
    CAUSES["library-missing"].fix_for("shared").text.partition("{library} ")[2],
)
OF_ALL_ALIKE = lazy_re(r"(?i)reserved (?:but unallocated )?memory|_ALLOC_CONF|fragmentation")
AROUND = 6
OF_LESS = lazy_re(r"(?i)memory|batch|subdivisions|size|length|layers|cache|workers|smaller|fewer|lower|reduc")
"""What a line beside a message of too little memory may say to take less of."""
OF_MEMORY: tuple[Class, ...] = ("gpu-memory", "host-memory")
SAY_NOTHING = ("at", "alone", "own-line", "in-package", "asserted")
"""Variants of a program's error that say where, and not what."""
NO_REMEDY = tuple(str(CAUSES["program-error"].variants[name]).partition("{")[0] for name in ("at", "alone"))
"""How a fix begins that says nothing of what to do."""
SAY_WHERE = (*NO_REMEDY, UNKNOWN_WORDS, "Print ", "The call ")
"""The same, with the variants own-line and handed."""
OF_NO_WORDS = (*SAY_WHERE, *(str(CAUSES["program-error"].variants[name])[:20] for name in ("hydra", "in-package")))
"""The same, and what is told of all that one parser says."""
TELL_ONLY_AN_END: tuple[Class, ...] = ("dead-rank", "signal")
"""Classes of what follows: where an error line stands before it, undecided as it is, that line says more."""
SAME, FEW = 60, 12
"""Characters of a line by which it is known again, and so few that they are nobody's."""
BEHIND, FEWEST = 3, 3
"""Lines behind the decisive one that may go on with it, and blanks of an advice among them (our rules of thumb)."""
USUAL: Mapping[Class, str] = {
    "scheduler": (
        "The scheduler's record of the job gives its reason (SLURM: scontrol show job, sacct -j; Kubernetes: kubectl "
        "describe; PBS: qstat -f; LSF: bjobs -l): hold what was asked for against what partition, queue and account "
        "allow."
    ),
    "image": (
        "Pull or start the same image by hand on that node, as the job's user and with the job's runtime: what fails "
        "then (its name, a login, room, rights) is what has to be mended."
    ),
    "driver": (
        "See on that node whether the device's own tool works (nvidia-smi, rocm-smi, hl-smi, npu-smi) and what dmesg "
        "tells; kernel module and libraries have to be of one release, and behind an update it wants a reboot."
    ),
    "device-lost": (
        "Leave that node out, look at dmesg, and reset the device or reboot; where it comes again, the device or its "
        "links have to be exchanged."
    ),
    "rdma": (
        "Test those two nodes alone, by the lowest layer first (ibv_devinfo, ib_write_bw, fi_pingpong): where that "
        "fails, port, switch or the container's devices and locked memory are to be mended, and else the library's "
        "settings."
    ),
    "route": "Try that address and port from the node that tells it (nc -vz), while the other end should listen.",
    "no-device": (
        "See what that process sees (CUDA_VISIBLE_DEVICES, nvidia-smi in the same shell or container): it has to be "
        "shown a device, and to run a build for it."
    ),
    "gpu-memory": (
        "Take less of the device's memory (smaller batches, shorter sequences, sharding), and see who else holds it "
        "(nvidia-smi)."
    ),
    "time-limit": (
        "Ask for more time where the limit was set (the scheduler's, a cloud's, the program's own), and let the "
        "program save so often that it goes on from there."
    ),
    "permission": (
        "Try by hand what was refused, as the job's user on that node (id, ls -l; the token or key that the job has): "
        "where that fails too, rights or login are to be mended, and else what the job starts with."
    ),
    "nccl-setting": (
        "Compare the job's NCCL_ variables on all nodes (env | grep NCCL_, /etc/nccl.conf), take out those that nobody "
        "needs, and start it with NCCL_DEBUG=INFO, which writes what NCCL took and why it gave up."
    ),
    "disk-full": "Look at df -h and df -i on that node, of where the job writes, of its caches and of /tmp.",
    "host-memory": "Give the job more memory, or let it hold less at once (fewer processes, smaller pieces).",
}
"""By what an error line is about, how one finds what to mend."""
OF_SEVERAL_LINES = lazy_re(r"\s{0,12}message: ['\"|>]|[^\n]*\bMountVolume\.")
"""An event's message that goes on in the lines below: in YAML, and with what a mount printed."""
NOT_TOLD = ("these logs do not say", "its cause is not known")
OF_A_STORE = lazy_re(r"\brendezvous\b|\bstore\b")
OF_WHO_MEET = (
    "Another process ended or never came, and its own log says why: look at that of the node that serves the store "
    "(rank 0, or the rendezvous' endpoint), and of those that are missing; all have to be started alike (--nnodes, "
    "--rdzv-id, the endpoint)."
)
"""Of what the others' end is seen by."""
OF_A_CALL_OF_NCCL: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(words), told)
    for words, told in (
        (r"NCCL failed \(ncclSystemError|unhandled system error",
         "As a rule a socket or shared memory could not be had: an interface that leads to no other rank "
         "(NCCL_SOCKET_IFNAME names one; of docker's bridges --network=host does without), or /dev/shm too small in a "
         "container (--ipc=host)."),
        (r"NCCL failed \(ncclUnhandledCudaError|unhandled cuda error",
         "A call of CUDA failed: a GPU that this process does not see or that has no room left, a driver older than "
         "the build, or direct access between GPUs (NCCL_P2P_DISABLE=1 goes without)."),
        (r"NCCL failed \(ncclInvalid|invalid (?:argument|usage)",
         "As a rule the ranks do not fit: another number of processes than the world size says, a rank that is there "
         "twice, or two ranks on one GPU; see how they are started."),
    )
)  # fmt: skip
"""NCCL's codes (nccl.h.in, ncclResult_t) and what mostly stands behind each."""
OF_PEERS = lazy_re(
    r"remote process has ended|closed from the other end|ranks? [\d, ]+ did not come|another rank did not come|"
    r"connection[^\n]{0,60}(?:was )?(?:closed|reset)\b"
)
OF_WHO_ENDED = (
    "Look at the logs of the other ranks and nodes, at the time just before this line and the oldest error first: one "
    "of them ended (an exception, Killed, a CUDA error or Xid in dmesg), or did not get here. One that wrote nothing "
    "was mostly killed for memory (dmesg, the scheduler's record); only where all live, look at the network between "
    "them."
)
OF_INTERRUPT = (
    "Where somebody pressed Ctrl-C there is nothing to mend, and what stands behind it only follows: start it again. "
    "Where nobody did, SIGINT came from who started it (a scheduler's --signal, a supervisor, a closed notebook)."
)
IN_NCCL = lazy_re(r"a call of NCCL failed|NCCL error in: ")
SAID_BY_NCCL = "NCCL's own warning says what failed, and the lines of INFO before it with which settings: {warned}."
ASK_NCCL = "NCCL itself writes why: start it again with NCCL_DEBUG=INFO and read its last WARN lines. {mostly}"
OF_A_CONNECTION = 0.48
"""How sure a single candidate is that is a connection which did not come about: no other explains the end."""
OF_ONE = 0.4
"""How sure a single candidate is at least whose fix is handed over, and called uncertain (our choice)."""
LAST = 40
"""Lines at the end of a log that are asked (our rule of thumb)."""


def texts_of(ends: Mapping[str, Sequence[tuple[int, str]]]) -> list[str]:
    """The last lines of all logs."""
    return [text for lines in ends.values() for _, text in lines]


def narrowed(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause:
    """The cause with the fix that a line above shows."""
    if told := by_commands(ends):
        return structs.replace(cause, fix=Fix(told))
    if told_elsewhere := shown_by(cause, ends) or stated(cause, ends) or measured(cause, ends):
        return told_elsewhere
    if cause.cause == "wrong-nic" and (value := _interface(ends)):
        return structs.replace(cause, fix=Fix(INTERFACE.format(value=value), cause.fix.commands))
    installs = cause.cause == "library-missing" and cause.fix.text.startswith("Install ")
    if installs and (own := own_module(cause.summary, texts_of(ends))):
        export = command("export PYTHONPATH={:path}", own["folder"])
        fix = CAUSES[cause.cause].remedy("own-module", *((export,) if export else ()), **own)
        return structs.replace(cause, fix=fix)
    if installs and OF_PIP.search("\n".join(texts_of(ends))):
        known = remedy_for("", f"Getting requirements to build wheel\n{cause.evidence[0].text}")
        return structs.replace(cause, fix=Fix(known[0].fix.text.format_map(known[1]))) if known else cause
    if cause.cause == "download-failed" and cause.fix == CAUSES[cause.cause].fix and (told := _of_download(cause)):
        return structs.replace(cause, fix=Fix(told))
    if of_reason := _of_reason(cause, ends):
        return of_reason
    if cause.cause == "checkpoint-mismatch" and (told := of_sizes(texts_of(ends))):
        return structs.replace(cause, fix=Fix(told))
    if cause.cause == "native-crash" and cause.fix == CAUSES[cause.cause].fix:
        return structs.replace(cause, fix=fix_of_crash(texts_of(ends)) or cause.fix)
    if cause.fix.text.endswith(OF_ANY_LIBRARY) and (narrower := _of_library(cause)):
        return structs.replace(cause, fix=narrower)
    if cause.fix == CAUSES[cause.cause].fix and (narrower := _of_line(cause, ends) or _of_message(cause, ends)):
        return structs.replace(cause, fix=narrower)
    if cause.cause == "program-error" and (advised := _of_lines_behind(cause, ends)):
        return structs.replace(cause, fix=advised)
    if cause.cause != "program-error" or not any(OF_A_BUILD.search(line.text) for line in cause.evidence):
        return cause
    for file, lines in ends.items():
        for number, text in lines:
            if BUILDING.search(text) and (known := remedy_of_line(text)):
                told = known[0].fix.text.format_map({"told": "", **known[1]})
                line = Line(file, number, text)
                evidence = cause.evidence if line in cause.evidence else (*cause.evidence, line)
                return structs.replace(cause, fix=Fix(told, known[0].fix.commands), evidence=evidence)
    return cause


def _of_lines_behind(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> Fix | None:
    """What the lines behind the message say is to be done, where no remedy is one for its words."""
    if not cause.evidence or not cause.fix.text.startswith(OF_NO_WORDS):
        return None
    at = cause.evidence[0]
    for number, text in ends.get(at.file, ()):
        if not at.line < number <= at.line + BEHIND or MILD.search(text):
            continue
        told = unprefixed(clean(text)).strip()
        if (words := advice(told)).count(" ") > FEWEST and told.startswith(words[:FEW]):
            return Fix(f"Do what the lines behind it say: {words}.")
    return None


def _of_reason(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause | None:
    """Where only the cause's own fix was found: that of the reason with which its lines go on."""
    known = CAUSES[cause.cause]
    variant = by_line(known.id, "", _told(cause, ends)) if cause.fix == known.fix else ""
    if not variant:
        return None
    judged = known.judge(variant)
    return structs.replace(
        cause,
        fix=known.remedy(variant),
        kind=judged.kind,
        blame=judged.blame,
        restart=judged.restart,
        meaning=known.meant(variant),
        confirm=known.test(variant),
    )


def _told(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """The cause's lines, and those with which an event's message goes on."""
    texts = [line.text for line in cause.evidence]
    if texts and OF_SEVERAL_LINES.match(texts[0]):
        at = cause.evidence[0]
        texts += [text for number, text in ends.get(at.file, ()) if at.line < number <= at.line + AROUND]
    return "\n".join(texts)


def _of_download(cause: LogCause) -> str:
    """Of a service that had too many requests, and of a connection that was for no download."""
    said = " ".join(line.text for line in cause.evidence)
    known = CAUSES["program-error"]
    if re.search(r"\b429\b|Too Many Requests", said):
        return known.remedy("download-rate", what="", place="").text
    return "" if OF_A_HUB.search(said) else known.remedy("route", asked="what it connects to", place="").text


def _of_library(cause: LogCause) -> Fix | None:
    """What brings a library that is not there, by its name."""
    known = remedy_of_line(cause.evidence[0].text) or remedy_for("ImportError", cause.evidence[0].text)
    return Fix(known[0].fix.text.format_map({"told": "", **known[1]}), known[0].fix.commands) if known else None


def _of_line(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> Fix | None:
    """Where nothing narrower than the cause's own fix was found: what a remedy of the same class says of its lines."""
    near = (text for file, lines in ends.items() for _, text in lines[-LAST:]) if cause.kind == "no-device" else ()
    for text in (*(line.text for line in cause.evidence[:3]), *near):
        known = remedy_of_line(text)
        if known is not None and known[0].judged and known[0].judged.kind == cause.kind:
            return Fix(known[0].fix.text.format_map({"told": "", **known[1]}), known[0].fix.commands)
    return None


def _of_message(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> Fix | None:
    """Where a message of too little memory says itself what to take less of, that goes before what is told of all of
    them. What torch says of its allocator stands behind each of its messages."""
    if not cause.evidence or cause.kind not in OF_MEMORY:
        return None
    at = cause.evidence[0]
    near = [text for number, text in ends.get(at.file, ()) if -AROUND <= number - at.line <= BEHIND]
    of_near = (words for text in near if OF_LESS.search(text) and (words := advice(clean(text).strip())))
    told = advice(at.text) or next(of_near, "")
    if not told or OF_ALL_ALIKE.search(told):
        return None
    return Fix(f"Do what the message itself says: {told}. Else: {cause.fix.text}", cause.fix.commands)


def _interface(ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """What NCCL tells that NCCL_SOCKET_IFNAME is."""
    return next((match["value"] for text in texts_of(ends) if (match := SET_TO.search(text))), "")


def refitted(cause: LogCause, kind: Class) -> LogCause:
    """Where words told another class (`cause` has it) than the exception did (`kind`): what is usual of that, in place
    of a fix that says only where it was raised; behind one that says nothing, also of the exception's own class."""
    if cause.kind not in USUAL or not cause.fix.text.startswith(SAY_WHERE):
        return cause
    if cause.kind == kind:
        told = f"{cause.fix.text} {USUAL[kind]}"
        return structs.replace(cause, fix=Fix(told)) if cause.fix.text.startswith(NO_REMEDY) else cause
    return structs.replace(cause, fix=Fix(_usual(cause.kind)))


def _usual(kind: Class) -> str:
    return f"No remedy is known for these words. They are most like those that tell this: {MEANS[kind]}. {USUAL[kind]}"


def undecided_fix(
    concluded: Conclusion,
    trouble: Sequence[Line],
    ends: Mapping[str, Sequence[tuple[int, str]]],
    judged: Judged | None = None,
) -> str:
    """What may be done where no cause is decided: what solves that by which it ended, where only what came before that
    is not known; else what the quoted lines tell. Candidates that compete have a fix each, and none is handed over; nor
    is that of what only followed."""
    first, unknown = (concluded.causes[0] if concluded.causes else None), concluded.unknown or ""
    if told := advised_by(ends):
        return told
    if unknown.startswith("interrupted") and "SIGINT" in unknown:
        return OF_INTERRUPT
    if first is None or first.kind in TELL_ONLY_AN_END:
        told = to_try(trouble, ends, unknown, judged.kind if judged else "other")
        if not told and unknown.endswith(NOT_TOLD) and OF_A_STORE.search(unknown):
            return OF_WHO_MEET
        if not told and unknown.endswith(NOT_TOLD) and OF_PEERS.search(unknown):
            return OF_WHO_ENDED
        if not told and unknown.endswith(NOT_TOLD) and IN_NCCL.search(unknown):
            if warned := next((text for text in texts_of(ends) if "NCCL WARN " in text), ""):
                return SAID_BY_NCCL.format(warned=shortened(warned.partition("NCCL WARN ")[2].strip(), 160).rstrip("."))
            mostly = next((of for words, of in OF_A_CALL_OF_NCCL if words.search(unknown)), "")
            return ASK_NCCL.format(mostly=mostly).rstrip()
        guesses = judged and judged.kind in USUAL and trouble and IN_ITS_LOG not in unknown
        return told or (_usual(judged.kind) if judged and guesses else "")
    is_known = first.summary in unknown and FAILED_BEFORE not in unknown
    is_alone = len(concluded.causes) == 1 and first.confidence >= OF_ONE
    tells = (is_known or is_alone) and not concluded.waited and not first.fix.text.startswith(NO_REMEDY)
    doubted = "" if is_known or first.confidence >= OF_A_CONNECTION else "Not certain, and the only candidate: "
    return f"{doubted}{first.fix.text}" if tells else ""


def to_try(
    trouble: Sequence[Line],
    ends: Mapping[str, Sequence[tuple[int, str]]],
    unknown: str = "",
    kind: Class = "other",
) -> str:
    """Empty: nothing of the kind is known. `unknown`: how what failed is told, which quotes the line that decides;
    `kind`: of which class that is."""
    if told := by_commands(ends):
        return told
    quoted = {(line.file, line.line) for line in trouble}
    lines = [
        Line(file, number, unprefixed(text))
        for file, texts in ends.items()
        for (_, before), (number, text) in pairwise([(0, ""), *texts[-LAST:]])
        if (file, number) in quoted
        or text.lstrip().startswith("Reason=")  # scontrol show node
        or (TROUBLE.search(text) and not MILD.search(text) and not FRAME.match(before))
    ]
    asked = [
        line
        for index, line in enumerate(lines)
        if not FRAME.search(line.text) and not is_over(line, lines[index + 1 :])
    ]
    for line in asked:
        if known := remedy_of_line(line.text):
            values = {name: value or UNSAID for name, value in known[1].items()}
            return known[0].fix.text.format_map({"told": "", **values})
    for line in lines:
        if words := advice(line.text):
            return f"Do what the line itself says: {words}."
    texts_at_end = [clean(text) for texts in ends.values() for _, text in texts[-LAST:]]
    decisive = [i for i, text in enumerate(texts_at_end) if len(text.strip()) > FEW and text.strip()[:SAME] in unknown]
    for index in decisive:
        if told := _of_its_words(unprefixed(texts_at_end[index]), kind):
            return told
    for index in decisive[:1]:
        for text in texts_at_end[index + 1 : index + 1 + BEHIND]:
            told = unprefixed(text).strip()
            if (words := advice(told)).count(" ") > FEWEST and told.startswith(words[:FEW]) and not MILD.search(text):
                return f"Do what the lines behind it say: {words}."
        if OF_NO_TABLE in unknown and (judged := judged_line(texts_at_end[index])) and judged.kind in USUAL:
            return f"No remedy is known for these words. {USUAL[judged.kind]}"
    return ""


OF_PYTHON = tuple(
    (lazy_re(text), name)
    for text, name in (
        (r"(?:[A-Za-z_]\w{0,60}\.){0,3}\w{1,60}\(\) (?:got an unexpected keyword argument '|missing \d+ required |"
         r"takes \d)[^\n]{1,200}", "TypeError"),
        (r"(?:module '[\w.]{1,80}'|'\w{1,60}' object) has no attribute '\w{1,80}'", "AttributeError"),
        (r"cannot import name '\w{1,80}' from [^\n]{1,300}", "ImportError"),
    )
)  # fmt: skip
"""Python's own messages, which programs print without the exception's name, behind words of theirs."""


def _of_its_words(text: str, kind: Class) -> str:
    """What the line's own words, or what it names, tell of its fix. Memory that a network card has none of is no
    matter of the node's."""
    judged = judged_line(text)
    if (
        judged is None
        or (judged.kind in OF_MEMORY and kind not in (*OF_MEMORY, "other"))
        or tells_an_end(text)
        or COMMAND.match(text)
    ):
        return ""
    cause = cause_of(judged)
    found = next(((name, match[0]) for words, name in OF_PYTHON if (match := words.search(text))), ("", text))
    variant, values = variant_of(cause, judged, *found, alone=True)
    if variant in SAY_NOTHING or (variant == "refused" and values["what"].startswith(UNKNOWN_WORDS)):
        return ""
    if not variant and cause in OF_ANY_PROGRAM and not OF_TRAINING.search(text):
        variant = OF_ANY_PROGRAM[cause]
    return CAUSES[cause].remedy(variant, place="", who="that process", **values).text


__all__ = ["TELL_ONLY_AN_END", "narrowed", "refitted", "undecided_fix"]
