"""A worker of one rank's DataLoader opens a named pipe that a decoder should have filled."""

import os

import torch
import torch.distributed as dist
import torch.utils.data as data


class Videos(data.Dataset[torch.Tensor]):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index], "rb") as stream:
            return torch.frombuffer(bytearray(stream.read(64)), dtype=torch.uint8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    paths = []
    for number in range(40):
        path = f"clip-{rank}-{number}"
        if rank == 0 and number == 9:
            os.mkfifo(path)
        else:
            with open(path, "wb") as file:
                file.write(bytes(64))
        paths.append(path)
    for step, batch in enumerate(data.DataLoader(Videos(paths), batch_size=1, num_workers=2)):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(batch.float())


if __name__ == "__main__":
    main()
