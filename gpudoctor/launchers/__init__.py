"""What starts the ranks of a training, one launcher a file: its traits, how it is read, how it is written.

`gpudoctor.launcher.registry` finds the files; one more is all that a new launcher needs.
"""
