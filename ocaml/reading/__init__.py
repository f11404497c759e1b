"""What reads a problem: the parts of its text, the header asked for, examples in each notation."""
