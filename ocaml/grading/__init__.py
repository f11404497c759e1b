"""Answers graded by the assertions of their tests: taken apart, run one by one, compared outside the answer's process."""
