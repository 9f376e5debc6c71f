"""Region Director: decides which region an LLM inference request enters."""
