"""For whoever writes a plugin: healthy machines, what changes one fact of them, and what runs the cases and examples.

`machines` and `networks` build snapshots; `cases` holds rows of a machine and what a check must say of it; `examples`
runs those that a lint rule and a symptom bring along. gpudoctor's own tests are written with them.
"""
