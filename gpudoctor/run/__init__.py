"""`gpudoctor run`: the user's own command, with somebody there when it stalls or ends."""
