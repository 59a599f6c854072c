"""Several machines: who they are, reaching them, and having each do something.

The head talks to one *agent* a node (`gpudoctor agent`, started through ssh, srun, or by hand in join mode) in JSON
lines: *orders* go to the agents, *replies* come back (`messages`). What carries the lines is a `Fleet`.
"""
