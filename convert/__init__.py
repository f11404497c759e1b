"""From a checkpoint to a model on the laptop, and proof of it. May import ``training`` and below."""
