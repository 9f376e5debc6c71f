"""Pure decision logic. No I/O, no clock, no randomness: time, keys and data come in as arguments.

Where to look: `decide` answers one request, `route` compiles what it answers from, `step` makes the next plan,
`explain` says why. `policy`, `report`, `observations`, `state`, `plan` and `request` hold the types.
"""
