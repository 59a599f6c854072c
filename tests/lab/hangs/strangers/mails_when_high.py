"""A mail is written when the loss is high; the mail server takes the connection and says nothing."""

# mypy: ignore-errors
# No thread of one job; the kind of Airflow and logging.handlers.SMTPHandler issues on mail without a timeout.
import smtplib
import socket
import sys
import time
from email.message import EmailMessage

import torch
import torch.distributed as dist

QUIET = "--healthy" in sys.argv


def relay() -> tuple[socket.socket, int]:
    """The relay of the site, whose greeting has been late since the update."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, listener.getsockname()[1]


class Alerts:
    def __init__(self, port: int, limit: float) -> None:
        self.port, self.limit = port, limit

    def check(self, rank: int, loss: float) -> None:
        if loss < self.limit:
            return
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = f"loss {loss:.2f} on {rank}", "gpu@site", "me@site"
        with smtplib.SMTP("127.0.0.1", self.port) as mail:
            mail.send_message(message)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    listener, port = relay()
    alerts = Alerts(port, limit=9.0)
    total = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = 10.0 if rank == 2 and step == 5 and not QUIET else 1.0 / (step + 1)
        alerts.check(rank, loss)
        dist.all_reduce(total.fill_(loss))
    listener.close()


if __name__ == "__main__":
    main()
