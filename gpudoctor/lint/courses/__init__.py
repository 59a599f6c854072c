"""What each rank of a program does, followed through its text: `follow.py` for one rank, `compare.py` between them.

Python's own parser reads the program and nothing of it is run. What is known is computed (the rank from variables that
the launcher sets, a device from the rank, arguments from the words of the start); what is not is a value with a key,
alike on two ranks where it was made alike. So of a condition one can say that it holds, that it does not, that it is
the same on all ranks, or that nobody knows; and only of the last nothing is said.
"""
