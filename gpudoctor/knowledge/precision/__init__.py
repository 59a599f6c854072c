"""Mixed precision: what hardware has which dtype, how much it gains, and how each framework spells it."""
