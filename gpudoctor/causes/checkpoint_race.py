from gpudoctor.cause import POSSIBLE, Cause, Fix, Symptom

CHECKPOINT = r"(?i:checkpoint|ckpt|[\w-]*\.tmp|tmp-|global_step|safetensors|optimizer|\.pth?\b|best_model|last_model)"

CAUSE = Cause(
    id="checkpoint-race",
    title="ranks write, move or delete the same checkpoint files",
    stages=("training",),
    kind="checkpoint",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "Several ranks create or rename the same path on a shared file system. One finds it gone or already "
        "there and fails, and the others wait for it."
    ),
    fix=Fix("Write on one rank, and let the others wait in a barrier; create folders with exist_ok=True."),
    variants={
        "gone": (
            "Several ranks remove or move it, and another one was first: do that on one rank, and let the others wait "
            "in a barrier; or pass over what is not there any more (ignore_errors=True, missing_ok=True)."
        ),
        "moved": (
            "Where several ranks or nodes run that line, another one has moved {file} before: do it on one rank, and "
            "let the others wait in a barrier; what is fetched into a cache is fetched once, by one process, before "
            "the ranks start. Where one process alone runs it, what was to write {file} has not."
        ),
        "there": (
            "{target} is there already: an earlier run left it, or another rank was first. Move it away, or save under "
            "another name (os.replace overwrites a file, and no folder that is not empty); where several ranks save "
            "there, have one do it, and the others wait in a barrier."
        ),
    },
    meanings=dict.fromkeys(("gone", "moved", "there"), ""),
    confirm=("The one traceback names a path that another rank handles in the same second."),
    symptoms=(
        Symptom(
            "rename-race",
            pattern=r"\[Errno 2\] No such file or directory: "
            r"b?'(?P<file>[^'\n]{1,1000})' -> b?'(?P<target>[^'\n]{1,1000})'",
            variant="moved",
            seen="{file} could not be renamed: it was not there, or no more",
            source="Python's os.rename, os.replace",
            sample="FileNotFoundError: [Errno 2] No such file or directory: '/mnt/run7/tmp-checkpoint-900' -> "
            "'/mnt/run7/checkpoint-900'",
            counter="FileNotFoundError: [Errno 2] No such file or directory: '/data/train/0001.tar'",
        ),
        Symptom(
            "rename-target-there",
            pattern=r"\[Errno (?:17|39)\] (?:File exists|Directory not empty): "
            r"b?'(?P<file>[^'\n]{1,1000})' -> b?'(?P<target>[^'\n]{1,1000})'",
            variant="there",
            seen="{file} could not be renamed: {target} is there already",
            source="Python's os.rename, os.replace",
            sample="OSError: [Errno 39] Directory not empty: '/mnt/run7/tmp-checkpoint-900' -> "
            "'/mnt/run7/checkpoint-900'",
            counter="FileExistsError: [Errno 17] File exists: '/mnt/run7/logs'",
        ),
        Symptom(
            "checkpoint-file-race",
            pattern=(
                r"\[Errno 39\] Directory not empty: b?'(?P<file>[^'\n]{0,900}" + CHECKPOINT + r"[^'\n]{0,300})'(?! ->)",
            ),
            variant="gone",
            confidence=POSSIBLE,
            seen="a folder of a checkpoint was filled while a rank removed it",
            source="Python's os functions on shared file systems",
            sample="OSError: [Errno 39] Directory not empty: 'checkpoint-800'",
            counter=(
                "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/run7/checkpoint-900/rng_state_3.pth'"
            ),
        ),
    ),
    source=("reports in several public threads"),
)
