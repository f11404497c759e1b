"""How a program that nobody trusts is shut in: the strongest means that this machine has, layer on layer.

Limits on time, memory and output are ``ocaml.sandbox``'s; here is what a program can see and do at all.
"""

from ocaml.containment.container import Container, Means, contained, strongest
from ocaml.containment.layers import Layer, layers

__all__ = ["Container", "Layer", "Means", "contained", "layers", "strongest"]
