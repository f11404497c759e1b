"""The assistant: the command line, the solve loop and how verdicts are shown. Stands on every other room."""
