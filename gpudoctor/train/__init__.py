"""`gpudoctor train-test`: does parallel training really work here, in every way that people train."""
