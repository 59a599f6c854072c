"""Addresses, interfaces, RDMA ports, rendezvous, and how devices reach each other."""
