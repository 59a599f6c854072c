"""Which fault a log tells of: events of known kinds, ordered over ranks, and the first cause among them."""
