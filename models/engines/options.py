"""How an engine loads a model: plain values, with None where the machine decides."""

from dataclasses import dataclass

from models.catalogue import PromptFormat


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What may be turned.

    ``context_tokens`` holds prompt and reply together, at most what the model was trained for; by default
    what suits the memory that is free.
    ``threads`` defaults to the physical (on Apple silicon: the performance) cores, ``gpu_layers`` to
    all (-1) where there is a GPU we trust, ``batch_tokens`` (how much of a prompt is read in one go:
    smaller answers a cancel sooner) to what suits the device. ``fallback_format`` serves model files
    that bring no chat template. ``memory_bytes`` is what the model may take; by default what is free.
    ``home`` is the folder of the store, where the base of a LoRA adapter may be, by default the user's own.
    ``states`` is the folder where the states of system prompts are kept from one process to the next, None
    for nowhere, and ``states_bytes`` is how much they may take there.
    """

    context_tokens: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    batch_tokens: int | None = None
    fallback_format: PromptFormat | None = None
    memory_bytes: int | None = None
    home: str | None = None
    states: str | None = None
    states_bytes: int = 512 << 20
