"""RDMA, interfaces, topology and rendezvous: what collectives run over."""
