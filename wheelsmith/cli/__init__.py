"""The command line: parse, call, hand to report."""
