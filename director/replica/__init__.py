"""What a serving process keeps in memory so that an answer needs nothing else.

`view` is what the transports (HTTP, DNS) may see; `follow` keeps it up to date from the database; `snapshot` keeps the
last good one on disk; `demand` counts what was decided; `tokens` knows who may ask; `probe` asks the regions' gateways.
"""
