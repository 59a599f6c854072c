from gpudoctor.cause import Cause, Fix, Judged, command
from gpudoctor.fault_classes import Class
from gpudoctor.remedies import OWN

OF_ENVIRONMENT: tuple[Class, ...] = (
    *("file-missing", "permission", "dependency-mismatch", "limits", "name-resolution", "port", "quota"),
)
MOUNTED = (
    " [docker: a container has only what -v HOST:CONTAINER mounts; Kubernetes: a pod has only what its volumeMounts "
    "bring; pyxis: the container has only what --container-mounts=HOST:CONTAINER mounts; apptainer: the container has "
    "only what --bind HOST:CONTAINER mounts]"
)
CAUSE = Cause(
    id="program-error",
    title="the program failed",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="exception",
    restart="after a fix",
    judged={
        **{
            kind: Judged(kind, "environment" if kind in OF_ENVIRONMENT else "program", "after a fix")
            for kind in (*OF_ENVIRONMENT, "data", "shape", "checkpoint", "nan", "host-memory")
        },
        "config": Judged("config", "user", "after a fix"),
        **dict.fromkeys(("arguments", "arguments-rank"), Judged("argument", "user", "after a fix")),
        "download": Judged("download", "environment", "not decided"),
        "storage": Judged("storage", "node", "not decided"),
        "disk-full": Judged("disk-full", "node", "after a fix"),
        "diverged": Judged("nan", "program", "after a fix"),
        "worker": Judged("data", "program", "after a fix"),
        **dict.fromkeys(("no-program", "program-to-start"), Judged("file-missing", "environment", "after a fix")),
        **dict.fromkeys(("twice", "no-setting"), Judged("config", "user", "after a fix")),
        **dict.fromkeys(
            (
                *("fork", "pickle", "main-guard", "own-attribute", "cpu-tensor", "cuda-call", "nccl-call"),
                *("two-devices", "two-devices-line", "two-devices-of-a-rank"),
            ),
            Judged("argument", "program", "after a fix"),
        ),
        "processors": Judged("limits", "user", "after a fix"),
        **dict.fromkeys(("options", "no-variable", "manifest", "hydra"), Judged("config", "user", "after a fix")),
        "no-launcher": Judged("launcher", "user", "after a fix"),
        **dict.fromkeys(
            ("torch-below-transformers", "no-accelerate-for-transformers", "name-in-package"),
            Judged("dependency-mismatch", "environment", "after a fix"),
        ),
        "longer-than-positions": Judged("data", "program", "after a fix"),
        "threads": Judged("limits", "environment", "after a fix"),
        "data-parallel": Judged("device-ordinal", "program", "after a fix"),
        **dict.fromkeys(("folder-missing", "chdir", "no-script"), Judged("file-missing", "user", "after a fix")),
        "script": Judged("config", "user", "after a fix"),
        "option-run": Judged("argument", "user", "after a fix"),
        **{remedy.id: remedy.judged for remedy in OWN if remedy.judged},
    },
    hangs_by="gone",
    meaning=(
        "A rank ended by an exception that its program did not catch. Where others still wait for it in a collective, "
        "what they tell at their time-out only follows, and names the wrong rank."
    ),
    like=("rank-died", "host-out-of-memory"),
    fix=Fix("Correct what raised it: the first traceback of that rank names the file and the line."),
    variants={
        "at": (
            "No remedy is known for what was raised{place}. Read the lines of {who} before it, the oldest error first, "
            "and look for the message together with the name of the library that wrote it.{told}"
        ),
        "advised": "Do what the message itself says{place}: {advice}.{told}",
        "allowed": "Write one of {allowed} for it{place}. What was given is refused: {said}.{told}",
        "not-together": "Keep one of {first} and {other}{place}, and take the other out: {said}.",
        "with-either": "Take {first} and {other} out{place}, or what they do not go with: {said}.",
        "pinned": (
            "Install {package} in the environment of all nodes (python -m pip install '{package}', with the Python "
            "that starts the processes)."
        ),
        "required": (
            "{change}. Such values are given on the command line, in the settings or by the model's own "
            "configuration, and not where it was raised.{told}"
        ),
        "wanted": "Give {names}, or take out what asks for it{place}: {said}.",
        "form": "{what}{place}.{told}",
        "refused": "{what}.{release}",
        "handed": (
            "The call{place} is refused: {said}. Look at what is handed to it there, and at how what it works on was "
            "made before."
        ),
        "own-check": (
            "The program itself refuses{place}: {said}. Bring the setting, the name or the file that it speaks of to "
            "what it takes; where it should take that, get the project's newer sources."
        ),
        "twice": "Leave {name} in one of the two, {first} or {other}, and take it out of the other{place}: {said}.",
        "no-setting": (
            "The settings that were read have no {name}: write it into their file or give its option, or take the file "
            "that belongs to the installed release of the program, in which it may be called otherwise."
        ),
        "program-to-start": "{how}",
        "in-package": Fix(
            "No remedy is known for this. It ended inside of {package}{said}: look first at what is handed to it"
            "{place}. Where that is as {package}'s documentation has it, look for the message in its issues: they say "
            "whether another release behaves otherwise, and the project's requirements name the one it was made for.",
        ),
        "by-package": (
            "{package} does not take what it is given{said}. Bring the setting, file or value that this speaks of to "
            "what it asks for{place}{otherwise}."
        ),
        "by-client": (
            "{package} hands on the words of a service: {said}. Look at what is asked of it{place} (names, fields, "
            "sizes, the account), and for its words on that in the lines above."
        ),
        "outside": (
            "{package} tells of something outside of it, that {means}: {said}. The lines above and {package}'s own "
            "logs say more of that."
        ),
        "own-line": "Print{place} {what}.{told}",
        "option-run": (
            "End the line before {option} with a backslash, behind which nothing stands, no blank and no comment "
            "either; an empty line between ends the command too. The command above has run without {option} and all "
            "behind it."
        ),
        "path": ("{path} is not there, as the node of {who} sees it{place}: {how}{where}.{told}"),
        "is-folder": (
            "{path} is a folder{place}, and a file is wanted: name the file in it (ls), or hand the folder to what "
            "reads folders."
        ),
        "no-folder": (
            "A part of {path} is a file{place}, and a folder is wanted: unpack it where it is an archive, name another "
            "folder where a file has taken that name, or correct the path."
        ),
        "device-denied": (
            "{path} is a device of {device}, which this user may not open{place}: have the user put into the group "
            "that "
            "may (ls -l {path}; mostly video, render or rdma), and have it handed in, and not only mounted, where it "
            "is "
            "a container (docker: --device={path}, or --gpus; Kubernetes: the device plugin's resource); a scheduler "
            "closes the devices that a job has not asked for."
        ),
        "pattern": (
            "No file fits {pattern}, as the node of {who} sees it{place}: list that folder there (ls), and correct the "
            "folder, the ending or the depth (** for folders below) of the pattern.{where}"
        ),
        "folder-missing": (
            "{path} is to be written{place}, and its folder {folder} is not there, as the node of {who} sees it: make "
            "it first (mkdir -p; in a batch script before the line that writes; SLURM: it makes none for --output)."
        ),
        "exists": (
            "{path} is there already{place}: give another name, move away what an earlier run left, or let it be taken "
            "over (resume, overwrite, exist_ok=True); where several ranks make it, let one make it and the others wait."
        ),
        "device-node": (
            "{path} is made by {device} and cannot be put there{place}: load that driver on the node, and hand the "
            "device to the container (docker: --device={path}; apptainer: --bind {path}; Kubernetes: the device "
            "plugin's resource); or take the mount or option that asks for it away, where the node has no such device."
        ),
        "elsewhere": (
            "{path} is not this user's to write there{place}: a folder of another user or of root, or one that does "
            "not stay. Give the job a folder of its own that is writable: {how}."
        ),
        "stale": (
            "{path} lies on a file system that changed or dropped it while it was open{place}: read and write such "
            "files on a local disk of the node ({how}), or have one process make them before the others start; a "
            "mount that stays so has to be mounted again."
        ),
        "read-only": (
            "{path} lies on what is mounted read-only{place}. In a container that is its image, or a mount without the "
            "right to write: write to a folder of the host that is mounted writable (docker: -v without :ro; "
            "Kubernetes: an emptyDir, or readOnly: false; apptainer: --bind, or --writable-tmpfs), and point caches "
            "and outputs there. On a disk of the host the kernel does so after an error of it: dmesg says which."
        ),
        "superseded": "This Lightning does not know {name}{place}: {since}. Write {today}.",
        "not-yet": (
            "The installed Lightning is older than {name}{place}, which came with lightning {release}: install that "
            "or a newer one, or take {name} out."
        ),
        "trainer-perhaps": (
            "What is called{place} takes no argument {name}. Where it is Lightning's Trainer: {since}; write {today}."
        ),
        "torch-below-transformers": Fix(
            "The installed transformers wants a newer torch than is there, and went on without it (a line above may "
            "say which: `Disabling PyTorch because PyTorch >= ...`): take a newer torch (2.5 has all that it asks "
            "for), or an older transformers (python -m pip install 'transformers<4.52' goes with torch 2.1 to 2.4).",
            (command("python -m pip list | grep -iE '^(torch|transformers) '"),),
        ),
        "no-accelerate-for-transformers": Fix(
            "transformers uses what accelerate brings there, and found none, or one that is too old: python -m pip "
            "install --upgrade accelerate, and start the process (a notebook's kernel) again.",
            (command("python -m pip install --upgrade accelerate"),),
        ),
        "name-in-package": (
            "The package's own code uses a name there that it imports or defines only where another package is there, "
            "or new enough (a line above may say what was disabled): install what its requirements name for this "
            "release, or take another release of it; nothing in the program has to be changed."
        ),
        "longer-than-positions": (
            "The text has more tokens than the model has positions{place}: tokenizer(..., truncation=True, "
            "max_length=N) with N as model.config.max_position_embeddings (512 of BERT and its like), cut it into "
            "windows, or take a model for longer texts."
        ),
        "lost-argument": "{function} takes {name} no more{place}: {since}. Write {today}.",
        "torch-argument": "torch's {function} has no argument {name}{place}{when}: {what}.",
        "alone": (
            "No remedy is known for what was raised{place}. Read the lines before it, the oldest error first, and look "
            "for the message together with the name of the library that wrote it.{told}"
        ),
        "data-parallel": (
            "DataParallel copies the model from the first device of its device_ids, {device}, and found part of it on "
            '{other}{place}: write model.to("{device}") before it is wrapped, or name its device first. Inputs may be '
            "anywhere; it moves them."
        ),
        "two-devices": (
            "Bring what meets there to one device first{place}: {met}. An input goes to where the "
            "layer is, x.to(next(layer.parameters()).device); of a model that is split by hand, each half takes its "
            "input on its own GPU, so what the first half gives is moved before the second. Under DataParallel a "
            "tensor that is no buffer stays on the first GPU; DistributedDataParallel makes no copies."
        ),
        "two-devices-line": (
            "What meets there has to be on one device{place}: {met}. Write {line}; of a model that is split by hand, "
            "each half takes its input on its own GPU, so what the first half gives is moved before the second."
        ),
        "between-packages": Fix(
            "What {package} calls there, or hands on for who calls it, the installed releases do not offer: these "
            "packages are of releases that do not fit. Install them as the youngest asks for (its requirements), or go "
            "back to those that worked.",
            (command("python -m pip check"),),
        ),
        "handed-argument": Fix(
            "{package} hands {name} to {function}, which does not take it. Where {function} is the program's own, a "
            "class that it hands to {package}: let it take it (`**kwargs` or `{name}=None` at the end of its "
            "signature). Else the two are of releases that do not fit: install those that the one's requirements "
            "name, or the {package} of before.",
            (command("python -m pip check"),),
        ),
        "module-lacks": Fix(
            "The installed {package} has no {name}: what uses it{by}{place} was written for another release of "
            "{package}, an older one where {name} was removed, a newer one where it came later. Install that "
            "{package}, or the release of what uses it that was made for this one.",
            (command("python -m pip check"),),
        ),
        "of-release": Fix(
            "The installed {package} is of another release than {by}{place} was written for: {how}.",
            (command("python -m pip check"),),
        ),
        "argument-newer": Fix(
            "The installed {package} has no argument {name} for {function}{place}: it came with a later release "
            "(python -m pip install --upgrade '{package}'; a project's pin may hold it back), or it is misspelt.",
            (command("python -m pip check"),),
        ),
        "nothing-given": (
            "Nothing gave {option}, which is read{place} in `{code}`: give --{option} (or --{name}), or make the "
            "settings that the command reads without it (accelerate: `accelerate config` once on that node)."
        ),
        "argument-refused": (
            "What is called{place} takes no argument {name}: it is misspelt, or of another release than the one "
            "that is installed here; help() lists what it takes."
        ),
        "missing-entry": "What is read{place} has no entry {key}: print its keys. {of}",
        "missing-number": (
            "{key} is no key of what is looked up{place} in `{code}`: print its keys. Where it is a class, label or id "
            "of the data, the table there was made for other data, or counts from another number (0 or 1)."
        ),
        "no-variable": (
            "The environment variable {name} is not set where it is read{place}: export it in the job's script, behind "
            "what a launcher or container leaves out."
        ),
        "no-launcher": (
            "A launcher sets {name}, and the program was started without one: start it by torchrun "
            "--nproc-per-node=GPUS SCRIPT, or leave out the option that asks for several processes."
        ),
        "manifest": "Correct the file where it is refused: {what}.",
        "hydra": (
            "Correct that name, where it is set or where it is read, or add what is not there: {what}. Of Hydra's "
            "programs `--cfg job` prints the configuration, `--info defaults` what was chosen for it, and +name=value "
            "adds to it; a configuration that was made for another program or release lacks what this one reads."
        ),
        "argument-missing": (
            "What is called{place} wants {names} too: give it. Where nobody changed that call, what it calls is of "
            "another release than it was written for."
        ),
        "assertion-line": (
            "What does not hold{place} is `{code}`: print both sides of it. Where nobody changed that program, its "
            "data or arguments are not made as it wants them."
        ),
        "nothing-there": (
            "Something is None{place} in `{code}`: look where it comes from, mostly a variable or setting that is not "
            "set, an entry or file that was not found, or a function that returned nothing."
        ),
        "two-devices-of-a-rank": (
            "Bring what meets there to one device{place}: {device} and {other} met. All that a rank makes belongs "
            "on its own GPU, the one of LOCAL_RANK: torch.cuda.set_device(local_rank) before anything, and .cuda() or "
            '.to("cuda") without a number.'
        ),
        "route": (
            "Nothing answered at {asked}{place}: look whether what is to answer runs there and listens (nc -vz from "
            "this node), whether name, address and port are its own, and whether a proxy or firewall stands between."
            "{told}"
        ),
        "route-closed": (
            "{asked} closed the connection{place}: it has ended, was started again, or a proxy or firewall between "
            "cuts connections that are idle. Its own log at that time says why; where that names no error, start "
            "again.{told}"
        ),
        "file-missing": (
            "Give the path as the node of {who} sees it, or put the file there; a relative path starts at the folder "
            "that the job was started in{place}.{told}"
        ),
        "permission": (
            "The user that runs there may not read or write {path}{place}: look as that user, on that node, whose it "
            "and its folder are (id; ls -ld), and give a place of the user's own, or have the right given (what NFS "
            "exports root mostly has none on).{told}"
        ),
        "config": "Correct the setting or argument that the message names; it was refused{place}.{told}",
        "data": "Look at {sample}{place}: repair it, make or fetch it again, or skip it.{told}",
        "shape": (
            "{sizes} meet{place}, and do not fit: print the shapes before that line, to see which of the two is not as "
            "it is meant. Where nobody changed the model, its input is of another size, length or number of channels "
            "than it is made for, or the settings belong to another checkpoint or release."
        ),
        "checkpoint": (
            "What is loaded{place} is of another model, layout or optimizer than this one ({said}): make the model and "
            "the optimizer as they were when it was saved (the same settings, parameter groups and number of ranks), "
            "or load the weights only and start the optimizer afresh.{told}"
        ),
        "nan": ("Look at the steps before: loss, learning rate, gradient norm, batch; clip, or lower the rate{place}."),
        "diverged": (
            "Look at the steps before: loss, learning rate, gradient norm, batch; clip, lower the rate, or train in "
            "bfloat16, which needs no loss scale."
        ),
        "dependency-mismatch": (
            "What is installed has not what is called{place} ({said}): it is of another release, or another build, "
            "than the one that calls it was written for. Install the one that the project's requirements name.{told}"
        ),
        "no-attribute": (
            "{owner} has no {name}{place}. Where {owner} is a package's, the installed release is another than the one "
            "that this was written for: install the one that the project's requirements name. Else it is another "
            "object than is meant: one that wraps it (of DistributedDataParallel the model is .module), or of "
            "another class.{told}"
        ),
        "own-attribute": (
            "`self.{name}` is asked{place} in `{code}`, and nothing has set it on this {owner} before: set it in its "
            "__init__ (behind super().__init__(), and not below a condition that did not hold), compare the spelling, "
            "or call first what sets it. Of a class that is inherited from a package, the installed release may lack "
            "it."
        ),
        "apart": Fix(
            "What meets there is of releases that do not fit{place}: {said}. Install the release that this asks for.",
            (command("python -m pip list"),),
        ),
        "apart-package": Fix(
            "{package} refuses{place} what it meets here: {said}. Bring what this names to what it asks for, or "
            "install the {distribution} that was made for what is installed (python -m pip install --upgrade "
            "'{distribution}', or the one that the project's requirements name).",
            (command("python -m pip check"),),
        ),
        "asserted": (
            "What the program asserts{place} does not hold: {said}. Bring the setting, the file or the value that it "
            "speaks of to what is asserted; where nobody changed that program, its data or arguments are not made as "
            "it wants them."
        ),
        "data-file": (
            "{file} is cut off or damaged{place}: compare its size with that of its source, fetch or make it again, or "
            "leave it out; where several ranks or workers write it, have one do so.{told}"
        ),
        "permission-key": (
            "Give the job a token or login that the service takes there, of an account that may read what is "
            "named{what}{place}: in its environment, or logged in once on that node.{told}"
        ),
        "checkpoint-file": (
            "{file} is cut off, empty or no checkpoint{place}: compare its size with that of its source, fetch or "
            "write it again, or take the one before. `gpudoctor checkpoint FILE` tells what is in it.{told}"
        ),
        "download-name": (
            "Compare the name, revision and address that are asked for{what}{place} with those that are there; what is "
            "private or gated is called missing without a token.{told}"
        ),
        "download-rate": (
            "It asks too often{what}{place}: fetch once before the job into a folder that all ranks read (HF_HOME), "
            "give a token, and start again later.{told}"
        ),
        "download-later": "The service fails{what}{place}, and not the job: start it again later, or fetch it "
        "before.{told}",
        "download-certificate": (
            "The node does not trust the certificate that it is shown{place}: give it the authority's "
            "(REQUESTS_CA_BUNDLE, "
            "SSL_CERT_FILE; a proxy's own), set the clock right, or fetch it elsewhere before the job.{told}"
        ),
        "limits": (
            "Raise the limit of {limit} in the job, or let it take less of that (fewer DataLoader workers and "
            "processes){place}.{told}"
        ),
        "download": (
            "Fetch it once before the job, or give the nodes a way there{what}{place}: a proxy (HTTPS_PROXY), or a "
            "folder that they share.{told}"
        ),
        "name-resolution": "Write the name that was asked for into DNS or /etc/hosts of that node{place}.{told}",
        "port": "End what holds {port}, or take another one{place}.{told}",
        "storage": (
            "{path} could not be read or written{place}: look at its file system on that node (df, mount, dmesg, the "
            "server's state), and keep it on another one, or start on another node, until it is well.{told}"
        ),
        "quota": "Remove files of that user or project on the file system of {path}, or have the quota "
        "raised{place}.{told}",
        "quota-service": (
            "The account or project has used up what the service grants it{place}: {said}. Ask for less at once or in "
            "another region, end what still holds it, or have that quota raised."
        ),
        "disk-full": "Make room on the file system of {path}{place}.{told}",
        "host-memory": "Give the job more memory, or let it hold less at once{place}.{told}",
        "worker": "Repair what the DataLoader worker's traceback shows, mostly one sample of the data set.",
        "fork": (
            "Start the processes by spawn (multiprocessing_context='spawn' for a DataLoader), and keep CUDA out of "
            "the data set."
        ),
        "pickle": (
            "Give spawned processes and workers functions and classes of a module, not lambdas, local functions, "
            "settings objects of other packages or open files. Or start them by a way that pickles nothing: "
            "strategy='ddp' instead of ddp_spawn (Lightning), torchrun instead of mp.spawn, fork for workers."
        ),
        "arguments": "Correct what the program refuses, {reason}: its usage lists what it takes.",
        "arguments-rank": (
            "--local-rank is what torch's old launcher gives, and this program does not take it: start by torchrun, "
            "which gives none, and read LOCAL_RANK from the environment. It refuses: {reason}."
        ),
        "script": "Correct the script at that line; `bash -n SCRIPT` reads it without running it.",
        "main-guard": "Put what the script does below: if __name__ == '__main__'.",
        "cpu-tensor": (
            "Move the tensor to the rank's GPU first, or make the group for both: "
            "init_process_group('cpu:gloo,cuda:nccl')."
        ),
        "chdir": (
            "Submit from a folder that every node of the job sees ({path} is on one machine alone, or not mounted "
            "there), or name one by --chdir: what the script names by a relative path is looked for in {other}."
        ),
        "no-script": f"Give the path of the script as that node sees it: {{file}} is not there{MOUNTED}.",
        "no-program": "Give the program's path as every node sees it, or put its folder into PATH there.",
        "processors": (
            "Ask for as many processors as the job uses (ranks, DataLoader workers and their threads), or set "
            "OMP_NUM_THREADS and num_workers lower."
        ),
        "options": "Correct that option: the program's --help lists those that it takes.",
        "threads": "Raise the number of threads that the job may have (ulimit -u, the cgroup's pids.max).",
        "cuda-call": Fix(
            "Start that rank with CUDA_LAUNCH_BLOCKING=1: the call in the traceback is then the one that CUDA refused. "
            "Compare its sizes, streams and devices with what that call takes.",
            (command("export CUDA_LAUNCH_BLOCKING=1"),),
        ),
        "nccl-call": "Correct the call of NCCL, or of torch.distributed, in that traceback; NCCL's line says why.",
        "abort": "Look at the lines of rank {rank} before; they say why.",
        **{remedy.id: remedy.fix for remedy in OWN},
    },
    confirm="Of all ranks' tracebacks it is the earliest; those of the others tell that they lost that rank.",
    source="Python's traceback; torchrun's failure table",
)
