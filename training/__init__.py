"""The workshop: data, reward, SFT, GRPO, evaluation and reports. May import ``models`` and ``ocaml``."""
