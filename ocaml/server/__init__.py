"""The check server: an OCaml program of ours on the compiler's own libraries, and how it is built and asked.

``build`` compiles it on the user's machine, ``worker`` is one running server, ``pool`` keeps some of them.
"""
