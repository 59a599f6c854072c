from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="master-unreachable",
    title="the address of the head of the job cannot be reached",
    stages=("rendezvous",),
    kind="rendezvous",
    blame="fabric",
    restart="not decided",
    judged={
        "name": Judged("name-resolution", "environment", "after a fix"),
        "unknown name": Judged("name-resolution", "environment", "after a fix"),
        **dict.fromkeys(("any-name", "ssh-name"), Judged("name-resolution", "environment", "after a fix")),
        "port": Judged("port", "environment", "after a fix"),
        "ssh-refused": Judged("route", "environment", "after a fix"),
        "ssh-no-answer": Judged("route", "fabric", "not decided"),
    },
    hangs_by="start",
    meaning=(
        "The ranks meet at MASTER_ADDR:MASTER_PORT (torchrun: its endpoint). From at least one node no connection "
        "comes about: the name is unknown, the address is in another network, packets are dropped, or nothing listens."
    ),
    like=("firewall-ephemeral-ports", "rdzv-host-mismatch", "rank-died"),
    fix=Fix(
        "Give a name or address of the head in the network that all nodes share, open the port in its firewall, "
        "and see that the process on the head has started.",
        (command("gpudoctor check network"),),
    ),
    variants={
        "name": "Use a name that every node resolves, or the address itself{address}.",
        "others' master": "Start {where} with the master that the others have, {endpoint}.",
        "dropped": (
            "Open port {port} of {master} for the other nodes: in its firewall, in the network's "
            "(security group, ACL), or take an address of a network that all nodes share. The first line, "
            "on the node that waits, shows whether it is open; the others, on {master}, show and open it."
        ),
        "nobody's": Fix(
            "No node that was looked at has this address. Take the address of rank 0's node in a network "
            "that all nodes share; `ip -brief address` on that node lists its addresses.",
            (command("ip -brief address"),),
        ),
        "unknown name": (
            "Write the head's address into DNS or /etc/hosts on every node, or give MASTER_ADDR as an address "
            "[Kubernetes: there the name is that of the head's service or pod: see that it is there and ready by "
            "kubectl get service,endpoints,pods, that CoreDNS answers, and have the others wait for the name in an "
            "init container]. Where "
            "torchrun itself announced that name (its host's, a pod's), start it with --local-addr and an address that "
            "the others reach."
        ),
        "any-name": Fix(
            "Write the name that was asked for into DNS or /etc/hosts of the node that asks, or give an address in its "
            "place. Where it is a download's, the node has no way to the internet."
        ),
        "ssh-name": Fix(
            "Write {address} into DNS or /etc/hosts of the node that calls ssh, or an address in its place into the "
            "hostfile or the launcher's list of hosts."
        ),
        "ssh-refused": Fix(
            "No sshd listens on port {port} of {address}: start it there (sudo systemctl start ssh; in a container "
            "/usr/sbin/sshd, which its image must have), or name the port on which it does, as Port of that "
            "host's entry in ~/.ssh/config of the node that starts the job.",
        ),
        "ssh-no-answer": Fix(
            "See whether {address} is up and whether that is its address from here (getent hosts {address}); where it "
            "is, a firewall drops port {port} between the two, or no route leads there."
        ),
        "reset": Fix(
            "Something took the connection and closed it: rank 0 ended (its own log says why), another program has "
            "that port, or a proxy stands between (Kubernetes: a service mesh's, which the pods' annotation "
            "sidecar.istio.io/inject: 'false' keeps out).",
            (command("ss -ltnp"),),
        ),
        "port": "Ports below 1024 belong to root: take a MASTER_PORT between 1024 and 65535 that is free.",
        "rendezvous": Fix(
            "Give --rdzv-endpoint as the head calls itself (hostname -f), reachable from all nodes on that port, and "
            "see that torchrun runs on the head.",
            (command("hostname -f"), command("gpudoctor check network")),
        ),
    },
    meanings={
        "port": "",
        **dict.fromkeys(
            ("any-name", "ssh-name", "unknown name"), "No connection is tried before the name is resolved."
        ),
    },
    confirm=("From the node that fails, open a TCP connection to that address and port while the head waits."),
    foreseen_by=(
        "master-unreachable",
        "master-addr-unresolvable",
        "hostname-unresolvable",
        "master-port-closed",
        "master-port-invalid",
        "master-addr-elsewhere",
    ),
    source=("torch c10d socket.cpp (connect timeout)"),
)
