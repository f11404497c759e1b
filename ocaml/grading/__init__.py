"""Answers graded by assertions: taken apart, run one by one, compared outside the answer's process."""
