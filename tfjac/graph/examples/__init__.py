"""Which axis of a tensor carries the examples, which rows belong to which one, and what is checked at run time."""
