"""Runs one worker in the training interpreter: `PYTHON .../gpudoctor/workers NAME ARGUMENTS...`.

Workers are modules of this folder with `main(say, arguments)`, written for Python 3.8 with the standard library
and torch only. `say` sends a dict to the doctor as one marked JSON line; whatever else the process prints goes to
standard error, so that a chatty sitecustomize or library cannot garble the reply.
"""

import importlib
import json
import os
import sys

from lifeline import end_with_the_listener, end_with_the_parent

MARK = b"@gpudoctor "


def main():
    # type: () -> None
    end_with_the_parent()
    reply = os.dup(1)
    os.dup2(2, 1)
    end_with_the_listener(reply)

    def say(message):
        # type: (dict[str, object]) -> None
        line = MARK + json.dumps(message).encode("utf-8") + b"\n"
        while line:
            line = line[os.write(reply, line) :]

    name, arguments = sys.argv[1], sys.argv[2:]
    # Before anything that an interpreter too old for us stumbles over.
    say({"python": sys.version.split()[0], "executable": sys.executable})
    worker = importlib.import_module(name)
    sys.path.pop(0)  # this folder, which must not shadow anything that the worker imports
    worker.main(say, arguments)
    say({"done": True})
    sys.stderr.flush()
    os._exit(0)  # torch's and CUDA's exit handlers can take long or hang, and nothing here needs them


main()
