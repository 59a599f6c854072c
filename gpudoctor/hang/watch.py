"""Two looks at a job that lie further apart, taken as one: what stands still over a long time is stuck."""

from msgspec import structs

from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, ProcessEvidence

ProcessKey = tuple[str, str, int, int]
"""Node, network namespace, pid and start time: a process for good."""


def spanned(before: Evidence, now: Evidence) -> Evidence:
    """`now`, with the first sample of each process from `before`: what moved in between has moved.

    A process that was not there before keeps its own samples. Times of samples count from the first look.
    Dumps are read once, at the first.
    """
    earlier = {_key(node, process): (process, node.time) for node in before.nodes for process in node.processes}
    nodes = []
    for node in now.nodes:
        processes = []
        for process in node.processes:
            before_it = earlier.get(_key(node, process))
            if before_it is None or not before_it[0].samples or not process.samples:
                processes.append(process)
                continue
            first, last = before_it[0].samples[0], process.samples[-1]
            between = max(0.0, node.time - before_it[1])
            samples = (structs.replace(first, at=0.0), structs.replace(last, at=between + last.at))
            processes.append(structs.replace(process, samples=samples))
        nodes.append(structs.replace(node, processes=tuple(processes)))
    unread = tuple(dict.fromkeys((*before.unread, *now.unread)))
    return structs.replace(now, nodes=tuple(nodes), dumps=now.dumps or before.dumps, unread=unread)


def _key(node: NodeEvidence, process: ProcessEvidence) -> ProcessKey:
    return node.name, node.network_namespace, process.process.pid, process.process.started
