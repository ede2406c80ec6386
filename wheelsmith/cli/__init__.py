"""The commands: each parses its options, calls ``run`` or ``index``, and passes the result to ``report``."""
