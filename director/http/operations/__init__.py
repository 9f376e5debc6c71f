"""Everything on the port that is not a decision or a report: what operators read, and what they set."""
