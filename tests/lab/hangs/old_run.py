"""What an old run leaves behind: a process that still has its store, on the port that is given."""

import sys
import time

import torch._C._distributed_c10d as c10d


def main() -> None:
    store = c10d.TCPStore("0.0.0.0", int(sys.argv[1]), None, True, wait_for_workers=False)
    print("the store is up", flush=True)
    while store:
        time.sleep(3600)


if __name__ == "__main__":
    main()
