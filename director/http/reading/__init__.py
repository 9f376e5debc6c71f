"""Reading what others send: strict JSON, then each field against its rule, with its path when it fails."""
