"""The truth about a start that somebody wrote: text -> `model.Job` -> rules -> `report.LintReport`.

`sections` splits a text by node, `shell` parses and follows it, `launchers` understands the programs that start
training, and the rules (`rules/`, one file a family) say what will happen.
"""
