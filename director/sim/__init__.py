"""The fleet simulator: the real `step` and the real `decide`, driven by a model of regions, agents and clients."""
