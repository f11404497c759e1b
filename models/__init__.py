"""Models: what we know of them, where their weights lie, what they are asked, the engines that run them."""
